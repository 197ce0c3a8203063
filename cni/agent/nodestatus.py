"""The node as a table for ``roceway-agent status``: GPU, NIC, distance, rail, pod, state, counters.

Read by the command itself, not by the agent: it is wanted most when the agent is down.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cni.agent import railcounters
from cni.agent.drift import rails_of
from cni.agent.noderails import NodeRails
from cni.agent.nodeview import RailView, look, problem
from cni.agent.railcounters import RailCounters
from cni.agent.verdict import verdict_of, verdicts
from cni.commands.check import pod_differences
from cni.lifecycle import is_alive, open_store
from cni.store import ATTACHED, Attachment, Store
from host.errors import HostError
from host.netns import Netns

__all__ = ["COLUMNS", "node", "row"]

COLUMNS = ("GPU", "distance", "rail", "NIC", "link", "RDMA", "pod", "state", "counters")

_TOLD = ("out_of_sequence", "packet_seq_err", "np_cnp_sent", "rp_cnp_handled", "link_downed")
"""RDMA counters that the table has, where they are not 0; ``--json`` has all that are read."""


def node(rails: NodeRails, state_dir: str, root: str = "/") -> dict[str, Any]:
    """The node's rails and what is wrong with them. ConfigError without a configuration, HostError as the host says."""
    conf = rails.read()
    store = open_store(state_dir, create=False)
    try:
        view = look(conf, store, root)
        differences = _differences(store) if store is not None else {}
    finally:
        if store is not None:
            store.close()
    has_rdma = any(rail.rdma for rail in view)
    unfit = verdicts(state_dir, root)
    counted = {each.rail: each for each in railcounters.read(view, root)}
    return {
        "rails": [
            _rail(
                rail,
                problem(rail, fabric_has_rdma=has_rdma, verdict=verdict_of(unfit, rail)),
                differences.get(rail.name, []),
                counted.get(rail.name),
            )
            for rail in view
        ]
    }


def _differences(store: Store) -> dict[str, list[str]]:
    """Rail to what is not as it was attached, with the container in which it is so."""
    found: dict[str, list[str]] = {}
    for attachment in store.attachments():
        if attachment.state != ATTACHED or not is_alive(attachment):
            continue
        lines = _lines(attachment)
        try:
            steps = attachment.steps()
        except ValueError:
            steps = ()
        for line in lines:
            for rail in rails_of([line], steps) or [each["name"] for each in attachment.details.get("rails", [])]:
                found.setdefault(rail, []).append(f"{attachment.key.container_id[:13]}: {line}")
    return found


def _lines(attachment: Attachment) -> list[str]:
    try:
        pod = Netns.open(attachment.netns)
    except HostError:
        return []
    try:
        return pod_differences(attachment, pod)
    except HostError as error:
        return [str(error)]
    finally:
        pod.close()


def _rail(rail: RailView, unfit: str, differences: Sequence[str], counted: RailCounters | None) -> dict[str, Any]:
    pause = counted.pause if counted else {}
    return {
        "rail": rail.name,
        "mode": rail.mode,
        "gpu": rail.gpu,
        "distance": rail.distance,
        "nic": rail.nic,
        "pci": rail.pci,
        "netdev": rail.netdev,
        "inside": rail.inside,
        "carrier": rail.carrier,
        "speed_mbps": rail.speed,
        "mtu": rail.mtu,
        "rdma": rail.rdma,
        "rdma_state": rail.rdma_state,
        "pods": [{"container": each.container, "pod": each.pod} for each in rail.holders],
        "problem": unfit,
        "differences": list(differences),
        "counters": dict(counted.rdma) if counted else {},
        "pfc_frames": {f"{way}_prio{priority}": value for (way, priority), value in pause.items()},
    }


def row(rail: dict[str, Any]) -> tuple[str, ...]:
    """A rail as a row of COLUMNS."""
    nic = f"{rail['netdev'] or rail['nic']} {rail['pci']}".strip()
    link = f"{rail['speed_mbps'] // 1000}G" if rail["carrier"] and rail["speed_mbps"] else ""
    state = rail["problem"] or (f"{len(rail['differences'])} differences" if rail["differences"] else "ok")
    return (
        rail["gpu"] or "-",
        rail["distance"] or "-",
        rail["rail"],
        f"{nic} (in the pod)" if rail["inside"] else nic,
        link or ("up" if rail["carrier"] else "no carrier"),
        f"{rail['rdma']} {rail['rdma_state']}".strip() or "-",
        ", ".join(each["pod"] or each["container"][:13] for each in rail["pods"]) or "-",
        state,
        " ".join(_counters(rail)) or "-",
    )


def _counters(rail: dict[str, Any]) -> Iterable[str]:
    counters, frames = rail["counters"], rail["pfc_frames"]
    yield from (f"{name}={counters[name]}" for name in _TOLD if counters.get(name))
    for way in ("rx", "tx"):
        total = sum(value for name, value in frames.items() if name.startswith(way))
        if total:
            yield f"pfc_{way}={total}"
