"""DEL: whatever is left of an attachment goes; what is missing is no error.

Works without prevResult, without the namespace, with a damaged or a lost journal, after a reboot.
"""

from __future__ import annotations

import sys

from cni.group import group_of
from cni.lifecycle import LOCK_TIMEOUT, lock_names, open_store, release, salvage, sweep_links
from cni.spec import Call, Json, state_dir
from cni.store import DamagedError, Key, Store
from host.errors import HostError
from host.lock import hold
from host.netlink import Route

__all__ = ["delete"]


def delete(call: Call, raw: Json) -> None:
    """Detach the pod.

    HostError when a NIC could not be put back or the journal not be read for now (a full disk): it is kept for the
    next try. A journal that is damaged for good does not keep the pod.
    """
    call.still_wanted()
    key = Key(str(raw.get("name", "")), call.container_id, call.ifname)
    with Route() as host:
        try:
            store = open_store(state_dir(raw), create=False)
        except HostError as error:
            if not isinstance(error, DamagedError):
                sweep_links(call.netns, host, group_of(*key))
                raise
            _warn(error)
            salvage(call.netns, host, group_of(*key), raw.get("rails"))
            return
        if store is None:
            salvage(call.netns, host, group_of(*key), raw.get("rails"))
            return
        with store, hold(store.lock_path, lock_names(key), LOCK_TIMEOUT):
            call.still_wanted()
            try:
                _release(store, call, key, host)
            except DamagedError as error:
                _warn(error)
                salvage(call.netns, host, group_of(*key), raw.get("rails"))


def _warn(error: HostError) -> None:
    """Nothing is known, but the kernel still shows which links are this attachment's."""
    print(f"roceway-cni: DEL without a journal: {error}", file=sys.stderr)


def _release(store: Store, call: Call, key: Key, host: Route) -> None:
    attachment = store.find(key)
    if attachment is None:
        sweep_links(call.netns, host, group_of(*key))
        return
    errors = release(store, attachment, host, call.netns)
    if errors:
        raise errors[0]
