"""Deleting all links of a group at once: RTM_DELLINK with IFLA_GROUP, one grace period for all of them.

A plugin's process waits for the grace period; a process that lives on need not (:mod:`host.grace`).
"""

from __future__ import annotations

from collections.abc import Callable

from host import link
from host.errors import HostError
from host.netlink import Route
from host.netns import Netns

__all__ = ["answer_early", "delete"]

_early: Callable[[Netns, Route, int], HostError | None] | None = None


def answer_early() -> None:
    """From now on :func:`delete` in this process returns when the links are gone, before their memory is."""
    global _early
    from host import grace  # threads and their imports are not for a plugin that lives for milliseconds

    _early = grace.delete


def delete(pod: Netns, connection: Route, group: int) -> HostError | None:
    """Delete the links of ``group`` in ``pod``, of which ``connection`` is a socket; the kernel's refusal, if any.

    ENODEV: there was none.
    """
    if _early is not None:
        return _early(pod, connection, group)
    return connection.each([link.delete_group(group)])[0]
