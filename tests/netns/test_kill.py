"""SIGKILL between any two steps: whatever instant the plugin dies at, one later call puts everything right."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from tests.netns.faults import POINTS_ADD, POINTS_DEL, POINTS_RESTORE, Point, killing
from tests.netns.support import EMPTY, MODES, added, call, collected, deleted, difference, in_child, need, rows
from tests.world import Host, Ns, World


class Scene:
    """A host, a pod, and how both looked before."""

    def __init__(self, world: World, mode: str) -> None:
        self.host: Host = world.host()
        self.pod: Ns = world.ns("pod")
        self.mode = mode
        self.conf = self.host.conf(mode=mode)
        self.conf["rails"][1]["ipam"] = {"ranges": [{"subnet": "fd00:201::/64", "gateway": "fd00:201::1"}]}
        self.before = self.host.ns.snapshot(), self.pod.snapshot()

    def dies(self, command: str, point: Point, at: int) -> bool:
        """Whether ``command`` reached the point and died there; otherwise it ended well."""

        def work() -> None:
            with killing(point, at):
                assert call(self.host, command, self.conf, netns=self.pod).code == 0

        status = in_child(work)
        assert status in (0, -signal.SIGKILL), f"{command} {point} {at}: child ended with {status}"
        return status != 0

    def leftovers(self) -> str:
        """How host, pod and state differ from before; empty when they do not."""
        lines = [
            difference(self.before[0], self.host.ns.snapshot()),
            difference(self.before[1], self.pod.snapshot()),
            *(f"state: {name} {left}" for name, left in rows(self.host).items() if left),
        ]
        return "\n".join(line for line in lines if line)

    def recover(self, how: str) -> str:
        """Put right by ``how`` alone; what it failed to do."""
        if how == "GC":
            answer = collected(self.host, self.conf)
        elif how == "ADD":
            answer = call(self.host, "ADD", self.conf, netns=self.pod)
            if answer.code == 0:
                again = call(self.host, "CHECK", {**self.conf, "prevResult": answer.body}, netns=self.pod)
                answer = again if again.code else call(self.host, "DEL", self.conf, netns=self.pod)
        else:
            answer = call(self.host, "DEL", self.conf, netns=self.pod)
        return f"{how}: {answer.body}" if answer.code else self.leftovers()


@pytest.fixture(params=MODES)
def scene(world: World, request: pytest.FixtureRequest) -> Scene:
    need(request.param)
    return Scene(world, request.param)


def deaths(scene: Scene, command: str, point: Point) -> Iterator[int]:
    """Die at the first, second, … call of the point, as long as there is one."""
    at = 1
    while scene.dies(command, point, at):
        yield at
        at += 1
    assert at > 1, f"{command} never came to the point {point}"


def every_way(points: Iterable[Point]) -> list[Any]:
    """Each point with DEL; the steps themselves also with GC and with a repeated ADD."""
    ways = [(point, how) for point in points for how in (("DEL", "GC", "ADD") if point.name == "run" else ("DEL",))]
    return [pytest.param(point, how, id=f"{point}, then {how}") for point, how in ways]


@pytest.mark.parametrize(("point", "how"), every_way(POINTS_ADD))
def test_a_killed_add_is_put_right_by_one_call(scene: Scene, point: Point, how: str) -> None:
    for at in deaths(scene, "ADD", point):
        wrong = scene.recover(how)
        assert not wrong, f"killed {point} {at}:\n{wrong}"
    deleted(scene.host, scene.conf, netns=scene.pod)
    assert rows(scene.host) == EMPTY


@pytest.mark.parametrize(("point", "how"), every_way(POINTS_DEL))
def test_a_killed_del_is_put_right_by_one_call(scene: Scene, point: Point, how: str) -> None:
    if point in POINTS_RESTORE and scene.mode != "host-device":
        return
    added(scene.host, scene.conf, netns=scene.pod)
    for at in deaths(scene, "DEL", point):
        wrong = scene.recover(how)
        assert not wrong, f"killed {point} {at}:\n{wrong}"
        added(scene.host, scene.conf, netns=scene.pod)
    assert scene.leftovers() == ""


def test_a_killed_add_holds_its_addresses_until_it_is_cleaned_up(world: World) -> None:
    scene = Scene(world, "macvlan")
    point = POINTS_ADD[0]
    assert scene.dies("ADD", point, 3)
    other = added(scene.host, scene.conf, "c2", world.ns("pod2"))
    held = {prefix for _, prefix in rows(scene.host)["leases"]}
    assert len(held) == 4
    assert {ip["address"] for ip in other["ips"]} < held
