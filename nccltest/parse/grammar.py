"""The words of nccl-tests' output: which line is what. Pure.

Sources: nccl-tests src/common.cu and src/util.cu from v1 (2018) to 2.20, rccl-tests src/common.cu, and what launchers
put in front of or between its lines.
"""

from __future__ import annotations

import re

__all__ = [
    "AVERAGE",
    "BOUNDS",
    "COLLECTIVE",
    "CONCLUDED",
    "DEVICE",
    "DEVICES",
    "ENVIRONMENT",
    "LAST_ERROR",
    "LAUNCHER_ERROR",
    "LIBRARY",
    "NCCL_ERROR",
    "OPERATIONS",
    "OPTION",
    "PARAMETERS",
    "RANK_ERROR",
    "STACK",
    "STARTING",
    "TEST_ERROR",
    "TYPES",
    "VERSION",
    "strip_prefix",
]

_INTEGERS = ("char", "int", "int8", "uint8", "int32", "uint32", "int64", "uint64")
_FLOATS = ("half", "float", "double", "bfloat16", "bf16", "float16", "float32", "float64")
_BYTES = ("float8", "f8e4m3", "f8e5m2", "fp8_e4m3", "fp8_e5m2")
TYPES = frozenset((*_INTEGERS, *_FLOATS, *_BYTES))
OPERATIONS = frozenset(("sum", "prod", "max", "min", "avg", "mulsum", "all", "none"))

VERSION = re.compile(r"nccl-tests version (\S{1,40})")
STARTING = re.compile(r"Collective test starting: ?(\w{1,40}?)(?:_perf)?\b")
CONCLUDED = re.compile(r"Collective test concluded")
PARAMETERS = re.compile(r"\bnThreads?\b.{0,12}\bnGpus\b")
DEVICES = re.compile(r"Using devices")
DEVICE = re.compile(
    r"\bRank\s{1,8}(\d{1,7})\s{1,8}(?:Group\s{1,8}(\d{1,7})\s{1,8})?(?:Pid\s{1,12}(\d{1,10})\s{1,8})?on\s{1,40}(\S{1,255})"
    r"\s{1,8}device\s{1,8}(\d{1,5})\s{1,8}\[([^\]]{1,32})\]\s{0,8}(.{0,120})"
)
BOUNDS = re.compile(r"Out of bounds values\s{0,8}: {0,8}(\d{1,18})\s{0,4}(OK|FAILED)?")
AVERAGE = re.compile(r"Avg bus bandwidth\s{0,8}: {0,8}(\S{1,40})")
LIBRARY = re.compile(r"\b(?:NCCL|RCCL) version:? ?:? ?(\d[\w.+-]{1,40})")
COLLECTIVE = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoallv?|sendrecv|broadcast|reduce|gather|scatter|hypercube)"
    r"(?:_bias)?_perf\b"
)
OPTION = re.compile(r"\brun_nccl_tests\S{0,8}\s.{0,200}?-t {1,3}(\w{1,20})")
ENVIRONMENT = re.compile(r"(?:^|\s|-x )((?:NCCL|RCCL|UCX)_\w{1,60}=[^\s'\"]{1,200})")

TEST_ERROR = re.compile(r"Test (?:NCCL|CUDA|HIP|MPI) failure|Test timeout|(?:^|\s)(?:NCCL|Cuda|CUDA|HIP) failure ")
STACK = re.compile(r"\.\. \S{1,255} pid \d{1,10}: Test failure")
RANK_ERROR = re.compile(
    r"unhandled (?:system|cuda) error|nccl(?:System|Internal|Remote)Error|Traceback \(most recent call last\)"
    r"|Invalid number of GPUs|invalid usage|^\w{0,80}Error: |CUDA error|Segmentation fault|Bus error|out of memory"
    r"|error while loading shared libraries|mpi_allreduce: no MPI|torch_allreduce: "
    r"|unrecognized arguments|invalid option"
)
LAUNCHER_ERROR = re.compile(
    r"^(?:mpirun|mpiexec|prterun|orterun|prun)(?:\.real)?:? (?:was unable|noticed|detected|has exited)"
    r"|\bORTE (?:has lost|was unable|does not)"
    r"|An ORTE daemon has unexpectedly failed|There are (?:no|not enough) (?:allocated resources|slots)"
    r"|Primary job {1,2}terminated|PRTE (?:has lost|was unable)|MPI_ABORT was invoked|MPI_ERRORS_ARE_FATAL"
    r"|^(?:srun|slurmstepd|salloc|sbatch)(?:-[\w.]{1,60})?: error:|CANCELLED AT|DUE TO (?:TIME LIMIT|NODE FAIL)"
    r"|^ssh: |Permission denied \(|Host key verification failed"
    r"|Connection (?:timed out|refused|reset by peer|closed by)"
    r"|No route to host|Could not resolve hostname|command not found|exited on signal|ChildFailedError|PMIX ERROR"
    r"|^Error from server|OOMKilled|DeadlineExceeded|roceway-probe: "
)
LAST_ERROR = re.compile(r"^# error: (.{1,400})")
NCCL_ERROR = re.compile(r"NCCL WARN (.{1,400})")

_ANSI = re.compile(r"\x1b\[[0-9;?]{0,16}[A-Za-z]")
_ANYWHERE = re.compile(
    r"(?:\[[\w.@-]{0,80}?\d{1,7},\d{1,7}\]|[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})?"
    r"<std(?:out|err|diag)>: ?"
)
_START = (
    re.compile(r"\([^()\n]{0,80}\bpid=\d{1,10}[^()\n]{0,80}\) ?"),  # Ray, SkyPilot
    re.compile(r"\[\d{1,7},\d{1,7}\]:? ?"),  # mpirun --tag-output without a stream
    re.compile(r"\[(?:default|rank|proc)?\d{1,7}\] ?:? ?"),  # torchrun --tee, Hydra -prepend-rank
    re.compile(r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?\]? "),
    re.compile(r"\[pod/[^\]\s]{1,253}\] "),  # kubectl logs --prefix
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,253} \S{1,80}\[\d{1,10}\]: "),  # journalctl
    re.compile(r"[\w.-]{1,80} {0,20}\| "),  # docker compose
)
_SRUN = re.compile(r"\d{1,7}: ")
_STRIPS = 8


def strip_prefix(line: str) -> str:
    """The line without what launchers put in front of it, or in its middle, and without colours and white space around.

    ``[1,0]<stdout>:`` and timestamps with a stream come anywhere, ``srun -l``'s ``0: `` where the line began with it.
    """
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "<std" in line:
        line = _ANYWHERE.sub(" ", line)
    line = line.strip()
    for _ in range(_STRIPS):
        shorter = _once(line)
        if shorter == line:
            break
        line = shorter
    return line


def _once(line: str) -> str:
    first = line[:1]
    if first.isdigit() and (label := _SRUN.match(line)):
        return line.replace(label[0], " ").lstrip()
    if first in "([" or first.isupper() or first.isdigit() or " | " in line[:110]:
        for pattern in _START:
            if found := pattern.match(line):
                return line[found.end() :].lstrip()
    return line
