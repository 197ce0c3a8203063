"""What the kubelet gave a pod, without gRPC: through the agent where one runs, else from the kubelet's own files.

The agent asks the kubelet's PodResources API and answers here on a socket of its own, one line of JSON each way.
Without an agent the kubelet's checkpoints tell the same: ``device-plugins/kubelet_internal_checkpoint`` (devices;
written when a pod is admitted, before its sandbox exists) and ``dra_manager_state`` (devices of resource claims). They
are files of the kubelet's own, not an API, so they come second; their shapes are those of Kubernetes 1.20 to 1.34
(pkg/kubelet/cm/devicemanager/checkpoint, pkg/kubelet/cm/dra/state).
"""

from __future__ import annotations

import json
import os

# The C part of `socket`: see host.netlink.
from _socket import AF_UNIX, SOCK_CLOEXEC, SOCK_STREAM, socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from cni.poddevices import Given, PodDevices
from host.errors import Busy, HostError

__all__ = ["BROKER", "Pod", "ask", "broker_path", "checkpoint", "dump", "load", "pod_of"]

BROKER = "kubelet.sock"
"""The agent's socket for this question, beside its own."""

_TIMEOUT = 3.0  # seconds; the kubelet answers in milliseconds, and there are the checkpoints
_ANSWER_MAX = 1 << 20
_DEVICES = "device-plugins/kubelet_internal_checkpoint"
_CLAIMS = "dra_manager_state"

Pod = tuple[str, str, str]
"""Namespace, name, UID."""


def pod_of(args: Iterable[tuple[str, str]]) -> Pod | None:
    """The pod that CNI_ARGS names; None for a container that is no pod of Kubernetes."""
    named = dict(args)
    space, name = named.get("K8S_POD_NAMESPACE", ""), named.get("K8S_POD_NAME", "")
    return (space, name, named.get("K8S_POD_UID", "")) if space and name else None


def broker_path(agent: str) -> str:
    """Where the agent whose socket is ``agent`` answers for the kubelet; empty without an agent."""
    return os.path.join(os.path.dirname(agent), BROKER) if agent else ""


def ask(pod: Pod, agent: str, folder: str) -> PodDevices:
    """What ``pod`` was given. ``folder`` is the kubelet's directory. Busy when nobody can tell."""
    reasons = []
    if agent:
        try:
            return _through_agent(pod, broker_path(agent))
        except (OSError, ValueError) as error:
            reasons.append(f"agent: {error}")
    try:
        return checkpoint(pod, folder)
    except (HostError, ValueError) as error:
        reasons.append(str(error))
    raise Busy(
        f"pod {pod[0]}/{pod[1]}: cannot learn which GPUs the kubelet gave it ({'; '.join(reasons)}); is roceway-agent "
        "running, and is kubeletDir the kubelet's --root-dir? The annotation roceway.io/rails: none starts a pod that "
        "needs no rails, policy.unknown: ignore starts every pod without"
    )


def _through_agent(pod: Pod, path: str) -> PodDevices:
    connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)
    try:
        connection.settimeout(_TIMEOUT)
        connection.connect(path)
        connection.sendall(json.dumps(dict(zip(("namespace", "name", "uid"), pod, strict=True))).encode() + b"\n")
        answer = b""
        while not answer.endswith(b"\n") and len(answer) <= _ANSWER_MAX:
            more = connection.recv(1 << 16)
            if not more:
                break
            answer += more
    finally:
        connection.close()
    return load(json.loads(answer))


def dump(devices: PodDevices) -> dict[str, Any]:
    """``devices`` as JSON."""
    return {"source": devices.source, "devices": [each._asdict() for each in devices.devices]}


def load(answer: Mapping[str, Any]) -> PodDevices:
    """The reverse of :func:`dump`. ValueError with the reason where the answer is one, or makes no sense."""
    if "error" in answer:
        raise ValueError(str(answer["error"]))
    try:
        devices = [Given(each["container"], each["resource"], tuple(each["ids"])) for each in answer["devices"]]
        return PodDevices(tuple(devices), str(answer["source"]))
    except (KeyError, TypeError) as error:
        raise ValueError(f"an answer that makes no sense: {error!r}") from error


def checkpoint(pod: Pod, folder: str) -> PodDevices:
    """What the kubelet's checkpoints say. HostError where there is no kubelet, ValueError for what cannot be read."""
    if not os.path.isdir(os.path.join(folder, "device-plugins")):
        raise HostError("read", os.path.join(folder, _DEVICES), 2)
    if not pod[2]:
        raise ValueError(f"CNI_ARGS has no K8S_POD_UID, by which {folder} knows its pods")
    devices = [*_devices(_read(folder, _DEVICES), pod[2]), *_claimed(_read(folder, _CLAIMS), pod[2])]
    return PodDevices(tuple(devices), "the kubelet's checkpoint")


def _read(folder: str, name: str) -> Any:
    """A checkpoint's ``Data``; None for one that was never written (no plugin, no claim yet)."""
    path = os.path.join(folder, name)
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read())
        data = document["Data"]
        return json.loads(data) if isinstance(data, str) else data
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HostError("read", path, error.errno or 0) from error
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is no checkpoint of the kubelet's: {error!r}") from error


def _devices(data: Any, uid: str) -> Iterator[Given]:
    """Entries of the device manager. Before 1.20 ids were a list, since then they are lists by NUMA node."""
    for entry in _records((data or {}).get("PodDeviceEntries")):
        if entry.get("PodUID") != uid:
            continue
        ids = entry.get("DeviceIDs") or []
        by_node = [ids[node] for node in sorted(ids, key=int)] if isinstance(ids, dict) else [ids]
        names = tuple(str(ident) for listed in by_node for ident in listed)
        yield Given(str(entry.get("ContainerName", "")), str(entry.get("ResourceName", "")), names)


def _claimed(data: Any, uid: str) -> Iterator[Given]:
    """Devices of the claims that the pod holds, by driver. The list is called Entries from 1.33 on."""
    data = data or {}
    for claim in _records(data.get("ClaimInfoStateList") or data.get("Entries")):
        if uid not in (claim.get("PodUIDs") or ()):
            continue
        for driver, state in (claim.get("DriverState") or {}).items():
            names = tuple(str(each.get("DeviceName", "")) for each in _records((state or {}).get("Devices")))
            yield Given("", str(driver), names)


def _records(value: Any) -> list[dict[str, Any]]:
    """A list of objects; ValueError for anything else that is given."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ValueError("a checkpoint of the kubelet's has a list that is none of objects")
    return value
