"""Putting the plugin and its configuration on a node, and taking them away.

The plugin is a compiled program in the runtime's CNI directory and, beside it, a folder with what it starts when no
agent answers: nothing of it needs the host to have Python. Its configuration is chained after the node's
primary network: as a drop-in file beside the primary's conflist where the runtime's libcni reads those (1.3 and
later), else merged into the conflist itself, of which a backup is kept. Files are replaced, never written in place: a
runtime that reads meanwhile sees the old one or the new one.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from cni import shim
from cni.agent.protocol import RELEASE
from cni.bundle import Bundle, gather, write
from cni.render import PLUGIN_TYPE
from cni.spec import Json
from conf.errors import ConfigError, Finding
from host.errors import HostError

__all__ = [
    "Change",
    "Conflist",
    "apply",
    "compiled",
    "conflist",
    "launcher",
    "libcni_version",
    "plan_install",
    "plan_plugin",
    "plan_uninstall",
]

_DROP_IN = "90-roceway.conf"
_OWN_PART = "roceway-cni.d"
_EXEC = "exec"
_BACKUP = ".before-roceway"
_DROP_IN_SINCE = (1, 3, 0)
_RUNTIMES = ("containerd", "crio")
# Go writes the modules that a binary was built from into it: "dep\tMODULE\tVERSION\t".
_LIBCNI = re.compile(rb"dep\tgithub\.com/containernetworking/cni\tv(\d+)\.(\d+)\.(\d+)")


class Change(NamedTuple):
    """One file to be as ``content`` says, or one folder to hold a bundle; None removes either."""

    path: Path
    content: str | bytes | Bundle | None
    mode: int
    backup: Path | None = None

    def __str__(self) -> str:
        what = "remove" if self.content is None else "write"
        return f"{what} {self.path}{f' (backup: {self.backup})' if self.backup else ''}"


class Conflist(NamedTuple):
    """A runtime's network configuration file."""

    path: Path
    document: Json

    @property
    def name(self) -> str:
        """The network's name."""
        return str(self.document["name"])


def launcher() -> str:
    """The plugin as a program: isolated from environment and site-packages, so that it starts as fast as Python can."""
    home = Path(__file__).resolve().parent.parent
    return (
        f"#!{sys.executable} -IS\n"
        "# roceway-cni, written by `roceway-cni install`\n"
        "import sys\n"
        f"sys.path.append({str(home)!r})\n"
        "from cni.__main__ import main\n"
        "main()\n"
    )


def compiled() -> bytes | None:
    """The compiled plugin: what the wheel holds, or in a source tree what a C compiler makes of it now."""
    found = shim.shipped()
    if found is not None:
        return found.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / PLUGIN_TYPE
        return target.read_bytes() if shim.build(target, RELEASE) else None


def plan_plugin(bin_dir: Path, program: bytes | None) -> list[Change]:
    """The plugin in ``bin_dir``: ``program`` with its bundle, or without one the launcher for this host's Python.

    The bundle that is in use until then stays for whoever has just started it; the next installation removes it.
    """
    place, folder = bin_dir / PLUGIN_TYPE, bin_dir / _OWN_PART
    if program is None:
        return _only_needed([Change(place, launcher(), 0o755)])
    bundle = gather()
    words = "\n".join(bundle.words) + "\n"
    start = folder / _EXEC
    keep = {bundle.digest, _EXEC, *(line.split("/")[1] for line in _lines(start) if line.startswith("./"))}
    stale = [each for each in _entries(folder) if each.name not in keep] if folder.is_dir() else []
    changes = [
        Change(folder / bundle.digest, bundle, 0o755),
        Change(start, words, 0o644),
        Change(place, program, 0o755),
        *(Change(each, None, 0) for each in stale),
    ]
    return _only_needed(changes)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def conflist(folder: Path, network: str | None) -> Conflist:
    """The primary network's conflist: the named one, else the one that a runtime would take (first by file name)."""
    paths = sorted(path for path in _entries(folder) if path.suffix in (".conflist", ".conf", ".json"))
    found = [(path, _read(path)) for path in paths]
    for path, document in found:
        if network is not None and document.get("name") != network:
            continue
        if not isinstance(document.get("plugins", []), list) or path.suffix != ".conflist":
            raise ConfigError(
                str(path),
                [Finding("", "is the configuration of a single plugin; make it a .conflist with a plugins list")],
            )
        return Conflist(path, document)
    names = ", ".join(f"{document.get('name')} ({path.name})" for path, document in found) or "none"
    wanted = f"network {network!r}" if network else "any network"
    raise ConfigError(str(folder), [Finding("", f"holds no configuration of {wanted} to chain after; found: {names}")])


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise HostError("read", str(folder), error.errno or 0) from error


def _read(path: Path) -> Json:
    try:
        document = json.loads(path.read_text())
    except OSError as error:
        raise HostError("read", str(path), error.errno or 0) from error
    except ValueError as error:
        raise ConfigError(str(path), [Finding("", f"is no JSON: {error}")]) from error
    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        raise ConfigError(str(path), [Finding("name", "is missing")])
    return document


def libcni_version(program: Path) -> tuple[int, int, int] | None:
    """The libcni that a Go program was built with; None where it does not say."""
    try:
        with program.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            match = _LIBCNI.search(data)
            return (int(match[1]), int(match[2]), int(match[3])) if match else None
    except (OSError, ValueError):
        return None


def reads_drop_ins(runtime: Path | None) -> bool:
    """Whether the node's runtime reads drop-in files: every runtime found must, since any may be the one in use."""
    programs = [runtime] if runtime else [Path(found) for name in _RUNTIMES if (found := shutil.which(name))]
    versions = [libcni_version(program) for program in programs]
    return bool(versions) and all(version is not None and version >= _DROP_IN_SINCE for version in versions)


def is_crio(runtime: Path | None) -> bool:
    """Whether the node's runtime is CRI-O."""
    return runtime.name == "crio" if runtime else shutil.which("crio") is not None


def plan_install(entry: Json, primary: Conflist, plugin: Sequence[Change], *, drop_in: bool) -> list[Change]:
    """What has to change; nothing where a file is right already. ``plugin`` is of :func:`plan_plugin`."""
    changes = [*plugin]
    place = _drop_in_path(primary)
    if drop_in and primary.document.get("loadOnlyInlinedPlugins"):
        raise ConfigError(
            str(primary.path), [Finding("loadOnlyInlinedPlugins", "forbids drop-in files; use --method merge")]
        )
    if drop_in:
        changes += _without_entry(primary)
        changes.append(Change(place, _text(entry), 0o600))
    else:
        changes.append(Change(place, None, 0))
        plugins = [each for each in primary.document.get("plugins", []) if not _ours(each)]
        backup = Path(f"{primary.path}{_BACKUP}")
        merged = {**primary.document, "plugins": [*plugins, entry]}
        changes.append(Change(primary.path, _text(merged), 0o600, None if backup.exists() else backup))
    return _only_needed(changes)


def plan_uninstall(primary: Conflist, bin_dir: Path) -> list[Change]:
    """The way back: our entry out of the conflist, the drop-in and the plugin removed."""
    changes = [
        *_without_entry(primary),
        Change(_drop_in_path(primary), None, 0),
        Change(bin_dir / PLUGIN_TYPE, None, 0),
        Change(bin_dir / _OWN_PART, None, 0),
    ]
    return _only_needed(changes)


def _drop_in_path(primary: Conflist) -> Path:
    return primary.path.parent / primary.name / _DROP_IN


def _without_entry(primary: Conflist) -> list[Change]:
    plugins = primary.document.get("plugins", [])
    rest = [each for each in plugins if not _ours(each)]
    return [Change(primary.path, _text({**primary.document, "plugins": rest}), 0o600)] if rest != plugins else []


def _ours(plugin: object) -> bool:
    return isinstance(plugin, dict) and plugin.get("type") == PLUGIN_TYPE


def _text(document: Json) -> str:
    return json.dumps(document, indent=2) + "\n"


def _only_needed(changes: Sequence[Change]) -> list[Change]:
    return [change for change in changes if _needed(change)]


def _needed(change: Change) -> bool:
    if change.content is None or isinstance(change.content, Bundle):
        return change.path.exists() is (change.content is None)
    try:
        return change.path.read_bytes() != _bytes(change.content)
    except OSError:
        return True


def _bytes(content: str | bytes) -> bytes:
    return content.encode() if isinstance(content, str) else content


def apply(changes: Sequence[Change]) -> None:
    """Do the changes in order. HostError at the first that cannot be made; earlier ones stay and can be repeated."""
    for change in changes:
        try:
            if change.backup is not None and change.path.exists():
                shutil.copy2(change.path, change.backup)
            if change.content is None:
                _remove(change.path)
            elif isinstance(change.content, Bundle):
                _place(change.content, change.path)
            else:
                _replace(change.path, change.content, change.mode)
        except OSError as error:
            raise HostError(
                "write" if change.content is not None else "remove", str(change.path), error.errno or 0
            ) from error


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if path.name == _DROP_IN and not any(path.parent.iterdir()):
        path.parent.rmdir()


def _place(bundle: Bundle, path: Path) -> None:
    """Written beside its place and renamed: under its name it is complete."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True, mode=0o755)
    try:
        write(bundle, fresh)
        fresh.rename(path)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _replace(path: Path, content: str | bytes, mode: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and mode == 0o600:
        mode = path.stat().st_mode & 0o777  # a conflist keeps the mode that its owner gave it
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("wb") as file:
            file.write(_bytes(content))
            file.flush()
            os.fsync(file.fileno())
        fresh.chmod(mode)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
