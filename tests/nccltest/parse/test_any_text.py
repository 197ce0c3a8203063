"""Whatever a file holds: no exception, no hang, time that grows with its length and no faster."""

from __future__ import annotations

import json
import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nccltest.model import Run, run_to_json
from nccltest.parse import parse_text
from nccltest.redact import redact
from tests.nccltest.parse.printed import STYLES, printed
from tests.nccltest.parse.test_json import document
from tests.nccltest.parse.test_versions import HOSTS, PREFIXES, table

WHOLE = [printed(style, table(style), HOSTS) for style in STYLES]
PIECES = st.one_of(
    st.sampled_from([line for text in WHOLE for line in text.splitlines()]),
    st.sampled_from(list(PREFIXES.values())),
    st.sampled_from(
        ["# error: x", "Test NCCL failure a:1 'b'", "1 2 float", "-1", "N/A", "inf", "\0", "1" * 400, "{", "["]
    ),
    st.text(max_size=30),
)
LOGS = st.lists(st.tuples(PIECES, st.sampled_from(["\n", "", " ", "\r\n"])), max_size=40).map(
    lambda parts: "".join(piece + end for piece, end in parts)
)
KEYS = st.sampled_from(["size", "results", "out_of_place", "bus_bw", "config", "devices", "count", "env"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner),
    max_leaves=12,
)


def sound(runs: tuple[Run, ...]) -> None:
    assert runs
    text = json.dumps([run_to_json(run) for run in runs], allow_nan=False)
    assert json.loads(text)
    for run in runs:
        for row in run.rows:
            for half in (row.out_of_place, row.in_place):
                assert half is None or half.busbw is None or (half.busbw >= 0 and math.isfinite(half.busbw))


@given(LOGS)
@settings(max_examples=300, deadline=None)
def test_any_mixture_of_lines_is_read(text: str) -> None:
    sound(parse_text(text, "x"))


@given(st.binary(max_size=400))
@settings(deadline=None)
def test_any_bytes_are_read(data: bytes) -> None:
    sound(parse_text(data.decode(errors="replace"), "x"))


@given(st.sampled_from(sorted(document())), VALUES)
@settings(max_examples=200, deadline=None)
def test_any_json_of_the_shape_is_read(key: str, value: object) -> None:
    sound(parse_text(json.dumps({**document(), key: value}), "x"))


@given(st.integers(0, 2**32), st.sampled_from(WHOLE))
@settings(max_examples=200, deadline=None)
def test_a_flipped_byte_harms_nobody(place: int, text: str) -> None:
    at = place % len(text)
    sound(parse_text(text[:at] + chr(place % 256) + text[at + 1 :], "x"))


HOSTILE = {
    "digits": "1" * 4096 + "\n",
    "blanks": "8 " + " " * 4000 + "\n",
    "types": "8 8 float sum -1 " + "1 " * 1500 + "\n",
    "prefixes": "0: " * 1300 + "\n",
    "tags": "[1,0]<stdout>:" * 290 + "\n",
    "brackets": "[" * 4096 + "\n",
    "Rank": "Rank " * 800 + "\n",
    "secrets": "Error: " + "token" * 800 + "\n",
    "errors": "Test NCCL failure x " + "a" * 4000 + "\n",
    "halves": "8 8 float sum -1\n" + "hello\n" * 500,
    "runs": "# nThread 1 nGpus 1\n" * 100,
    "one line": "x" * 4096,
    "quotes": '{"a": "' + '\\"' * 2000,
    "open lists": '{"results": [' * 300,
    "addresses": "Error: " + "://a:" * 800 + "\n",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_length_alone(name: str) -> None:
    unit = HOSTILE[name]
    small = unit * max(1, 40_000 // len(unit))

    def seconds(text: str) -> float:
        best = math.inf
        for _ in range(3):
            start = time.process_time()
            sound(parse_text(text, "x"))
            best = min(best, time.process_time() - start)
        return best

    # Ten times the text takes ten times as long; thirty leaves room for a busy machine, a hundred would be quadratic.
    assert seconds(small * 10) < 30 * seconds(small) + 0.05


def test_even_the_worst_text_goes_at_a_megabyte_a_second() -> None:
    for name, unit in HOSTILE.items():
        text = unit * (500_000 // len(unit))
        start = time.process_time()
        parse_text(text, "x")
        assert time.process_time() - start < 3, name


@given(st.text(max_size=200))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    assert redact(redact(text)) == redact(text)
