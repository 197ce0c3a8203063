"""Measurements as JSON lines: what is written reads back, what is wrong is told with its line."""

from __future__ import annotations

import json
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import ConfigError
from nccltest.model import (
    Delta,
    Fingerprint,
    Half,
    Measurement,
    Member,
    Remark,
    Row,
    Run,
    measurement_from_json,
    read_measurements,
    run_to_json,
    to_json,
    write_measurements,
)

NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
RATES = st.floats(0, 1e4, allow_nan=False)
MEASUREMENTS = st.builds(
    Measurement,
    test=NAMES,
    size=st.integers(0, 1 << 40),
    members=st.lists(st.builds(Member, NAMES, st.none() | NAMES), min_size=1, max_size=4).map(tuple),
    busbw=RATES,
    weight=st.floats(0.1, 100),
    status=st.sampled_from(["ok", "failed", "timeout"]),
    errors=st.lists(st.text(st.characters(codec="utf-8")), max_size=2).map(tuple),
    unreachable=st.lists(NAMES, max_size=2).map(tuple),
    samples=st.lists(RATES, max_size=3).map(tuple),
    time=st.floats(0, 1e10),
    fingerprint=st.builds(Fingerprint, nccl=NAMES, env=NAMES),
    counters=st.lists(st.builds(Delta, NAMES, NAMES, NAMES, st.integers(-(1 << 60), 1 << 60)), max_size=2).map(tuple),
    remarks=st.lists(st.builds(Remark, NAMES, NAMES, NAMES), max_size=2).map(tuple),
)


@given(st.lists(MEASUREMENTS, max_size=4).map(tuple))
def test_what_is_written_reads_back(measurements: tuple[Measurement, ...]) -> None:
    assert read_measurements(write_measurements(measurements), "x") == measurements


def test_the_contracts_five_fields_are_enough() -> None:
    line = '{"test": "all_reduce", "size": 8, "members": [{"node": "a", "rail": "r0"}, {"node": "b"}], "busbw": 1.5}'
    (made,) = read_measurements(line, "x")
    assert (made.busbw, made.weight, made.status, made.nodes, made.rail) == (1.5, 1.0, "ok", ("a", "b"), None)


def test_a_missing_bandwidth_needs_a_reason() -> None:
    failed = {"test": "t", "size": 1, "members": [{"node": "a"}]}
    with pytest.raises(ConfigError, match="busbw: is missing"):
        measurement_from_json(failed)
    assert measurement_from_json({**failed, "status": "timeout"}).busbw is None


def test_an_explicit_null_is_a_failed_group() -> None:
    line = '{"test": "t", "size": 1, "members": [{"node": "a"}, {"node": "b"}], "busbw": null}'
    (made,) = read_measurements(line, "x")
    assert (made.busbw, made.status) == (None, "failed")


def test_every_mistake_is_told_with_its_line() -> None:
    lines = ['{"test": "t", "size": -1, "members": [], "busbw": NaN}', "", "no json", '{"size": "8"}', ""]
    with pytest.raises(ConfigError) as refusal:
        read_measurements("\n".join(lines), "file")
    told = {finding.path for finding in refusal.value.findings}
    assert told == {
        *("line 1: size", "line 1: members", "line 1: busbw", "line 3", "line 4: size"),
        *("line 4: test", "line 4: members"),
    }


def test_a_line_cut_by_a_kill_loses_itself_alone() -> None:
    whole = write_measurements([Measurement("t", 8, (Member("a"),), 1.0)] * 2)
    assert len(read_measurements(whole[:-9], "x")) == 1


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert isinstance(read_measurements(text, "x"), tuple)


def test_hostile_lines_are_refused() -> None:
    for text in ("[" * 100_000, '{"size":' + "9" * 5000 + "}", '{"test":"t","size":1e400,"members":[{"node":"a"}]}'):
        with pytest.raises(ConfigError):
            read_measurements(text + "\n", "x")


def test_a_fingerprints_key_tells_them_apart() -> None:
    assert Fingerprint("a").key == Fingerprint("a").key
    assert len({Fingerprint("a").key, Fingerprint("", "a").key, Fingerprint("a", "b").key, Fingerprint().key}) == 4


def test_a_run_has_the_contracts_shape() -> None:
    half = Half(1.0, 2.0, 3.0, None)
    run = Run("f", "all_reduce", "2.13+", 2, 1, "ok", (), (Row(8, 2, "float", "sum", -1, half, None),))
    document = run_to_json(run)
    assert list(document) == ["source", "collective", "version", "ranks", "nodes", "status", "errors", "rows"]
    assert document["rows"][0]["in_place"] is None
    assert document["rows"][0]["out_of_place"] == {
        "time_us": 1.0, "algbw": 2.0, "busbw": 3.0, "wrong": None
    }  # fmt: skip
    assert json.loads(json.dumps(document, allow_nan=False)) == document


def test_json_holds_no_infinity() -> None:
    with pytest.raises(ConfigError):
        measurement_from_json({"test": "t", "size": 1, "members": [{"node": "a"}], "busbw": math.inf})
    assert "weight" not in to_json(Measurement("t", 1, (Member("a"),), 1.0))
