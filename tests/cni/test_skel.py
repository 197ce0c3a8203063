"""The dispatcher, as values: environment and stdin in, exit code and stdout out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cni.commands import status
from cni.skel import dispatch
from tests.cni.netconfs import good

ENV = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c1",
    "CNI_NETNS": "/nowhere/ns",
    "CNI_IFNAME": "eth0",
    "CNI_PATH": "/opt/cni/bin",
}


def error(env: dict[str, str], stdin: str | bytes) -> dict[str, Any]:
    code, out = dispatch(env, stdin)
    assert code == 1
    document: dict[str, Any] = json.loads(out)
    assert set(document) <= {"cniVersion", "code", "msg", "details"}
    return document


def text(**extra: Any) -> str:
    return json.dumps({**good(attach="always"), **extra})


@pytest.mark.parametrize("stdin", ["", "{", "nonsense", "[1", '{"a": 1} x', "\x00", b"\xff\xfe", "[" * 100_000, b""])
def test_what_is_no_json_is_undecodable(stdin: str | bytes) -> None:
    assert error(ENV, stdin)["code"] == 6


@pytest.mark.parametrize("stdin", ["[]", "5", "null", '"text"', "true", "NaN"])
def test_json_that_is_no_object_is_undecodable(stdin: str) -> None:
    assert error(ENV, stdin)["code"] == 6


def test_a_number_too_long_to_read_is_undecodable() -> None:
    assert error(ENV, '{"mtu": ' + "9" * 10_000 + "}")["code"] == 6


def test_too_much_is_undecodable() -> None:
    answer = error(ENV, " " * (8 << 20) + "{}")
    assert answer["code"] == 6
    assert "larger" in answer["msg"]


@pytest.mark.parametrize("command", ["", "add", "FOO"])
def test_an_unknown_command_is_the_environments(command: str) -> None:
    assert error({**ENV, "CNI_COMMAND": command}, text())["code"] == 4


def test_without_a_command_at_all() -> None:
    assert error({}, "")["code"] == 4


def test_the_environment_is_judged_before_the_configuration() -> None:
    assert error({"CNI_COMMAND": "ADD"}, "nonsense")["code"] == 4


@pytest.mark.parametrize("name", [None, "", "-x", "a b", 5])
def test_a_network_without_a_proper_name(name: object) -> None:
    for command in ("ADD", "DEL", "CHECK", "GC", "STATUS"):
        answer = error({**ENV, "CNI_COMMAND": command}, text(name=name))
        assert answer["code"] == 7
        assert "name" in answer["msg"]


@pytest.mark.parametrize("version", ["0.3.0", "0.4.0", "1.0.0", "1.1.0"])
def test_an_error_speaks_the_callers_version(version: str) -> None:
    assert error(ENV, text(cniVersion=version, attach="sometimes"))["cniVersion"] == version


def test_an_error_of_a_caller_that_cannot_be_read_speaks_the_newest() -> None:
    assert error(ENV, "nonsense")["cniVersion"] == "1.1.0"
    answer = error(ENV, text(cniVersion="9.0.0"))
    assert (answer["code"], answer["cniVersion"]) == (1, "1.1.0")


@pytest.mark.parametrize(
    ("command", "version", "code"),
    [("CHECK", "0.3.1", 1), ("GC", "1.0.0", 1), ("STATUS", "0.4.0", 1), ("ADD", "0.2.0", 1), ("DEL", None, 1)],
)
def test_a_verb_or_version_that_does_not_exist(command: str, version: str | None, code: int) -> None:
    assert error({**ENV, "CNI_COMMAND": command}, text(cniVersion=version))["code"] == code


def test_a_bug_is_999_and_shows_its_trace_on_stderr_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(raw: object, version: object) -> None:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr(status, "status", broken)
    answer = error({**ENV, "CNI_COMMAND": "STATUS"}, text(cniVersion="1.1.0"))
    assert answer["code"] == 999
    assert "ZeroDivisionError: a bug of ours" in answer["msg"]
    shown = capsys.readouterr()
    assert "Traceback" in shown.err
    assert "in broken" in shown.err
    assert shown.out == ""


def test_an_error_that_is_foreseen_shows_no_trace(capsys: pytest.CaptureFixture[str]) -> None:
    error(ENV, text(attach="sometimes"))
    assert capsys.readouterr() == ("", "")


def test_what_is_wrong_is_told_with_every_place() -> None:
    answer = error(ENV, text(attach="sometimes", resultIPs="some"))
    assert answer["code"] == 7
    assert answer["msg"] == "network configuration: 2 mistakes"
    assert "attach: 'sometimes' is none of auto, always; resultIPs: " in answer["details"]


def test_silence_is_empty(tmp_path: Path) -> None:
    for command in ("DEL", "GC"):
        assert dispatch({**ENV, "CNI_COMMAND": command}, text(stateDir=str(tmp_path))) == (0, "")


def test_a_pod_that_asks_for_nothing_gets_the_previous_result() -> None:
    previous = {"cniVersion": "1.1.0", "interfaces": [{"name": "eth0"}], "dns": {}}
    code, out = dispatch(ENV, json.dumps(good(prevResult=previous)))
    assert (code, json.loads(out)) == (0, previous)


def test_version_needs_neither_stdin_nor_anything_else() -> None:
    for stdin in ("", "  \n", "{}", b""):
        code, out = dispatch({"CNI_COMMAND": "VERSION"}, stdin)
        assert (code, json.loads(out)["cniVersion"]) == (0, "1.1.0")
