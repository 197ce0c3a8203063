"""``probe``: when all-reduce rounds run, how, and what they may cost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from conf.base import Block, Whole
from conf.cron import Cron
from conf.names import Form, Name, RailName
from conf.units import Bytes, Duration, Percent, parse_bytes, parse_duration, parse_percent

__all__ = ["Benchmark", "Budget", "Kubernetes", "Launcher", "Probe", "Purpose", "RailMode", "Slurm"]

Launcher = Literal["mpirun", "srun", "torchrun", "kubernetes"]
RailMode = Literal["together", "side-by-side", "one-by-one"]
Purpose = Literal["follow-up", "random", "cross-leaf", "same-leaf", "whole", "rail", "bisect"]

# These words become arguments of other programs: nothing that a shell or mpirun would take apart.
Word = Annotated[str, Form(r"^[\w@%+=:,./{}-]{1,255}$", "one word of a command, without blanks or quotes")]
Variable = Annotated[str, Form(r"^[A-Za-z_][A-Za-z0-9_]{0,127}$", "the name of an environment variable")]
Value = Annotated[str, Field(max_length=1024), Form(r"^[^\x00-\x1f\x7f]*$", "one line of text")]
_Label = Annotated[
    str, Form(r"^[a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?$", "a Kubernetes name: small letters, digits, '-', '.'")
]
_Key = Annotated[str, Form(r"^[A-Za-z0-9]([A-Za-z0-9._/-]{0,251}[A-Za-z0-9])?$", "a Kubernetes key: nvidia.com/gpu")]

Benchmark = Annotated[
    Annotated[Literal["nccl", "mpi", "torch"], Tag("<word>")]
    | Annotated[tuple[Word, ...], Field(min_length=1, max_length=32), Tag("<command>")],
    Discriminator(lambda value: "<word>" if isinstance(value, str) else "<command>"),
]


class Budget(Block):
    """What probing may cost."""

    gpu_seconds_per_day: Whole = Field(default=86, ge=1, le=86_400)
    """Seconds that each GPU spends on probes in a day; 86 is a thousandth of it."""


class Slurm(Block):
    """How srun starts the ranks."""

    partition: Name | None = None
    """Slurm partition."""
    account: Name | None = None
    """Slurm account."""
    mpi: Name = "pmix"
    """srun --mpi."""
    options: tuple[Word, ...] = Field(default=(), max_length=32)
    """More options for srun."""


class Kubernetes(Block):
    """How the ranks run as pods."""

    namespace: _Label = "roceway"
    """Where the jobs are made."""
    image: Annotated[str, Form(r"^[\w./:@-]{1,255}$", "an image reference")] = "roceway-probe:latest"
    """Image with nccl-tests, Open MPI and roceway."""
    workload: Literal["indexed-job", "jobset", "mpijob"] = "indexed-job"
    """indexed-job needs nothing but Kubernetes; it waits for its pods at a barrier of its own."""
    gang: Literal["none", "volcano", "kueue", "coscheduling"] = "none"
    """What starts all pods of a job or none."""
    queue: _Label | None = None
    """Queue of Volcano or Kueue."""
    priority_class: _Label = "roceway-probe"
    """Low and preemptible: work that pays comes first."""
    gpu: _Key = "nvidia.com/gpu"
    """Resource that a pod asks its GPUs by."""
    resources: Mapping[_Key, Value] = Field(default_factory=dict, max_length=16)
    """More resources of a pod, such as {rdma/roce: "1"}."""
    tolerations: tuple[_Key, ...] = Field(default=("nvidia.com/gpu", "roceway/degraded"), max_length=16)
    """Taints that the pods tolerate, by key. Without roceway/degraded, which `roceway-probe act` sets, a node that
    has it is never measured again, and keeps it."""
    annotations: Mapping[_Key, Value] = Field(default_factory=dict, max_length=16)
    """Annotations of the pods."""


class Probe(Block):
    """The all-reduce probe's policy. The defaults are a routine run."""

    schedule: Cron = "0 4 * * *"
    """When a run starts: minute, hour, day of month, month, day of week."""
    sizes: tuple[Bytes, ...] = Field(
        default=(parse_bytes("1GiB"), parse_bytes("4GiB"), parse_bytes("8GiB")), min_length=1, max_length=32
    )
    """Message sizes; from 1GiB up the network decides, and a lossless class that is not one shows at 4GiB."""
    launcher: Launcher = "mpirun"
    """What starts the ranks."""
    benchmark: Benchmark = "nccl"
    """What they run: nccl (all_reduce_perf of nccl-tests), mpi (an MPI all-reduce for hosts without GPUs), torch
    (torch.distributed), or the first words of another command with nccl-tests' options and table."""
    purposes: tuple[Purpose, ...] = Field(default=("follow-up", "random", "whole"), min_length=1, max_length=7)
    """Kinds of rounds, in the order in which the budget is spent on them."""
    rails: RailMode = "side-by-side"
    """together: one job over all rails; side-by-side: a job for each rail, at the same time; one-by-one."""
    budget: Budget = Budget()
    """What probing may cost."""
    rounds: Whole = Field(default=2, ge=1, le=64)
    """Random matchings of the nodes in one run: two find a slow NIC or node, four are safer for an uplink."""
    repeats: Whole = Field(default=3, ge=1, le=100)
    """Times that a round is measured; the median counts."""
    warmups: Whole = Field(default=5, ge=0, le=1000)
    """Iterations before the clock starts."""
    iterations: Whole = Field(default=20, ge=1, le=10_000)
    """Iterations that are timed."""
    threshold: Percent = parse_percent("4%")
    """Smallest loss of bus bandwidth that is called a regression."""
    timeout: Duration = parse_duration("10min")
    """Longest that a round may take; then it is stopped and counts as hung."""
    startup: Duration = parse_duration("7s")
    """What starting and ending the ranks takes; for reckoning a plan's cost."""
    parallel: Whole = Field(default=64, ge=1, le=4096)
    """Most groups that are launched at the same time."""
    gpus_per_node: Whole | None = Field(default=None, ge=1, le=64)
    """Ranks of a node where a group uses all rails; one for each rail if left out."""
    agent: tuple[Word, ...] = Field(
        default=("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"), min_length=1, max_length=16
    )
    """The remote shell of mpirun and torchrun: AGENT HOST COMMAND."""
    interface: Annotated[str, Form(r"^[\w.:/-]{1,64}$", "a network such as 10.0.0.0/16, or an interface")] | None = None
    """Management network of the hosts: launchers and NCCL's bootstrap talk there."""
    hcas: Mapping[RailName, Word] = Field(default_factory=dict, max_length=64)
    """RDMA device of each rail, as NCCL_IB_HCA names it: {rail0: mlx5_0}."""
    environment: Mapping[Variable, Value] = Field(default_factory=dict, max_length=64)
    """Variables of the ranks; secrets do not belong here."""
    slurm: Slurm = Slurm()
    """How srun starts the ranks."""
    kubernetes: Kubernetes = Kubernetes()
    """How the ranks run as pods."""
