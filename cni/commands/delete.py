"""DEL: whatever is left of an attachment goes; what is missing is no error.

Works without prevResult, without the namespace, with a damaged or a lost journal, after a reboot.
"""

from __future__ import annotations

import sys

from cni.lifecycle import LOCK_TIMEOUT, group_of, lock_names, open_store, release, sweep_links
from cni.netconf import state_dir
from cni.spec import Call, Json
from cni.store import Key, Store
from host.errors import HostError
from host.lock import hold
from host.netlink import Route
from host.netns import Netns, own

__all__ = ["delete"]


def delete(call: Call, raw: Json) -> None:
    """Detach the pod. HostError when a NIC could not be put back: the journal is kept for the next try."""
    key = Key(str(raw.get("name", "")), call.container_id, call.ifname)
    try:
        store = open_store(state_dir(raw), create=False)
    except HostError as error:
        # Nothing is known, but the kernel still shows which links are this attachment's.
        print(f"roceway-cni: DEL without a journal: {error}", file=sys.stderr)
        store = None
    with Route() as host:
        if store is None:
            _sweep(call, key, host)
            return
        with store, hold(store.lock_path, lock_names(key), LOCK_TIMEOUT):
            errors = _release(store, call, key, host)
    if errors:
        raise errors[0]


def _release(store: Store, call: Call, key: Key, host: Route) -> list[HostError]:
    attachment = store.find(key)
    if attachment is None:
        _sweep(call, key, host)
        return []
    return release(store, attachment, host, call.netns)


def _sweep(call: Call, key: Key, host: Route) -> None:
    if not call.netns:
        return
    try:
        pod = Netns.open(call.netns)
    except HostError:
        return
    home = own()
    home.close()
    try:
        if pod.identity != home.identity:
            sweep_links(pod, host, group_of(key))
    finally:
        pod.close()
