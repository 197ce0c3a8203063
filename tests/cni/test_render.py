"""`roceway-cni render`: every shipped example becomes a configuration that the plugin accepts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cni.netconf import parse
from cni.render import render
from conf.errors import ConfigError
from conf.fabric import load
from conf.fabric import parse as parse_fabric
from conf.node import node, node_names
from tests.world import ROOT

EXAMPLES = sorted((ROOT / "conf" / "examples").glob("*.yaml"))
GOLDEN = ROOT / "tests" / "golden" / "render"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_node_of_every_example_renders_to_an_accepted_netconf(example: Path) -> None:
    fabric = load(example)
    for name in node_names(fabric):
        conf = parse({"cniVersion": "1.1.0", "name": "pods", **render(fabric, node(fabric, name))}, "1.1.0")
        assert [rail.name for rail in conf.rails] == [rail.name for rail in fabric.rails]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_first_node_of_every_example_renders_as_recorded(example: Path) -> None:
    fabric = load(example)
    rendered = json.dumps(render(fabric, node(fabric, node_names(fabric)[0])), indent=2) + "\n"
    assert rendered == (GOLDEN / f"{example.stem}.json").read_text()


def test_nodes_of_one_fabric_never_share_an_address() -> None:
    fabric = load(ROOT / "conf" / "examples" / "h100-8x400g.yaml")
    seen: set[tuple[str, int]] = set()
    for name in node_names(fabric):
        conf = parse({"cniVersion": "1.1.0", "name": "pods", **render(fabric, node(fabric, name))}, "1.1.0")
        for rail in conf.rails:
            for each in rail.ranges:
                own = {(rail.name, address) for address in range(each.first, each.last + 1)}
                assert not own & seen
                seen |= own


def test_what_cannot_be_attached_is_refused_with_every_rail() -> None:
    text = (ROOT / "conf" / "examples" / "minimum-2-hosts.yaml").read_text()
    fabric = parse_fabric(text)
    kind = fabric.nodes[0].type
    changed = fabric.model_copy(
        update={"node_types": {kind: fabric.node_types[kind].model_copy(update={"rails": "auto"})}}
    )
    with pytest.raises(ConfigError) as caught:
        render(changed, node(changed, node_names(changed)[0]))
    assert len(caught.value.findings) == len(fabric.rails)
