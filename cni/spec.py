"""The CNI protocol as values: versions, required variables, results.

Source: the CNI specification 0.3.0 to 1.1.0 (github.com/containernetworking/cni, SPEC.md and pkg/types).
Pure: no I/O, no imports beyond the language; a start-up of the plugin pays for every import here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from cni.errors import CniError, Code

__all__ = [
    "SUPPORTED",
    "Call",
    "Interface",
    "Ip",
    "Json",
    "always",
    "at_least",
    "chain",
    "check_version",
    "error_document",
    "parse_call",
    "version_document",
]

Json = dict[str, Any]

DEFAULT_STATE_DIR = "/var/lib/roceway"
SUPPORTED = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")

_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "ADD": ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"),
    "CHECK": ("CNI_CONTAINERID", "CNI_NETNS", "CNI_IFNAME", "CNI_PATH"),
    "DEL": ("CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"),
    "GC": ("CNI_PATH",),
    "STATUS": ("CNI_PATH",),
    "VERSION": (),
}
_SINCE: Mapping[str, str] = {"CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}

_NAME_PATTERN = r"^[a-zA-Z0-9][a-zA-Z0-9_.\-]*$"
_IFNAME_MAX = 15  # IFNAMSIZ without its NUL


def always() -> None:
    """A call that is wanted whatever happens: the plugin's own."""


class Call(NamedTuple):
    """What the runtime put into the environment."""

    command: str
    container_id: str
    netns: str
    """Empty where the runtime gave none (DEL of a pod whose namespace is gone)."""
    ifname: str
    path: tuple[str, ...]
    args: tuple[tuple[str, str], ...]
    netns_override: bool
    still_wanted: Callable[[], None] = always
    """Called under the pod's lock before anything is changed; raises when who asked is gone (the agent's requests)."""


class Interface(NamedTuple):
    """One interface of the result."""

    name: str
    mac: str
    sandbox: str
    mtu: int
    pci: str


class Ip(NamedTuple):
    """One address of the result. ``rail`` counts our interfaces from 0."""

    address: str
    gateway: str
    rail: int


def parse_call(env: Mapping[str, str]) -> Call:
    """The call in ``env``. CniError code 4 names *all* missing or malformed variables at once."""
    command = env.get("CNI_COMMAND", "")
    if command not in _REQUIRED:
        known = ", ".join(_REQUIRED)
        what = f"unknown CNI_COMMAND {command!r}" if command else "CNI_COMMAND is not set"
        raise CniError(Code.ENVIRONMENT, what, f"one of {known} is expected")
    missing = [name for name in _REQUIRED[command] if not env.get(name)]
    if missing:
        raise CniError(
            Code.ENVIRONMENT, f"required variables are not set for {command}: {', '.join(missing)}", ", ".join(missing)
        )
    call = Call(
        command=command,
        container_id=env.get("CNI_CONTAINERID", ""),
        netns=env.get("CNI_NETNS", ""),
        ifname=env.get("CNI_IFNAME", ""),
        path=tuple(part for part in env.get("CNI_PATH", "").split(":") if part),
        args=_parse_args(env.get("CNI_ARGS", "")) if command == "ADD" else (),  # a DEL must not fail for them
        netns_override=env.get("CNI_NETNS_OVERRIDE", "").lower() in ("1", "true", "yes"),
    )
    problems = _malformed(call) if "CNI_IFNAME" in _REQUIRED[command] else []
    if problems:
        raise CniError(Code.ENVIRONMENT, "; ".join(problems))
    return call


def _malformed(call: Call) -> list[str]:
    problems = []
    if not _is_name(call.container_id):
        problems.append(f"CNI_CONTAINERID {call.container_id!r} must match {_NAME_PATTERN}")
    reason = ifname_problem(call.ifname)
    if reason:
        problems.append(f"CNI_IFNAME {call.ifname!r} {reason}")
    return problems


def _is_name(text: str) -> bool:
    """Whether ``text`` matches _NAME_PATTERN, without the time that compiling it takes."""
    plain = text.replace("_", "a").replace(".", "a").replace("-", "a")
    return text[:1].isalnum() and plain.isalnum() and text.isascii()


def ifname_problem(name: str) -> str:
    """Why ``name`` cannot be an interface's name; empty when it can (dev_valid_name in net/core/dev.c)."""
    if not name:
        return "is empty"
    if not name.isprintable() or any(char in "/:" or char.isspace() for char in name):
        return "contains '/', ':', white space or a control character"
    raw = name.encode()
    if len(raw) > _IFNAME_MAX:
        return f"is longer than {_IFNAME_MAX} bytes"
    if name in (".", "..") or 0xA0 in raw:  # in UTF-8 part of some letters, to the kernel a space
        return "is not allowed by the kernel"
    return ""


def network_name_problem(name: object) -> str:
    """Why ``name`` cannot be a network's name; empty when it can."""
    if not isinstance(name, str) or not name:
        return "is missing"
    return "" if _is_name(name) else f"{name!r} must match {_NAME_PATTERN}"


def state_dir(raw: Json) -> str:
    """Where the state is, from a configuration that need not be right otherwise: DEL must work with it."""
    value = raw.get("stateDir")
    return value if isinstance(value, str) and value.startswith("/") else DEFAULT_STATE_DIR


def _parse_args(text: str) -> tuple[tuple[str, str], ...]:
    pairs = []
    for item in text.split(";"):
        key, equals, value = item.partition("=")
        if not item:
            continue
        if not equals or not key:
            raise CniError(Code.ENVIRONMENT, f"CNI_ARGS: {item!r} is not KEY=VALUE")
        pairs.append((key, value))
    return tuple(pairs)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def at_least(version: str, floor: str) -> bool:
    """Whether a supported ``version`` is ``floor`` or later."""
    return _numbers(version) >= _numbers(floor)


def check_version(version: object, command: str) -> str:
    """The configuration's cniVersion, if ``command`` exists in it. CniError code 1 otherwise."""
    if version not in SUPPORTED:
        given = repr(version) if version else "none"
        raise CniError(
            Code.INCOMPATIBLE_VERSION,
            f"cniVersion {given} is not supported",
            f"roceway-cni speaks {', '.join(SUPPORTED)}",
        )
    assert isinstance(version, str)  # noqa: S101 - membership in SUPPORTED, told to mypy
    since = _SINCE.get(command)
    if since and not at_least(version, since):
        raise CniError(
            Code.INCOMPATIBLE_VERSION,
            f"{command} does not exist in cniVersion {version}",
            f"it came with {since}",
        )
    return version


def version_document(stdin: Json) -> Json:
    """The answer to VERSION. A runtime sends its own cniVersion; without one the newest is answered."""
    asked = stdin.get("cniVersion")
    return {"cniVersion": asked if asked in SUPPORTED else SUPPORTED[-1], "supportedVersions": list(SUPPORTED)}


def error_document(version: object, error: CniError) -> Json:
    """The error as the specification writes it, in the version that the runtime speaks."""
    document: Json = {
        "cniVersion": version if version in SUPPORTED else SUPPORTED[-1],
        "code": error.code,
        "msg": error.message,
    }
    if error.details:
        document["details"] = error.details
    return document


def chain(version: str, previous: Json | None, interfaces: Sequence[Interface], ips: Sequence[Ip]) -> Json:
    """The result: what came before, first and unchanged, then our rails, in ``version``'s shape."""
    result: Json = {**(previous or {}), "cniVersion": version}
    before = list((previous or {}).get("interfaces") or [])
    if before or interfaces:
        result["interfaces"] = [*before, *(_interface(version, each) for each in interfaces)]
    addresses = list((previous or {}).get("ips") or [])
    if addresses or ips:
        result["ips"] = [*addresses, *(_ip(version, each, len(before)) for each in ips)]
    result.setdefault("dns", {})
    return result


def _interface(version: str, interface: Interface) -> Json:
    shape: Json = {"name": interface.name, "mac": interface.mac, "sandbox": interface.sandbox}
    if at_least(version, "1.1.0"):
        shape["mtu"] = interface.mtu
        if interface.pci:
            shape["pciID"] = interface.pci
    return shape


def _ip(version: str, ip: Ip, offset: int) -> Json:
    shape: Json = {"address": ip.address, "interface": offset + ip.rail}
    if ip.gateway:
        shape["gateway"] = ip.gateway
    if not at_least(version, "1.0.0"):
        shape = {"version": "6" if ":" in ip.address else "4", **shape}
    return shape
