from __future__ import annotations

import re
import time
from contextlib import suppress

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from conf import yamltext
from conf.errors import ConfigError
from conf.yamltext import read


def refusal(text: str) -> str:
    started = time.monotonic()
    with pytest.raises(ConfigError) as caught:
        read(text, "fabric.yaml")
    assert time.monotonic() - started < 5
    assert len(caught.value.findings) == 1
    return str(caught.value.findings[0])


def test_scalars_follow_yaml_1_2() -> None:
    text = "[0000:18:00.0, on, no, 'true', true, 12, 0x10, 0o10, 010, 1.5, 1e3, ~, '', 2030-12-31, 1:30]"
    assert read(text, "x")[0] == [
        *("0000:18:00.0", "on", "no", "true", True, 12, 16, 8, 10, 1.5, 1000.0, None, "", "2030-12-31", "1:30")
    ]


def test_syntax_errors_give_file_line_and_column() -> None:
    assert refusal("a: [1, 2\nb: }\n") == (
        "fabric.yaml:2:2: while parsing a flow sequence, did not find expected ',' or ']'"
    )


def test_a_key_written_twice_is_a_finding_at_its_path() -> None:
    value, findings = read("a:\n  - b: 1\n    c: 2\n    b: 3\na: 4\n", "x")
    assert [str(finding) for finding in findings] == [
        "a[0].b: written twice, in lines 2 and 4; keep one",
        "a: written twice, in lines 1 and 5; keep one",
    ]
    assert value == {"a": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: &x [1]\nb: *x", "fabric.yaml:2:4: alias *x: write the value out, aliases are not read"),
        ("a: !!python/object/apply:os.system [id]", "tags are not read"),
        ("a: 1\n---\nb: 2", "fabric.yaml:2:1: a second document begins here"),
        ("? [a]\n: 1", "a key is a plain word here"),
        ("[" * 100_000, "nested deeper than 32 levels"),
        ("{a: " * 100_000, "nested deeper than 32 levels"),
        ("- \n" * 600_000, "more than 500000 values"),
        ("x" * (yamltext.MAX_BYTES + 1), "the file is larger than 4 MiB"),
        ("a: \x00", "control characters are not allowed"),
        ("a: \ud800", "surrogates not allowed"),
    ],
)
def test_hostile_and_clever_yaml_is_refused_with_one_finding(text: str, message: str) -> None:
    assert message in refusal(text)


def test_an_alias_bomb_is_refused_at_its_first_alias() -> None:
    bomb = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]\n" for n in range(1, 30))
    assert "alias *a0" in refusal(bomb)


@pytest.mark.parametrize("loader", [yaml.SafeLoader, getattr(yaml, "CSafeLoader", yaml.SafeLoader)])
def test_both_of_pyyamls_parsers_are_read_alike(loader: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yamltext, "_Loader", loader)
    assert read("a: {b: [1, on, '2']}\nc: |\n  text\n", "x")[0] == {"a": {"b": [1, "on", "2"]}, "c": "text\n"}
    assert refusal("a: {b: 1\nc").startswith("fabric.yaml:")


# A text such as 0E0 is a number in YAML 1.2, which is ours, and a word in 1.1, by which PyYAML writes unquoted.
texts = st.text(st.characters(exclude_categories=["C"])).filter(lambda text: not re.fullmatch(r"[-+.0-9eE]+", text))
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc-", min_size=1), inner, max_size=4),
    max_leaves=12,
)


@given(values)
def test_what_pyyaml_writes_is_read_back(value: object) -> None:
    assert read(yaml.safe_dump(value), "x") == (value, ())


def test_a_number_is_what_yaml_1_2_says() -> None:
    assert read("[0E0, 1e3, '1e3', 0o17, 017]", "x")[0] == [0.0, 1000.0, "1e3", 15, 17]


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        read(text, "x")
