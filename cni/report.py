"""What ``roceway-cni state`` and ``explain`` tell, as values. Reads the database and the pods; changes nothing."""

from __future__ import annotations

import time
from typing import Any

from cni import gather
from cni.commands.check import pod_differences
from cni.lifecycle import is_alive
from cni.spec import Json
from cni.steps import NO_GUIDS, AddAddress, AddRule, AwaitGid, CreateLink, MoveLink, MoveRdma, Step
from cni.store import ATTACHED, Attachment, LeaseRow, Store
from conf.errors import ConfigError, Finding
from host.errors import HostError
from host.netns import Netns

__all__ = ["NO_STATE", "explain", "find", "state"]


NO_STATE: Json = {"attachments": [], "leases": [], "journal": []}
"""The state of a node where nothing was attached yet."""


def state(store: Store) -> Json:
    """Attachments, leases and unfinished journals."""
    attachments = store.attachments()
    keys = {each.id: each.key for each in attachments}
    return {
        "attachments": [_summary(each) for each in attachments],
        "leases": [
            {"rail": lease.rail, "address": lease.prefix, "container": keys[lease.attachment].container_id}
            for lease in store.leases()
            if lease.attachment in keys
        ],
        "journal": [_unfinished(each) for each in attachments if each.state != ATTACHED],
    }


def _summary(attachment: Attachment) -> Json:
    return {
        "network": attachment.key.network,
        "container": attachment.key.container_id,
        "ifname": attachment.key.ifname,
        "pod": _pod(attachment),
        "state": attachment.state,
        "rails": [each["name"] for each in attachment.details.get("rails", [])],
        "netns": attachment.netns,
        "alive": is_alive(attachment),
        "age_s": max(0, round(time.time() - attachment.created)),
    }


def _pod(attachment: Attachment) -> str:
    pod = attachment.details.get("pod", {})
    return f"{pod['namespace']}/{pod['name']}" if "namespace" in pod and "name" in pod else ""


def _steps(attachment: Attachment) -> tuple[Step, ...] | None:
    try:
        return attachment.steps()
    except ValueError:
        return None


def _unfinished(attachment: Attachment) -> Json:
    steps = _steps(attachment)
    return {
        "container": attachment.key.container_id,
        "state": attachment.state,
        "begun": attachment.reached,
        "steps": ["damaged"] if steps is None else [str(step) for step in steps],
    }


def find(store: Store, container: str) -> Attachment:
    """The attachment of a container, by its id or a unique beginning of it."""
    found = [each for each in store.attachments() if each.key.container_id.startswith(container)]
    exact = [each for each in found if each.key.container_id == container]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if exact:
        return exact[0]
    reason = f"{len(found)} containers begin with {container!r}" if found else f"no rails are attached to {container!r}"
    raise ConfigError("CONTAINERID", [Finding("", f"{reason}; `roceway-cni state` lists them")])


def explain(store: Store, attachment: Attachment) -> Json:
    """What was attached, why these NICs, and what is wrong now."""
    steps = _steps(attachment)
    leases = store.leases(attachment.id)
    gpus = _gpus(store)
    rails = [{**_rail(each, steps or (), leases), **_gpu(each, gpus)} for each in attachment.details.get("rails", [])]
    guids = _guids(attachment) if any(rail["rdma"] for rail in rails) else {}
    rails = [{**rail, "node_guid": guids.get(rail["rdma"], "")} for rail in rails]
    return {
        **_summary(attachment),
        "selected_by": attachment.details.get("why", ""),
        "gpus": attachment.details.get("gpus", []),
        "warnings": attachment.details.get("warnings", []),
        "rails": rails,
        "steps": [str(step) for step in steps] if steps is not None else [],
        "begun": attachment.reached,
        "notes": [
            f"{rail['name']}: RDMA device {rail['rdma']} has no node GUID: rdma_cm fails on it; "
            "give the rail a mac, or nodeGUID: own-mac"
            for rail in rails
            if rail["node_guid"] in NO_GUIDS
        ],
        "problems": _problems(attachment, damaged=steps is None),
    }


def _guids(attachment: Attachment) -> dict[str, str]:
    """Node GUIDs by RDMA device, as the pod sees them; empty where its namespace is gone."""
    try:
        pod = Netns.open(attachment.netns)
    except HostError:
        return {}
    try:
        return gather.pod_rdma(pod) if pod.identity == attachment.identity else {}
    finally:
        pod.close()


def _gpus(store: Store) -> dict[str, tuple[str, str]]:
    """GPU and distance by PCI address of a NIC, as this node pairs them now, whoever has the NICs."""
    from cni import inventory, topology  # only `explain` looks at the whole machine

    held = {str(rail.get("pci")) for each in store.attachments() for rail in each.details.get("rails", [])}
    host = inventory.read()
    if not any(nic.rdma for nic in host.nics):
        host = inventory.read(need_rdma=False)
    pairings = topology.neighbours(host.gpus, host.nics, held, host.tree)
    return {pci: (each.gpu.pci, each.distance.name) for pci, each in pairings.items() if each.distance}


def _gpu(rail: dict[str, Any], gpus: dict[str, tuple[str, str]]) -> Json:
    """The GPU that a rail was given for, else the one that the node pairs its NIC with; empty where there is none."""
    if rail.get("gpu"):
        return {"gpu": rail["gpu"], "distance": rail.get("distance", ""), "gpu_of": "pod"}
    gpu, distance = gpus.get(rail["pci"], ("", ""))
    return {"gpu": gpu, "distance": distance, "gpu_of": "node" if gpu else ""}


def _rail(rail: dict[str, Any], steps: tuple[Step, ...], leases: list[LeaseRow]) -> Json:
    own = [lease for lease in leases if lease.rail == rail["name"]]
    addresses = {lease.prefix.partition("/")[0] for lease in own}
    tables = [step.table for step in steps if isinstance(step, AddRule) and step.source.partition("/")[0] in addresses]
    link = next((step for step in steps if isinstance(step, CreateLink | MoveLink) and step.rail == rail["name"]), None)
    return {
        "name": rail["name"],
        "mode": rail["mode"],
        "device": rail["device"],
        "pci": rail["pci"],
        "rdma": _rdma(rail["name"], steps),
        "why": f"the configuration names {rail['nic']} for {rail['name']}",
        "mtu": link.mtu if isinstance(link, CreateLink) else (link.nic.mtu if link else 0),
        "addresses": [step.prefix for step in steps if isinstance(step, AddAddress) and step.rail == rail["name"]],
        "gateways": [lease.gateway for lease in own if lease.gateway],
        "table": tables[0] if tables else None,
    }


def _rdma(rail: str, steps: tuple[Step, ...]) -> str:
    """What the pod calls the RDMA device of a NIC that it has whole; empty for none."""
    moved = [step.name for step in steps if isinstance(step, MoveRdma) and step.rail == rail]
    shared = [step.device for step in steps if isinstance(step, AwaitGid) and step.rail == rail]
    return next(iter(moved or shared), "")


def _problems(attachment: Attachment, *, damaged: bool) -> list[str]:
    problems = ["the journal is damaged; a DEL removes what the kernel shows of this attachment"] if damaged else []
    if attachment.state != ATTACHED:
        problems.append(f"unfinished: {attachment.state}; the next DEL or GC of this container cleans up")
    if not is_alive(attachment):
        return [
            *problems,
            f"the pod's namespace {attachment.netns} is gone; its leases are reclaimed by DEL, GC or the next ADDs",
        ]
    try:
        pod = Netns.open(attachment.netns)
    except HostError as error:
        return [*problems, str(error)]
    try:
        return problems + pod_differences(attachment, pod)
    finally:
        pod.close()
