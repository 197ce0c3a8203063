"""Table, JSON, SARIF and the HTML page of one report."""

from __future__ import annotations

import html.parser
import io
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from datetime import date

import jsonschema
import pytest
from rich.console import Console

from conf.fabric import parse
from tests.tuner.lint import big
from tests.tuner.lint.scene import Scene
from tuner.lint.asjson import as_json, as_sarif
from tuner.lint.html import page
from tuner.lint.picture import Picture, draw
from tuner.lint.report import Report
from tuner.lint.rules import RULES
from tuner.lint.run import lint
from tuner.lint.table import show, spans, summary
from tuner.lint.world import Given

HOSTILE = '<script>alert(1)</script>"\x1b[31m'


def faulty() -> Report:
    """One cause on eight ports, another on one NIC."""
    return Scene().ports(cable=0.0).nic("gpu-1", "rail0", fw_lldp=True).report()


def printed(report: Report, width: int = 120, **options: bool) -> str:
    out = io.StringIO()
    show(report, Console(file=out, width=width, highlight=False), **options)
    return out.getvalue()


def test_the_table_has_one_row_for_each_cause() -> None:
    text = printed(faulty())
    assert len(re.findall(r"^high +L08", text, re.MULTILINE)) == 1
    assert "and 5 more" in text
    assert '"path": "/CABLE_LENGTH/AZURE/Ethernet0", "value": "5m"' in text.replace("\n", "")


def test_every_place_is_printed_when_asked() -> None:
    text = printed(faulty(), every_place=True)
    assert sum("CABLE_LENGTH|AZURE." in line for line in text.splitlines()) >= 8


def test_the_last_line_sums_up() -> None:
    assert printed(faulty()).splitlines()[-1] == summary(faulty())
    assert summary(faulty()).startswith("2 causes at 9 places: 1 critical, 1 high; ")
    assert summary(Report((), ())) == "nothing found"


def test_escape_sequences_of_a_switch_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in printed(hostile())


def test_neighbouring_rules_are_folded() -> None:
    assert spans(["H01", "H02", "H03", "H05", "L01", "L02", "READ"]) == "H01-H03, H05, L01, L02, READ"


def test_json_has_the_shape_that_other_programs_rely_on() -> None:
    value = json.loads(json.dumps(as_json(faulty())))
    wanted = {
        "type": "object",
        "required": ["rule", "severity", "where", "evidence", "fix"],
        "additionalProperties": False,
        "properties": {
            "rule": {"pattern": "^([HXLSTR][0-9]{2}|READ|SUPPRESSION)$"},
            "severity": {"enum": ["critical", "high", "medium", "info"]},
            "where": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "evidence": {"type": "string"},
            "fix": {"type": "string"},
        },
    }
    jsonschema.validate(value["findings"], {"type": "array", "minItems": 2, "items": wanted})
    assert {gap["rule"] for gap in value["not_evaluated"]} >= {"R02"}


# The required members and closed lists of sarif-schema-2.1.0.json for what we write (OASIS, SARIF 2.1.0).
_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string"}}}
_LEVEL = {"enum": ["none", "note", "warning", "error"]}
_LOCATION = {
    "type": "object",
    "properties": {
        "logicalLocations": {"type": "array", "items": {"properties": {"fullyQualifiedName": {"type": "string"}}}},
        "physicalLocation": {
            "required": ["artifactLocation"],
            "properties": {"artifactLocation": {"properties": {"uri": {"type": "string", "format": "uri-reference"}}}},
        },
    },
}
_RESULT = {
    "type": "object",
    "required": ["message"],
    "properties": {
        "ruleId": {"type": "string"},
        "level": _LEVEL,
        "message": _TEXT,
        "locations": {"type": "array", "items": _LOCATION},
        "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},
        "suppressions": {
            "type": "array",
            "items": {"required": ["kind"], "properties": {"kind": {"enum": ["inSource", "external"]}}},
        },
    },
}
_RUN = {
    "type": "object",
    "required": ["tool"],
    "properties": {
        "tool": {
            "required": ["driver"],
            "properties": {
                "driver": {
                    "required": ["name"],
                    "properties": {
                        "rules": {
                            "type": "array",
                            "uniqueItems": True,
                            "items": {
                                "required": ["id"],
                                "properties": {
                                    "shortDescription": _TEXT,
                                    "help": _TEXT,
                                    "defaultConfiguration": {"properties": {"level": _LEVEL}},
                                },
                            },
                        }
                    },
                }
            },
        },
        "invocations": {
            "items": {
                "required": ["executionSuccessful"],
                "properties": {
                    "toolExecutionNotifications": {
                        "items": {"required": ["message"], "properties": {"level": _LEVEL, "message": _TEXT}}
                    }
                },
            }
        },
        "columnKind": {"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
        "results": {"type": "array", "items": _RESULT},
    },
}
SARIF = {
    "type": "object",
    "required": ["version", "runs"],
    "properties": {
        "version": {"enum": ["2.1.0"]},
        "$schema": {"format": "uri"},
        "runs": {"type": "array", "minItems": 1, "items": _RUN},
    },
}


def test_sarif_has_what_its_schema_requires() -> None:
    log = json.loads(json.dumps(as_sarif(faulty(), RULES, {"leaf-r0": "leaf-r0.json", "": "fabric.yaml"})))
    jsonschema.validate(log, SARIF, format_checker=jsonschema.FormatChecker())
    (run,) = log["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert {result["ruleId"] for result in run["results"]} <= set(ids)
    assert {result["level"] for result in run["results"]} == {"error"}


def test_sarif_points_at_the_file_that_a_place_is_in() -> None:
    log = as_sarif(faulty(), RULES, {"leaf-r0": "leaf-r0.json", "": "fabric.yaml"})
    (cables,) = (result for result in log["runs"][0]["results"] if result["ruleId"] == "L08")
    uris = [each["physicalLocation"]["artifactLocation"]["uri"] for each in cables["locations"]]
    assert uris == ["leaf-r0.json"] * 3 + ["fabric.yaml"] * 5


def test_sarif_keeps_what_is_accepted() -> None:
    accepted = "lint: {suppressions: [{rule: L08, reason: moved next week, expires: 2030-12-31}]}\n"
    report = Scene().add(accepted).ports(cable=0.0).report()
    (result,) = as_sarif(report, RULES, {})["runs"][0]["results"]
    assert result["suppressions"] == [{"kind": "external", "justification": "moved next week"}]


def hostile() -> Report:
    """A switch whose names are written to hurt whoever shows them."""
    scene = Scene(None).ports(cable=0.0)
    scene.switches["leaf-r0"] = replace(scene.switches["leaf-r0"], name=HOSTILE)
    return scene.report()


class _Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]


def tags_of(text: str) -> _Tags:
    tags = _Tags()
    tags.feed(text)
    return tags


def rendered(report: Report, scene: Scene | None = None) -> str:
    return page(report, {rule.id: rule for rule in RULES}, (scene or Scene()).given(), "2030-06-01 10:00 UTC")


def drawn(scene: Scene) -> Picture:
    given = scene.given()
    assert given.fabric is not None
    read = {each.name for each in given.switches} | {host.node for host in given.hosts}
    return draw(given.fabric, lint(given, date(2030, 6, 1)).findings, read)


def test_the_page_needs_nothing_else() -> None:
    tags = tags_of(rendered(faulty()))
    assert tags.sources == []
    assert not {"script", "link", "img", "iframe", "object"} & set(tags.tags)
    assert "url(" not in rendered(faulty())


def test_names_from_switches_are_text_on_the_page() -> None:
    text = rendered(hostile(), Scene(None))
    assert "script" not in tags_of(text).tags
    assert "&lt;script&gt;" in text


def test_the_picture_is_well_formed_and_has_every_switch_cable_and_nic() -> None:
    text = rendered(faulty())
    svg = ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    assert len(svg.findall("g")) == 3  # two leaves, one spine
    assert len(svg.findall("line")) == 2
    assert len(svg.findall("rect")) == 4  # two hosts with two rails


def test_the_picture_has_the_colours_of_the_findings() -> None:
    picture = drawn(Scene().port("leaf-r0", "Ethernet4", cable=0.0))
    assert {box.name: box.state for box in picture.boxes} == {"spine-0": "well", "leaf-r0": "high", "leaf-r1": "well"}
    assert [cell.state for cell in picture.cells] == ["well", "high", "well", "well"]
    assert [wire.state for wire in drawn(Scene().port("spine-0", "Ethernet0", mtu=1500)).wires] == ["critical", "well"]


def test_a_host_is_coloured_where_it_is_plugged_in() -> None:
    picture = drawn(Scene().nic("gpu-2", "rail1", trust="pcp"))
    assert {cell.name: cell.state for cell in picture.cells}["leaf-r1:Ethernet4 gpu-2/rail1"] == "critical"


def test_a_trunk_does_not_colour_the_port_that_has_the_far_ends_name() -> None:
    picture = drawn(Scene().port("spine-0", "Ethernet0", mtu=1500))  # leaf-r0 has an Ethernet0 too, with gpu-1 on it
    assert {cell.state for cell in picture.cells} == {"well"}


def test_what_was_not_read_is_not_green() -> None:
    scene = Scene()
    del scene.switches["leaf-r1"]
    del scene.hosts["gpu-2"]
    picture = drawn(scene)
    assert {box.name: box.state for box in picture.boxes} == {"spine-0": "well", "leaf-r0": "well", "leaf-r1": "unread"}
    assert [cell.state for cell in picture.cells] == ["well", "well", "well", "unread"]
    assert [wire.state for wire in picture.wires] == ["well", "unread"]


def test_a_large_fabric_is_drawn_with_a_bar_for_each_leaf() -> None:
    picture = draw(parse(big.fabric(256)), (), ())
    assert picture.cells == ()
    assert picture.wires == ()  # 2,048 pairs: only those with findings
    assert len(picture.bars) == 256


def test_a_place_on_many_ports_is_listed_in_part() -> None:
    given = big.planted(64)
    broken = tuple(
        replace(each, ports={name: replace(port, cable=0.0) for name, port in each.ports.items()})
        for each in given.switches
    )
    report = lint(Given(given.fabric, None, (), broken), date(2030, 6, 1))
    text = rendered(report, Scene(None))
    assert re.search(r"and [0-9]{4} more", text)
    assert len(text) < 300_000


@pytest.mark.parametrize("width", [60, 120, 200])
def test_the_table_fits_the_terminal(width: int) -> None:
    table, _, _ = printed(faulty(), width).partition("\n\n")
    assert max(len(line) for line in table.splitlines()) <= width


def test_a_fix_is_one_line_to_be_copied() -> None:
    lines = [line.strip() for line in printed(faulty(), 40).splitlines()]
    assert 'config apply-patch: [{"op": "add", "path": "/CABLE_LENGTH/AZURE/Ethernet0", "value": "5m"}]' in lines
