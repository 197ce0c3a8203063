"""The wheel, built and installed as a user would: one distribution that owns its names and ships no tests."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.world import ROOT

PACKAGES = {"conf", "host", "tuner", "cni", "nccltest"}
UV = str(Path(sys.executable).with_name("uv"))


def _run(*words: str, cwd: Path = ROOT, stdin: str = "", env: dict[str, str] | None = None) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, input=stdin, env=env, timeout=300)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel."""
    out = tmp_path_factory.mktemp("wheel")
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out))
    return next(out.glob("*.whl"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean venv with the locked dependencies and the wheel."""
    folder = tmp_path_factory.mktemp("clean")
    locked = folder / "locked.txt"
    locked.write_text(_run(UV, "export", "-q", "--frozen", "--no-dev", "--no-emit-project"))
    _run(UV, "venv", "-q", "--python", sys.executable, str(folder / "venv"))
    found = folder / "venv" / "bin" / "python"
    _run(UV, "pip", "install", "-q", "--python", str(found), "--require-hashes", "-r", str(locked))
    _run(UV, "pip", "install", "-q", "--python", str(found), "--no-deps", str(wheel))
    return found


def test_wheel_ships_its_five_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info" not in name} == PACKAGES
    assert not [name for name in names if "tests" in name.split("/")]


def test_wheel_ships_examples_profiles_schema_and_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for wanted in ("conf/examples/lab-4-hosts.yaml", "conf/profiles/lossless-dscp.yaml", "conf/fabric.schema.json"):
        assert wanted in names
    assert [name for name in names if name.endswith("licenses/LICENSE")]


def test_each_top_level_name_belongs_to_roceway_alone(python: Path) -> None:
    program = "import importlib.metadata as m, json; print(json.dumps(m.packages_distributions()))"
    owners = json.loads(_run(str(python), "-I", "-c", program, cwd=python.parent))
    assert {name: sorted(set(owners[name])) for name in PACKAGES} == {name: ["roceway"] for name in PACKAGES}
    assert "tests" not in owners


def test_installed_scripts_start(python: Path) -> None:
    for script, code in (("roceway-cni", 0), ("roceway-agent", 0), ("roceway-tune", 0), ("roceway-probe", 0)):
        done = subprocess.run([python.with_name(script), "--help"], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, done
        assert script in done.stdout + done.stderr


def test_a_cni_call_imports_nothing_heavy(python: Path) -> None:
    program = (
        "import sys, json\n"
        "from cni.skel import dispatch\n"
        "conf = json.dumps({'cniVersion': '1.1.0', 'name': 'n', 'type': 'roceway-cni', 'rails': [], 'x': 1})\n"
        "for verb in ('ADD', 'DEL', 'CHECK', 'GC', 'STATUS', 'VERSION'):\n"
        "    env = dict(CNI_COMMAND=verb, CNI_CONTAINERID='c', CNI_IFNAME='e', CNI_PATH='/p', CNI_NETNS='/none')\n"
        "    dispatch(env, conf)\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    loaded = set(json.loads(_run(str(python), "-I", "-c", program, cwd=python.parent)))
    assert "cni.commands.add" in loaded
    assert not loaded & {
        "kubernetes",
        "scapy",
        "pyroute2",
        "pydantic",
        "yaml",
        "rich",
        "netaddr",
        "mpi4py",
        "conf.fabric",
    }
