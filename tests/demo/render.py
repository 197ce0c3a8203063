"""From a fabric.yaml to what a host's runtime reads, the way an operator goes: ``roceway-cni install``."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import yaml

from tests.demo.process import must
from tests.world import PLUGIN

__all__ = ["for_host", "install", "primary", "stopwatch"]

_CNI_VERSION = "1.0.0"
"""The newest that Debian 12's plugins speak."""


def for_host(example: Path, folder: Path) -> Path:
    """The example with the one thing that hosts on one disk must not share, and nobody's agent asked."""
    document = yaml.safe_load(example.read_text())
    document["cni"] = {**document.get("cni", {}), "stateDir": str(folder / "state"), "agent": False}
    path = folder / "fabric.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def primary(network: str, subnet: str, first: str, last: str, data: Path) -> str:
    """The conflist of a host before roceway: Debian's ``bridge`` with ``host-local`` addresses."""
    ranges = [[{"subnet": subnet, "rangeStart": first, "rangeEnd": last}]]
    ipam = {"type": "host-local", "dataDir": str(data), "ranges": ranges}
    plugins = [{"type": "bridge", "bridge": "cni0", "ipam": ipam}]
    return json.dumps({"cniVersion": _CNI_VERSION, "name": network, "plugins": plugins}, indent=2)


def install(fabric_yaml: Path, node: str, bin_dir: Path, conf_dir: Path) -> None:
    """Chain roceway-cni after the primary plugin of a host, and put the plugin into its folder."""
    files = ("-f", str(fabric_yaml), "--bin-dir", str(bin_dir), "--conf-dir", str(conf_dir))
    must([*PLUGIN, "install", *files, "--node", node, "--method", "merge"])


def stopwatch(folder: Path, program: Path, log: Path) -> None:
    """A program of the same name in ``folder`` that notes verb, container and microseconds of every call."""
    folder.mkdir(parents=True)
    watch = folder / program.name
    watch.write_text(
        "#!/bin/bash\n"
        "start=${EPOCHREALTIME/[.,]/}\n"
        f"{shlex.quote(str(program))}\n"
        "code=$?\n"
        f'echo "$CNI_COMMAND ${{CNI_CONTAINERID:--}} $((${{EPOCHREALTIME/[.,]/}} - start))" >>{shlex.quote(str(log))}\n'
        "exit $code\n"
    )
    watch.chmod(0o755)
