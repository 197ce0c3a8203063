"""``all_reduce_perf`` by torch.distributed, on NCCL where there are GPUs and on gloo where there are none.

    torchrun --nnodes 2 --nproc-per-node 1 … -m nccltest.torch_allreduce -b 1G -e 8G -f 2 -n 20 -w 5 -c 1

Flags, table and exit codes are those of nccl-tests 2.13 and later, as ``nccltest.mpi_allreduce``'s, whose pure half
this shares. torch is not among roceway's own requirements: it is where training runs.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from array import array
from typing import Any

from nccltest.mpi_allreduce import (
    EXIT_UNUSABLE,
    EXIT_WRONG_DATA,
    WORD,
    Half,
    Options,
    Row,
    contribution,
    expected,
    footer,
    header,
    line,
    parse_arguments,
    sizes,
)

__all__ = ["main"]


def main() -> None:
    """Run in every rank under torchrun; rank 0 prints. Exits 7 in every rank when any of them got wrong data."""
    options = parse_arguments(sys.argv[1:])
    try:
        torch: Any = importlib.import_module("torch")
        dist: Any = importlib.import_module("torch.distributed")
    except ImportError as error:
        print(f"torch_allreduce: no torch: {error}\ninstall PyTorch in this environment", file=sys.stderr)
        sys.exit(EXIT_UNUSABLE)
    gpus = torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
    _name_gloos_interface()
    dist.init_process_group("nccl" if gpus else "gloo")
    try:
        wrong = _run(torch, dist, "cuda" if gpus else "cpu", options)
    finally:
        dist.destroy_process_group()
    sys.exit(EXIT_WRONG_DATA if wrong else 0)


def _name_gloos_interface() -> None:
    """gloo stands in for NCCL, so it takes the rail that NCCL was told; by itself it takes the host name's address."""
    told = os.environ.get("NCCL_SOCKET_IFNAME", "").removeprefix("=").partition(",")[0]
    if told:
        os.environ.setdefault("GLOO_SOCKET_IFNAME", told)


def _run(torch: Any, dist: Any, device: str, options: Options) -> int:
    """All sizes; wrong elements over all ranks."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    members = _members(torch, dist, device, ranks)
    if rank == 0:
        print(header(options, members), flush=True)
        if device == "cuda":
            print("NCCL version " + ".".join(map(str, torch.cuda.nccl.version())), flush=True)
    rows = []
    for size in sizes(options):
        row = _row(torch, dist, device, size // WORD, options)
        rows.append(row)
        if rank == 0:
            print(line(row, ranks), flush=True)
    if rank == 0:
        print(footer(rows, ranks), flush=True)
    return sum(half.wrong or 0 for row in rows for half in (row.out_of_place, row.in_place))


_LABEL = 256
"""Bytes of a rank's process id and host name, on their way to rank 0."""


def _members(torch: Any, dist: Any, device: str, ranks: int) -> list[tuple[int, str]]:
    """(pid, host) of every rank. As bytes: gathering objects would need numpy in torch's environment."""
    mine = f"{os.getpid()} {os.uname().nodename}".encode()[:_LABEL].ljust(_LABEL)
    label = torch.frombuffer(bytearray(mine), dtype=torch.uint8).to(device)
    labels = [torch.empty_like(label) for _ in range(ranks)]
    dist.all_gather(labels, label)
    told = (bytes(each.tolist()).decode(errors="replace").split() for each in labels)
    return [(int(pid), host) for pid, host in told]


def _row(torch: Any, dist: Any, device: str, count: int, options: Options) -> Row:
    """torch reduces in place: out of place is a copy of the input first, outside the clock."""
    mine = _tensor(torch, device, contribution(dist.get_rank(), count))
    wanted = _tensor(torch, device, expected(dist.get_world_size(), count))
    halves = []
    for _ in range(2):
        work = torch.empty_like(mine)
        seconds = _timed(torch, dist, device, work, mine, options)
        wrong = _checked(torch, dist, work, mine, wanted, options.check) if options.check else None
        halves.append(Half(seconds, wrong))
    return Row(count, *halves)


def _tensor(torch: Any, device: str, values: array[float]) -> Any:
    return torch.frombuffer(bytearray(values.tobytes()), dtype=torch.float32).to(device)


def _timed(torch: Any, dist: Any, device: str, work: Any, mine: Any, options: Options) -> float:
    """Seconds: of each iteration the slowest rank's, then their mean."""
    times = []
    for _ in range(options.warmups + options.iterations):
        work.copy_(mine)
        _settle(torch, device)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(work)
        _settle(torch, device)
        times.append(time.perf_counter() - start)
    slowest = torch.tensor(times[options.warmups :], dtype=torch.float64, device=device)
    dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
    return float(slowest.mean())


def _settle(torch: Any, device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def _checked(torch: Any, dist: Any, work: Any, mine: Any, wanted: Any, rounds: int) -> int:
    """Wrong elements of all ranks over ``rounds`` further all-reduces."""
    wrong = torch.zeros(1, dtype=torch.int64, device=mine.device)
    for _ in range(rounds):
        work.copy_(mine)
        dist.all_reduce(work)
        wrong += (work != wanted).sum()
    dist.all_reduce(wrong)
    return int(wrong.item())


if __name__ == "__main__":
    main()
