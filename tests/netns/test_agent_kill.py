"""SIGKILL of the agent, of the plugin, of both, at any step of a request: the plugin's answer is right all the same."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from cni import apply
from tests.netns.agents import Agent, program, running, served, text
from tests.netns.faults import POINTS_ADD, POINTS_DEL, POINTS_RESTORE, Point, single
from tests.netns.support import EMPTY, added, call, deleted, difference, need, rows
from tests.netns.test_kill_process import start
from tests.world import Host, World


def worker_alone() -> None:
    """The process that does the work."""
    os.kill(os.getpid(), signal.SIGKILL)


def whole_agent() -> None:
    """All of its processes at once."""
    os.killpg(os.getpgid(0), signal.SIGKILL)


def dying(point: Point, number: Path, victim: Callable[[], None]) -> Callable[[], Any]:
    """In the agent: whoever does the n-th call of ``point`` in its life kills; n is read from a file each time."""

    @contextmanager
    def broken() -> Iterator[None]:
        real = getattr(point.owner, point.name)
        calls = 0

        def deadly(*args: Any, **more: Any) -> Any:
            nonlocal calls
            calls += 1
            hit = calls == int(number.read_text())
            if hit and not point.after:
                victim()
            result = real(*args, **more)
            if hit:
                victim()
            return result

        with patch.object(point.owner, point.name, deadly), patch.object(apply, "batches", single):
            yield

    return broken


class Scene:
    """A host with a mortal agent, and a pod."""

    def __init__(self, world: World, mode: str, point: Point, victim: Callable[[], None]) -> None:
        need(mode)
        self.host = world.host()
        self.pod = world.ns("pod")
        self.number = world.folder / "at"
        self.number.write_text("0")
        self.agent = Agent(self.host)
        self.broken = dying(point, self.number, victim)
        self.conf = self.agent.conf(self.host.conf(mode=mode))
        self.before = self.host.ns.snapshot(), self.pod.snapshot()

    def dies(self, verb: str, at: int) -> bool:
        """Whether the agent died of a plugin's call, which must succeed all the same."""
        self.number.write_text(str(at))
        if not self.agent.pid:
            self.agent.fork(self.broken)
        lost = self._lost()
        answer = self.host.call(verb, self.conf, "c1", self.pod, program=(*program("compiled"), "--trace"))
        died = not served(answer.stderr)
        if died and self._lost() < 0:
            self.agent.wait()
        else:
            assert died == (self._lost() > lost), answer
        assert answer.code == 0, answer
        return died

    def _lost(self) -> int:
        told = self.agent.status()
        return -1 if told is None else int(told["workers_lost"])

    def attached(self) -> str:
        """What is wrong with the attachment; empty for nothing."""
        found = rows(self.host)
        if len(found["attachments"]) != 1 or len(found["leases"]) != 2:
            return str(found)
        answer = call(self.host, "ADD", self.conf, netns=self.pod)  # repeated: the same result, if all is in place
        check = call(self.host, "CHECK", {**self.conf, "prevResult": answer.body}, netns=self.pod)
        return "" if check.code == 0 else str(check.body)

    def leftovers(self) -> str:
        """What is left of it after its DEL."""
        lines = [
            difference(self.before[0], self.host.ns.snapshot()),
            difference(self.before[1], self.pod.snapshot()),
            *(f"state: {name} {left}" for name, left in rows(self.host).items() if left),
        ]
        return "\n".join(line for line in lines if line)


def scene_of(world: World, mode: str, point: Point, victim: Callable[[], None]) -> Iterator[Scene]:
    made = Scene(world, mode, point, victim)
    try:
        yield made
    finally:
        made.agent.close()


KILLS = [
    *[pytest.param("macvlan", point, worker_alone, id=f"macvlan, worker {point}") for point in POINTS_ADD],
    pytest.param("host-device", POINTS_ADD[0], worker_alone, id=f"host-device, worker {POINTS_ADD[0]}"),
    pytest.param("macvlan", POINTS_ADD[1], whole_agent, id=f"macvlan, agent {POINTS_ADD[1]}"),
]


@pytest.mark.parametrize(("mode", "point", "victim"), KILLS)
def test_an_agent_killed_at_any_step_of_an_add(
    world: World, mode: str, point: Point, victim: Callable[[], None]
) -> None:
    for scene in scene_of(world, mode, point, victim):
        deaths = 0
        for at in range(1, 60):
            died = scene.dies("ADD", at)
            assert not scene.attached(), f"{point} {at}"
            deleted(scene.host, scene.conf, netns=scene.pod)
            assert not scene.leftovers(), f"{point} {at}"
            if not died:
                break
            deaths += 1
        assert deaths > 0


KILLS_DEL = [
    *[
        pytest.param("macvlan", point, worker_alone, id=f"macvlan, worker {point}")
        for point in POINTS_DEL
        if point not in POINTS_RESTORE
    ],
    *[pytest.param("host-device", point, worker_alone, id=f"host-device, worker {point}") for point in POINTS_RESTORE],
    pytest.param("macvlan", POINTS_DEL[-1], whole_agent, id=f"macvlan, agent {POINTS_DEL[-1]}"),
]


@pytest.mark.parametrize(("mode", "point", "victim"), KILLS_DEL)
def test_an_agent_killed_at_any_step_of_a_del(
    world: World, mode: str, point: Point, victim: Callable[[], None]
) -> None:
    for scene in scene_of(world, mode, point, victim):
        deaths = 0
        for at in range(1, 60):
            added(scene.host, scene.conf, netns=scene.pod)
            died = scene.dies("DEL", at)
            assert not scene.leftovers(), f"{point} {at}"
            if not died:
                break
            deaths += 1
        assert deaths > 0


@pytest.mark.parametrize("verb", ["ADD", "DEL"])
@pytest.mark.parametrize("longest", [0.004, 0.012, 0.04])
def test_a_plugin_killed_mid_request_is_put_right_by_del(world: World, host: Host, verb: str, longest: float) -> None:
    """Whether the agent had not begun, was at it, or had ended."""
    with running(host) as agent:
        pod = world.ns("pod")
        before = host.ns.snapshot(), pod.snapshot()
        conf = agent.conf(host.conf())
        chance = random.Random(f"{verb} {longest}")
        delete = partial(host.call, "DEL", conf, "c1", pod, program=program("compiled"))
        for number in range(12):
            if verb == "DEL":
                added(host, conf, netns=pod)
            process = start(host, verb, text(conf), pod, program("compiled"))
            time.sleep(chance.uniform(0, longest))
            process.kill()
            process.wait(timeout=10)
            assert delete().code == 0
            time.sleep(0.03)  # an agent that had not begun must not begin now
            assert not difference(before[0], host.ns.snapshot()), number
            assert not difference(before[1], pod.snapshot()), number
            assert rows(host) == EMPTY, number
        told = agent.status()
        assert told is not None
        assert told["workers_lost"] == 0


def test_plugin_and_agent_killed_together_are_put_right_by_a_plugin_alone(world: World, host: Host) -> None:
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    chance = random.Random(9)
    for verb in ("ADD", "DEL") * 4:
        with running(host) as agent:
            conf = agent.conf(host.conf())
            if verb == "DEL":
                added(host, conf, netns=pod)
            process = start(host, verb, text(conf), pod, program("compiled"))
            time.sleep(chance.uniform(0, 0.02))
            for pid in (*agent.children(), agent.pid, process.pid):
                os.kill(pid, signal.SIGKILL)
            process.wait(timeout=10)
            answer = host.call("DEL", conf, "c1", pod, program=program("compiled"))
        assert answer.code == 0, answer
        assert not difference(before[0], host.ns.snapshot())
        assert not difference(before[1], pod.snapshot())
        assert rows(host) == EMPTY
