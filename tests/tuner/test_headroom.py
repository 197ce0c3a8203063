"""The three headroom models: worked numbers, every row of the recorded lookup tables, and laws."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.world import ROOT
from tuner.__main__ import TUNE
from tuner.cli import run
from tuner.headroom import ASICS, ecn_first, mlx5, quanta, reckon, sonic_dynamic, sonic_static, storm_frames, trigger

TABLES = ROOT.parent / "shared/data/switch"
SPEEDS = st.sampled_from([10_000, 25_000, 40_000, 50_000, 100_000, 200_000, 400_000])


@pytest.mark.parametrize(("speed", "metres", "xoff"), [(400_000, 40, 77_824), (100_000, 300, 117_760)])
def test_sonic_static_worked(speed: int, metres: int, xoff: int) -> None:
    assert sonic_static(speed, metres) == xoff


@pytest.mark.parametrize(
    ("metres", "asic", "xoff"),
    [
        (40, "spectrum-4", 112_640),
        (300, "spectrum-4", 274_432),
        (40, "spectrum-3", 104_448),
        (300, "spectrum-2", 254_976),
    ],
)
def test_sonic_dynamic_worked(metres: int, asic: str, xoff: int) -> None:
    assert sonic_dynamic(400_000, metres, 9216, asic) == xoff


@pytest.mark.parametrize(("speed", "metres", "xoff"), [(100_000, 7, 56_667), (400_000, 5, 149_467)])
def test_mlx5_worked(speed: int, metres: int, xoff: int) -> None:
    assert mlx5(speed, metres, 9216) == xoff


def test_mlx5_reckons_slow_links_as_40g_and_whole_metres() -> None:
    assert mlx5(10_000, 5, 1500) == mlx5(40_000, 5, 1500)
    assert mlx5(100_000, 4.2, 9000) == mlx5(100_000, 5, 9000)


def rows(table: Path) -> Iterator[tuple[int, int, int]]:
    """Speed in Mb/s, metres, xoff of a pg_profile_lookup.ini."""
    for line in table.read_text().splitlines():
        found = re.fullmatch(r"\s*(\d+)\s+(\d+)m\s+\d+\s+\d+\s+(\d+)\s.*", line)
        if found:
            yield int(found[1]), int(found[2]), int(found[3])


@pytest.mark.skipif(not TABLES.is_dir(), reason="no recorded tables here")
def test_every_row_of_the_recorded_spectrum_tables() -> None:
    tables = sorted(TABLES.glob("sonic_pg_profile_lookup_msn*.ini"))
    checked = [(speed, metres) for table in tables for speed, metres, _ in rows(table)]
    assert len(checked) >= 21
    for table in tables:
        for speed, metres, xoff in rows(table):
            assert sonic_static(speed, metres) == xoff, (table.name, speed, metres)


@pytest.mark.skipif(not TABLES.is_dir(), reason="no recorded tables here")
def test_a_tomahawk_s_table_is_not_ours() -> None:
    """The models are of Spectrum switches: what they say of another vendor's must not look like its table."""
    table = list(rows(TABLES / "sonic_pg_profile_lookup_th_rdma.ini"))
    assert len(table) == 15
    assert all(sonic_static(speed, metres) != xoff for speed, metres, xoff in table)


@given(SPEEDS, st.integers(1, 2000), st.integers(1, 2000), st.sampled_from(sorted(ASICS)))
def test_a_longer_cable_never_needs_less(speed: int, one: int, other: int, asic: str) -> None:
    short, long = sorted((one, other))
    assert sonic_static(speed, short) <= sonic_static(speed, long)
    assert sonic_dynamic(speed, short, 9216, asic) <= sonic_dynamic(speed, long, 9216, asic)
    assert mlx5(speed, short, 9000) <= mlx5(speed, long, 9000)


@given(SPEEDS, st.integers(1, 500), st.sampled_from(["sonic-static", "sonic-dynamic", "mlx5"]))
def test_the_terms_add_up_to_the_number(speed: int, metres: int, model: str) -> None:
    found = reckon(model, speed, metres)  # type: ignore[arg-type]  # hypothesis gives plain text
    total = sum(term.bytes * (found.factor if "× cells" in term.name else 1) for term in found.terms)
    assert found.xoff_bytes - 1024 < total <= found.xoff_bytes


def test_a_speed_that_ieee_does_not_list_is_refused() -> None:
    with pytest.raises(ValueError, match="no pause response time is known for 123 Mb/s"):
        quanta(123)


def test_trigger_of_a_dynamic_pool() -> None:
    assert trigger(16_000_000, Fraction(1), 1) == 8_000_000
    assert trigger(16_000_000, Fraction(1, 8), 8) == 1_000_000


def test_ecn_first_by_the_paper_s_bound() -> None:
    # B = 12 MB, β = 8, n = 32, t_flight = 22.4 KB (DCQCN §4): about 21.75 KB.
    found = ecn_first(12_000_000, Fraction(8), 32, 20_000, 22_400)
    assert found.paper_bytes == pytest.approx(21_750, rel=0.02)
    assert found.always
    assert not ecn_first(12_000_000, Fraction(8), 32, 30_000, 22_400).always


def test_ecn_first_by_the_trigger_of_these_senders() -> None:
    assert ecn_first(16_000_000, Fraction(1, 8), 8, 999_999).first
    assert not ecn_first(16_000_000, Fraction(1, 8), 8, 1_000_000).first


@given(st.integers(1 << 20, 1 << 28), st.integers(1, 64), st.integers(1, 64))
def test_more_senders_pause_earlier(pool: int, few: int, more: int) -> None:
    low, high = sorted((few, more))
    assert trigger(pool, Fraction(1, 8), high) <= trigger(pool, Fraction(1, 8), low)


def test_a_storm_is_12_000_frames_a_second_at_400g_and_3_000_at_100g() -> None:
    assert storm_frames(400_000) == pytest.approx(11_921, abs=1)
    assert storm_frames(100_000) == pytest.approx(2_980, abs=1)


def test_command_json(capsys: pytest.CaptureFixture[str]) -> None:
    words = "headroom --model sonic-static --speed 400G --cable 40m --mtu 9216 --json"
    assert run(TUNE, words.split()) == 0
    assert json.loads(capsys.readouterr().out)["xoff_bytes"] == 77_824


def test_command_explains(capsys: pytest.CaptureFixture[str]) -> None:
    words = "headroom --model sonic-dynamic --speed 400G --cable 40m --asic spectrum-3 --explain"
    assert run(TUNE, words.split()) == 0
    printed = capsys.readouterr().out
    assert "xoff 104,448 B" in printed
    assert "905 quanta of 64 B" in printed
    assert "× cells: 1.1471" in printed


@pytest.mark.parametrize(("kmin", "code"), [("100KiB", 0), ("10MiB", 1)])
def test_command_says_whether_ecn_comes_first(kmin: str, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    words = f"headroom --model mlx5 --speed 100G --cable 5m --buffer 60MiB --incast 8 --kmin {kmin} --json"
    assert run(TUNE, words.split()) == code
    assert json.loads(capsys.readouterr().out)["ecn"]["ecn_first"] is (code == 0)


def test_command_lists_every_wrong_value(capsys: pytest.CaptureFixture[str]) -> None:
    words = "headroom --model sonic-static --speed 400 --cable far --mtu 1500 --alpha 1/0"
    assert run(TUNE, words.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert all(place in said.err for place in ("--speed", "--cable", "--mtu", "--alpha"))
