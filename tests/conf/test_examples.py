from __future__ import annotations

from pathlib import Path

import pytest

import conf
from conf.fabric import Fabric, load
from conf.node import node, node_names

EXAMPLES = sorted((Path(conf.__file__).parent / "examples").glob("*.yaml"))


def example(name: str) -> Fabric:
    return load(next(path for path in EXAMPLES if path.name == name))


def test_the_examples_are_the_three_that_are_promised() -> None:
    assert [path.name for path in EXAMPLES] == ["h100-8x400g.yaml", "lab-4-hosts.yaml", "minimum-2-hosts.yaml"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_renders_every_host_with_every_rail(path: Path) -> None:
    fabric = load(path)
    hosts = [node(fabric, name) for name in node_names(fabric)]
    assert len(hosts) >= 2
    for host in hosts:
        assert [rail.name for rail in host.rails] == [rail.name for rail in fabric.rails]
        assert all(rail.ranges for rail in host.rails)
    starts = [one.range_start for host in hosts for rail in host.rails for one in rail.ranges]
    assert len(set(starts)) == len(starts)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_says_what_it_is_for_and_what_to_change_first(path: Path) -> None:
    text = path.read_text()
    head = text[: text.index("apiVersion")]
    assert all(line.startswith("#") for line in head.splitlines())
    assert "# Change first: " in head


def test_the_lab_is_four_hosts_with_four_netdevs() -> None:
    lab = example("lab-4-hosts.yaml")
    host = node(lab, "host2")
    assert node_names(lab) == ("host0", "host1", "host2", "host3")
    assert [(rail.name, rail.nic, rail.mode, rail.mtu) for rail in host.rails] == [
        (f"rail{n}", f"nic{n}", "macvlan", 1500) for n in range(4)
    ]
    assert str(host.rails[3].ranges[0].range_start) == "10.203.0.64"
    assert (lab.node_types["lab"].speed, lab.cni.attach) == (400, "always")


def test_the_pod_is_64_nodes_on_eight_leaves_and_four_spines() -> None:
    pod = example("h100-8x400g.yaml")
    assert len(node_names(pod)) == 64
    assert {(switch.role, switch.platform) for switch in pod.switches} == {("leaf", "sonic"), ("spine", "sonic")}
    cables = [cable for switch in pod.switches for cable in switch.attachments()]
    assert len(cables) == len({(cable.node, cable.rail) for cable in cables}) == 64 * 8
    assert sum(1 for link in pod.links for _ in link.ends()) == 8 * 4 * 16
    assert node(pod, "gpu-064").rails[7].nic == "0000:db:00.0"


def test_the_minimum_names_its_one_nic() -> None:
    assert node(example("minimum-2-hosts.yaml"), "gpu2").rails[0].nic == "eth1"
