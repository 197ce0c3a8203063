"""How many series a node has, and that the shipped alerts ask for metrics that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from cni.agent import metrics as module
from cni.agent import railcounters
from cni.agent.lookout import Lookout
from cni.agent.metrics import Metrics
from cni.agent.nodeoptions import parse_address
from cni.agent.noderails import NodeRails
from cni.agent.railcounters import RailCounters
from cni.agent.railunits import Unit
from tests.cni.agent.test_verdict import rail
from tests.cni.netconfs import good
from tests.world import ROOT

RULES = ROOT / "conf" / "deploy" / "prometheus-agent-rules.yaml"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Metrics:
    """Eight rails of two families, every RDMA counter counted, every priority pausing."""
    monkeypatch.setattr(railcounters, "read", lambda rails, root: [counted(each.name, range(8)) for each in rails])
    both = [{"subnet": "10.200.0.0/24"}, {"subnet": "fd00:200::/64"}]
    rails = [
        {"name": f"rail{n}", "netdev": f"eth{n}", "ipam": {"ranges": [_other(each, n) for each in both]}}
        for n in range(8)
    ]
    text = {"name": "pods", "plugins": [{**good(), "rails": rails, "stateDir": str(tmp_path)}]}
    (tmp_path / "10.conflist").write_text(json.dumps(text))
    lookout = Lookout(NodeRails(str(tmp_path)), str(tmp_path), str(tmp_path))
    lookout.view = tuple(rail(name=f"rail{n}", netdev=f"eth{n}") for n in range(8))
    lookout.units = tuple(Unit(f"rail{n}", True, "", 0) for n in range(8))
    return Metrics(lookout, "off")


def _other(each: dict[str, str], number: int) -> dict[str, str]:
    return {"subnet": each["subnet"].replace("200", f"20{number}")}


def counted(name: str, priorities: Any) -> RailCounters:
    every = {(way, priority): 1 for way in ("rx", "tx") for priority in priorities}
    return RailCounters(name, dict.fromkeys(railcounters.RDMA, 1), every, every)


def series(metrics: Metrics) -> list[str]:
    return [sample.name for family in metrics.registry.collect() for sample in family.samples]


def worst(metrics: Metrics) -> None:
    for verb in ("ADD", "DEL", "CHECK", "GC"):
        for code in (*range(1, 12), 50, 51, 100, 999, 4711):
            metrics._failures.labels(verb if verb in module._VERBS else "other", module._code(code)).inc()
    for number in range(8):
        metrics.drifts.labels(f"rail{number}").inc()
        metrics.repairs.labels(f"rail{number}").inc()
    for reason in ("namespace gone", "unknown to the runtime"):
        metrics.reclaimed.labels(reason).inc()
    for outcome in ("told", "refused", "failed", "dropped"):
        metrics.events.labels(outcome).inc()


def test_the_most_that_is_possible_is_what_the_documentation_says(node: Metrics) -> None:
    worst(node)
    count = len(series(node))
    assert 595 < count < 610
    assert "below 610" in (ROOT / "docs" / "metrics.md").read_text()


def test_a_usual_node_has_about_as_many_as_the_documentation_says(
    node: Metrics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(railcounters, "read", lambda rails, root: [counted(each.name, [3]) for each in rails])
    for code in (7, 11, 5):
        node._failures.labels("ADD", str(code)).inc()
    assert 280 < len(series(node)) < 330


def test_every_metric_is_documented(node: Metrics) -> None:
    worst(node)
    text = (ROOT / "docs" / "metrics.md").read_text()
    names = {re.sub("_(bucket|count|sum)$", "", name) for name in series(node)}
    assert sorted(name for name in names if name not in text) == []


def test_the_alerts_ask_for_metrics_that_there_are(node: Metrics) -> None:
    worst(node)
    known = set(series(node)) | {"up"}
    document = yaml.safe_load(RULES.read_text())
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert len(rules) >= 9
    for rule in rules:
        asked = set(re.findall(r"\b(roceway_\w+|up)\b", rule["expr"]))
        assert asked
        assert asked <= known, rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("warning", "critical")


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9477", ("127.0.0.1", 9477)), ("[::1]:1", ("::1", 1)), ("0.0.0.0:0", ("0.0.0.0", 0))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "9477", ":9477", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match="is no address"):
        parse_address(text)
