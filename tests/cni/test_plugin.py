"""The self-contained plugin as `roceway-cni install` writes it: a compiled program and a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
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


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_both_plugins_find_the_same_settings(name: str, tmp_path: Path) -> None:
    """The compiled one scans, the other parses: both ask the same socket, or neither asks."""
    text = CONFIGURATIONS[name]
    build = tmp_path / "settings"
    source = (ROOT / "cni" / "shim" / "roceway-cni.c").read_text().replace("int main(", "int plugin_main(")
    probe = (
        "int main(void){char a[PATH_MAX]=DEFAULT_SOCKET,s[PATH_MAX]=DEFAULT_STATE_DIR;struct text c={0};read_stdin(&c);"
        'int good=settings(&c,a,s)&&a[0]&&s[0];printf("%s|%s",good?a:"",good?s:"");return 0;}'
    )
    (tmp_path / "settings.c").write_text(f"{source}\n{probe}\n")
    subprocess.run(
        ["cc", "-std=gnu11", '-DRELEASE="x"', "-o", str(build), str(tmp_path / "settings.c")], check=True, timeout=60
    )
    found = subprocess.run([build], input=text, capture_output=True, text=True, check=True).stdout
    agent, _, state = found.partition("|")
    wanted = client.socket_of(text.encode())
    assert (agent, state) == (wanted if all(wanted) else ("", ""))


def test_a_build_without_a_compiler_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    assert not shim.build(tmp_path / "x", RELEASE)
