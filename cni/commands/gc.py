"""GC: free every attachment of this network that the runtime no longer lists."""

from __future__ import annotations

from cni.errors import CniError, Code
from cni.lifecycle import lock_names, open_store, release
from cni.spec import Call, Json, state_dir
from conf.errors import ConfigError, Finding
from host.errors import Busy, HostError
from host.lock import hold
from host.netlink import Route

__all__ = ["VALID", "collect"]

VALID = "cni.dev/valid-attachments"
_LOCK_TIMEOUT = 5.0  # CRI-O gives the whole GC 30 s


def collect(call: Call, raw: Json) -> None:
    """Goes on past failures and reports them together. Without the list nothing is freed; with an empty one, all."""
    valid = _valid(raw)
    if valid is None:
        return
    store = open_store(state_dir(raw), create=False)
    if store is None:
        return
    failures: list[str] = []
    with store, Route() as host:
        for attachment in store.attachments(str(raw.get("name", ""))):
            if attachment.key[1:] in valid:
                continue
            try:
                with hold(store.lock_path, lock_names(attachment.key), _LOCK_TIMEOUT):
                    call.still_wanted()
                    fresh = store.get(attachment.id)
                    errors: list[HostError | Busy] = [*(release(store, fresh, host) if fresh else [])]
            except (HostError, Busy) as error:
                errors = [error]
            failures += [f"{attachment.key.container_id}: {error}" for error in errors]
    if failures:
        raise CniError(Code.IO, f"{len(failures)} failures while collecting", "; ".join(failures))


def _valid(raw: Json) -> set[tuple[str, str]] | None:
    if VALID not in raw or raw[VALID] is None:
        return None
    listed = raw[VALID]
    if not isinstance(listed, list) or not all(
        isinstance(each, dict) and isinstance(each.get("containerID"), str) and isinstance(each.get("ifname"), str)
        for each in listed
    ):
        raise ConfigError("network configuration", [Finding(VALID, "must be a list of {containerID, ifname}")])
    return {(each["containerID"], each["ifname"]) for each in listed}
