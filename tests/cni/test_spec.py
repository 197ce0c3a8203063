"""The protocol's variables, names and versions."""

from __future__ import annotations

import pytest

from cni.errors import CniError, Code
from cni.spec import (
    SUPPORTED,
    check_version,
    error_document,
    ifname_problem,
    network_name_problem,
    parse_call,
    version_document,
)

ENV = {"CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/x", "CNI_IFNAME": "eth0", "CNI_PATH": "/opt/cni/bin:/x"}
REQUIRED = {
    "ADD": ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
    "CHECK": ["CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"],
    "DEL": ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"],
    "GC": ["CNI_PATH"],
    "STATUS": ["CNI_PATH"],
    "VERSION": [],
}


def refusal(env: dict[str, str]) -> CniError:
    with pytest.raises(CniError) as caught:
        parse_call(env)
    return caught.value


@pytest.mark.parametrize("command", REQUIRED)
def test_every_missing_variable_is_named_at_once(command: str) -> None:
    if not REQUIRED[command]:
        assert parse_call({"CNI_COMMAND": command}).command == command
        return
    error = refusal({"CNI_COMMAND": command})
    assert error.code == Code.ENVIRONMENT
    assert error.details == ", ".join(REQUIRED[command])
    assert all(name in error.message for name in REQUIRED[command])


@pytest.mark.parametrize("command", REQUIRED)
def test_the_required_variables_are_enough(command: str) -> None:
    env = {"CNI_COMMAND": command} | {name: ENV[name] for name in REQUIRED[command]}
    call = parse_call(env)
    assert call.container_id == env.get("CNI_CONTAINERID", "")
    assert call.netns == env.get("CNI_NETNS", "")


@pytest.mark.parametrize(("command", "name"), [(verb, name) for verb, names in REQUIRED.items() for name in names])
def test_an_empty_variable_counts_as_missing(command: str, name: str) -> None:
    error = refusal({**ENV, "CNI_COMMAND": command, name: ""})
    assert (error.code, error.details) == (Code.ENVIRONMENT, name)


@pytest.mark.parametrize("command", ["", "add", "ADD ", "FOO"])
def test_an_unknown_command_is_refused_with_those_that_exist(command: str) -> None:
    error = refusal({**ENV, "CNI_COMMAND": command})
    assert error.code == Code.ENVIRONMENT
    assert all(verb in error.details for verb in REQUIRED)


def test_a_bad_id_and_a_bad_interface_name_are_told_together() -> None:
    error = refusal({**ENV, "CNI_COMMAND": "DEL", "CNI_CONTAINERID": "-x", "CNI_IFNAME": "a/b"})
    assert error.code == Code.ENVIRONMENT
    assert "CNI_CONTAINERID" in error.message
    assert "CNI_IFNAME" in error.message


@pytest.mark.parametrize("command", ["GC", "STATUS", "VERSION"])
def test_commands_without_a_container_do_not_look_at_one(command: str) -> None:
    parse_call({"CNI_COMMAND": command, "CNI_PATH": "/x", "CNI_CONTAINERID": "-x", "CNI_IFNAME": "a/b"})


@pytest.mark.parametrize("name", ["c1", "0", "a.b-c_d", "A" * 300])
def test_names_that_are_allowed(name: str) -> None:
    assert network_name_problem(name) == ""
    assert parse_call({**ENV, "CNI_COMMAND": "DEL", "CNI_CONTAINERID": name}).container_id == name


@pytest.mark.parametrize("name", ["-a", "_a", ".a", "a b", "a/b", "é", "a\n", "a\x00b", "٣", "a:b", "\udcff"])
def test_names_that_are_not(name: str) -> None:
    assert network_name_problem(name)
    assert refusal({**ENV, "CNI_COMMAND": "DEL", "CNI_CONTAINERID": name}).code == Code.ENVIRONMENT


@pytest.mark.parametrize("name", [None, 5, "", [], {}])
def test_a_network_name_that_is_no_text_is_missing(name: object) -> None:
    assert network_name_problem(name) == "is missing"


@pytest.mark.parametrize("name", ["eth0", "a" * 15, "é" * 7, "日本語日本", "a-b.c_d", "...", "a,b", "%s"])
def test_interface_names_that_the_kernel_takes(name: str) -> None:
    assert ifname_problem(name) == ""


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("", "empty"),
        ("a" * 16, "15 bytes"),
        ("é" * 8, "15 bytes"),
        (".", "kernel"),
        ("..", "kernel"),
        ("à", "kernel"),  # U+00E0 is C3 A0, and A0 is a space to the kernel
        *((f"a{bad}b", "contains") for bad in ("/", ":", " ", "\t", "\n", "\v", "\x00", "\x7f", "\u2003", "\udcff")),
    ],
)
def test_interface_names_that_it_does_not(name: str, words: str) -> None:
    assert words in ifname_problem(name)
    if name:
        assert refusal({**ENV, "CNI_COMMAND": "DEL", "CNI_IFNAME": name}).code == Code.ENVIRONMENT


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", ()),
        (";", ()),
        ("A=b", (("A", "b"),)),
        ("A=b;C=d=e;F=", (("A", "b"), ("C", "d=e"), ("F", ""))),
    ],
)
def test_arguments_are_pairs(text: str, pairs: tuple[tuple[str, str], ...]) -> None:
    assert parse_call({**ENV, "CNI_COMMAND": "ADD", "CNI_ARGS": text}).args == pairs


@pytest.mark.parametrize("text", ["A", "=b", "A=b;C"])
def test_malformed_arguments_are_refused_by_add_and_do_not_hinder_del(text: str) -> None:
    assert refusal({**ENV, "CNI_COMMAND": "ADD", "CNI_ARGS": text}).code == Code.ENVIRONMENT
    assert parse_call({**ENV, "CNI_COMMAND": "DEL", "CNI_ARGS": text}).command == "DEL"


@pytest.mark.parametrize(("value", "on"), [("", False), ("0", False), ("no", False), ("1", True), ("True", True)])
def test_the_override_of_the_own_namespace(value: str, on: bool) -> None:
    assert parse_call({**ENV, "CNI_COMMAND": "ADD", "CNI_NETNS_OVERRIDE": value}).netns_override is on


def test_the_path_is_a_list_of_folders() -> None:
    assert parse_call({**ENV, "CNI_COMMAND": "ADD"}).path == ("/opt/cni/bin", "/x")


SINCE = {"ADD": "0.3.0", "DEL": "0.3.0", "CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}


@pytest.mark.parametrize(("command", "version"), [(verb, version) for verb in SINCE for version in SUPPORTED])
def test_a_verb_exists_from_its_version_on(command: str, version: str) -> None:
    if version >= SINCE[command]:
        assert check_version(version, command) == version
        return
    with pytest.raises(CniError) as caught:
        check_version(version, command)
    assert caught.value.code == Code.INCOMPATIBLE_VERSION
    assert SINCE[command] in caught.value.details


@pytest.mark.parametrize("version", ["0.2.0", "0.1.0", "1.2.0", "1.1", "01.1.0", "", None, 1.1, ["1.1.0"], {}])
def test_an_unknown_version_is_refused_with_those_that_are_spoken(version: object) -> None:
    with pytest.raises(CniError) as caught:
        check_version(version, "ADD")
    assert caught.value.code == Code.INCOMPATIBLE_VERSION
    assert all(each in caught.value.details for each in SUPPORTED)


@pytest.mark.parametrize("asked", SUPPORTED)
def test_version_echoes_a_supported_version(asked: str) -> None:
    assert version_document({"cniVersion": asked}) == {"cniVersion": asked, "supportedVersions": list(SUPPORTED)}


@pytest.mark.parametrize("stdin", [{}, {"cniVersion": "9.0.0"}, {"cniVersion": None}, {"cniVersion": ["1.0.0"]}])
def test_version_answers_anything_else_with_the_newest(stdin: dict[str, object]) -> None:
    assert version_document(stdin)["cniVersion"] == "1.1.0"


def test_an_error_is_written_in_the_callers_version() -> None:
    error = CniError(7, "wrong", "rails[0]")
    assert error_document("0.4.0", error) == {"cniVersion": "0.4.0", "code": 7, "msg": "wrong", "details": "rails[0]"}
    others: list[object] = [None, "9", 5, [], {}]
    for strange in others:
        assert error_document(strange, CniError(7, "wrong")) == {"cniVersion": "1.1.0", "code": 7, "msg": "wrong"}
