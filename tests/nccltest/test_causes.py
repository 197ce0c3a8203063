"""Each row of the table of causes: told where its signs are, silent where they are not."""

from __future__ import annotations

import argparse
import importlib
import json
import re
import shlex
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nccltest.__main__ import PROBE
from nccltest.causes import Cause, causes, moved
from nccltest.causetable import ROWS
from nccltest.locate.cabling import Cabling
from nccltest.locate.verdict import Suspect, Verdict
from nccltest.model import Delta, Measurement, Member, Remark, write_measurements
from nccltest.sim import Cluster, Fault, Noise, measure
from tuner.cli import run
from tuner.lint.rules import RULES

GIB = 1 << 30
QUIET = Noise(sigma=0.01, slower_paths=0, stray=0)


@dataclass(frozen=True)
class Case:
    """A suspect, what moved on it and on three others, what NCCL's log said, and what of it is told."""

    kind: str = "nic"
    ratio: float = 0.7
    only_large: bool = False
    own: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    remark: str = ""
    tells: str = ""


def told(case: Case) -> tuple[Cause, ...]:
    id = {"nic": "a/rail0", "node": "a", "global": "fabric"}[case.kind]
    suspect: Any = Suspect(case.kind, id, 0.99, case.ratio, "", 1, only_large=case.only_large)  # type: ignore[arg-type]  # a kind
    counters = tuple(
        Delta(node, "rail0", name, value)
        for node in "abcd"
        for name, value in {"rx_bytes": 1000, **(case.own if node == "a" else case.others)}.items()
    )
    remarks = (Remark(case.remark, "a", "NCCL says so"),) if case.remark else ()
    one = Measurement(
        "all_reduce", GIB, tuple(Member(n, "rail0") for n in "abcd"), 1.0, counters=counters, remarks=remarks
    )
    return causes(Verdict("faulty", (suspect,), 1, (), 0.01), [one], Cabling({}), priority=3)


CASES: dict[str, tuple[Case, Case]] = {
    "link-down": (
        Case(own={"carrier_down_count": 4}, tells="carrier_down_count +4"),
        Case(own={"carrier_up_count": 4}),
    ),
    "bit-errors": (Case(own={"symbol_error": 9}, tells="symbol_error +9"), Case(others={"symbol_error": 9})),
    "loss": (Case(own={"out_of_sequence": 120}, tells="out_of_sequence +120"), Case(own={"out_of_sequence": -5})),
    "not-lossless": (Case(only_large=True, tells="good below 4GiB"), Case(only_large=False)),
    "receive-drops": (Case(own={"rx_prio3_discards": 2}, tells="rx_prio3_discards +2"), Case(own={"rx_dropped": 2})),
    "pcie": (
        Case(own={"outbound_pci_stalled_wr_events": 3}, tells="stalled"),
        Case(own={"outbound_pci_stalled_wr": 3}),
    ),
    "global-pause": (Case(own={"rx_global_pause": 8}, tells="rx_global_pause +8"), Case(own={"rx_prio3_pause": 8})),
    "pauses-the-switch": (
        Case(own={"tx_prio3_pause": 9000}, others={"tx_prio3_pause": 100}, tells="+9000, others +100"),
        Case(own={"tx_prio3_pause": 9000}, others={"tx_prio3_pause": 8000}),
    ),
    "paused-by-the-switch": (
        Case(own={"rx_prio3_pause": 5000}, tells="rx_prio3_pause +5000, others +0"),
        Case(own={"rx_prio3_pause": 50}),
    ),
    "congestion": (
        Case(own={"np_cnp_sent": 7000}, others={"np_cnp_sent": 90}, tells="np_cnp_sent +7000"),
        Case(own={"np_cnp_sent": 7000}, others={"np_cnp_sent": 6000}),
    ),
    "marks-unanswered": (
        Case(own={"np_ecn_marked_roce_packets": 70}, tells="np_cnp_sent +0"),
        Case(own={"np_ecn_marked_roce_packets": 70, "np_cnp_sent": 60}),
    ),
    "wrong-class": (
        Case(own={"rx_prio0_bytes": 990, "rx_vport_rdma_unicast_bytes": 980}, tells="on priority 0"),
        Case(own={"rx_prio0_bytes": 990, "rx_vport_rdma_unicast_bytes": 0}),  # TCP
    ),
    "lost-rail": (Case("node", 7 / 8, tells="7/8"), Case("nic", 7 / 8)),
    "half-width": (Case("nic", 0.5, tells="1/2"), Case("node", 0.5)),
    "sockets": (Case(remark="socket-fallback", tells="NCCL says so"), Case(remark="no-gdr")),
    "no-gpudirect": (Case(remark="no-gdr", tells="NCCL says so"), Case(remark="socket-fallback")),
    "slow-path": (Case("node", 0.1, tells="5 to 12"), Case("nic", 0.1)),
    "wrong-nic": (Case(remark="cross-rail", tells="NCCL says so"), Case()),
    "wrong-gid": (Case(remark="not-rocev2", tells="NCCL says so"), Case()),
    "software": (Case("global", 0.8, tells="slow alike"), Case("node", 0.8)),
}


def test_every_row_has_its_cases() -> None:
    assert list(CASES) == [row.name for row in ROWS]


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_told_where_its_signs_are(name: str) -> None:
    case, _ = CASES[name]
    (cause,) = [each for each in told(case) if each.row == name]
    assert case.tells in cause.evidence
    assert all((cause.cause, cause.look, cause.next))


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_silent_where_they_are_not(name: str) -> None:
    _, case = CASES[name]
    assert name not in {each.row for each in told(case)}


def test_a_class_that_nccl_was_told_wrong_is_a_remark_as_well() -> None:
    (cause,) = [each for each in told(Case(remark="traffic-class")) if each.row == "wrong-class"]
    assert (cause.fault, cause.kind, cause.id) == (0, "log", "a")


def test_bytes_on_the_lossless_class_are_well() -> None:
    case = Case(own={"rx_prio3_bytes": 990, "rx_prio0_bytes": 9, "rx_vport_rdma_unicast_bytes": 980})
    assert "wrong-class" not in {each.row for each in told(case)}


def test_counters_that_were_read_and_say_nothing_are_told() -> None:
    (cause,) = told(Case())
    assert (cause.row, cause.cause, cause.next) == ("", "", "")
    assert cause.evidence == "no counter of a fault moved on a/rail0"


def test_where_no_counter_was_read_nothing_is_claimed() -> None:
    suspect = Suspect("nic", "x/rail0", 0.99, 0.7, "", 1)
    one = Measurement("all_reduce", GIB, (Member("x", "rail0"), Member("y", "rail0")), 1.0)
    assert causes(Verdict("faulty", (suspect,), 1, (), 0.01), [one], Cabling({})) == ()


def test_a_leaf_is_told_by_its_own_nics() -> None:
    members = tuple(Member(name, "rail0") for name in ("g1", "g2", "g3"))
    counters = tuple(Delta(each.node, "rail0", "rx_prio3_pause", 9000 if each.node != "g3" else 5) for each in members)
    one = Measurement("all_reduce", GIB, members, 1.0, counters=counters)
    known = Cabling({("g1", "rail0"): "leaf-a", ("g2", "rail0"): "leaf-a", ("g3", "rail0"): "leaf-b"})
    for id, cabling in (("leaf-a", known), ("g[1-2]/rail0", Cabling({}))):
        verdict = Verdict("faulty", (Suspect("leaf", id, 0.99, 0.7, "", 1),), 1, (), 0.01)
        (cause,) = causes(verdict, [one], cabling)
        assert (cause.row, cause.evidence) == ("paused-by-the-switch", "rx_prio3_pause +9000, others +5")


def test_sizes_of_one_round_are_counted_once() -> None:
    one = Measurement(
        "all_reduce", GIB, (Member("a", "r"), Member("b", "r")), 1.0, counters=(Delta("a", "r", "symbol_error", 3),)
    )
    rounds = [one, replace(one, size=4 * GIB), replace(one, round=1)]
    assert moved(rounds) == {("a", "r"): {"symbol_error": 6}}


def test_rules_that_are_named_exist() -> None:
    known = {rule.id for rule in RULES}
    named = {word for row in ROWS for word in row.look if re.fullmatch(r"[A-Z]\d\d", word)}
    assert named
    assert named <= known


def test_commands_have_the_options_that_they_are_told_with() -> None:
    packages = {"roceway-tune": "tuner", "roceway-probe": "nccltest"}
    for row in ROWS:
        program, command, *words = [word for word in shlex.split(row.next) if not word.startswith("NCCL_DEBUG=")]
        parser = argparse.ArgumentParser()
        parser.description = ""
        importlib.import_module(f"{packages[program]}.commands.{command}").arguments(parser)
        parser.parse_args(words)


def test_counters_and_remarks_that_rows_name_are_ones_that_are_told() -> None:
    log = (Path(__file__).parents[2] / "nccltest/nccllog.py").read_text()
    for row in ROWS:
        assert row.counters or row.remarks or row.shape
        assert all(f'Remark("{rule}"' in log or f'"{rule}"' in log for rule in row.remarks)
        re.compile(row.counters)


def test_locate_and_report_tell_the_cause_wherever_they_print(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(8, rails=2, per_leaf=4)
    made = [
        replace(
            one,
            schedule="day",
            counters=tuple(
                Delta(m.node, m.rail or "", "symbol_error" if m.node == "gpu-0003" else "rx_bytes", 40)
                for m in one.members
            ),
        )
        for one in measure(cluster, [Fault("nic", "gpu-0003/rail1", 0.7)], np.random.default_rng(1), noise=QUIET)
    ]
    file, page = tmp_path / "m.jsonl", tmp_path / "p.html"
    file.write_text(write_measurements(made))
    nowhere = ["--history", str(tmp_path / "none.db")]
    for words in (["locate", str(file)], ["report", str(file), *nowhere]):
        assert run(PROBE, words) == 1
        text = " ".join(capsys.readouterr().out.split())
        assert "probable cause" in text
        assert "symbol_error" in text
        assert run(PROBE, [*words, "--json"]) == 1
        (cause,) = json.loads(capsys.readouterr().out)["causes"]
        assert (cause["row"], cause["id"]) == ("bit-errors", "gpu-0003/rail1")
        assert cause["next"] == "on gpu-0003: roceway-tune lldp -f fabric.yaml --rail rail1"
    run(PROBE, ["report", str(file), *nowhere, "--html", str(page)])
    assert "the cable or its optics corrupt" in page.read_text()
