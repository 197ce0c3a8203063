"""``all_reduce_perf`` without GPUs: a real MPI all-reduce over whatever network MPI was told to use.

    mpirun … python -m nccltest.mpi_allreduce -b 8M -e 8M -n 5 -w 1 -c 1

Flags, output and exit codes are those of nccl-tests 2.13 and later (github.com/NVIDIA/nccl-tests, src/common.cu), so
that whatever reads one reads the other. Elements are float32, the operation is the sum. Everything but
:func:`main` and what it calls with a communicator is pure.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from mpi4py import MPI

__all__ = ["Half", "Options", "Row", "busbw_factor", "main", "parse_size", "sizes"]

WORD = 4
"""Bytes of a float32."""
EXIT_UNUSABLE, EXIT_USAGE, EXIT_WRONG_DATA = 3, 6, 7
"""From 2.17.3 nccl-tests exits 3 for its transport's errors, 6 for usage and 7 for wrong data."""

_PERIOD = 251
"""A prime: no power of two, so that a chunk in the wrong place is wrong data."""
_SIZE = re.compile(r"(\d+(?:\.\d+)?)([KMGT]?)", re.IGNORECASE)
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}


class Options(NamedTuple):
    """What to run. Sizes are in bytes."""

    min_bytes: int
    max_bytes: int
    step_bytes: int
    step_factor: int
    """Used instead of step_bytes when larger than 1."""
    iterations: int
    warmups: int
    check: int
    """How many checked all-reduces follow the timed ones; 0 checks nothing."""


class Half(NamedTuple):
    """One half of a row, out of place or in place."""

    seconds: float
    """Mean over the iterations of the slowest rank's time."""
    wrong: int | None
    """Wrong elements, summed over the ranks; None when unchecked."""


class Row(NamedTuple):
    """One size."""

    elements: int
    out_of_place: Half
    in_place: Half


def parse_size(text: str) -> int:
    """Bytes of ``8M``, ``1.5g``, ``4096``; K, M, G and T are powers of 1024. ValueError for anything else."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no size such as 4096, 64K, 8M or 1G")
    return int(float(match[1]) * (1 << _UNITS[match[2].upper()]))


def sizes(options: Options) -> Iterator[int]:
    """Sizes from min_bytes to max_bytes, each a whole number of elements."""
    size = options.min_bytes
    while size <= options.max_bytes:
        yield size - size % WORD
        size = size * options.step_factor if options.step_factor > 1 else size + options.step_bytes


def busbw_factor(ranks: int) -> float:
    """Bus bandwidth over algorithm bandwidth of an all-reduce: 2(n−1)/n.

    Each element has to leave and enter every rank 2(n−1)/n times, so that this is the rate on the wire
    whatever the number of ranks (nccl-tests, doc/PERFORMANCE.md). 0 for one rank, which needs no wire.
    """
    return 2 * (ranks - 1) / ranks


def algbw(size: int, seconds: float) -> float:
    """Bytes per second of the collective as its caller sees it."""
    return size / seconds if seconds > 0 else 0.0


def header(options: Options, ranks: Sequence[tuple[int, str]]) -> str:
    """What stands above the rows. ``ranks`` are (pid, host name)."""
    by_factor = options.step_factor > 1
    step = f"{options.step_factor}(factor)" if by_factor else f"{options.step_bytes}(bytes)"
    lines = [
        "# Collective test starting: all_reduce_perf",
        f"# nThread 1 nGpus 1 minBytes {options.min_bytes} maxBytes {options.max_bytes} step: {step} warmup iters: "
        f"{options.warmups} iters: {options.iterations} agg iters: 1 validation: {options.check} graph: 0",
        "#",
        "# Using devices",
        *(
            f"#  Rank {rank:2} Group  0 Pid {pid:6} on {host:>10} device  0 [0x00] CPU"
            for rank, (pid, host) in enumerate(ranks)
        ),
        "#",
        "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       in-place          ".format(
            *[""] * 5
        ),
        "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}".format(
            "size", "count", "type", "redop", "root", *["  {:>7}  {:>6}  {:>6} {:>6}".format(*_COLUMNS)] * 2
        ),
        "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}{}{}".format(
            "(B)", "(elements)", "", "", "", *["  {:>7}  {:>6}  {:>6}  {:>5}".format(*_COLUMN_UNITS)] * 2
        ),
    ]
    return "\n".join(lines)


_COLUMNS = ("time", "algbw", "busbw", "#wrong")
_COLUMN_UNITS = ("(us)", "(GB/s)", "(GB/s)", "")


def line(row: Row, ranks: int) -> str:
    """A row of the table: 13 tokens. Bandwidths are decimal GB/s, times microseconds."""
    size = row.elements * WORD
    start = f"{size:12}  {row.elements:12}  {'float':>8}  {'sum':>6}  {-1:6}"
    return start + "".join(_half(half, size, ranks) for half in (row.out_of_place, row.in_place))


def _half(half: Half, size: int, ranks: int) -> str:
    rate = algbw(size, half.seconds) / 1e9
    wrong = "N/A" if half.wrong is None else f"{half.wrong:g}"
    return f"  {_microseconds(half.seconds):>7}  {rate:6.2f}  {rate * busbw_factor(ranks):6.2f}  {wrong:>5}"


def _microseconds(seconds: float) -> str:
    value = seconds * 1e6
    decimals = 0 if value >= 10_000 else 1 if value >= 100 else 2
    return f"{value:.{decimals}f}"


def footer(rows: Sequence[Row], ranks: int) -> str:
    """Wrong elements over all rows, and the mean bus bandwidth over all rows and both halves."""
    halves = [(row.elements * WORD, half) for row in rows for half in (row.out_of_place, row.in_place)]
    wrong = sum(half.wrong or 0 for _, half in halves)
    mean = sum(algbw(size, half.seconds) for size, half in halves) / max(len(halves), 1) / 1e9 * busbw_factor(ranks)
    verdict = "FAILED" if wrong else "OK"
    return (
        f"# Out of bounds values : {wrong} {verdict}\n# Avg bus bandwidth    : {mean:g} \n#\n"
        "# Collective test concluded: all_reduce_perf"
    )


def contribution(rank: int, count: int) -> array[float]:
    """What a rank puts in: small whole numbers, different in each rank, which float32 sums exactly."""
    return _tiled([(place + rank) % _PERIOD for place in range(_PERIOD)], count)


def expected(ranks: int, count: int) -> array[float]:
    """The sum of all contributions."""
    return _tiled([sum((place + rank) % _PERIOD for rank in range(ranks)) for place in range(_PERIOD)], count)


def _tiled(period: Sequence[float], count: int) -> array[float]:
    whole, rest = divmod(count, len(period))
    one = array("f", period)
    return one * whole + one[:rest]


def wrong_elements(got: array[float], wanted: array[float]) -> int:
    """How many elements differ."""
    if got.tobytes() == wanted.tobytes():
        return 0
    return sum(one != other for one, other in zip(got, wanted, strict=True))


def parse_arguments(arguments: Sequence[str]) -> Options:
    """The command line; exits with 6 as nccl-tests does when it makes no sense."""
    parser = _Parser(prog="python -m nccltest.mpi_allreduce", description="MPI all-reduce with nccl-tests' output")
    parser.add_argument("-b", "--minbytes", type=_size, default=32 << 20, metavar="SIZE")
    parser.add_argument("-e", "--maxbytes", type=_size, default=32 << 20, metavar="SIZE")
    parser.add_argument("-i", "--stepbytes", type=_size, default=1 << 20, metavar="SIZE")
    parser.add_argument("-f", "--stepfactor", type=int, default=1, metavar="N")
    parser.add_argument("-n", "--iters", type=int, default=20, metavar="N")
    parser.add_argument("-w", "--warmup_iters", type=int, default=1, metavar="N")
    parser.add_argument("-c", "--check", type=int, default=1, metavar="N")
    parser.add_argument("-g", "--ngpus", type=int, default=1, choices=[1], help="1: a rank is a process here")
    given = parser.parse_args(arguments)
    options = Options(
        given.minbytes, given.maxbytes, given.stepbytes, given.stepfactor, given.iters, given.warmup_iters, given.check
    )
    problem = _problem(options)
    if problem:
        parser.error(problem)
    return options


def _size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]  # NoReturn: exit() does not return
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def _problem(options: Options) -> str:
    if options.min_bytes < WORD:
        return f"--minbytes must be at least {WORD}: one element"
    if options.max_bytes < options.min_bytes:
        return f"--maxbytes {options.max_bytes} is less than --minbytes {options.min_bytes}"
    if options.step_factor <= 1 and options.step_bytes < WORD:
        return f"--stepbytes must be at least {WORD}: one element"
    if options.iterations < 1 or options.warmups < 0 or options.check < 0:
        return "--iters must be at least 1, --warmup_iters and --check at least 0"
    return ""


def main() -> None:
    """Run in every rank under mpirun; rank 0 prints. Exits 7 in every rank when any of them got wrong data."""
    options = parse_arguments(sys.argv[1:])
    try:
        import mpi4py

        mpi4py.rc.threads = False  # MPI_THREAD_MULTIPLE would put a lock around every call
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        sys.exit(_unusable(str(error)))
    world = MPI.COMM_WORLD
    try:
        wrong = _run(MPI.COMM_WORLD, options)
    except Exception:
        # The others wait in a collective for this rank: they must be told, or they wait for ever.
        import traceback

        traceback.print_exc()
        world.Abort(1)
        raise
    sys.exit(EXIT_WRONG_DATA if wrong else 0)


def _unusable(reason: str) -> int:
    print(
        f"mpi_allreduce: no MPI: {reason}\ninstall Open MPI (apt-get install openmpi-bin) and the extra roceway[mpi]",
        file=sys.stderr,
    )
    return EXIT_UNUSABLE


def _run(world: MPI.Intracomm, options: Options) -> int:
    """All sizes; wrong elements over all ranks."""
    members = world.gather((os.getpid(), os.uname().nodename))
    if members is not None:
        print(header(options, members), flush=True)
    rows = []
    for size in sizes(options):
        row = _row(world, size // WORD, options)
        rows.append(row)
        if world.rank == 0:
            print(line(row, world.size), flush=True)
    if world.rank == 0:
        print(footer(rows, world.size), flush=True)
    return sum(half.wrong or 0 for row in rows for half in (row.out_of_place, row.in_place))


def _row(world: MPI.Intracomm, count: int, options: Options) -> Row:
    from mpi4py import MPI

    mine, result = array("f", bytes(count * WORD)), array("f", bytes(count * WORD))

    def refill() -> None:
        mine[:] = contribution(world.rank, count)
        result[:] = array("f", bytes(count * WORD))

    def half(collective: Callable[[], None], answer: array[float]) -> Half:
        refill()
        seconds = _timed(world, collective, options)
        return Half(seconds, _checked(world, collective, refill, answer, options.check) if options.check else None)

    return Row(
        count,
        half(lambda: world.Allreduce(mine, result), result),
        half(lambda: world.Allreduce(MPI.IN_PLACE, mine), mine),  # sums grow to inf here: it takes as long
    )


def _timed(world: MPI.Intracomm, collective: Callable[[], None], options: Options) -> float:
    """Seconds: of each iteration the slowest rank's, then their mean."""
    from mpi4py import MPI

    times = array("d")
    for _ in range(options.warmups + options.iterations):
        world.Barrier()
        start = time.perf_counter()
        collective()
        times.append(time.perf_counter() - start)
    times = times[options.warmups :]
    world.Allreduce(MPI.IN_PLACE, times, MPI.MAX)
    return sum(times) / len(times)


def _checked(
    world: MPI.Intracomm, collective: Callable[[], None], refill: Callable[[], None], answer: array[float], rounds: int
) -> int:
    """Wrong elements of all ranks over ``rounds`` further all-reduces."""
    wanted = expected(world.size, len(answer))
    wrong = 0
    for _ in range(rounds):
        refill()
        collective()
        wrong += wrong_elements(answer, wanted)
    return int(world.allreduce(wrong))


if __name__ == "__main__":
    main()
