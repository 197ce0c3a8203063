"""The door to switches: reads what fabric.yaml names as a switch's source, or a saved file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import cast

from conf.errors import ConfigError, Finding
from conf.switches import Source
from conf.switches import Switch as Described
from host.errors import HostError
from tuner.switch import read
from tuner.switch.credentials import credentials
from tuner.switch.model import Platform, Switch
from tuner.switch.text import MAX_BYTES

__all__ = ["load", "load_all", "load_file", "parse_option"]

AT_ONCE = 32
"""Live switches that are asked at the same time."""

MAX_FILES = 64
"""Documents that may make up one switch."""


def load(described: Described, base: Path) -> Switch | None:
    """The switch that fabric.yaml describes, relative paths resolved against ``base`` (fabric.yaml's folder).

    None where it has no source. A source that cannot be read or reached is a switch with that one finding: the others
    are linted all the same.
    """
    if described.source is None:
        return None
    known = {"role": described.role, "asic": described.asic}
    try:
        documents = _fetch(described, base)
    except HostError as error:
        return read.unreadable(described.platform, described.name, _source(described), _why(error), **known)
    return read.read(described.platform, described.name, documents, **known)


def load_all(described: Iterable[Described], base: Path) -> tuple[Switch, ...]:
    """Every switch that has a source, in the order given: live ones at the same time, saved ones one by one."""
    wanted = [each for each in described if each.source is not None]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        live = {each.name: pool.submit(load, each, base) for each in wanted if cast(Source, each.source).file is None}
        read_now = {each.name: load(each, base) for each in wanted if each.name not in live}
        found = (live[each.name].result() if each.name in live else read_now[each.name] for each in wanted)
        return tuple(each for each in found if each is not None)


def load_file(platform: Platform, path: Path, name: str = "") -> Switch:
    """The switch that a saved file (or a folder of them) describes. ConfigError where it cannot be read at all."""
    try:
        documents = _files(path)
    except HostError as error:
        raise ConfigError(str(path), [Finding("", str(error))]) from None
    return read.read(platform, name or path.name.partition(".")[0], documents)


def parse_option(text: str) -> tuple[Platform, Path]:
    """``"sonic:leaf0.json"`` → platform and path. ConfigError otherwise."""
    platform, colon, path = text.partition(":")
    if not colon or not path or platform not in read.PLATFORMS:
        wanted = f"is not PLATFORM:FILE, with one of {', '.join(read.PLATFORMS)} for the platform"
        raise ConfigError("--switch", [Finding("", f"{text} {wanted}")])
    return platform, Path(path)


def _why(error: HostError) -> str:
    """Without the file's name, which is the finding's place: a folder that is not there is one cause, not 512."""
    file_error = error.operation == "read" and error.errno
    return f"cannot be read: {os.strerror(error.errno)}" if file_error else str(error)


def _source(described: Described) -> str:
    source = described.source
    return next(iter(source.model_dump(exclude_none=True).values()), "") if source else ""


def _fetch(described: Described, base: Path) -> read.Documents:
    """The documents of a source. The clients are imported when they are needed: a saved file needs none."""
    source = cast(Source, described.source)
    if source.file is not None:
        return _files(base / source.file)
    known = credentials(described.name, os.environ)
    if source.redis is not None:
        from tuner.switch import live_redis

        return live_redis.fetch(source.redis, known)
    if source.ssh is not None:
        from tuner.switch import live_ssh

        return live_ssh.fetch(described.platform, source.ssh, known)
    from tuner.switch import live_rest

    return live_rest.fetch(described.platform, cast(str, source.rest), known)


def _files(path: Path) -> read.Documents:
    """A file, or the files of a folder by name. One byte too many is enough for the reader to refuse a huge one."""
    try:
        found = sorted(each for each in path.iterdir() if each.is_file()) if path.is_dir() else [path]
        if len(found) > MAX_FILES:
            raise HostError("read", str(path), detail=f"has more than {MAX_FILES} files")
        return {each.name: _bytes(each) for each in found}
    except OSError as error:
        raise HostError("read", str(path), error.errno or 0) from None


def _bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)
