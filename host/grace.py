"""Deleting all links of a group without waiting until the kernel has freed them.

RTM_DELLINK with IFLA_GROUP (``net/core/rtnetlink.c``, ``rtnl_group_dellink``) unregisters every link of the group under
the RTNL lock: closed, out of every table, addresses and routes removed, nothing received or sent any more
(``unregister_netdevice_many`` waits for that with ``synchronize_net``). What the caller still waits for once the lock
is given back is ``netdev_run_todo``: an RCU grace period until the memory may be freed, 13 to 18 ms of 15 to 20.

Here a thread does that waiting. The caller does not believe a notification: it asks the kernel to delete the group
once more, and the answer, given under the same lock, is that there is none.
"""

from __future__ import annotations

import select
import socket
import threading

from host import link
from host.errors import HostError
from host.events import Events
from host.netlink import Request, Route
from host.netns import Netns, inside

__all__ = ["delete"]

_WAITING_MAX = 64
"""Threads that wait for grace periods; beyond that deletions wait as a plugin's own do."""
_PATIENCE = 5.0
"""Seconds for the kernel to begin; afterwards the deletion's own answer is waited for."""

_slots = threading.BoundedSemaphore(_WAITING_MAX)


def delete(pod: Netns, connection: Route, group: int) -> HostError | None:
    """Delete the links of ``group`` in ``pod``, of which ``connection`` is a socket; the kernel's refusal, if any.

    ENODEV: there was none.
    """
    request = link.delete_group(group)
    if not _slots.acquire(blocking=False):
        return connection.each([request])[0]
    deletion = _Deletion(pod, request)
    if not deletion.begins():
        return deletion.answer()
    return connection.each([request])[0]


class _Deletion:
    """One under way in a thread."""

    def __init__(self, pod: Netns, request: Request) -> None:
        try:
            with inside(pod):
                self._events, self._sender = Events(), Route()
            self._request = request
            self._error: HostError | None = None
            self._over, over = socket.socketpair()
            self._thread = threading.Thread(target=self._work, args=(over,), daemon=True)
            self._thread.start()
        except BaseException:
            _slots.release()
            raise

    def _work(self, over: socket.socket) -> None:
        try:
            with over, self._sender:
                self._error = self._sender.each([self._request])[0]
        finally:
            _slots.release()

    def begins(self) -> bool:
        """Wait until the kernel tells of a link that is gone; False when the whole deletion ended before."""
        poll = select.poll()
        poll.register(self._over, select.POLLIN)
        poll.register(self._events, select.POLLIN)
        try:
            while True:
                ready = [number for number, _ in poll.poll(1e3 * _PATIENCE)]
                if not ready or self._over.fileno() in ready:
                    return False
                if any(event.kind in ("link-gone", "lost") for event in self._events.wait(0)):
                    return True
        finally:
            self._events.close()
            self._over.close()

    def answer(self) -> HostError | None:
        """The kernel's answer, once it is there."""
        self._thread.join()
        return self._error
