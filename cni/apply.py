"""Does the steps, in the order given, on a real kernel. Decides nothing but how a step is said in netlink.

Steps that follow one another on one socket travel in one system call; the journal is told before each such batch.
A batch is one ``send``: the kernel works it off before the call returns, so a killed plugin leaves whole batches.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from cni.homecoming import Homecoming, find
from cni.steps import (
    AddAddress,
    AddRoute,
    AddRule,
    AwaitGid,
    BindVf,
    Bring,
    CreateLink,
    DeleteGroup,
    DeleteRule,
    MoveLink,
    MoveRdma,
    ReleaseVf,
    RestoreDriver,
    RestoreLink,
    RestoreRdma,
    RestoreVf,
    SetConf,
    SetSysctl,
    SetVf,
    Step,
    UnbindVf,
)
from host import addr, link, linkgroup, route, rule, sysctl
from host.errors import HostError
from host.netlink import Request
from host.netlink import Route as Socket
from host.netns import Netns, inside

__all__ = ["Kernel", "attach", "batches", "detach"]

_GONE = (errno.ENOENT, errno.ENODEV, errno.ESRCH, errno.EADDRNOTAVAIL)
_GID_WAIT = 2.0  # seconds; the kernel fills the GID table from a work queue, usually within milliseconds
_POLL = 0.05

_HOST_SIDE = (CreateLink, MoveLink)
_POD_SIDE = (SetConf, AddAddress, Bring, AddRoute, AddRule)


def attach(steps: Sequence[Step], kernel: Kernel, journal: Callable[[int], None]) -> None:
    """Do all; ``journal(n)`` before a batch says that the first n steps are begun. Raises the first refusal."""
    begun = 0
    for batch in batches(steps):
        begun += len(batch)
        journal(begun)
        kernel.run(batch)


def detach(steps: Sequence[Step], kernel: Kernel) -> list[HostError]:
    """Do undo steps, past errors; the errors in order."""
    errors = []
    for batch in batches(steps):
        try:
            kernel.run(batch)
        except HostError as error:
            errors.append(error)
    return errors


def batches(steps: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """Neighbouring steps that travel together."""
    for _, group in groupby(steps, _channel):
        yield tuple(group)


def _channel(step: Step) -> str:
    if isinstance(step, _HOST_SIDE):
        return "host"
    return "pod" if isinstance(step, _POD_SIDE) else type(step).__name__


class Kernel:
    """The two namespaces of an attachment. ``pod`` is None when the pod's namespace is gone."""

    def __init__(self, host: Socket, pod: Netns | None) -> None:
        self.host = host
        self.pod = pod
        self._pod_socket: Socket | None = None
        self._indexes: dict[str, int] = {}
        self._bound_again: set[str] = set()

    def close(self) -> None:
        """Close the pod's socket; the host's belongs to the caller."""
        if self._pod_socket is not None:
            self._pod_socket.close()
            self._pod_socket = None

    def socket(self) -> Socket:
        """A netlink socket in the pod's namespace."""
        assert self.pod is not None  # noqa: S101 - callers have checked
        if self._pod_socket is None:
            with inside(self.pod):
                self._pod_socket = Socket()
        return self._pod_socket

    def run(self, batch: Sequence[Step]) -> None:
        """Do steps of one channel; HostError with the first refusal."""
        match batch[0]:
            case CreateLink() | MoveLink():
                self.host.run([request for step in batch for request in self._host_requests(step)])
            case SetSysctl():
                self._write(batch)
            case DeleteRule():
                self._each_unless_gone([rule.delete(*step) for step in batch if isinstance(step, DeleteRule)])
            case DeleteGroup():
                self._delete_groups(batch)
            case MoveRdma() | RestoreRdma() | AwaitGid():
                self._run_rdma(batch)
            case SetVf() | RestoreVf() | UnbindVf() | BindVf() | ReleaseVf() | RestoreDriver():
                self._run_vf(batch)
            case RestoreLink():
                pod = self.socket() if self.pod is not None else None
                Homecoming(self.host, pod).restore([step for step in batch if isinstance(step, RestoreLink)])
            case _:
                self._resolve()
                self.socket().run([self._pod_request(step) for step in batch])

    def _host_requests(self, step: Step) -> list[Request]:
        assert self.pod is not None  # noqa: S101 - attaching needs a pod
        if isinstance(step, CreateLink):
            return [
                link.create(
                    step.rail,
                    step.kind,
                    step.nic_index,
                    netns_fd=self.pod.fd,
                    mtu=step.mtu,
                    group=step.group,
                    mac=step.mac,
                    target=f"{step.rail} on {step.nic}",
                )
            ]
        assert isinstance(step, MoveLink)  # noqa: S101 - the host channel has two kinds
        index, altnames = self._as_it_is_now(step)
        requests = [link.move(index, step.rail, self.pod.fd, target=f"{step.nic} into the pod as {step.rail}")]
        if step.rail in altnames:  # a device cannot have one name twice
            requests.insert(0, link.remove_altnames(index, [step.rail], target=step.nic.name))
        return requests

    def _as_it_is_now(self, step: MoveLink) -> tuple[int, tuple[str, ...]]:
        """A NIC's index and alternative names on the host: its driver may have been bound again since the plan."""
        if step.nic.pci not in self._bound_again:
            return step.nic.ifindex, step.nic.altnames
        device = find(step.nic, link.devices(self.host), step.rail)
        if device is None:
            raise HostError("find", str(step.nic), errno.ENODEV, "it vanished after its driver was bound again")
        return device.ifindex, device.altnames

    def _pod_request(self, step: Step) -> Request:
        match step:
            case SetConf(rail, mtu, mac, conf4):
                index = self._index(rail)
                return link.update(index, mtu=mtu or None, mac=mac or None, conf4=conf4, target=rail)
            case AddAddress(rail, prefix):
                return addr.add(self._index(rail), prefix, target=rail)
            case Bring(rail):
                return link.update(self._index(rail), up=True, target=rail)
            case AddRoute(rail, destination, gateway, table, source):
                index = self._index(rail)
                return route.add(index, destination, table=table, gateway=gateway, source=source, target=rail)
            case AddRule(source, table, priority):
                return rule.add(source, table, priority)
        raise AssertionError(f"not a step of the pod's socket: {step}")

    def _write(self, batch: Sequence[Step]) -> None:
        assert self.pod is not None  # noqa: S101 - attaching needs a pod
        with inside(self.pod):
            for step in batch:
                if isinstance(step, SetSysctl):
                    sysctl.write(step.value, "net", step.family, "conf", step.rail, step.key)

    def _run_vf(self, batch: Sequence[Step]) -> None:
        if not isinstance(batch[0], SetVf | RestoreVf):
            self._run_driver(batch)
            return
        from cni.vf import restore_vf, set_vf  # only for rails with a VF

        for step in batch:
            if isinstance(step, SetVf):
                set_vf(step, self.host)
            elif isinstance(step, RestoreVf):
                restore_vf(step, self.host)

    def _run_driver(self, batch: Sequence[Step]) -> None:
        from cni.binding import bind_vf, release_vf, restore_driver, unbind_vf  # only for VFs that lack a node GUID

        for step in batch:
            if isinstance(step, UnbindVf):
                unbind_vf(step)
            elif isinstance(step, BindVf):
                self._bound_again.add(step.pci)
                bind_vf(step, self.host)
            elif isinstance(step, ReleaseVf):
                release_vf(step)
            elif isinstance(step, RestoreDriver):
                restore_driver(step, self.host)

    def _run_rdma(self, batch: Sequence[Step]) -> None:
        from cni.rdma import RdmaMover  # only where there is RDMA

        mover = RdmaMover(self.pod)
        mover.enter([step for step in batch if isinstance(step, MoveRdma)])
        mover.leave([step for step in batch if isinstance(step, RestoreRdma)])
        self._await_gids([step for step in batch if isinstance(step, AwaitGid)])

    def _await_gids(self, steps: Sequence[AwaitGid]) -> None:
        if not steps or self.pod is None:
            return
        from cni.gather import gids

        deadline = time.monotonic() + _GID_WAIT
        while True:
            found = gids(self.pod, steps)
            absent = [step for step in steps if (step.device, step.address) not in found]
            if not absent:
                return
            if time.monotonic() >= deadline:
                raise HostError(
                    "await the RoCE v2 GID of", f"{absent[0].address} on {absent[0].device}", errno.ETIMEDOUT
                )
            time.sleep(_POLL)

    def _resolve(self) -> None:
        """Names to indexes, once: the links of an attachment exist before anything is done to them."""
        if not self._indexes:
            self._indexes = {device.name: device.ifindex for device in link.devices(self.socket())}

    def _index(self, rail: str) -> int:
        try:
            return self._indexes[rail]
        except KeyError:
            raise HostError("find", rail, errno.ENODEV, "the interface vanished from the pod") from None

    def _delete_groups(self, batch: Sequence[Step]) -> None:
        assert self.pod is not None  # noqa: S101 - with the namespace its links are gone
        for step in batch:
            if isinstance(step, DeleteGroup):
                error = linkgroup.delete(self.pod, self.socket(), step.group)
                if error is not None and error.errno not in _GONE:
                    raise error

    def _each_unless_gone(self, requests: Sequence[Request]) -> None:
        errors = [error for error in self.socket().each(requests) if error is not None and error.errno not in _GONE]
        if errors:
            raise errors[0]
