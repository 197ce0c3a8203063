"""Every version's table, behind every prefix, with every interleaving: the same rows."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from nccltest.model import Half, Row
from nccltest.parse import parse_text
from tests.nccltest.parse.printed import STYLES, Style, line, printed

HOSTS = ("node-a", "node-a", "node-b", "node-b")
MODERN = next(style for style in STYLES if style.name == "2.13")


def table(style: Style, rows: int = 3) -> tuple[Row, ...]:
    """Rows of an all_reduce over four ranks, as far as the style can tell them."""
    made = []
    for power in range(10, 10 + rows):
        size = 4 << power
        cv = 3.25 if style.per_iteration else None
        unchecked = style.error != "#wrong"
        halves = [
            Half(float(power), 8.0 + place, 12.0 + 1.5 * place, None if unchecked and place else 0, cv)
            for place in range(2)
        ]
        made.append(
            Row(size, size // 4, "float", "sum" if style.redop or style.error == "res" else "none", -1, *halves)
        )
    return tuple(made)


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_every_versions_table_is_read(style: Style) -> None:
    rows = table(style)
    if style.error != "#wrong" and style.root:
        rows = tuple(replace(row, root=1) for row in rows)
    (run,) = parse_text(printed(style, rows, HOSTS), "x")
    assert run.rows == rows
    assert (run.status, run.version, run.ranks, run.nodes) == ("ok", style.version, 4, 2)


PREFIXES = {
    "srun -l": "0: ",
    "srun -l, padded": " 0: ",
    "mpirun --tag-output": "[1,0]<stdout>:",
    "prterun": "[prterun-login-77@1,0]<stdout>: ",
    "mpirun --timestamp-output": "Mon Jul 22 08:33:02 2024<stdout>:",
    "SkyPilot": "(head, rank=0, pid=3808) ",
    "SkyPilot and mpirun": "(head, rank=0, pid=3808) [1,0]<stdout>:",
    "kubectl --timestamps": "2024-07-22T08:33:02.123456789Z ",
    "kubectl --prefix": "[pod/nccl-launcher-x7x2/main] ",
    "torchrun": "[default0]:",
    "journalctl": "Jul 22 08:33:02 gpu-001 roceway[4711]: ",
    "docker compose": "launcher-1  | ",
    "indentation": "      ",
    "colour": "\x1b[32m",
}


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
@pytest.mark.parametrize("prefix", PREFIXES.values(), ids=PREFIXES)
def test_prefixes_change_nothing(prefix: str, style: Style) -> None:
    text = printed(style, table(style), HOSTS)
    (bare,) = parse_text(text, "x")
    (run,) = parse_text("".join(f"{prefix}{line}\r\n" for line in text.splitlines()), "x")
    assert run == bare


@pytest.mark.parametrize("prefix", ["[1,0]<stdout>:", "0: "])
def test_prefixes_in_the_middle_of_a_row_change_nothing(prefix: str) -> None:
    rows = table(MODERN)
    text = printed(MODERN, (), HOSTS, footer=False)
    for row in rows:
        words = line(MODERN, row)
        text += f"{prefix}{words[:50]}{prefix}{words[50:82]}{prefix}{words[82:]}\n"
    assert parse_text(text, "x")[0].rows == rows


NOISE = "gpu-001:303554:303999 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/IPC"


@pytest.mark.parametrize("after", range(5, 13))
@pytest.mark.parametrize("noise", [NOISE, "[gpu-001:77] mca: base: component_find: unable to open", "hello"])
def test_other_ranks_text_in_the_middle_of_a_row_is_skipped(noise: str, after: int) -> None:
    row = table(MODERN)[0]
    words = line(MODERN, row)
    cut = [word.end() for word in re.finditer(r"\S+", words)][after - 1]
    text = printed(MODERN, (), HOSTS, footer=False)
    for joint in (f"{noise}\n", f"{noise}\n{noise}\n", f"\n{noise}\n"):
        assert parse_text(text + words[:cut] + joint + words[cut:] + "\n", "x")[0].rows == (row,)


def test_text_between_rows_and_a_repeated_header_change_nothing() -> None:
    rows = table(MODERN)
    lines = printed(MODERN, rows, HOSTS).splitlines()
    at = next(place for place, text in enumerate(lines) if "busbw" in text)
    noisy = [*lines[: at + 3], "mpirun: some text", NOISE, *lines[at : at + 2], *lines[at + 3 :]]
    assert parse_text("\n".join(noisy), "x")[0].rows == rows


def test_several_tests_in_one_file_are_several_runs() -> None:
    texts = [printed(style, table(style), HOSTS) for style in STYLES]
    runs = parse_text("\n".join(texts), "f")
    assert [run.version for run in runs] == [style.version for style in STYLES]
    assert [run.source for run in runs] == [f"f#{number}" for number in range(1, len(STYLES) + 1)]
    assert {run.status for run in runs} == {"ok"}


@pytest.mark.parametrize("style", STYLES, ids=lambda style: style.name)
def test_a_truncated_log_keeps_its_whole_rows_and_is_incomplete(style: Style) -> None:
    text = printed(style, table(style), HOSTS)
    end = text.index("Out of bounds")
    for cut in range(text.index(line(style, table(style)[0])[:20]), end, 7):
        (run,) = parse_text(text[:cut], "x")
        assert run.status == "incomplete"
        for seen, row in zip(run.rows, table(style), strict=False):
            assert (seen.size, seen.out_of_place.algbw) == (row.size, row.out_of_place.algbw)


def test_a_row_cut_in_its_second_half_keeps_the_first() -> None:
    text = printed(MODERN, table(MODERN, 1), HOSTS, footer=False)
    (run,) = parse_text(text.rstrip()[:-12], "x")
    assert run.rows == (replace(table(MODERN, 1)[0], in_place=None),)


def test_only_in_place_rows_are_in_place() -> None:
    row = table(MODERN, 1)[0]
    words = line(MODERN, row)
    blank = words[:48] + " " * 32 + words[-32:]
    (run,) = parse_text(printed(MODERN, (), HOSTS, footer=False) + blank + "\n# Avg bus bandwidth : 1\n", "x")
    assert run.rows[0].in_place == row.in_place
    assert run.rows[0].out_of_place.busbw is None


@pytest.mark.parametrize(
    ("line_", "status", "rows"),
    [
        ("gpu-1: Test NCCL failure common.cu:1279 'unhandled system error / '", "failed", 3),
        ("gpu-1: Test CUDA failure common.cu:892 'out of memory'", "failed", 3),
        ("gpu-1: Test timeout (300s) all_reduce.cu:1", "failed", 3),
        (" .. gpu-1 pid 303561: Test failure common.cu:1100", "failed", 3),
        ("mpirun noticed that process rank 3 with PID 0 on node gpu-2 exited on signal 9 (Killed).", "failed", 3),
        ("ORTE has lost communication with a remote daemon.", "failed", 3),
        ("srun: error: gpu-2: task 8: Killed", "failed", 3),
        (
            "slurmstepd: error: *** STEP 7.0 ON gpu-1 CANCELLED AT 2026-01-01T00:00:00 DUE TO TIME LIMIT ***",
            "failed",
            3,
        ),
        ("ssh: connect to host gpu-2 port 22: No route to host", "failed", 3),
    ],
)
def test_failures_are_failures_and_never_slow(line_: str, status: str, rows: int) -> None:
    text = printed(MODERN, table(MODERN), HOSTS, footer=False) + line_ + "\n"
    (run,) = parse_text(text, "x")
    assert (run.status, len(run.rows), run.errors) == (status, rows, (line_.strip(),))


@pytest.mark.parametrize(
    "text",
    [
        "There are not enough slots available in the system to satisfy the 16 slots\n",
        "bash: all_reduce_perf: command not found\n",
        "./all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n",
        "Permission denied (publickey,password).\nORTE was unable to reliably start one or more daemons.\n",
    ],
)
def test_a_launch_that_failed_is_failed(text: str) -> None:
    (run,) = parse_text(text, "x")
    assert (run.status, run.rows) == ("failed", ())
    assert run.errors


def test_an_exit_code_after_a_whole_table_is_only_told() -> None:
    text = (
        printed(MODERN, table(MODERN), HOSTS)
        + "mpirun detected that one or more processes exited with non-zero status\n"
    )
    (run,) = parse_text(text, "x")
    assert run.status == "ok"
    assert run.errors


def test_wrong_data_is_wrong_data_whatever_else_happened() -> None:
    good = printed(MODERN, table(MODERN), HOSTS)
    for text in (
        good.replace("values : 0 OK", "values : 8 FAILED"),
        good.replace("      0\n", "  1.04858e+06\n", 1) + "gpu-1: Test NCCL failure x 'y'\n",
    ):
        assert parse_text(text, "x")[0].status == "wrong-data"


def test_an_average_below_the_tests_own_minimum_is_no_status() -> None:
    text = printed(MODERN, table(MODERN), HOSTS).replace("bandwidth    : ", "bandwidth    : 0.5 FAILED ")
    assert parse_text(text, "x")[0].status == "ok"


def test_one_rank_is_not_a_collective() -> None:
    alone = tuple(replace(row, out_of_place=replace(row.out_of_place, busbw=0.0)) for row in table(MODERN))
    assert parse_text(printed(MODERN, alone, HOSTS[:1]), "x")[0].status == "not-collective"
    assert parse_text(printed(MODERN, alone, HOSTS), "x")[0].status == "not-collective"


@pytest.mark.parametrize("text", ["", "\n\n", "hello\nworld\n", "\0\0\0", '{"a": 1}', "[1, 2", "[]", "nccl"])
def test_what_is_no_log_is_incomplete_and_says_so(text: str) -> None:
    (run,) = parse_text(text, "x")
    assert (run.status, run.errors) == ("incomplete", ("no output of nccl-tests in it",))


def test_secrets_are_not_kept() -> None:
    text = (
        "+ mpirun -x NCCL_DEBUG=INFO -x HF_TOKEN=hf_abcdef -x NCCL_IB_HCA=mlx5_0\n"
        + printed(MODERN, table(MODERN), HOSTS, footer=False)
        + "RuntimeError: https://bob:hunter2@registry/x refused, AWS_SECRET_ACCESS_KEY=abc/def "
        + "password: 'x y' Bearer abcdefgh1\n"
    )
    (run,) = parse_text(text, "x")
    assert run.env == (("NCCL_DEBUG", "INFO"), ("NCCL_IB_HCA", "mlx5_0"))
    kept = repr(run)
    for secret in ("hf_abcdef", "hunter2", "abc/def", "x y", "abcdefgh1"):
        assert secret not in kept
    assert "refused" in kept


def test_a_cut_row_behind_a_footer_is_a_run_of_its_own() -> None:
    row = line(MODERN, table(MODERN, 1)[0])
    first, second = parse_text(f"# Out of bounds values : 0 OK\n{row[:-1]}\n", "x")
    assert (first.status, len(first.rows)) == ("incomplete", 0)
    assert (second.status, len(second.rows)) == ("incomplete", 1)


@pytest.mark.parametrize("footer", [True, False])
def test_a_library_s_warning_before_a_whole_table_is_only_told(footer: bool) -> None:
    warning = "A module was compiled using NumPy 1.x\nTraceback (most recent call last):\n"
    (run,) = parse_text(warning + printed(MODERN, table(MODERN), HOSTS, footer=footer), "x")
    assert run.status == ("ok" if footer else "failed")
    assert run.errors == ("Traceback (most recent call last):",)
