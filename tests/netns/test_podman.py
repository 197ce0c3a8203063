"""podman, a real runtime, calls roceway-cni chained after Debian's ``bridge``."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from cni.install import launcher
from tests.demo import podman, proof, render
from tests.demo.caller import Pod
from tests.demo.podman import Podman
from tests.demo.process import CommandError
from tests.world import Host, World

RAILS = 8
MANAGEMENT = "10.199.0.0/16"

_REASON = podman.problem()

pytestmark = [pytest.mark.podman, pytest.mark.skipif(bool(_REASON), reason=_REASON or "podman can be the caller")]


class Node(NamedTuple):
    """A host with podman on it."""

    host: Host
    runtime: Podman

    def snapshot(self) -> str:
        """All that a container could leave behind."""
        namespaces = frozenset(pod.inode for pod in self.runtime.pods)
        return proof.snapshot("host", self.host.ns, self.host.state, self.runtime, namespaces)


@pytest.fixture
def nodes() -> Iterator[tuple[Node, Node]]:
    """Two hosts with eight rails."""
    with World(rails=RAILS) as world:
        made = []
        try:
            for _ in range(2):
                made.append(node(world))
            yield made[0], made[1]
        finally:
            for each in made:
                each.runtime.close()


def node(world: World) -> Node:
    """A further host."""
    host = world.host()
    # A bridge without an address of its own takes one from its ports, and would not be as before without them.
    host.ns.ip("link", "add", "cni0", "address", f"02:00:00:00:00:{host.number:02x}", "type", "bridge")
    host.ns.ip("link", "set", "cni0", "up")
    folder = world.folder / f"podman{host.number}"
    plugins = folder / "bin"
    runtime = Podman(f"{world.tag}-host{host.number}", host.ns.path, folder, [plugins])
    plugins.mkdir()
    (plugins / "roceway-cni").write_text(launcher())
    (plugins / "roceway-cni").chmod(0o755)
    configure(world, Node(host, runtime), host.conf(version="1.0.0"))
    return Node(host, runtime)


def configure(world: World, node: Node, plugin: dict[str, object]) -> None:
    """Chain a plugin's configuration after the bridge."""
    first, last = (f"10.199.{node.host.number}.{byte}" for byte in (10, 250))
    text = render.primary(world.tag, MANAGEMENT, first, last, node.runtime.folder / "host-local")
    conflist = json.loads(text)
    conflist["plugins"].append({key: value for key, value in plugin.items() if key not in ("name", "cniVersion")})
    node.runtime.configure(world.tag, json.dumps(conflist))


def address(node: Node, pod: Pod, rail: int) -> str:
    """A container's address on a rail, as the container sees it."""
    (seen,) = json.loads(node.runtime.exec(pod, "ip", "-json", "-4", "address", "show", "dev", f"rail{rail}"))
    (info,) = seen["addr_info"]
    return str(info["local"])


def test_a_container_has_eight_rails_and_reaches_another_on_each(nodes: tuple[Node, Node]) -> None:
    one, other = nodes
    before = [each.snapshot() for each in nodes]
    here, there = one.runtime.start("here"), other.runtime.start("there")

    links = one.runtime.exec(here, "ls", "/sys/class/net").split()
    assert sorted(links) == ["eth0", "lo", *(f"rail{rail}" for rail in range(RAILS))]
    for rail in range(RAILS):
        target = address(other, there, rail)
        assert target.startswith(f"10.{200 + rail}.0.")
        one.runtime.exec(here, "ping", "-c", "1", "-W", "2", "-I", f"rail{rail}", target)
    assert [each.snapshot() for each in nodes] != before

    one.runtime.stop(here)
    other.runtime.stop(there)
    assert [each.snapshot() for each in nodes] == before


def test_a_rail_that_fails_fails_the_container_and_leaves_nothing(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    before = node.snapshot()
    broken = node.host.conf(version="1.0.0")
    broken["rails"][5]["netdev"] = "nic55"
    configure(node.host.world, node, broken)
    with pytest.raises(CommandError, match="rail rail5: NIC nic55 does not exist on this host"):
        node.runtime.start("broken")
    node.runtime.close()  # podman keeps a record of the container, but nothing of its network
    assert node.snapshot() == before


def test_a_killed_container_is_detached_when_it_is_removed(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    before = node.snapshot()
    pod = node.runtime.start("killed")
    os.kill(pod.pid, signal.SIGKILL)
    node.runtime.stop(pod)
    assert node.snapshot() == before


def test_two_containers_of_a_host_have_addresses_of_their_own(nodes: tuple[Node, Node]) -> None:
    node, _ = nodes
    pods = [node.runtime.start(name) for name in ("first", "second")]
    assert len({address(node, pod, rail) for pod in pods for rail in range(RAILS)}) == 2 * RAILS
    node.runtime.stop(pods[0])
    assert address(node, pods[1], 0)


def test_podman_of_the_machine_is_left_alone(nodes: tuple[Node, Node]) -> None:
    places = [Path(path) for path in ("/var/lib/containers", "/run/containers", "/run/libpod", "/dev/shm/libpod_lock")]

    def seen() -> dict[str, int]:
        files = [path for place in places if place.exists() for path in (place, *place.rglob("*"))]
        return {str(path): path.lstat().st_mtime_ns for path in files}

    before = seen()
    nodes[0].runtime.start("apart")
    assert seen() == before
