"""STATUS: can this node attach rails?

A failing STATUS makes the whole node NotReady in containerd and CRI-O: one dead rail must not do that, and a node
with no usable rail at all must.
"""

from __future__ import annotations

from cni import gather, netconf
from cni.errors import CniError, Code
from cni.lifecycle import is_alive, open_store
from cni.netconf import WHOLE, Rail
from cni.plan import HostView, nic_of
from cni.spec import Json
from cni.store import Store
from host.errors import HostError
from host.netlink import Route

__all__ = ["status"]


def status(raw: Json, version: str) -> None:
    """Silence, or CniError 50 saying for each rail why it is not usable."""
    conf = netconf.parse(raw, version)
    try:
        store = open_store(conf.state_dir, create=True)
        assert store is not None  # noqa: S101 - create=True
    except HostError as error:
        raise CniError(Code.UNAVAILABLE, "rails cannot be attached", str(error)) from error
    with store, Route() as host:
        view = gather.host_view(host, conf.rails)
        reasons = [_reason(rail, view, store) for rail in conf.rails]
    if all(reasons):
        raise CniError(Code.UNAVAILABLE, "no rail of this node is usable", "; ".join(reasons))


def _reason(rail: Rail, view: HostView, store: Store) -> str:
    """Why a rail is not usable; empty when it is. In the hands of a live pod it is."""
    device = nic_of(rail, view)
    if rail.pf:
        return "" if view.pools.get(rail.pf) else f"{rail.name}: {rail.pf} has no virtual functions"
    if device is None:
        owned = any(exclusive and is_alive(owner) for owner, exclusive in store.claimants(rail.nic))
        return "" if owned else f"{rail.name}: NIC {rail.nic} does not exist"
    if rail.mode not in WHOLE and not (device.up and device.carrier):
        return f"{rail.name}: NIC {device.name} is {'without carrier' if device.up else 'down'}"
    return ""
