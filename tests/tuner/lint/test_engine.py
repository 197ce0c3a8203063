"""Evaluation, grouping by cause, and acceptance for a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta

import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from conf.errors import ConfigError
from conf.lint import Suppression
from tests.tuner.lint.scene import TODAY, Scene
from tuner.lint.engine import evaluate
from tuner.lint.report import Finding, Gap, Report
from tuner.lint.rule import Hit, Missing, Rule, Scope, Severity, rule
from tuner.lint.suppress import suppress

WORDS = {"title": "t", "why": "w", "source": "s", "fix": "f"}


def made(check: object) -> Rule:
    return rule("S99", Severity.HIGH, Scope.PORT, **WORDS)(check)  # type: ignore[arg-type]  # any function of a subject


def told(*verdicts: Hit | Missing) -> Rule:
    """A rule that says the same of every subject."""
    return made(
        lambda subject: [
            each._replace(where=f"{each.where}{subject}") if isinstance(each, Hit) else each for each in verdicts
        ]
    )


def on(rule: Rule, *subjects: object) -> Report:
    return evaluate([rule], {Scope.PORT: subjects})


def test_one_cause_is_one_finding_with_its_places_in_order() -> None:
    report = on(told(Hit("port", "no cable", "plug it in")), 2, 1, 3)
    assert [finding.where for finding in report.findings] == [("port2", "port1", "port3")]


def test_a_place_is_listed_once() -> None:
    (finding,) = on(made(lambda _: [Hit("map", "wrong", "right")]), 1, 2, 3).findings
    assert finding.where == ("map",)
    assert finding.fix == "right"


def test_other_evidence_severity_or_platform_is_another_cause() -> None:
    hits = (
        Hit("p", "a", "f"),
        Hit("p", "b", "f"),
        Hit("p", "a", "f", Severity.INFO),
        Hit("p", "a", "f", platform="eos"),
    )
    assert len(on(told(*hits), 1).findings) == 4


def test_the_fix_is_written_out_once_and_says_for_which_place() -> None:
    calls: list[int] = []

    def fix() -> str:
        calls.append(1)
        return "mtu 9216"

    (finding,) = on(made(lambda subject: [Hit(f"p{subject}", "e", fix)]), 1, 2, 3).findings
    assert finding.fix == "mtu 9216\n(written for p1; alike at the other 2)"
    assert len(calls) == 1


def test_what_is_missing_is_counted_by_place() -> None:
    def check(subject: int) -> Iterator[Hit | Missing]:
        if subject > 1:
            yield Missing("speed")

    assert on(made(check), 1, 2, 3).gaps == (Gap("S99", "speed", 2, 1),)


def test_a_hit_and_something_missing_on_one_subject_are_both_told() -> None:
    report = on(told(Hit("p", "e", "f"), Missing("speed")), 1)
    assert len(report.findings) == 1
    assert report.gaps == (Gap("S99", "speed", 1, 0),)


def test_a_rule_with_nothing_to_look_at_is_not_silently_fine() -> None:
    assert on(told()).gaps == (Gap("S99", "nothing to look at (a switch port)", 0, 0),)


def test_a_rule_that_fails_costs_the_subject_and_not_the_run() -> None:
    def check(subject: int) -> Iterator[Hit | Missing]:
        yield Hit(f"p{subject}", f"{12 // subject}", "f")

    report = on(made(check), 0, 3)
    assert [finding.where for finding in report.findings] == [("p3",)]
    (gap,) = report.gaps
    assert gap.missing.startswith("the rule failed (ZeroDivisionError)")
    assert (gap.places, gap.evaluated) == (1, 1)


def test_the_gravest_come_first() -> None:
    hits = [Hit("p", str(each), "f", each) for each in Severity]
    severities = [finding.severity for finding in on(told(*hits), 1).findings]
    assert severities == sorted(severities, reverse=True)


FINDING = Finding("S06", Severity.HIGH, "t", ("leaf-r0 QUEUE|Ethernet0", "leaf-r1 QUEUE|Ethernet0"), "e", "f")
REPORT = Report((FINDING,), ())


def accept(days: int = 1, **fields: object) -> Suppression:
    values = {"rule": "S06", "reason": "new optics on Monday", "expires": TODAY + timedelta(days=days), **fields}
    return Suppression.model_validate(values)


def test_an_accepted_finding_leaves_a_trace() -> None:
    report = suppress(REPORT, [accept()], TODAY)
    assert report.findings == ()
    assert [(each.finding, each.reason, each.expires) for each in report.suppressed] == [
        (FINDING, "new optics on Monday", "2030-06-02")
    ]


def test_only_the_places_that_match_are_accepted() -> None:
    report = suppress(REPORT, [accept(where="leaf-r0*")], TODAY)
    assert [finding.where for finding in report.findings] == [("leaf-r1 QUEUE|Ethernet0",)]
    assert [each.finding.where for each in report.suppressed] == [("leaf-r0 QUEUE|Ethernet0",)]


def test_it_is_accepted_on_its_last_day_and_not_on_the_next() -> None:
    assert suppress(REPORT, [accept(days=0)], TODAY).findings == ()
    expired = suppress(REPORT, [accept(days=-1)], TODAY)
    assert [finding.rule for finding in expired.findings] == ["S06", "SUPPRESSION"]
    assert expired.findings[1].evidence == "the suppression of S06 expired on 2030-05-31: new optics on Monday"


def test_a_suppression_of_nothing_is_told() -> None:
    report = suppress(Report((), ()), [accept()], TODAY)
    assert [(finding.where, finding.evidence) for finding in report.findings] == [
        (("fabric.yaml lint.suppressions[0]",), "the suppression of S06 matches no finding")
    ]


def test_fabric_yaml_accepts_findings() -> None:
    text = 'lint: {suppressions: [{rule: L08, where: "leaf-r1*", reason: moved next week, expires: 2030-12-31}]}\n'
    report = Scene().add(text).ports(cable=0.0).report()
    assert {where.split()[0] for finding in report.findings for where in finding.where} == {"leaf-r0", "spine-0"}
    assert [len(each.finding.where) for each in report.suppressed] == [3]


@pytest.mark.parametrize(
    "line", ["{rule: L08, expires: 2030-12-31}", "{rule: L08, reason: r}", "{rule: S6, reason: r, expires: 2030-12-31}"]
)
def test_an_acceptance_needs_a_rule_a_reason_and_an_end(line: str) -> None:
    with pytest.raises(ConfigError, match="suppressions"):
        Scene().add(f"lint: {{suppressions: [{line}]}}\n").given()


PLACES = st.lists(st.sampled_from([f"leaf-{number} port" for number in range(6)]), min_size=1, unique=True)


@examples(PLACES, st.sampled_from(["*", "leaf-[0-2]*", "leaf-3 port", "nothing"]), st.booleans())
def test_acceptance_never_loses_a_place(places: list[str], pattern: str, expired: bool) -> None:
    before = Report((FINDING._replace(where=tuple(places)),), ())
    after = suppress(before, [accept(days=-1 if expired else 1, where=pattern)], date(2030, 6, 1))
    kept = [where for finding in after.findings if finding.rule == "S06" for where in finding.where]
    taken = [where for each in after.suppressed for where in each.finding.where]
    assert sorted(kept + taken) == sorted(places)
    assert not (expired and taken)
