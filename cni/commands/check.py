"""CHECK: is every rail as it was attached? Each thing that is not is named."""

from __future__ import annotations

import time

from cni import gather, netconf
from cni.apply import Kernel
from cni.commands.add import open_pod
from cni.errors import CniError, Code
from cni.lifecycle import open_store
from cni.netconf import NetConf
from cni.selection import annotated, settled
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
    reported = {each.get("name") for each in conf.previous.get("interfaces") or [] if isinstance(each, dict)}
    attachment = _known(Key(conf.name, call.container_id, call.ifname), conf.state_dir)
    if attachment is None and not _must_have_rails(conf, reported):
        return
    pod = open_pod(call)
    try:
        if attachment is None:
            raise CniError(Code.UNKNOWN_CONTAINER, f"no rails are attached to container {call.container_id}", conf.name)
        lines = _settled(attachment, pod)
    finally:
        pod.close()
    names = [rail["name"] for rail in attachment.details.get("rails", [])]
    lines += [f"{name}: prevResult does not name it" for name in names if name not in reported]
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


def _must_have_rails(conf: NetConf, reported: set[object]) -> bool:
    """Whether a pod of which nothing is known should have rails: it asked for them, or ADD's result has some.

    Who has GPUs is not asked again: what ADD decided is what CHECK checks.
    """
    chosen = annotated(conf) or settled(conf)
    return bool(chosen and chosen[0]) or any(rail.name in reported for rail in conf.rails)


def _known(key: Key, folder: str) -> Attachment | None:
    store = open_store(folder, create=False)
    if store is None:
        return None
    with store:
        attachment = store.find(key)
    return attachment if attachment is not None and attachment.state == ATTACHED else None


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
