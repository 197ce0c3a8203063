"""The all-reduce without GPUs: its numbers, its table, its exit codes."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from array import array

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nccltest import mpi_allreduce as bench
from tests.world import ROOT

OPTIONS = bench.Options(8 << 20, 8 << 20, 1 << 20, 2, 5, 1, 1)

needs_mpi = pytest.mark.skipif(
    shutil.which("mpirun") is None or importlib.util.find_spec("mpi4py") is None,
    reason="needs Open MPI (apt-get install openmpi-bin) and mpi4py",
)


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("64K", 64 << 10), ("8M", 8 << 20), ("8m", 8 << 20), ("1.5G", 3 << 29), ("2t", 2 << 40)],
)
def test_sizes_are_written_as_nccl_tests_takes_them(text: str, size: int) -> None:
    assert bench.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "M", "-1", "8 M", "8MB", "8Q", "1e6", "1.", "inf", "0x10", "8M\n"])
def test_other_text_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="no size"):
        bench.parse_size(text)


def test_sizes_step_by_factor_or_by_bytes() -> None:
    assert list(bench.sizes(OPTIONS._replace(min_bytes=8, max_bytes=64))) == [8, 16, 32, 64]
    assert list(bench.sizes(OPTIONS._replace(min_bytes=8, max_bytes=30, step_factor=1, step_bytes=10))) == [8, 16, 28]
    assert list(bench.sizes(OPTIONS)) == [8 << 20]


@pytest.mark.parametrize(("ranks", "factor"), [(1, 0), (2, 1), (4, 1.5), (8, 1.75), (1024, 1.998046875)])
def test_busbw_factor_is_the_share_that_crosses_a_link(ranks: int, factor: float) -> None:
    assert bench.busbw_factor(ranks) == factor


def test_a_row_has_the_columns_of_nccl_tests() -> None:
    # Time and bandwidths of an all_reduce_perf row as users print it: 33554432 B in 631.1 µs are 53.17 GB/s.
    row = bench.Row(8388608, bench.Half(631.1e-6, 0), bench.Half(0.0123456, None))
    text = bench.line(row, 8)
    assert text == (
        "    33554432       8388608     float     sum      -1    631.1   53.17   93.04      0"
        "    12346    2.72    4.76    N/A"
    )
    assert len(text.split()) == 13


@pytest.mark.parametrize(
    ("seconds", "text"), [(5.634e-6, "5.63"), (99.99e-6, "99.99"), (105.94e-6, "105.9"), (0.29, "290000")]
)
def test_times_are_microseconds_with_nccl_tests_decimals(seconds: float, text: str) -> None:
    assert bench.line(bench.Row(4, bench.Half(seconds, 0), bench.Half(1, 0)), 2).split()[5] == text


def test_many_wrong_elements_are_printed_as_nccl_tests_prints_them() -> None:
    half = bench.Half(1.0, 1048580)
    assert bench.line(bench.Row(2097152, half, half), 2).split()[8] == "1.04858e+06"


def test_the_header_names_what_ran_and_where() -> None:
    lines = bench.header(OPTIONS, [(17, "pod0"), (4711, "pod1")]).splitlines()
    assert lines[1] == (
        "# nThread 1 nGpus 1 minBytes 8388608 maxBytes 8388608 step: 2(factor) "
        "warmup iters: 1 iters: 5 agg iters: 1 validation: 1 graph: 0"
    )
    assert lines[4:6] == [
        "#  Rank  0 Group  0 Pid     17 on       pod0 device  0 [0x00] CPU",
        "#  Rank  1 Group  0 Pid   4711 on       pod1 device  0 [0x00] CPU",
    ]
    half_names, half_units = ("     time   algbw   busbw #wrong", "     (us)  (GB/s)  (GB/s)       ")
    assert lines[-3:] == [
        "#" + " " * 62 + "out-of-place" + " " * 23 + "in-place          ",
        "#       size         count      type   redop    root" + half_names * 2,
        "#        (B)    (elements)                          " + half_units * 2,
    ]
    assert "step: 1048576(bytes)" in bench.header(OPTIONS._replace(step_factor=1), [])


END = "#\n# Collective test concluded: all_reduce_perf"


def test_the_footer_averages_every_row_and_both_halves() -> None:
    rows = [
        bench.Row(250_000, bench.Half(1e-3, 0), bench.Half(0.5e-3, 2)),  # 1 and 2 GB/s
        bench.Row(250_000, bench.Half(1e-3, 1), bench.Half(1e-3, None)),
    ]
    assert bench.footer(rows, 2) == "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 1.25 \n" + END
    assert bench.footer(rows[:0], 2) == "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0 \n" + END


@given(ranks=st.integers(1, 64), count=st.integers(1, 2000))
def test_the_expected_sum_is_the_sum_of_the_contributions(ranks: int, count: int) -> None:
    given_in = [bench.contribution(rank, count) for rank in range(ranks)]
    assert list(bench.expected(ranks, count)) == [sum(column) for column in zip(*given_in, strict=True)]


@given(count=st.integers(2, 1500), data=st.data())
def test_every_wrong_element_is_counted(count: int, data: st.DataObject) -> None:
    wanted = bench.expected(4, count)
    places = data.draw(st.sets(st.integers(0, count - 1)))
    got = array("f", wanted)
    for place in places:
        got[place] = float("nan") if place % 2 else got[place] + 1
    assert bench.wrong_elements(got, wanted) == len(places)


def test_a_chunk_in_the_wrong_place_is_wrong_data() -> None:
    wanted = bench.expected(4, 4096)
    assert bench.wrong_elements(wanted[1024:] + wanted[:1024], wanted) > 4000


@pytest.mark.parametrize(
    "arguments",
    [
        ["-b", "2"],
        ["-b", "8M", "-e", "4M"],
        ["-n", "0"],
        ["-w", "-1"],
        ["-i", "0"],
        ["-b", "8Q"],
        ["-g", "2"],
        ["--nonsense"],
    ],
)
def test_nonsense_is_usage_with_nccl_tests_exit_code(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        bench.parse_arguments(arguments)
    assert stop.value.code == 6
    assert capsys.readouterr().err.startswith("python -m nccltest.mpi_allreduce: ")


def test_flags_are_those_of_nccl_tests() -> None:
    assert bench.parse_arguments(
        ["-b", "1M", "-e", "8M", "-f", "2", "-n", "7", "-w", "3", "-c", "0", "-g", "1"]
    ) == bench.Options(1 << 20, 8 << 20, 1 << 20, 2, 7, 3, 0)
    assert bench.parse_arguments([]) == bench.Options(32 << 20, 32 << 20, 1 << 20, 1, 20, 1, 1)


def mpirun(*words: str) -> subprocess.CompletedProcess[str]:
    """Two ranks on this machine."""
    options = ("--allow-run-as-root", "-np", "2", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "self,vader")
    return subprocess.run(
        ["mpirun", *options, sys.executable, *words], capture_output=True, text=True, cwd=ROOT, timeout=60
    )


@needs_mpi
def test_two_ranks_reduce_and_find_the_data_right() -> None:
    done = mpirun("-m", "nccltest.mpi_allreduce", "-b", "1001", "-e", "64K", "-f", "8", "-n", "2")
    assert done.returncode == 0, done
    rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [[*row[:5], row[8], row[12]] for row in rows] == [
        ["1000", "250", "float", "sum", "-1", "0", "0"],
        ["8008", "2002", "float", "sum", "-1", "0", "0"],
        ["64064", "16016", "float", "sum", "-1", "0", "0"],
    ]
    assert "# Out of bounds values : 0 OK" in done.stdout


@needs_mpi
def test_wrong_data_ends_every_rank_with_7() -> None:
    program = (
        "import sys; from nccltest import mpi_allreduce as bench; sys.argv[1:] = ['-b', '4K', '-e', '4K', '-n', '1'];"
        "bench.expected = lambda ranks, count: bench.contribution(0, count); bench.main()"
    )
    done = mpirun("-c", program)
    assert done.returncode == 7, done
    assert "FAILED" in done.stdout


@needs_mpi
def test_a_rank_that_fails_takes_the_others_along() -> None:
    program = (
        "import sys; from nccltest import mpi_allreduce as bench; sys.argv[1:] = ['-b', '4K', '-e', '4K', '-n', '1'];"
        "bench.contribution = lambda rank, count: 1 / rank; bench.main()"
    )
    done = mpirun("-c", program)
    assert done.returncode == 1, done
    assert "ZeroDivisionError" in done.stderr
