"""What people and monitoring see: the page, the metrics, the rules on them, the history's lists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import replace
from html.parser import HTMLParser
from math import exp
from pathlib import Path

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from nccltest.__main__ import PROBE
from nccltest.changes import change_points
from nccltest.history import TrendPoint
from nccltest.locate.cabling import Cabling
from nccltest.model import Delta, Measurement, Member, Remark, write_measurements
from nccltest.report.chart import heatmap, shade, trend
from nccltest.sim import Cluster, Fault, Noise, measure
from tuner.cli import run

ROOT = Path(__file__).parents[2]
RULES = ROOT / "conf/deploy/prometheus-probe-rules.yaml"
DASHBOARD = ROOT / "conf/deploy/grafana-probe.json"
CLUSTER = Cluster(8, rails=2, per_leaf=4)
QUIET = Noise(sigma=0.01, slower_paths=0, stray=0)


def days(count: int, *faults: Fault, start: int = 0, nodes: Cluster = CLUSTER) -> list[Measurement]:
    rng = np.random.default_rng(start)
    return [
        replace(one, schedule=f"day-{day:02}", time=1.76e9 + 86_400 * day)
        for day in range(start, start + count)
        for one in measure(nodes, faults, rng, noise=QUIET)
    ]


@pytest.fixture
def told(tmp_path: Path) -> tuple[str, str]:
    """A file with a bad day, and the history of twenty good ones."""
    database = str(tmp_path / "h.db")
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(write_measurements(days(20)))
    bad.write_text(write_measurements(days(1, Fault("nic", "gpu-0003/rail1", 0.7), start=20)))
    assert run(PROBE, ["judge", str(good), "--history", database]) == 0
    return str(bad), database


class Page(HTMLParser):
    """Tags that must balance, text, and whatever a page could fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "br", "rect", "line", "circle", "polyline", "text"):
            self.open.append(tag)
        self.fetched += [f"{name}={value}" for name, value in attrs if name in ("src", "href", "onload", "onclick")]
        self.fetched += [tag] * (tag in ("script", "link", "img", "iframe"))

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("text",) and self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_tells_the_suspect_and_needs_nothing_else(told: tuple[str, str], tmp_path: Path) -> None:
    file, database = told
    out = tmp_path / "page.html"
    assert run(PROBE, ["report", file, "--history", database, "--html", str(out)]) == 1
    page = Page(out.read_text())
    text = " ".join(page.words)
    assert "NIC gpu-0003/rail1" in text
    assert "faulty: 1 fault" in text
    assert "Every NIC" in text
    assert "Over time" in text
    assert page.fetched == []
    assert page.open == []


def test_hostile_names_are_text_on_the_page(tmp_path: Path) -> None:
    evil = '<script>alert("1")</script>'
    made = [
        replace(
            one,
            members=tuple(replace(m, node=m.node.replace("gpu-0003", evil)) for m in one.members),
            counters=(Delta(evil, "rail0", "rx_prio3_pause<b>", 12),),
            remarks=(Remark("no-gdr", evil, "</table><img src=x>"),),
            errors=(evil,),
        )
        for one in days(1, Fault("node", "gpu-0003", 0.6))
    ]
    file, out = tmp_path / "m.jsonl", tmp_path / "p.html"
    file.write_text(write_measurements(made))
    run(PROBE, ["report", str(file), "--history", str(tmp_path / "none.db"), "--html", str(out)])
    page = Page(out.read_text())
    assert page.fetched == []
    assert evil in " ".join(page.words)
    assert "rx_prio3_pause<b>" in " ".join(page.words)


def test_report_changes_no_history(told: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, database = told
    before = Path(database).read_bytes()
    assert run(PROBE, ["report", file, "--history", database, "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["locate"]["suspects"][0]["id"] == "gpu-0003/rail1"
    assert {each["rail"] for each in document["classes"]} == {"rail0", "rail1"}
    assert Path(database).read_bytes() == before


def test_a_page_of_pairs_where_rails_were_not_apart() -> None:
    cluster = Cluster(8, rails=4)
    made = measure(cluster, [Fault("node", "gpu-0002", 0.5)], np.random.default_rng(1), by_rail=False, noise=QUIET)
    drawn = heatmap(made, Cabling({}))
    assert drawn is not None
    assert drawn.rows == drawn.columns == cluster.names
    assert {cell.row for cell in drawn.cells if cell.ratio < 0.6 and cell.column != "gpu-0002"} == {"gpu-0002"}


def test_a_heatmap_of_thousands_shows_the_slowest() -> None:
    made = measure(Cluster(512, rails=2), [Fault("nic", "gpu-0400/rail1", 0.5)], np.random.default_rng(1), noise=QUIET)
    drawn = heatmap(made, Cabling({}))
    assert drawn is not None
    assert len(drawn.rows) == 128
    assert drawn.left_out == 384
    assert "gpu-0400" in drawn.rows


def test_shades_darken_with_the_loss() -> None:
    lightness = [int(re.findall(r"(\d+)%\)", shade(ratio))[0]) for ratio in (1.0, 0.9, 0.8, 0.7, 0.0)]
    assert lightness == sorted(lightness, reverse=True)


def test_a_trend_marks_where_the_level_changed() -> None:
    rng = np.random.default_rng(1)
    levels = [46.0] * 40 + [42.0] * 20
    points = [
        TrendPoint(i, 86_400.0 * i, "a,b", level * exp(rng.normal(0, 0.01)), "ok") for i, level in enumerate(levels)
    ]
    drawn = trend("x", points, 0.04)
    assert drawn is not None
    ((x, text),) = drawn.changes
    assert x == pytest.approx(640 * 40 / 59, abs=12)
    assert text.startswith(("-8", "-9"))
    assert all(-1 <= y <= 121 for _, y, _, _ in drawn.dots)


def test_noise_has_no_change_points() -> None:
    rng = np.random.default_rng(1)
    assert sum(bool(change_points(rng.normal(0, 0.02, 120).tolist())) for _ in range(40)) <= 1


# metrics


def scrape(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    return {
        family.name: {tuple(sorted(sample.labels.items())): sample.value for sample in family.samples}
        for family in text_string_to_metric_families(text)
    }


def test_a_pipe_or_device_stays_what_it_is(told: tuple[str, str], tmp_path: Path) -> None:
    file, database = told
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        run(PROBE, ["report", file, "--history", database, "--textfile", str(pipe)])
        assert pipe.is_fifo()
        assert os.read(reader, 6) == b"# HELP"
    finally:
        os.close(reader)


def test_the_textfile_holds_the_run(told: tuple[str, str], tmp_path: Path) -> None:
    file, database = told
    out = tmp_path / "probe.prom"
    run(PROBE, ["report", file, "--history", database, "--textfile", str(out)])
    found = scrape(out.read_text())
    assert out.stat().st_mode & 0o777 == 0o644
    assert found["roceway_probe_verdict"][(("verdict", "faulty"),)] == 1
    assert found["roceway_probe_suspect_confidence"][(("id", "gpu-0003/rail1"), ("kind", "nic"))] > 0.95
    key = (("group", "pair"), ("rail", "rail0"), ("size", str(4 << 30)), ("test", "all_reduce"))
    assert found["roceway_probe_busbw_bytes_per_second"][key] == pytest.approx(46.5e9, rel=0.02)


def test_labels_are_bounded(tmp_path: Path) -> None:
    cluster = Cluster(256, rails=8)
    faults = [Fault("nic", f"{name}/rail{i % 8}", 0.5) for i, name in enumerate(cluster.names[:48])]
    file, out = tmp_path / "m.jsonl", tmp_path / "probe.prom"
    file.write_text(write_measurements(days(1, *faults, nodes=cluster)))
    run(PROBE, ["report", str(file), "--history", str(tmp_path / "none.db"), "--textfile", str(out)])
    found = scrape(out.read_text())
    assert len(found["roceway_probe_suspect_confidence"]) == 32
    assert found["roceway_probe_suspects"][()] > 32
    assert len(out.read_text().splitlines()) < 500


def test_metrics_are_served_over_http(told: tuple[str, str], tmp_path: Path) -> None:
    _, database = told
    command = [sys.executable, "-m", "nccltest", "report", "--listen", "127.0.0.1:0", "--history", database]
    process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        port = int(process.stderr.readline().rpartition(" ")[2])
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            found = scrape(answer.read().decode())
        assert found["roceway_probe_last_run_timestamp_seconds"][()] == 1.76e9 + 86_400 * 19
    finally:
        process.terminate()
        process.communicate(timeout=10)


def test_listening_without_a_history_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROBE, ["report", "--listen", ":0", "--history", str(tmp_path / "none.db")]) == 3
    assert run(PROBE, ["report", "--listen", "nonsense"]) == 2
    assert run(PROBE, ["report"]) == 2
    assert "a FILE is needed" in capsys.readouterr().err


def exported(tmp_path: Path) -> set[str]:
    file, out = tmp_path / "m.jsonl", tmp_path / "all.prom"
    file.write_text(write_measurements(days(1, Fault("nic", "gpu-0003/rail1", 0.7))))
    run(PROBE, ["report", str(file), "--history", str(tmp_path / "none.db"), "--textfile", str(out)])
    return set(scrape(out.read_text()))


def test_rules_and_dashboard_ask_only_for_what_is_exported(tmp_path: Path) -> None:
    rules = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]
    used = {name for text in (*rules, *panels) for name in re.findall(r"roceway_probe_\w+", text)}
    assert len(rules) >= 5
    assert used <= exported(tmp_path)
    assert exported(tmp_path) <= used  # what is exported is on the dashboard too


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_rules_and_metrics(told: tuple[str, str], tmp_path: Path) -> None:
    file, database = told
    out = tmp_path / "probe.prom"
    run(PROBE, ["report", file, "--history", database, "--textfile", str(out)])
    subprocess.run(["promtool", "check", "rules", str(RULES)], check=True, capture_output=True)
    subprocess.run(["promtool", "check", "metrics"], input=out.read_bytes(), check=True, capture_output=True)


# history


def test_history_lists_runs_and_series(told: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    _, database = told
    capsys.readouterr()
    assert run(PROBE, ["history", "--history", database, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [each["schedule"] for each in document["runs"]][:2] == ["day-19", "day-18"]
    assert document["series"][0]["baseline"] == pytest.approx(46.5, rel=0.02)
    assert run(PROBE, ["history", "--history", database]) == 0
    assert "all_reduce pair" in capsys.readouterr().out


def test_accept_and_prune(told: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    file, database = told
    assert run(PROBE, ["history", "--history", database, "--accept", "%rail1"]) == 0
    assert run(PROBE, ["history", "--history", database, "--prune", "5"]) == 0
    assert "accepted series: 1" in capsys.readouterr().out
    assert run(PROBE, ["judge", file, "--history", database, "--json"]) == 1
    rails = {each["rail"]: each["runs"] for each in json.loads(capsys.readouterr().out)["series"]}
    assert rails["rail1"] == 0
    assert rails["rail0"] > 0


def test_history_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(PROBE, ["history", "--history", str(tmp_path / "none.db")]) == 3
    assert "no history yet" in capsys.readouterr().err


def test_members_without_rail_make_no_heatmap_of_nics() -> None:
    whole = Measurement("all_reduce", 1 << 30, tuple(Member(f"n{i}") for i in range(8)), 300.0, kind="whole")
    assert heatmap([whole], Cabling({})) is None
