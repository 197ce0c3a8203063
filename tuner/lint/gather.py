"""The door of the linter: switches by fabric.yaml or from saved files, hosts from recorded states or live."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Sequence
from ipaddress import ip_interface
from pathlib import Path
from typing import Any

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric
from tuner.lint.subjects import Source
from tuner.nic import HostQos
from tuner.nic_text import read_host
from tuner.switch import model
from tuner.switch.load import load_all, load_file, parse_option

__all__ = ["hosts", "named_switches", "switches"]

MAX_BYTES = 1 << 29
"""Of one file of recorded hosts: 10,000 hosts with eight NICs."""


def switches(fabric: Fabric, base: Path, but: Container[str] = ()) -> tuple[model.Switch, ...]:
    """The switches that fabric.yaml has a source for, ``but`` those named; relative paths are taken from ``base``."""
    return load_all((each for each in fabric.switches if each.name not in but), base)


def named_switches(options: Iterable[str]) -> tuple[model.Switch, ...]:
    """``[NAME=]PLATFORM:FILE``, as on the command line. ConfigError for another form or a file that is not there."""
    return tuple(_named(option) for option in options)


def _named(option: str) -> model.Switch:
    name, equals, rest = option.partition("=")
    if not equals or ":" in name:
        name, rest = "", option
    elif not _SWITCH.fullmatch(name):
        raise ConfigError("--switch", [Finding("", f"{name[:60]!r} is no switch's name, in {option[:100]}")])
    platform, path = parse_option(rest)
    return load_file(platform, path, name)


def hosts(paths: Sequence[Path]) -> tuple[tuple[HostQos, ...], tuple[Source, ...]]:
    """Recorded hosts, and what could not be read of them.

    A file has one host as ``roceway-tune show --json`` prints it, a list of hosts, or one host per line; a folder
    stands for its ``*.json`` files. A broken host costs itself alone. ConfigError for a path that is not there, and for
    a folder without such files.
    """
    found: list[HostQos] = []
    broken: list[Source] = []
    for path in _files(paths):
        for label, item in _items(path):
            if isinstance(item, ValueError):
                broken.append(Source(label, (model.Finding("unreadable", "", str(item)),)))
                continue
            try:
                found.append(_sane(HostQos.from_json(item)))
            except (ValueError, RecursionError) as error:
                broken.append(Source(label, (model.Finding("unreadable", "", f"is no host's state: {error}"),)))
    return tuple(found), tuple(broken)


_SWITCH = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LINE = re.compile(r"[^\r\n]+")

_BY_PRIORITY = {
    "ets": ("prio_tc", "tsa", "tc_bw"),
    "buffer": ("prio_buffer", "size"),
    "ecn": ("np", "rp"),
    "counters": ("rx_bytes", "tx_bytes", "rx_pause", "tx_pause", "rx_pause_us", "tx_pause_us", "rx_discards"),
}
"""Parts of a NIC → their fields that have eight values."""


def _sane(host: HostQos) -> HostQos:
    """The host, if its numbers can be a host's. ValueError naming what cannot: the file is other people's."""
    for nic in host.nics:
        for part, fields in _BY_PRIORITY.items():
            for field in fields:
                values = getattr(getattr(nic, part), field, None)
                if values is not None and len(values) != 8:
                    raise ValueError(f"{nic.name}: {part}.{field} has {len(values)} values, not 8")
        numbered = (
            ("pfc.enabled", nic.pfc.enabled if nic.pfc else ()),
            ("ets.prio_tc", nic.ets.prio_tc if nic.ets else ()),
            ("buffer.prio_buffer", nic.buffer.prio_buffer if nic.buffer else ()),
        )
        for name, numbers in numbered:
            if not all(0 <= number <= 7 for number in numbers):
                raise ValueError(f"{nic.name}: {name} has a number that is not 0 to 7")
        for address in nic.addresses or ():
            ip_interface(address)
    return host


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = sorted(path.glob("*.json"))
            if not found:  # silence would read as "nothing is wrong"
                raise ConfigError(str(path), [Finding("", "has no *.json; name other files one by one")])
            yield from found
        elif path.is_file():
            yield path
        else:
            raise ConfigError(str(path), [Finding("", "is neither a file nor a folder")])


def _items(path: Path) -> Iterator[tuple[str, Any]]:
    """(label, JSON value or why there is none) of every host in a file."""
    try:
        if path.stat().st_size > MAX_BYTES:
            yield str(path), ValueError(f"is larger than {MAX_BYTES >> 20} MiB")
            return
        text = path.read_bytes().decode()
    except OSError as error:
        yield str(path), ValueError(f"cannot be read: {error.strerror}")
        return
    except UnicodeDecodeError as error:
        yield str(path), ValueError(f"is not UTF-8 text (byte {error.start})")
        return
    printed = read_host(text, path.stem)
    if printed is not None:
        yield str(path), printed.to_json()
        return
    whole = _parse(text)
    if not isinstance(whole, ValueError):
        several = whole if isinstance(whole, list) else [whole]
        yield from ((_label(path, number, len(several)), each) for number, each in enumerate(several, 1))
        return
    first = next(_lines(text), "")
    if isinstance(_parse(first), ValueError):
        yield str(path), whole
        return
    yield from ((f"{path} host {number}", _parse(line)) for number, line in enumerate(_lines(text), 1))


def _lines(text: str) -> Iterator[str]:
    """The lines that are not blank, one at a time: a second copy of a large file would be as large."""
    return (line for match in _LINE.finditer(text) if (line := match[0]).strip())


def _label(path: Path, number: int, count: int) -> str:
    return str(path) if count == 1 else f"{path} host {number}"


def _parse(text: str) -> Any:
    """The JSON value, or a ValueError as a value."""
    try:
        return json.loads(text)
    except RecursionError:
        return ValueError("is nested too deeply")
    except json.JSONDecodeError as error:
        return ValueError(f"is neither JSON ({error}) nor what mlnx_qos, dcb or niccli print")
    except ValueError:  # Python's limit, told in words for programmers
        return ValueError("has a number of more than 4300 digits")
