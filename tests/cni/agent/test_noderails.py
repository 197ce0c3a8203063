"""Where the agent learns what this node's rails are."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cni.agent.noderails import NodeRails, kubelet_dir
from cni.agent.parts import Setting
from cni.agent.runtime import SOCKETS, find
from conf.errors import ConfigError
from tests.cni.netconfs import good
from tests.world import ROOT

MINIMUM = str(ROOT / "conf" / "examples" / "minimum-2-hosts.yaml")


def entry(**more: Any) -> dict[str, Any]:
    return {key: value for key, value in good(**more).items() if key not in ("name", "cniVersion")}


def write(path: Path, document: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))


def names(rails: NodeRails) -> list[str]:
    return [rail.name for rail in rails.read().rails]


def test_an_entry_in_a_conflist_is_found_behind_other_peoples_files(tmp_path: Path) -> None:
    write(tmp_path / "00-broken.conf", "{")
    write(tmp_path / "01-list.json", [])
    write(tmp_path / "05-other.conflist", {"name": "other", "plugins": [{"type": "bridge"}, "x"]})
    write(tmp_path / "readme.txt", json.dumps(entry()))
    write(tmp_path / "10-pods.conflist", {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "x"}, entry()]})
    conf = NodeRails(str(tmp_path)).read()
    assert (conf.name, conf.version, len(conf.rails)) == ("pods", "1.0.0", 2)


def test_a_drop_in_is_found_under_its_networks_name(tmp_path: Path) -> None:
    write(tmp_path / "10-pods.conflist", {"name": "pods", "plugins": [{"type": "bridge"}]})
    write(tmp_path / "pods/90-roceway.conf", entry())
    conf = NodeRails(str(tmp_path)).read()
    assert (conf.name, len(conf.rails)) == ("pods", 2)


def test_a_file_that_changes_is_read_again_and_one_that_goes_is_missed(tmp_path: Path) -> None:
    rails = NodeRails(str(tmp_path))
    with pytest.raises(ConfigError, match="roceway-cni install"):
        rails.read()
    write(tmp_path / "10.conflist", {"name": "pods", "plugins": [entry()]})
    assert names(rails) == ["rail0", "rail1"]
    assert rails.read() is rails.read(), "not parsed again while nothing changed"
    fewer = entry()
    del fewer["rails"][1]
    write(tmp_path / "10.new", {"name": "pods", "plugins": [fewer]})
    os.replace(tmp_path / "10.new", tmp_path / "10.conflist")
    assert names(rails) == ["rail0"]
    (tmp_path / "10.conflist").unlink()
    with pytest.raises(ConfigError):
        rails.read()


def test_a_wrong_entry_is_told_with_its_findings(tmp_path: Path) -> None:
    write(tmp_path / "10.conflist", {"name": "pods", "plugins": [entry(attach="sometimes")]})
    with pytest.raises(ConfigError, match="attach: 'sometimes'"):
        NodeRails(str(tmp_path)).read()


def test_without_a_configuration_fabric_yaml_tells(tmp_path: Path) -> None:
    rails = NodeRails(str(tmp_path / "none"), MINIMUM, "gpu1")
    assert names(rails) == ["rail0"]


def test_the_kubelets_folder_is_told_by_option_configuration_or_habit(tmp_path: Path) -> None:
    def asked(**options: Any) -> str:
        return kubelet_dir(Setting("/s", "/d", "", "n", {"conf_dir": str(tmp_path), **options}))

    assert asked() == "/var/lib/kubelet"
    write(tmp_path / "10.conflist", {"name": "pods", "plugins": [entry(kubeletDir="/var/lib/k0s/kubelet")]})
    assert asked() == "/var/lib/k0s/kubelet"
    assert asked(kubelet_dir="/x") == "/x"


def test_the_runtimes_socket_is_the_first_that_is_there(tmp_path: Path) -> None:
    assert find(str(tmp_path)) == ""
    for path in SOCKETS[1:3]:
        write(tmp_path / path.lstrip("/"), "")
    assert find(str(tmp_path)) == SOCKETS[1]
