"""What a group runs, as words and environment. Pure."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from conf.fabric import Fabric
from conf.hostlist import expand
from conf.nodes import NodeType
from nccltest.schedule import Group

__all__ = ["MARK", "Bench", "Job", "bench_of", "environment_hash", "fabric_hash", "job_of", "launches"]

MARK = "ROCEWAY_PROBE_JOB"
"""Environment variable that every process of a job has, on every host: by it they are found when they must end."""

_PROGRAMS = {
    "nccl": ("all_reduce_perf",),
    "mpi": (sys.executable, "-m", "nccltest.mpi_allreduce"),
    "torch": (sys.executable, "-m", "nccltest.torch_allreduce"),
}


@dataclass(frozen=True)
class Bench:
    """The benchmark, the same for every group of a run."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    sizes: tuple[int, ...]
    warmups: int
    iterations: int
    gpus: int
    """Ranks of a node where a group uses all rails."""
    rails: tuple[str, ...]
    nics: Mapping[tuple[str, str], str] = field(default_factory=dict)
    """(node, rail) -> NIC as fabric.yaml names it: netdev or PCI address; none where it says auto."""
    hcas: Mapping[str, str] = field(default_factory=dict)
    subnets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Rail -> its networks."""
    interface: str = ""
    """The management network; empty where none is given."""
    traffic_class: int = 0
    """IP traffic class of the lossless class: DSCP in the upper six bits."""


@dataclass(frozen=True)
class Job:
    """One launch: a group, once."""

    id: str
    """Hexadecimal digits."""
    group: Group
    command: tuple[str, ...]
    environment: Mapping[str, str]
    """Only what the job sets; a launcher hands each of these to every rank."""
    ranks_per_node: int
    sizes: tuple[int, ...]
    """The sizes whose rows are wanted."""
    subnets: tuple[str, ...]
    """Networks of the rails that it uses."""
    interface: str
    timeout: float
    """Seconds."""
    gpus: int = 1
    """Of a node, whether this job uses all of them or the one that belongs to its rail."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where it runs, rank by rank."""
        return self.group.nodes

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.ranks_per_node * len(self.nodes)


def bench_of(fabric: Fabric) -> Bench:
    """The benchmark that fabric.yaml describes."""
    probe = fabric.probe
    rails = tuple(rail.name for rail in fabric.rails)
    word = probe.benchmark
    return Bench(
        command=_PROGRAMS[word] if isinstance(word, str) else tuple(word),
        environment=probe.environment,
        sizes=probe.sizes,
        warmups=probe.warmups,
        iterations=probe.iterations,
        gpus=probe.gpus_per_node or len(rails),
        rails=rails,
        nics=_nics(fabric),
        hcas=probe.hcas,
        subnets={rail.name: tuple(map(str, rail.networks)) for rail in fabric.rails},
        interface=probe.interface or "",
        traffic_class=fabric.qos.lossless.dscp << 2,
    )


def _nics(fabric: Fabric) -> dict[tuple[str, str], str]:
    return {
        (node, rail): nic
        for group in fabric.nodes
        for rail, nic in _named(fabric.node_types[group.type]).items()
        for node in expand(group.match)
    }


def _named(kind: NodeType) -> dict[str, str]:
    return {} if kind.rails == "auto" else {rail: nic.nic for rail, nic in kind.rails.items()}


def launches(sizes: Sequence[int]) -> tuple[tuple[int, int, int], ...]:
    """(smallest, largest, factor) for each start of the benchmark: one where doubling hits every size, else one a size.

    nccl-tests walks sizes by one factor; with 1, 4 and 8 GiB it measures 2 GiB as well, which is cheaper than starting
    all ranks three times.
    """
    ordered = sorted(set(sizes))
    smallest = ordered[0]
    if all(size % smallest == 0 and (size // smallest).bit_count() == 1 for size in ordered):
        return ((smallest, ordered[-1], 2),)
    return tuple((size, size, 2) for size in ordered)


def job_of(bench: Bench, group: Group, id_: str, walk: tuple[int, int, int], timeout: float) -> Job:
    """The launch of one group over one walk of sizes."""
    smallest, largest, factor = walk
    rails = bench.rails if group.rail is None else (group.rail,)
    options = (
        "-b",
        smallest,
        "-e",
        largest,
        "-f",
        factor,
        "-n",
        bench.iterations,
        "-w",
        bench.warmups,
        "-c",
        1,
        "-g",
        1,
    )
    return Job(
        id=id_,
        group=group,
        command=(*bench.command, *map(str, options)),
        environment={**_nccl(bench, group, rails), **bench.environment, MARK: id_},
        ranks_per_node=bench.gpus if group.rail is None else 1,
        sizes=tuple(size for size in bench.sizes if smallest <= size <= largest),
        subnets=tuple(network for rail in rails for network in bench.subnets.get(rail, ())),
        interface=bench.interface,
        timeout=timeout,
        gpus=bench.gpus,
    )


def _nccl(bench: Bench, group: Group, rails: Sequence[str]) -> dict[str, str]:
    """What pins NCCL to the rails. Ring: the one algorithm whose bus bandwidth is the rate on the wire."""
    variables = {
        "NCCL_ALGO": "Ring",
        "NCCL_CROSS_NIC": "0",
        "NCCL_DEBUG": "INFO",
        "NCCL_DEBUG_SUBSYS": "INIT,ENV,NET,GRAPH",
    }
    hcas = [bench.hcas[rail] for rail in rails if rail in bench.hcas]
    if hcas:
        variables["NCCL_IB_HCA"] = "=" + ",".join(hcas)
    if bench.traffic_class:
        variables["NCCL_IB_TC"] = str(bench.traffic_class)
    netdevs = {nic for node in group.nodes for rail in rails if ":" not in (nic := bench.nics.get((node, rail), ":"))}
    if bench.interface and "/" not in bench.interface:
        variables["NCCL_SOCKET_IFNAME"] = "=" + bench.interface
    elif netdevs and not hcas:
        variables["NCCL_SOCKET_IFNAME"] = "=" + ",".join(sorted(netdevs))
    if group.rail is not None and bench.gpus > 1:
        # roceway pairs the nth rail with the nth GPU of a node.
        variables["CUDA_VISIBLE_DEVICES"] = str(bench.rails.index(group.rail))
    return variables


def environment_hash(bench: Bench) -> str:
    """Of the command and everything that is set for it, but not of the nodes: equal runs have equal baselines."""
    parts = [*bench.command, str(bench.warmups), str(bench.iterations), str(bench.traffic_class)]
    parts += [f"{name}={value}" for name, value in sorted(bench.environment.items())]
    parts += [f"{rail}={hca}" for rail, hca in sorted(bench.hcas.items())]
    return sha256("\0".join(parts).encode()).hexdigest()[:16]


def fabric_hash(fabric: Fabric) -> str:
    """Of what bandwidth depends on: rails, QoS, node types.

    Not of comments, nor of nodes, cables, suppressions or the probe's own schedule: who adds a host or a round keeps
    the history. What the benchmark does is in :func:`environment_hash`.
    """
    parts = fabric.model_dump(mode="json", include={"rails", "qos", "node_types"}, exclude_defaults=True)
    return sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
