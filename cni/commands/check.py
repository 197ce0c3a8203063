"""CHECK: is every rail as it was attached? Each thing that is not is named."""

from __future__ import annotations

import time

from cni import gather, netconf
from cni.apply import Kernel
from cni.commands.add import open_pod
from cni.errors import CniError, Code
from cni.lifecycle import open_store
from cni.selection import select
from cni.spec import Call, Json
from cni.store import ATTACHED, Attachment, Key
from cni.verify import differences, is_carrier
from conf.errors import ConfigError, Finding
from host.netlink import Route
from host.netns import Netns

__all__ = ["check", "pod_differences"]

_TRAINING = 5.0
"""Seconds after ADD in which a missing carrier is waited for: a NIC's driver takes its link down when it is moved."""
_POLL = 0.05


def check(call: Call, raw: Json, version: str) -> None:
    """Silence, or CniError: 3 for a container that was never attached, 100 naming every difference."""
    conf = netconf.parse(raw, version)
    if conf.previous is None:
        raise ConfigError("network configuration", [Finding("prevResult", "CHECK needs the result of ADD")])
    rails, _ = select(conf)
    if not rails:
        return
    pod = open_pod(call)
    try:
        attachment = _known(Key(conf.name, call.container_id, call.ifname), conf.state_dir)
        lines = _settled(attachment, pod)
    finally:
        pod.close()
    reported = {each.get("name") for each in conf.previous.get("interfaces") or [] if isinstance(each, dict)}
    lines += [f"{rail.name}: prevResult does not name it" for rail in rails if rail.name not in reported]
    if lines:
        raise CniError(Code.DRIFT, "rails are not as they were attached", "; ".join(lines))


def _settled(attachment: Attachment, pod: Netns) -> list[str]:
    """Differences, once a link that was just moved has had the time to train: CRI-O checks right after every ADD."""
    while True:
        lines = pod_differences(attachment, pod)
        training = bool(lines) and all(is_carrier(line) for line in lines)
        if not training or time.time() - attachment.created > _TRAINING:
            return lines
        time.sleep(_POLL)


def _known(key: Key, folder: str) -> Attachment:
    store = open_store(folder, create=False)
    if store is not None:
        with store:
            attachment = store.find(key)
        if attachment is not None and attachment.state == ATTACHED:
            return attachment
    raise CniError(Code.UNKNOWN_CONTAINER, f"no rails are attached to container {key.container_id}", str(key))


def pod_differences(attachment: Attachment, pod: Netns) -> list[str]:
    """One line for each difference between a pod and its journal."""
    if pod.identity != attachment.identity:
        return [f"the rails were attached to another namespace ({attachment.netns})"]
    try:
        steps = attachment.steps()
    except ValueError as error:
        return [str(error)]
    with Route() as host:
        kernel = Kernel(host, pod)
        try:
            return differences(steps, gather.pod_view(kernel.socket(), pod, steps))
        finally:
            kernel.close()
