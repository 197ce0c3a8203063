"""`roceway-cni install` and `uninstall`: files on a node, replaced whole, repeatable, and put back."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from cni import install
from cni.cli import run
from tests.world import ROOT

FABRIC = str(ROOT / "conf" / "examples" / "lab-4-hosts.yaml")
PRIMARY = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "bridge", "bridge": "cni0"}]}
GO_1_3 = b"\x7fELF...\x00path\tgithub.com/x\ndep\tgithub.com/containernetworking/cni\tv1.3.0\th1:abc=\n"


class Node:
    """A node's CNI folders."""

    def __init__(self, folder: Path) -> None:
        self.conf, self.bin = folder / "net.d", folder / "bin"
        self.conf.mkdir()
        self.primary = self.conf / "10-pods.conflist"
        self.primary.write_text(json.dumps(PRIMARY))
        self.runtime = folder / "containerd"
        self.runtime.write_bytes(b"\x7fELF a runtime that does not say what it was built from")

    def cli(self, command: str, *more: str) -> int:
        where = ["--bin-dir", str(self.bin), "--conf-dir", str(self.conf)]
        fabric = ["-f", FABRIC, "--node", "host1", "--runtime", str(self.runtime)]
        plugin = [] if "--plugin" in more else ["--plugin", "python"]  # written in an instant
        return run([command, *((*fabric, *plugin) if command == "install" else ()), *where, *more])

    def plugins(self) -> list[Any]:
        return [plugin["type"] for plugin in json.loads(self.primary.read_text())["plugins"]]

    def files(self) -> dict[str, str]:
        everything = [path for folder in (self.conf, self.bin) for path in folder.rglob("*") if path.is_file()]
        return {str(path): path.read_text() for path in everything}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one primary network."""
    return Node(tmp_path)


def test_install_merges_behind_the_primary_and_keeps_a_backup(node: Node) -> None:
    before = node.primary.read_text()
    assert node.cli("install") == 0
    assert node.plugins() == ["bridge", "roceway-cni"]
    assert Path(f"{node.primary}.before-roceway").read_text() == before
    assert stat.S_IMODE((node.bin / "roceway-cni").stat().st_mode) == 0o755


def test_installing_twice_writes_nothing_the_second_time(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.cli("install")
    once = node.files()
    capsys.readouterr()
    assert node.cli("install") == 0
    assert node.files() == once
    assert "nothing to do" in capsys.readouterr().out


def test_a_backup_is_never_overwritten_by_a_later_install(node: Node) -> None:
    before = node.primary.read_text()
    node.cli("install")
    node.primary.write_text(json.dumps({**PRIMARY, "plugins": [*PRIMARY["plugins"], {"type": "tuning"}]}))
    node.cli("install")
    assert node.plugins() == ["bridge", "tuning", "roceway-cni"]
    assert Path(f"{node.primary}.before-roceway").read_text() == before


def test_install_uses_a_drop_in_where_the_runtime_reads_them(node: Node) -> None:
    before = node.primary.read_text()
    node.runtime.write_bytes(GO_1_3)
    assert node.cli("install") == 0
    assert node.primary.read_text() == before
    dropped = json.loads((node.conf / "pods" / "90-roceway.conf").read_text())
    assert dropped["type"] == "roceway-cni"
    assert [rail["name"] for rail in dropped["rails"]] == ["rail0", "rail1", "rail2", "rail3"]


def test_changing_the_method_leaves_one_configuration_not_two(node: Node) -> None:
    node.cli("install", "--method", "merge")
    node.cli("install", "--method", "drop-in")
    assert node.plugins() == ["bridge"]
    node.cli("install", "--method", "merge")
    assert node.plugins() == ["bridge", "roceway-cni"]
    assert not (node.conf / "pods").exists()


@pytest.mark.parametrize("method", ["merge", "drop-in"])
def test_uninstall_takes_away_what_install_brought(node: Node, method: str) -> None:
    node.cli("install", "--method", method)
    assert node.cli("uninstall") == 0
    assert json.loads(node.primary.read_text()) == PRIMARY
    assert not (node.bin / "roceway-cni").exists()
    assert not (node.conf / "pods").exists()


def test_dry_run_writes_nothing(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    before = node.files()
    assert node.cli("install", "--dry-run", "--json") == 0
    assert node.files() == before
    told = json.loads(capsys.readouterr().out)
    assert told["dry_run"] is True
    assert len(told["changes"]) == 2


def test_a_drop_in_that_the_primary_forbids_is_refused(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.primary.write_text(json.dumps({**PRIMARY, "loadOnlyInlinedPlugins": True}))
    assert node.cli("install", "--method", "drop-in") == 2
    assert "loadOnlyInlinedPlugins" in capsys.readouterr().err
    assert not node.bin.exists()


def test_the_named_network_is_chained_after_not_the_first(node: Node) -> None:
    other = node.conf / "20-other.conflist"
    other.write_text(json.dumps({**PRIMARY, "name": "other"}))
    assert node.cli("install", "--network", "other") == 0
    assert node.plugins() == ["bridge"]
    assert [plugin["type"] for plugin in json.loads(other.read_text())["plugins"]] == ["bridge", "roceway-cni"]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("10-pods.conflist", "{", "is no JSON"),
        ("10-pods.conflist", "{}", "name: is missing"),
        ("10-pods.conf", json.dumps({"name": "pods", "type": "bridge"}), "single plugin"),
        ("readme.txt", "", "no configuration of any network"),
    ],
)
def test_a_folder_without_a_usable_conflist_is_named_and_left_alone(
    node: Node, capsys: pytest.CaptureFixture[str], name: str, text: str, says: str
) -> None:
    node.primary.unlink()
    (node.conf / name).write_text(text)
    before = node.files()
    assert node.cli("install") == 2
    assert says in capsys.readouterr().err
    assert node.files() == before


def test_a_missing_folder_is_a_refusal_of_the_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["install", "-f", FABRIC, "--node", "host0", "--conf-dir", str(tmp_path / "none")]) == 3
    assert "ENOENT" in capsys.readouterr().err


def test_installing_for_crio_warns_of_addresses_in_the_result(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    assert node.cli("install") == 0
    assert "resultIPs" not in capsys.readouterr().err
    node.runtime = node.runtime.rename(node.runtime.with_name("crio"))
    assert node.cli("install") == 0
    assert "resultIPs: none" in capsys.readouterr().err


def test_libcni_version_is_read_from_the_binary(tmp_path: Path) -> None:
    program = tmp_path / "containerd"
    program.write_bytes(GO_1_3)
    assert install.libcni_version(program) == (1, 3, 0)
    program.write_bytes(b"no build information")
    assert install.libcni_version(program) is None
    program.write_bytes(b"")
    assert install.libcni_version(program) is None
    assert install.libcni_version(tmp_path / "missing") is None
