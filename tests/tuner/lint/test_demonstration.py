"""The worked demonstration of docs/lint.md, and what is rendered for each platform: the linter finds nothing in it."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from conf.fabric import Fabric, parse
from tests.tuner.lint.scene import FABRIC
from tests.world import ROOT
from tuner.lint.report import Report
from tuner.lint.run import lint
from tuner.lint.world import Given
from tuner.switch.intended import intended
from tuner.switch.model import Platform, Switch
from tuner.switch.read import PLATFORMS, read
from tuner.switch.render import render

QOS = ROOT.parent / "shared" / "data" / "switch" / "sonic_qos-arista7260-t0.json"


def documented() -> Fabric:
    """The fabric of docs/lint.md: its first indented block that is one."""
    text = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
    start = text.index("    apiVersion: roceway/v1")
    return parse(textwrap.dedent(text[start : text.index("\n\n", start)]))


def rendered(fabric: Fabric, name: str) -> Switch:
    """What is rendered for a switch, read back."""
    wanted = intended(fabric, name)
    text, platform = render(wanted), wanted.described.platform
    switch = read(platform, name, {"rendered": text.encode()})
    return replace(switch, role=wanted.described.role)


def linted(fabric: Fabric, *switches: Switch) -> Report:
    return lint(Given(fabric, None, (), switches), date(2030, 6, 1))


@pytest.mark.skipif(not QOS.is_file(), reason="the recorded switches are not on this machine")
def test_the_common_host_recipe_contradicts_sonics_own_rendering() -> None:
    switch = read("sonic", "leaf-r0", {"qos.json": Path(QOS).read_bytes()})
    told = [(finding.rule, finding.evidence) for finding in linted(documented(), switch).findings]
    assert told == [
        ("L02", "DSCP 26, priority 3, goes to traffic class 1 on the switch, which no PFC protects"),
        ("L01", "PFC: fabric.yaml 3, the switch port 3,4"),
        ("S16", "Kmin is 2000000, wanted 1048576 B; Kmax is 10000000, wanted 2097152 B"),
    ]


def test_the_rendered_cure_has_no_finding() -> None:
    fabric = documented()
    assert linted(fabric, rendered(fabric, "leaf-r0")).findings == ()


@pytest.mark.parametrize("profile", ["lossless-dscp", "sonic-default", "ecn-only", "ecn-off"])
@pytest.mark.parametrize("platform", PLATFORMS)
def test_what_is_rendered_has_no_finding_on_any_platform(platform: Platform, profile: str) -> None:
    text = FABRIC.replace("platform: sonic", f"platform: {platform}") + f"qos: {{profile: {profile}}}\n"
    if platform == "cumulus":  # its ports are called swp1, …
        text = text.replace("Ethernet[0-4:4]", "swp[1-2]").replace("Ethernet8", "swp3")
    fabric = parse(text)
    report = linted(fabric, *(rendered(fabric, name) for name in ("leaf-r0", "leaf-r1", "spine-0")))
    assert [(finding.rule, finding.where, finding.evidence) for finding in report.findings] == []
