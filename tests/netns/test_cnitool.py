"""cnitool, the CNI project's own caller (libcni 1.3): roceway-cni chained after Debian's ``bridge``, and alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from cni.install import launcher
from tests.demo import cnitool, proof, render
from tests.demo.cnitool import Cnitool
from tests.demo.process import CommandError
from tests.world import Host, Ns, World

RAILS = 8
NAMES = [f"rail{rail}" for rail in range(RAILS)]

_REASON = cnitool.problem()

pytestmark = pytest.mark.skipif(bool(_REASON), reason=_REASON or "cnitool can be the caller")


@pytest.fixture
def world() -> Iterator[World]:
    """A fabric of eight rails."""
    with World(rails=RAILS) as made:
        yield made


@pytest.fixture
def tool(world: World, host: Host) -> Iterator[Cnitool]:
    """cnitool on the first host."""
    try:
        cnitool.build()
    except CommandError as error:
        pytest.skip(f"cnitool cannot be built: {error}")
    plugins = world.folder / "plugins"
    plugins.mkdir()
    (plugins / "roceway-cni").write_text(launcher())
    (plugins / "roceway-cni").chmod(0o755)
    made = Cnitool(f"{world.tag}-tool", host.ns.path, world.folder / "cnitool", [plugins])
    yield made
    made.close()


def chained(tool: Cnitool, host: Host, result_ips: str = "none") -> None:
    """Configure ours after Debian's bridge, which speaks up to 1.0.0."""
    host.ns.ip("link", "add", "cni0", "address", "02:00:00:00:00:01", "type", "bridge")
    host.ns.ip("link", "set", "cni0", "up")
    network = host.world.tag
    addresses = ("10.199.0.0/24", "10.199.0.10", "10.199.0.250")
    conflist = json.loads(render.primary(network, *addresses, tool.folder / "host-local"))
    conflist["plugins"].append(entry(host) | {"resultIPs": result_ips})
    tool.configure(network, json.dumps(conflist))


def alone(tool: Cnitool, host: Host) -> None:
    """Configure ours as the only plugin, in the newest version."""
    network = host.world.tag
    tool.configure(network, json.dumps({"cniVersion": "1.1.0", "name": network, "plugins": [entry(host)]}))


def entry(host: Host) -> dict[str, object]:
    """The plugin's entry in a conflist."""
    return {key: value for key, value in host.conf().items() if key not in ("name", "cniVersion")}


def snapshot(tool: Cnitool, host: Host, pod: Ns) -> str:
    """All that an attachment changes."""
    return proof.snapshot("host", host.ns, host.state, tool, frozenset()) + pod.snapshot()


def links(pod: Ns) -> list[str]:
    """The interfaces of a pod."""
    return [each["ifname"] for each in pod.json("link", "show")]


def test_chained_after_bridge_add_check_del(world: World, host: Host, tool: Cnitool) -> None:
    chained(tool, host)
    pod = world.ns("pod")
    before = snapshot(tool, host, pod)

    result = json.loads(tool.call("add", pod.path))
    assert [each["name"] for each in result["interfaces"] if each.get("sandbox")] == ["eth0", *NAMES]
    assert sorted(links(pod)) == ["eth0", "lo", *NAMES]
    tool.call("check", pod.path)

    tool.call("del", pod.path)
    assert snapshot(tool, host, pod) == before


def test_each_address_of_the_result_names_its_rail(world: World, host: Host, tool: Cnitool) -> None:
    chained(tool, host, "all")
    pod = world.ns("pod")
    result = json.loads(tool.call("add", pod.path))
    assert [result["interfaces"][each["interface"]]["name"] for each in result["ips"]] == ["eth0", *NAMES]
    # Why there is resultIPs "none": bridge's CHECK wants every address of the whole chain's result on its own eth0
    # (containernetworking/plugins, pkg/ip ValidateExpectedInterfaceIPs).
    with pytest.raises(CommandError, match=r"Failed to match addr 10\.200\.0\.\d+/24 on interface eth0"):
        tool.call("check", pod.path)
    tool.call("del", pod.path)


def test_check_reports_a_rail_that_was_changed(world: World, host: Host, tool: Cnitool) -> None:
    chained(tool, host)
    pod = world.ns("pod")
    tool.call("add", pod.path)
    pod.ip("link", "set", "rail3", "mtu", "1280")
    with pytest.raises(CommandError, match=r"rail3: .*mtu"):
        tool.call("check", pod.path)
    tool.call("del", pod.path)


def test_del_of_a_pod_whose_namespace_is_gone(world: World, host: Host, tool: Cnitool) -> None:
    chained(tool, host)
    pod, witness = world.ns("pod"), world.ns("witness")
    before = snapshot(tool, host, witness)
    tool.call("add", pod.path)
    pod.delete()
    tool.call("del", pod.path)
    assert snapshot(tool, host, witness) == before


def test_alone_in_1_1_0_with_status(world: World, host: Host, tool: Cnitool) -> None:
    alone(tool, host)
    pod = world.ns("pod")
    before = snapshot(tool, host, pod)
    tool.call("status", pod.path)
    result = json.loads(tool.call("add", pod.path))
    assert [(each["name"], each["mtu"]) for each in result["interfaces"]] == [(name, 9000) for name in NAMES]
    tool.call("check", pod.path)
    tool.call("status", pod.path)
    tool.call("del", pod.path)
    assert snapshot(tool, host, pod) == before


def test_status_fails_only_when_no_rail_is_usable(world: World, host: Host, tool: Cnitool) -> None:
    alone(tool, host)
    for rail in range(1, RAILS):
        host.ns.ip("link", "set", f"nic{rail}", "down")
    tool.call("status", "/unused")
    host.ns.ip("link", "set", "nic0", "down")
    with pytest.raises(CommandError, match="no rail of this node is usable"):
        tool.call("status", "/unused")


def test_gc_detaches_what_no_runtime_lists(world: World, host: Host, tool: Cnitool) -> None:
    alone(tool, host)
    pods = [world.ns("one"), world.ns("other")]
    before = [snapshot(tool, host, pod) for pod in pods]
    for pod in pods:
        tool.call("add", pod.path)
    tool.call("gc", "/unused")
    assert [snapshot(tool, host, pod) for pod in pods] == before


def test_a_second_add_of_the_same_pod_changes_nothing(world: World, host: Host, tool: Cnitool) -> None:
    alone(tool, host)
    pod = world.ns("pod")
    first = json.loads(tool.call("add", pod.path))
    seen = snapshot(tool, host, pod)
    assert json.loads(tool.call("add", pod.path)) == first
    assert snapshot(tool, host, pod) == seen
    tool.call("del", pod.path)
