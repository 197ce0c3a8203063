"""From healthy days to a named NIC: run, judge, report, with the real commands and a real history."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.netns.probe_lab import ProbeLab

HEALTHY_DAYS = (3, 3, 1)
"""Matchings, of two pairs each: twelve values are a baseline, against which the third day is judged."""


def judged(lab: ProbeLab, path: Path, out: Path) -> Any:
    """One run with its confirmation, and what judge says of it."""
    out.unlink(missing_ok=True)
    done = lab.probe("run", *lab.files(path), "--output", str(out))
    assert done.returncode in (0, 1), done.stderr
    return json.loads(lab.probe("judge", str(out), "-f", str(path), *history(lab), "--json").stdout)


def history(lab: ProbeLab) -> list[str]:
    return ["--history", str(lab.folder / "history.db")]


def confirmed(document: Any) -> list[str]:
    return [each["status"] for each in document["series"] if each["confirmed"]]


@contextmanager
def flapping(lab: ProbeLab, name: str, rail: int) -> Iterator[None]:
    """A link that goes down for 0.4 s in every second."""
    over = threading.Event()

    def work() -> None:
        while not over.wait(0.6):
            lab.spaces[name].ip("link", "set", f"nic{rail}", "down")
            over.wait(0.4)
            lab.spaces[name].ip("link", "set", f"nic{rail}", "up")

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def lab() -> Iterator[ProbeLab]:
    with ProbeLab(4, rails=1) as made:
        yield made


def test_healthy_days_raise_no_alarm_and_a_slow_nic_is_confirmed_named_and_reported(lab: ProbeLab) -> None:
    out = lab.folder / "measured.jsonl"
    for matchings in HEALTHY_DAYS:
        document = judged(lab, lab.write_fabric(repeats=1, matchings=matchings), out)
        assert confirmed(document) == []
    path = lab.write_fabric(repeats=1, matchings=2)
    lab.shape("n2", 0, 0.6)
    document = judged(lab, path, out)
    # Alarms are what five more runs confirmed: the two pairs of n2, and no other.
    slow = [each for each in document["series"] if each["status"] == "regressed" and each["confirmed"]]
    assert len(slow) == 2, document["series"]
    assert all(-60 < each["change_pct"] < -25 for each in slow)
    suspect = document["locate"]["suspects"][0]
    assert (suspect["kind"], suspect["id"]) == ("nic", "n2/rail0"), document["locate"]
    page = lab.folder / "page.html"
    assert lab.probe("report", str(out), "-f", str(path), *history(lab), "--html", str(page)).returncode == 1
    report = lab.probe("report", str(out), "-f", str(path), *history(lab))
    assert report.returncode == 1
    assert "NIC n2/rail0" in report.stdout
    assert "regressed, confirmed" in report.stdout
    assert "n2/rail0" in page.read_text()
    # The next plan follows the suspect up by itself, on its own rail.
    plan = json.loads(lab.probe("plan", *lab.files(path)[:4], "--purposes", "follow-up", "--json").stdout)
    assert plan["rounds"]
    assert all("n2" in group["nodes"] for one in plan["rounds"] for group in one["groups"])


def test_a_flapping_link_is_named_and_its_counter_says_why(lab: ProbeLab) -> None:
    path = lab.write_fabric(repeats=1, matchings=3)
    out = lab.folder / "measured.jsonl"
    with flapping(lab, "n1", 0):
        done = lab.probe("run", *lab.files(path), "--output", str(out), "--no-confirm")
    assert done.returncode in (0, 1), done.stderr
    verdict = json.loads(lab.probe("locate", str(out), "-f", str(path), "--json").stdout)
    (suspect, *_) = verdict["suspects"]
    assert (suspect["kind"], suspect["id"]) in (("nic", "n1/rail0"), ("node", "n1")), verdict
    downs = {
        delta.node: delta.value
        for each in lab.recorded()
        for delta in each.counters
        if delta.name == "carrier_down_count"
    }
    assert set(downs) == {"n1"}
