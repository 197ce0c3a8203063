"""The self-contained plugin as `roceway-cni install` writes it: a compiled program and a folder of its own."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from cni import bundle, install, shim
from cni.agent import client
from cni.agent.protocol import RELEASE
from tests.world import ROOT

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler: .ci/setup installs one")
VERSION = json.dumps({"cniVersion": "1.0.0"})


@pytest.fixture(scope="module")
def program() -> bytes:
    """The compiled plugin."""
    made = install.compiled()
    assert made is not None
    return made


@pytest.fixture
def plugin(program: bytes, tmp_path: Path) -> Path:
    """It, installed."""
    install.apply(install.plan_plugin(tmp_path / "bin", program))
    return tmp_path / "bin" / "roceway-cni"


def call(program: Path, verb: str, stdin: str, **env: str) -> tuple[int, Any, str]:
    variables = {"CNI_COMMAND": verb, "CNI_CONTAINERID": "c", "CNI_IFNAME": "eth0", "CNI_PATH": "/p", **env}
    done = subprocess.run([program], input=stdin, capture_output=True, text=True, env=variables, timeout=60)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


def test_it_is_one_static_program(plugin: Path) -> None:
    headers = subprocess.run(["readelf", "-lW", plugin], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers
    assert "RWE" not in headers


def test_it_knows_the_release_of_the_distribution() -> None:
    assert f'version = "{RELEASE}"' in (ROOT / "pyproject.toml").read_text()


def test_without_an_agent_its_own_part_answers(plugin: Path) -> None:
    code, told, _ = call(plugin, "VERSION", VERSION)
    assert (code, told["supportedVersions"][-1]) == (0, "1.1.0")


def test_its_own_part_uses_nothing_of_the_host(plugin: Path) -> None:
    """Every library and every module that it opens is in its folder."""
    if shutil.which("strace") is None:
        pytest.skip("no strace here; tests/netns/test_no_python.py shows the same in a root of its own")
    watched = subprocess.run(
        ["strace", "-f", "-e", "trace=open,openat,execve", "-o", "/dev/stderr", plugin],
        input=VERSION,
        capture_output=True,
        text=True,
        env={"CNI_COMMAND": "VERSION", "PATH": os.environ["PATH"]},
        timeout=60,
    ).stderr
    opened = [line.split('"')[1] for line in watched.splitlines() if '"' in line and "ENOENT" not in line]
    code = [path for path in opened if ".so" in path or "python" in path]
    assert len(code) > 20
    assert not [path for path in code if not path.startswith(str(plugin.parent))]


def test_a_bug_in_its_own_part_shows_its_trace(plugin: Path) -> None:
    code, told, stderr = call(plugin, "ADD", "[" * 100_000, CNI_NETNS="/none")
    assert (code, told["code"]) == (1, 6)
    assert stderr == ""


def test_a_missing_own_part_is_said_as_a_cni_error(plugin: Path) -> None:
    shutil.rmtree(plugin.parent / "roceway-cni.d")
    code, told, _ = call(plugin, "DEL", VERSION)
    assert (code, told["code"]) == (1, 5)
    assert "roceway-cni install" in told["details"]


def test_without_a_verb_it_says_what_it_is(plugin: Path) -> None:
    done = subprocess.run([plugin], capture_output=True, text=True, env={}, timeout=10)
    assert done.returncode == 2
    assert "container runtime" in done.stderr


def test_installing_again_writes_nothing(program: bytes, plugin: Path) -> None:
    assert install.plan_plugin(plugin.parent, program) == []


def test_an_upgrade_keeps_the_part_in_use_and_removes_what_is_older(program: bytes, plugin: Path) -> None:
    folder = plugin.parent / "roceway-cni.d"
    start = folder / "exec"
    (folder / "older").mkdir()
    (folder / "current").mkdir()
    start.write_text("./current/ld.so\n")
    install.apply(install.plan_plugin(plugin.parent, program))
    names = {path.name for path in folder.iterdir()}
    assert "current" in names
    assert "older" not in names
    assert call(plugin, "VERSION", VERSION)[0] == 0


def test_a_bundle_holds_no_command_of_the_operators() -> None:
    names = {name for name, _ in bundle.gather().modules}
    assert "cni.commands.add" in names
    assert not names & {"cni.cli", "tuner.cli", "pydantic", "yaml", "rich", "pyroute2", "grpc", "kubernetes"}


CONFIGURATIONS: Mapping[str, str] = {
    "empty": "",
    "no object": "[1]",
    "bare": "{}",
    "named": '{"agent": "/run/a.sock", "stateDir": "/var/lib/r"}',
    "off": '{"agent": false}',
    "null": '{"agent": null}',
    "number": '{"agent": 5, "x": 1.5e3}',
    "twice": '{"agent": "/one", "agent": "/two"}',
    "deeper": '{"rails": [{"agent": "/no"}, {"stateDir": "/no"}], "agent": "/yes"}',
    "in a string": '{"name": "\\"agent\\": \\"/no\\"", "agent": "/yes"}',
    "brackets in strings": '{"a": "]}{[", "b": ["}", {"c": "]"}], "agent": "/yes"}',
    "spaced": ' \t\n{ "agent" \n:\t"/yes" , "stateDir":"/s"}\n',
    "nested": '{"a": [[[[]]], {}], "b": {"c": {}}, "agent": "/yes"}',
    "unfinished": '{"agent": "/yes"',
    "unquoted": '{agent: "/yes"}',
}


_PROBE = """
int main(void)
{
    struct text all = {0};
    uint32_t length;
    read_stdin(&all);
    for (size_t at = 0; at + 4 <= all.length; at += 4 + length) {
        char agent[PATH_MAX] = DEFAULT_SOCKET, state[PATH_MAX] = DEFAULT_STATE_DIR;
        struct text one = {0};
        memcpy(&length, all.data + at, 4);
        one.data = malloc(length); /* of its very length: what reads further is caught */
        one.length = length;
        memcpy(one.data, all.data + at + 4, length);
        int good = settings(&one, agent, state) && agent[0] && state[0];
        printf("%s|%s%c", good ? agent : "", good ? state : "", 0);
        free(one.data);
    }
    free(all.data);
    return 0;
}
"""


@pytest.fixture(scope="module")
def scanner(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Sequence[bytes]], list[str]]:
    """The compiled plugin's scanner under AddressSanitizer: ``agent|stateDir`` of each configuration."""
    folder = tmp_path_factory.mktemp("scanner")
    source = (ROOT / "cni" / "shim" / "roceway-cni.c").read_text().replace("int main(", "int plugin_main(")
    (folder / "scanner.c").write_text(f"{source}\n{_PROBE}")
    words = ["cc", "-std=gnu11", "-g", '-DRELEASE="x"', "-o", str(folder / "scanner"), str(folder / "scanner.c")]
    sanitized = [*words, "-fsanitize=address,undefined", "-fno-sanitize-recover"]
    if subprocess.run(sanitized, capture_output=True, timeout=60).returncode:
        subprocess.run(words, check=True, timeout=60)  # a compiler without its sanitizers

    def scan(texts: Sequence[bytes]) -> list[str]:
        data = b"".join(struct.pack("=I", len(text)) + text for text in texts)
        done = subprocess.run([folder / "scanner"], input=data, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode(errors="replace").split("\0")[:-1]

    return scan


def _asks(text: bytes) -> str:
    """What the plugin in Python finds, in the scanner's words."""
    found = client.socket_of(text)
    return "|".join(found if all(found) else ("", ""))


def test_both_plugins_find_the_same_settings(scanner: Callable[[Sequence[bytes]], list[str]]) -> None:
    """The compiled one scans, the other parses: both ask the same socket, or neither asks."""
    texts = [text.encode() for text in CONFIGURATIONS.values()]
    assert dict(zip(CONFIGURATIONS, scanner(texts), strict=True)) == {
        name: _asks(text.encode()) for name, text in CONFIGURATIONS.items()
    }


def test_the_scanner_survives_any_text_and_never_asks_another_socket(
    scanner: Callable[[Sequence[bytes]], list[str]],
) -> None:
    """Where the text is none, whoever is asked gives the same error."""
    chance = random.Random(7)
    good = json.dumps({"name": "n", "rails": [{"a": '}\\"]'}], "agent": "/run/a.sock", "x": {"agent": "/no"}}).encode()
    texts: list[bytes] = []
    for _ in range(4000):
        broken = bytearray(good)
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(broken))
            broken[at : at + chance.randrange(3)] = chance.choice(
                [b"", b'"', b"{", b"}", b"\\", b",", b"\0", b"]", b"\xff"]
            )
        texts.append(bytes(broken[: chance.randrange(len(broken) + 1)] if chance.random() < 0.2 else broken))
    for text, found in zip(texts, scanner(texts), strict=True):
        if _is_json(text):
            assert found in (_asks(text), "|"), text  # a key with an escape is left to the plugin's own part


def _is_json(text: bytes) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def test_a_build_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not shim.build(tmp_path / "x", RELEASE)
