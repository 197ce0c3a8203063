"""What the verbs share: whose namespace is alive, undoing an attachment, reclaiming what the dead left.

"Owned" is judged by a live namespace: the path still leads to the same nsfs inode. A row in the database says only
who to ask about.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress

from cni import deviceinfo
from cni.apply import Kernel, detach
from cni.steps import DeleteGroup, HostNic, MoveLink, RestoreLink, Step, undo
from cni.store import DETACHING, Attachment, Key, Store
from host import link, sysctl
from host.errors import Busy, HostError
from host.lock import hold
from host.netlink import Route
from host.netns import Netns, identity

__all__ = ["LOCK_TIMEOUT", "device_names", "is_alive", "lock_names", "nic_locks", "open_store", "release", "sweep"]

LOCK_TIMEOUT = 15.0
"""Seconds to wait for another roceway-cni on the same pod or NIC; CRI-O gives a DEL one minute."""

_MISSES = 3
_MISS_SPACING = 10.0
"""A namespace is given up after this many looks, these many seconds apart: a path can be away for a moment."""


def open_store(folder: str, *, create: bool) -> Store | None:
    """The state of this boot; what an earlier boot claimed is dropped first."""
    store = Store.open(folder, create=create)
    if store is None:
        return None
    boot_id = sysctl.read("kernel", "random", "boot_id")
    if store.boot_id() != boot_id:
        with store.transaction():
            if store.boot_id() != boot_id:
                store.begin_boot(boot_id)
    return store


def is_alive(attachment: Attachment) -> bool:
    """Whether the pod's namespace still exists under the path that it had."""
    return identity(attachment.netns) == attachment.identity


def device_names(nic: HostNic) -> tuple[str, ...]:
    """Every name under which a configuration may ask for a NIC."""
    return tuple(name for name in (nic.name, nic.pci, *nic.altnames) if name)


def lock_names(key: Key) -> list[str]:
    """Names of the locks of an attachment."""
    return [f"attachment {key}"]


def nic_locks(names: Iterable[str]) -> list[str]:
    """Names of the locks of NICs. Taken after an attachment's, never before: who holds a NIC waits for nobody."""
    return [f"NIC {name}" for name in names]


def moved_nics(steps: Iterable[Step]) -> list[HostNic]:
    """The NICs that an attachment took whole."""
    return [step.nic for step in steps if isinstance(step, MoveLink)]


def release(
    store: Store, attachment: Attachment, host: Route, hint: str = "", *, nics_held: bool = False
) -> list[HostError]:
    """Undo an attachment and, when all of it is undone, forget it with its leases, which go last.

    The caller holds the attachment's lock, and with ``nics_held`` those of its NICs: a lock that is held is not to be
    had a second time, not even by its holder. ``hint`` is the runtime's path of the namespace. Errors leave the
    journal in place for the next try. A damaged journal is undone by what the kernel shows: the attachment's link
    group.
    """
    try:
        steps = attachment.steps()
    except ValueError:
        steps = ()
    nics = nic_locks(name for nic in moved_nics(steps) for name in device_names(nic))
    pod = _open_pod(attachment, hint)
    kernel = Kernel(host, pod)
    try:
        with hold(store.lock_path, [] if nics_held else nics, LOCK_TIMEOUT):
            if nics:
                with suppress(HostError):  # a full disk is no reason to keep a NIC from the host
                    store.set_state(attachment.id, DETACHING)
            errors = detach(_backwards(attachment, steps, kernel), kernel)
            if not errors:
                if attachment.details.get("deviceInfo"):
                    deviceinfo.remove(attachment.details["deviceInfo"])
                _remove_run_dirs(attachment)
                with store.transaction():
                    store.remove(attachment.id)
            return errors
    finally:
        kernel.close()
        if pod is not None:
            pod.close()


def _remove_run_dirs(attachment: Attachment) -> None:
    folders = attachment.details.get("runDirs") or {}
    if folders:
        from cni import rundir  # only for pods that asked for rails as devices

        for folder in folders:
            rundir.remove(folder, str(attachment.key))


def _backwards(attachment: Attachment, steps: tuple[Step, ...], kernel: Kernel) -> tuple[Step, ...]:
    if kernel.pod is None or steps:
        return undo(steps, netns_alive=kernel.pod is not None)
    rails = [{**each, "netdev": each.get("device")} for each in attachment.details.get("rails", [])]
    found = _whole_nics(rails, link.devices(kernel.socket()))
    homeward = [RestoreLink(name, _as_seen(device, own_name)) for name, device, own_name in found]
    return (*homeward, DeleteGroup(attachment.group))


def _open_pod(attachment: Attachment, hint: str) -> Netns | None:
    """The pod's namespace, by the runtime's path or the journal's, if either still leads to it."""
    for path in dict.fromkeys(path for path in (hint, attachment.netns) if path):
        try:
            pod = Netns.open(path)
        except HostError:
            continue
        if pod.identity == attachment.identity:
            return pod
        pod.close()
    return None


def sweep_links(path: str, host: Route, group: int) -> None:
    """Delete the links of ``group`` in a namespace of which the database knows nothing (it was lost or replaced)."""
    try:
        pod = Netns.open(path)
    except HostError:
        return
    kernel = Kernel(host, pod)
    try:
        if any(device.group == group for device in link.devices(kernel.socket())):
            kernel.run([DeleteGroup(group)])
    finally:
        kernel.close()
        pod.close()


def salvage(path: str, host: Route, group: int, rails: object) -> None:
    """Undo an attachment of which the database knows nothing, as far as kernel and configuration tell of it.

    Links of ``group`` are deleted; NICs that the configuration gives to the pod come home under the name that it calls
    them by. What else they were is lost with the journal. Says on stderr what cannot be done.
    """
    sweep_links(path, host, group)
    try:
        pod = Netns.open(path)
    except HostError:
        return
    kernel = Kernel(host, pod)
    try:
        here = link.devices(kernel.socket())
        for name, device, own_name in _whole_nics(rails, here):
            for error in detach((RestoreLink(name, _as_seen(device, own_name)),), kernel):
                print(f"roceway-cni: without a journal: {error}", file=sys.stderr)
    finally:
        kernel.close()
        pod.close()


def _as_seen(device: link.NetDev, own_name: str) -> HostNic:
    """A NIC of which only what the pod shows is known."""
    return HostNic(
        ifindex=device.ifindex,
        name=own_name or device.name,
        kind=device.kind,
        pci=device.pci,
        permanent_mac=device.permanent_mac,
        mac=device.mac,
        mtu=device.mtu,
        up=device.up,
        altnames=device.altnames,
        addresses=(),
        conf4=(),
    )


def _whole_nics(rails: object, here: Iterable[link.NetDev]) -> Iterator[tuple[str, link.NetDev, str]]:
    """Rail name, device in the pod and name on the host, of each rail in a raw configuration that has a NIC whole."""
    for rail in rails if isinstance(rails, list) else []:
        if not isinstance(rail, dict) or rail.get("mode") not in ("host-device", "sriov"):
            continue
        name, pci = rail.get("name"), rail.get("pci")
        for device in here:
            if (pci and device.pci == str(pci).lower()) or (not pci and device.name == name):
                yield str(name), device, str(rail.get("netdev") or "")


def sweep(store: Store, host: Route, now: float | None = None) -> list[Attachment]:
    """Look after the namespaces of all attachments and reclaim those found gone several times; the reclaimed.

    Runs at the start of an ADD: container runtimes need not call GC, and containerd never does.
    """
    now = time.time() if now is None else now
    if not store.begin_sweep(now, _MISS_SPACING):
        return []
    reclaimed = []
    for ident, path, inode, misses in store.namespaces():
        if identity(path) == inode:
            if misses:
                store.set_misses(ident, 0, now)
            continue
        if not _is_in_sight(path):
            continue
        store.set_misses(ident, misses + 1, now)
        if misses + 1 < _MISSES:
            continue
        attachment = store.get(ident)
        if attachment is not None and _reclaim(store, attachment, host):
            reclaimed.append(attachment)
    return reclaimed


def _is_in_sight(path: str) -> bool:
    """Whether a namespace that is not under ``path`` is gone; not so in a container that lacks its whole folder."""
    folder = os.path.dirname(path)
    return folder.startswith("/proc/") or identity(folder) is not None


def _reclaim(store: Store, attachment: Attachment, host: Route) -> bool:
    try:
        with hold(store.lock_path, lock_names(attachment.key), 0):
            fresh = store.get(attachment.id)  # a DEL may have been quicker
            return fresh is not None and not is_alive(fresh) and not release(store, fresh, host)
    except Busy:
        return False  # somebody is at it
