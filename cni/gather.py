"""Reads the host and a pod into values; decides nothing."""

from __future__ import annotations

from collections.abc import Iterable

from cni.plan import HostView
from cni.steps import AddAddress, SetSysctl, Step
from cni.verify import PodView
from host import addr, link, netns, route, rule, sysctl
from host.errors import HostError
from host.inet import AF_INET, AF_INET6
from host.netlink import Route

__all__ = ["host_view", "pod_view"]


def host_view(connection: Route) -> HostView:
    """The namespace that the plugin runs in."""
    defaults = [
        device
        for family in (AF_INET, AF_INET6)
        for each in route.routes(connection, family)
        if each.destination == "default" and each.table == route.MAIN
        for device in (each.device, *each.legs)
        if device
    ]
    return HostView(link.devices(connection), addr.addresses(connection), frozenset(defaults))


def pod_view(connection: Route, pod: netns.Netns, steps: Iterable[Step]) -> PodView:
    """What ``steps`` may have touched in a pod's namespace; ``connection`` is a socket of that namespace."""
    steps = tuple(steps)
    version6 = any(isinstance(step, AddAddress) and ":" in step.prefix for step in steps)
    families = (AF_INET, AF_INET6) if version6 else (AF_INET,)
    return PodView(
        devices=link.devices(connection),
        addresses=addr.addresses(connection),
        routes=tuple(each for family in families for each in route.routes(connection, family)),
        rules=tuple(each for family in families for each in rule.rules(connection, family)),
        sysctls=_sysctls(pod, [step for step in steps if isinstance(step, SetSysctl)]),
    )


def _sysctls(pod: netns.Netns, wanted: list[SetSysctl]) -> dict[tuple[str, str, str], str]:
    if not wanted:
        return {}
    values = {}
    with netns.inside(pod):
        for step in wanted:
            try:
                value = sysctl.read("net", step.family, "conf", step.rail, step.key)
            except HostError:
                value = "missing"
            values[step.family, step.rail, step.key] = value
    return values
