"""ADD: every rail of a pod in one invocation, or none."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from cni import apply, deviceinfo, gather, netconf
from cni.decision import Decision, decide
from cni.errors import CniError, Code
from cni.group import group_of
from cni.ipam import Pool, next_free, pools, size
from cni.lifecycle import (
    LOCK_TIMEOUT,
    device_names,
    is_alive,
    lock_names,
    moved_nics,
    nic_locks,
    open_store,
    release,
    sweep,
)
from cni.netconf import WHOLE, NetConf, Rail
from cni.plan import HostView, Lease, choose_vf, nic_of, plan, problems
from cni.podrails import described, told
from cni.selection import parse_device_id
from cni.spec import Call, Interface, Ip, Json, chain
from cni.steps import AddAddress, CreateLink, MoveLink, Step
from cni.store import ATTACHED, Attachment, Key, LeaseRow, Store
from cni.verify import PodView, differences, is_carrier
from conf.errors import ConfigError, Finding
from host import link
from host.errors import Busy, HostError
from host.link import NetDev
from host.lock import hold
from host.netlink import Route
from host.netns import Netns, own

__all__ = ["add", "open_pod"]

_SHARED, _EXCLUSIVE = "shares", "has"


def add(call: Call, raw: Json, version: str) -> Json:
    """Attach the pod; the result for the runtime."""
    conf = netconf.parse(raw, version)
    decision = decide(conf, call.args, lambda: _places(conf.state_dir))
    if not decision.rails:
        return chain(version, conf.previous, (), ())
    pod = open_pod(call)
    try:
        _refuse_overlap_with_primary(decision.rails, conf.previous)
        store = open_store(conf.state_dir, create=True)
        assert store is not None  # noqa: S101 - create=True
        with store, Route() as host:
            return _Addition(call, conf, decision.rails, decision, pod, store, host).run()
    finally:
        pod.close()


def _places(folder: str) -> Mapping[str, str]:
    """PCI addresses of NICs by the name that rails call them, as attachments have seen them before they took them."""
    store = open_store(folder, create=False)
    if store is None:
        return {}
    with store:
        rails = [rail for each in store.attachments() for rail in each.details.get("rails", [])]
    return {rail["nic"]: rail["pci"] for rail in rails if rail.get("pci")}


def open_pod(call: Call) -> Netns:
    """The pod's namespace; CniError code 8 if it is none, or the plugin's own."""
    try:
        pod = Netns.open(call.netns)
    except HostError as error:
        raise CniError(Code.NETNS, f"CNI_NETNS: {error}", "the pod's sandbox may be gone") from error
    home = own()
    home.close()
    if pod.identity == home.identity and not call.netns_override:
        pod.close()
        raise CniError(
            Code.NETNS,
            f"CNI_NETNS {call.netns} is the plugin's own network namespace",
            "set CNI_NETNS_OVERRIDE=true if that is meant",
        )
    return pod


def _refuse_overlap_with_primary(rails: Sequence[Rail], previous: Json | None) -> None:
    """A rail's subnet that covers the pod's primary address would take eth0's traffic."""
    findings = []
    for ip in (previous or {}).get("ips") or []:
        try:
            primary = ipaddress.ip_interface(ip["address"]).network
        except (KeyError, TypeError, ValueError):
            continue  # not ours to judge
        findings += [
            Finding(f"rail {rail.name}", f"subnet {each.subnet} overlaps the pod's primary network {primary}")
            for rail in rails
            for each in rail.ranges
            if each.family == primary.version and ipaddress.ip_network(each.subnet).overlaps(primary)
        ]
    if findings:
        raise ConfigError("network configuration", findings)


def _unlike(steps: Sequence[Step], seen: PodView) -> list[str]:
    """Differences that are the attachment's fault.

    A NIC without a carrier is attached all the same: the switch port may come up later, and CHECK says so.
    """
    return [line for line in differences(steps, seen) if not is_carrier(line)]


class _Addition(NamedTuple):
    """One ADD under way: what all of its parts need to know."""

    call: Call
    conf: NetConf
    rails: tuple[Rail, ...]
    decision: Decision
    pod: Netns
    store: Store
    host: Route

    @property
    def key(self) -> Key:
        return Key(self.conf.name, self.call.container_id, self.call.ifname)

    def run(self) -> Json:
        sweep(self.store, self.host)
        with hold(self.store.lock_path, lock_names(self.key), LOCK_TIMEOUT):
            self.call.still_wanted()
            kernel = apply.Kernel(self.host, self.pod)
            try:
                return self._attach(kernel)
            finally:
                kernel.close()

    def _attach(self, kernel: apply.Kernel) -> Json:
        earlier = self.store.find(self.key)
        preferred: Mapping[tuple[str, int], str] = {}
        if earlier is not None:
            finished = self._already(earlier, kernel)
            if finished is not None:
                return finished
            preferred = {(row.rail, row.family): row.prefix for row in self.store.leases(earlier.id)}
            self._raise_first(release(self.store, earlier, self.host, self.call.netns))
        self._evict_dead_owners()
        whole = nic_locks(rail.pf or rail.nic for rail in self.rails if rail.mode in WHOLE)
        with hold(self.store.lock_path, whole, LOCK_TIMEOUT):
            return self._build(kernel, preferred)

    def _build(self, kernel: apply.Kernel, preferred: Mapping[tuple[str, int], str]) -> Json:
        view = gather.host_view(self.host, self.rails)
        taken = frozenset(device.name for device in link.devices(kernel.socket()))
        row, steps = self._journal(view, taken, preferred)
        try:
            apply.attach(steps, kernel, lambda begun: self.store.reach(row, begun))
            seen = gather.pod_view(kernel.socket(), self.pod, steps)
            self._read_back(steps, seen)
            deviceinfo.write(self.device_files, steps)
            self._fill_run_dirs(row, steps, seen.devices)
        except BaseException:
            self._undo(row)
            raise
        self.store.set_state(row, ATTACHED)
        return self._result(steps, seen.devices, self.store.leases(row))

    def _already(self, earlier: Attachment, kernel: apply.Kernel) -> Json | None:
        """The same answer again for a pod that is attached as wanted: a runtime may repeat an ADD it lost sight of."""
        if earlier.state != ATTACHED or earlier.identity != self.pod.identity:
            return None
        try:
            steps = earlier.steps()
        except ValueError:
            return None
        if [step.rail for step in steps if isinstance(step, CreateLink | MoveLink)] != [
            rail.name for rail in self.rails
        ]:
            return None
        seen = gather.pod_view(kernel.socket(), self.pod, steps)
        if _unlike(steps, seen):
            return None
        return self._result(steps, seen.devices, self.store.leases(earlier.id))

    def _evict_dead_owners(self) -> None:
        """A NIC whose owner's namespace is gone is free: put it back in order now, whatever the sweep's patience."""
        for name in [name for rail in self.rails for name in gather.names_of(rail)]:
            for owner, exclusive in self.store.claimants(name):
                if exclusive and owner.key != self.key and not is_alive(owner):
                    with hold(self.store.lock_path, lock_names(owner.key), LOCK_TIMEOUT):
                        again = self.store.get(owner.id)
                        self._raise_first(release(self.store, again, self.host) if again else [])

    def _journal(
        self, view: HostView, taken: frozenset[str], preferred: Mapping[tuple[str, int], str]
    ) -> tuple[int, tuple[Step, ...]]:
        """Lease, plan and write it all down, in one transaction, before anything on the host changes."""
        with self.store.transaction():
            return self._replace(rails=self._with_vfs(view))._write_down(view, taken, preferred)

    def _with_vfs(self, view: HostView) -> tuple[Rail, ...]:
        """The rails, those with a pool of VFs with one of it that nobody has."""
        rails: list[Rail] = []
        for rail in self.rails:
            if not view.pools.get(rail.pf):
                rails.append(rail)  # names its NIC, or problems() says that there is no pool
                continue
            pool = view.pools[rail.pf]
            held = {address for address in pool if self.store.claimants(address)} | {each.nic for each in rails}
            chosen = choose_vf(rail, view, held)
            if chosen is None:
                raise Busy(
                    f"rail {rail.name}: no VF of {rail.pf} is free: {len(held & set(pool))} of {len(pool)} are taken, "
                    "the others show no network device (see: roceway-cni state)"
                )
            rails.append(chosen)
        return tuple(rails)

    def _write_down(
        self, view: HostView, taken: frozenset[str], preferred: Mapping[tuple[str, int], str]
    ) -> tuple[int, tuple[Step, ...]]:
        """Within the transaction."""
        group = group_of(*self.key)
        numbers = {rail.name: number for number, rail in enumerate(self.conf.rails)}
        self._refuse_owned(view)
        findings = problems(self.rails, view, taken)
        if findings:
            raise ConfigError("rails on this host", findings)
        netns = os.path.abspath(self.call.netns)  # a later sweep runs in another folder
        row = self.store.insert(self.key, netns, self.pod.identity, group, (), self._details(view))
        leases = {rail.name: self._lease(rail, row, preferred) for rail in self.rails}
        steps = plan(self.rails, view, leases, group=group, table_base=self.conf.table_base, numbers=numbers)
        self.store.journal(row, steps)
        self._claim(row, view, steps)
        return row, steps

    def _refuse_owned(self, view: HostView) -> None:
        """Busy when a live pod has a NIC whole, or shares one that is wanted whole."""
        for rail in self.rails:
            device = nic_of(rail, view)
            names = {rail.nic, *((device.name, device.pci) if device else ())} - {""}
            wants_whole = rail.mode in WHOLE
            for name in sorted(names):
                for owner, exclusive in self.store.claimants(name):
                    # Alone and dead is refused as well: it died after _evict_dead_owners had looked.
                    if owner.key != self.key and (exclusive or (wants_whole and is_alive(owner))):
                        verb = _EXCLUSIVE if exclusive else _SHARED
                        raise Busy(
                            f"rail {rail.name}: NIC {rail.nic} is taken: container {owner.key.container_id} "
                            f"(network {owner.key.network}) {verb} it; try again when it has ended"
                        )

    def _claim(self, row: int, view: HostView, steps: Sequence[Step]) -> None:
        for nic in moved_nics(steps):
            for name in device_names(nic):
                self.store.claim(name, row, exclusive=True)
        for rail in self.rails:
            device = nic_of(rail, view)
            if rail.mode not in WHOLE and device is not None:
                for name in {device.name, device.pci} - {""}:
                    self.store.claim(name, row, exclusive=False)

    def _lease(self, rail: Rail, row: int, preferred: Mapping[tuple[str, int], str]) -> list[Lease]:
        leases = []
        for pool in pools(rail.ranges):
            address = self._pick(rail, pool, preferred.get((rail.name, pool.family), ""))
            each = pool.range_of(address)
            kind = ipaddress.IPv4Address if pool.family == 4 else ipaddress.IPv6Address
            prefix = f"{kind(address)}/{each.prefix_length}"
            gateway = str(kind(each.gateway)) if each.gateway is not None else ""
            self.store.lease(LeaseRow(rail.name, pool.family, prefix, each.subnet, gateway, row), address)
            leases.append(Lease(rail.name, prefix, each.subnet, gateway))
        return leases

    def _pick(self, rail: Rail, pool: Pool, preferred: str) -> int:
        held = self.store.held(pool.family)
        if preferred:
            wish = int(ipaddress.ip_interface(preferred).ip)
            if any(low <= wish <= high for low, high in pool.free) and not list(held(wish, wish)):
                return wish
        address = next_free(pool.free, self.store.last(rail.name, pool.family), held)
        if address is None:
            raise Busy(
                f"rail {rail.name}: no free IPv{pool.family} address: all {size(pool.free)} of "
                f"{', '.join(each.subnet for each in pool.ranges)} are leased "
                "(see: roceway-cni state); leases of dead pods are reclaimed within a minute"
            )
        return address

    def _details(self, view: HostView) -> Json:
        args = dict(self.call.args)
        pod = {
            name: args[f"K8S_POD_{name.upper()}"]
            for name in ("namespace", "name", "uid")
            if f"K8S_POD_{name.upper()}" in args
        }
        return {
            "pod": pod,
            "why": self.decision.why,
            "rails": described(self.rails, view, self.decision),
            "gpus": list(self.decision.gpus),
            "warnings": [str(finding) for finding in self.decision.warnings],
            "resultIPs": self.conf.result_ips,
            "deviceInfo": list(self.device_files.values()),
            "runDirs": self._run_dirs(),
        }

    def _run_dirs(self) -> dict[str, list[str]]:
        """Run directory to the rails of the container that has it; for containers that asked for rails as devices."""
        if not self.decision.containers:
            return {}
        from cni.rundir import folder_of

        return {
            folder_of(self.conf.run_dir, devices): [parse_device_id(device)[0] for device in devices]
            for _, devices in self.decision.containers
        }

    def _fill_run_dirs(self, row: int, steps: Sequence[Step], devices: Sequence[NetDev]) -> None:
        if not self.decision.containers:
            return
        from cni import rundir

        attachment = self.store.get(row)
        details = attachment.details if attachment else {}
        rails = told(details.get("rails", []), steps, self.store.leases(row), devices)
        for folder, names in details.get("runDirs", {}).items():
            own = [rail for rail in rails if rail.name in names]
            rundir.fill(folder, str(self.key), own, self.decision.gpus, self.conf.nccl)

    @property
    def device_files(self) -> dict[str, str]:
        """Where the device-info file of each rail goes, if a meta-plugin asks for any."""
        path = self.conf.runtime_config.get(deviceinfo.CAPABILITY)
        return deviceinfo.files(path, self.call.ifname, [rail.name for rail in self.rails])

    def _read_back(self, steps: Sequence[Step], seen: PodView) -> None:
        lines = _unlike(steps, seen)
        if lines:
            raise HostError("read back", "the attachment", 0, "; ".join(lines))

    def _undo(self, row: int) -> None:
        """Backwards past every further error; what could not be undone stays in the journal for DEL."""
        with suppress(HostError, Busy):  # the first cause is what the caller must hear
            attachment = self.store.get(row)
            if attachment is not None:
                release(self.store, attachment, self.host, self.call.netns, nics_held=True)

    @staticmethod
    def _raise_first(errors: Sequence[HostError]) -> None:
        if errors:
            raise errors[0]

    def _result(self, steps: Sequence[Step], devices: Sequence[NetDev], leases: Sequence[LeaseRow]) -> Json:
        by_name = {device.name: device for device in devices}
        names = [step.rail for step in steps if isinstance(step, CreateLink | MoveLink)]
        interfaces = [
            Interface(name, by_name[name].mac, self.call.netns, by_name[name].mtu, by_name[name].pci) for name in names
        ]
        gateways = {(row.rail, row.prefix): row.gateway for row in leases}
        ips = [
            Ip(step.prefix, gateways.get((step.rail, step.prefix), ""), names.index(step.rail))
            for step in steps
            if isinstance(step, AddAddress)
        ]
        return chain(self.conf.version, self.conf.previous, interfaces, ips if self.conf.result_ips else ())
