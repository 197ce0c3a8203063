"""The rails of this node as its CNI configuration has them: what ADD acts on is what the agent looks after.

The configuration that ``roceway-cni install`` wrote is read again when a file changes, so an agent that was started
first finds it, and an agent that outlives an upgrade follows it. Without one, fabric.yaml (``-f``) tells.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cni import inventory, netconf
from cni.agent.parts import Setting
from cni.netconf import NetConf
from cni.topology import rails_auto
from conf.errors import ConfigError, Finding
from host.errors import HostError

__all__ = ["CONF_DIR", "NodeRails", "kubelet_dir"]

CONF_DIR = "/etc/cni/net.d"
_PLUGIN = "roceway-cni"
_NEWEST = "1.1.0"
_DEFAULT_KUBELET_DIR = "/var/lib/kubelet"


class NodeRails:
    """The node's configuration, read when asked and when something has changed."""

    def __init__(self, folder: str, fabric: str = "", node: str = "") -> None:
        self._folder = folder
        self._fabric = fabric
        self._node = node
        self._seen: tuple[tuple[str, int, int], ...] | None = None
        self._conf: NetConf | None = None

    @classmethod
    def of(cls, setting: Setting) -> NodeRails:
        """As the agent was told."""
        return cls(setting.options.get("conf_dir") or CONF_DIR, setting.fabric, setting.node)

    def read(self) -> NetConf:
        """The configuration. ConfigError where there is none, or it is wrong; HostError where it cannot be read."""
        seen = tuple(_marks(self._folder)) + tuple(_mark(self._fabric) if self._fabric else ())
        if self._conf is None or seen != self._seen:
            self._conf = None
            self._conf = self._installed() or self._from_fabric()
            self._seen = seen
        return self._conf

    def _installed(self) -> NetConf | None:
        for path in _files(self._folder):
            for entry, name, version in _entries(path):
                version = version if isinstance(version, str) else _NEWEST
                return netconf.parse({"name": name, **_without_runtime(entry), "cniVersion": version}, version)
        return None

    def _from_fabric(self) -> NetConf:
        if not self._fabric:
            advice = "run `roceway-cni install`, or give -f fabric.yaml"
            what = f"{self._folder} holds no configuration of {_PLUGIN}; {advice}"
            raise ConfigError("this node's rails", [Finding("", what)])
        # pydantic and YAML: only where there is nothing else
        from cni.render import is_auto, paired, render
        from conf.fabric import load
        from conf.node import node

        fabric = load(Path(self._fabric))
        wanted = node(fabric, self._node)
        if is_auto(wanted):
            host = inventory.read()
            wanted = paired(wanted, rails_auto([rail.name for rail in wanted.rails], host.gpus, host.nics, host.tree))
        entry = render(fabric, wanted)
        return netconf.parse({"name": "fabric", **entry, "cniVersion": _NEWEST}, _NEWEST)


def _without_runtime(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry as it is written: what a runtime adds at a call is no part of it."""
    return {key: value for key, value in entry.items() if key not in ("prevResult", "runtimeConfig", "args")}


def _files(folder: str) -> Iterator[str]:
    """Configurations in the order in which a runtime takes them, each network's drop-ins after it."""
    for name in sorted(_names(folder)):
        path = os.path.join(folder, name)
        if os.path.isdir(path):
            yield from (os.path.join(path, each) for each in sorted(_names(path)) if each.endswith(".conf"))
        elif name.endswith((".conflist", ".conf", ".json")):
            yield path


def _entries(path: str) -> Iterator[tuple[dict[str, Any], object, object]]:
    """Entries of ours in a file, with the network's name and cniVersion. What is no JSON is somebody else's worry."""
    try:
        with open(path, "rb") as file:
            document = json.loads(file.read())
    except FileNotFoundError:
        return
    except OSError as error:
        raise HostError("read", path, error.errno or 0) from error
    except ValueError:
        return
    if not isinstance(document, dict):
        return
    name = document.get("name") or os.path.basename(os.path.dirname(path))
    plugins = document.get("plugins", [document])
    for entry in plugins if isinstance(plugins, list) else []:
        if isinstance(entry, dict) and entry.get("type") == _PLUGIN:
            yield entry, name, document.get("cniVersion")


def _marks(folder: str) -> Iterator[tuple[str, int, int]]:
    for path in _files(folder):
        yield from _mark(path)


def _mark(path: str) -> Iterator[tuple[str, int, int]]:
    try:
        status = os.stat(path)
    except OSError:
        return
    yield path, status.st_mtime_ns, status.st_ino


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise HostError("read", folder, error.errno or 0) from error


def kubelet_dir(setting: Setting) -> str:
    """The kubelet's directory: the option, else the configuration's, else the usual one."""
    told = setting.options.get("kubelet_dir")
    if told:
        return str(told)
    try:
        return NodeRails.of(setting).read().kubelet_dir
    except (ConfigError, HostError):
        return _DEFAULT_KUBELET_DIR
