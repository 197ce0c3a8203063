"""A host's NICs from what ``mlnx_qos``, iproute2's ``dcb`` or Broadcom's ``niccli`` printed. Pure.

For hosts where roceway does not run: what an operator has at hand. It is less than ``roceway-tune show --json`` says;
what a tool does not print is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from tuner.nic import App, Buffer, Dcbx, Ets, HostQos, NicQos, Pci, Pfc, Tsa
from tuner.switch.clitext import DSCP_NAMES
from tuner.switch.text import number

__all__ = ["read_host"]

_MOST_LINES = 100_000
_HEAD = 4096  # characters in which a tool's output shows what it is; a file of recorded hosts may be 100 MB
_SELECTORS = {1: "ethertype", 2: "stream", 3: "dgram", 4: "any", 5: "dscp", 255: "pcp"}
_TSAS: tuple[Tsa, ...] = ("strict", "cbs", "ets", "vendor")
_PROMPT = re.compile(r"[$#] dcb (\S+) show dev (\S+)\s*")
_PAIR = re.compile(r"(\S+?):(\S+)")


def read_host(text: str, name: str) -> HostQos | None:
    """The host's NICs; None for text of another kind. ``name`` is the host's, and that of a NIC which is not named."""
    for sign, read in _READERS.items():
        if sign.search(text, 0, _HEAD):
            nics = read(text.splitlines()[:_MOST_LINES], name)
            return HostQos(node=name, nics=tuple(nics)) if nics else None
    return None


def _eight(pairs: Mapping[int, Any], default: Any) -> tuple[Any, ...]:
    return tuple(pairs.get(index, default) for index in range(8))


def _pairs(text: str) -> dict[int, str]:
    """``0:off 3:on`` → number to word."""
    found = {}
    for key, value in _PAIR.findall(text):
        index = number(key, 0, 7)
        if index is not None:
            found[index] = value
    return found


def _tsa(word: str) -> Tsa:
    return word if word in _TSAS else "vendor"


# --- mlnx_qos ------------------------------------------------------------------------------------------------------

_MLNX_TC = re.compile(r"tc: ([0-7]) ratelimit: .*?tsa: (\w+)(?:, bw: ([0-9]{1,3})%)?")


def _mlnx_qos(lines: list[str], name: str) -> list[NicQos]:
    nic = NicQos(name=name, driver="mlx5_core", dcb=True)
    apps: list[App] = []
    prio_tc, tsa, bandwidth, tc = dict[int, int](), dict[int, Tsa](), dict[int, int](), -1
    for line in (raw.strip() for raw in lines):
        head, _, tail = (part.strip() for part in line.partition(":"))
        if head == "DCBX mode":
            nic = replace(nic, dcbx=Dcbx(host="OS" in tail, lld_managed="OS" not in tail, ieee="OS" in tail))
        elif head == "Priority trust state" and tail in ("dscp", "pcp"):
            nic = replace(nic, trust=cast(Literal["dscp", "pcp"], tail))
        elif head == "Cable len":
            metres = number(tail, 0, 100_000)
            nic = replace(nic, cable_m=None if metres is None else float(metres))
        elif entry := re.fullmatch(r"prio:([0-7]) dscp:([0-9,]+)", line):
            values = (number(word, 0, 63) for word in entry[2].split(",") if word)
            apps += [App(selector="dscp", protocol=each, priority=int(entry[1])) for each in values if each is not None]
        elif line.startswith("enabled"):
            on = tuple(priority for priority, word in enumerate(line.split()[1:9]) if word == "1")
            nic = replace(nic, pfc=Pfc(enabled=on))
        elif row := _MLNX_TC.match(line):
            tc, tsa[int(row[1])] = int(row[1]), _tsa(row[2])
            bandwidth[tc] = min(int(row[3] or 0), 100)
        elif head == "priority" and tc >= 0 and (priority := number(tail, 0, 7)) is not None:
            prio_tc[priority] = tc
    if tsa:
        nic = replace(nic, ets=Ets(prio_tc=_eight(prio_tc, 0), tsa=_eight(tsa, "strict"), tc_bw=_eight(bandwidth, 0)))
    return [replace(nic, apps=tuple(sorted(apps, key=lambda app: app.protocol)) if apps else None)]


# --- dcb -----------------------------------------------------------------------------------------------------------


def _dcb(lines: list[str], name: str) -> list[NicQos]:
    """Commands and their output; the last word about a device counts."""
    found: dict[str, NicQos] = {}
    command, device, output = "", name, list[str]()
    for line in [*lines, "$ end"]:
        prompt = _PROMPT.fullmatch(line.strip())
        if prompt or line.lstrip().startswith(("$", "#")):
            told = _DCB[command](_fields(output)) if command in _DCB else {}
            if told:
                found[device] = replace(found.get(device, NicQos(name=device, dcb=True)), **told)
            command, device, output = (prompt[1], prompt[2], []) if prompt else ("", device, [])
        elif not line.strip().startswith("rc="):
            output.append(line.strip())
    return list(found.values())


def _fields(lines: list[str]) -> dict[str, str]:
    """First word of a line → the rest."""
    return {head: tail for head, _, tail in (line.partition(" ") for line in lines if line)}


def _dcb_pfc(fields: dict[str, str]) -> dict[str, Any]:
    if "prio-pfc" not in fields:
        return {}
    on = tuple(sorted(priority for priority, word in _pairs(fields["prio-pfc"]).items() if word == "on"))
    words = fields.get("pfc-cap", "").split()
    cap = number(words[0], 0, 8) if words else None
    delay = number(words[words.index("delay") + 1], 0, 65535) if "delay" in words[:-1] else None
    return {"pfc": Pfc(enabled=on, cap=8 if cap is None else cap, delay=delay or 0)}


def _dcb_app(fields: dict[str, str]) -> dict[str, Any]:
    """Nothing printed is an empty table; anything else without an entry is an error message."""
    apps = []
    kinds = {"dscp-prio": "dscp", "dgram-port-prio": "dgram", "stream-port-prio": "stream", "pcp-prio": "pcp"}
    if fields and not {*fields} & {*kinds, "ethtype-prio", "stream-dgram-port-prio", "default-prio"}:
        return {}
    for kind, selector in kinds.items():
        for key, value in _PAIR.findall(fields.get(kind, "")):
            protocol = DSCP_NAMES.get(key.lower()) if selector == "dscp" else None
            protocol = number(key, 0, 65535) if protocol is None else protocol
            priority = number(value, 0, 7)
            if protocol is not None and priority is not None:
                apps.append(App(selector=selector, protocol=protocol, priority=priority))
    return {"apps": tuple(sorted(apps, key=lambda app: (app.selector, app.protocol)))}


def _dcb_ets(fields: dict[str, str]) -> dict[str, Any]:
    if "prio-tc" not in fields:
        return {}
    classes, shares = _pairs(fields["prio-tc"]), _pairs(fields.get("tc-bw", ""))
    ets = Ets(
        willing=fields.get("willing", "").startswith("on"),
        prio_tc=_eight({key: number(word, 0, 7) or 0 for key, word in classes.items()}, 0),
        tsa=_eight({key: _tsa(word) for key, word in _pairs(fields.get("tc-tsa", "")).items()}, "strict"),
        tc_bw=_eight({key: number(word, 0, 100) or 0 for key, word in shares.items()}, 0),
    )
    return {"ets": ets}


def _dcb_buffer(fields: dict[str, str]) -> dict[str, Any]:
    def sizes(text: str) -> dict[int, int]:
        return {key: number(word.rstrip("b"), 0, 10**9) or 0 for key, word in _pairs(text).items()}

    if "prio-buffer" not in fields:
        return {}
    total = number(fields.get("total-size", "0").strip().rstrip("b"), 0, 10**9) or 0
    size = _eight(sizes(fields.get("buffer-size", "")), 0)
    return {"buffer": Buffer(prio_buffer=_eight(sizes(fields["prio-buffer"]), 0), size=size, total=total)}


def _dcb_dcbx(fields: dict[str, str]) -> dict[str, Any]:
    words = {word for head, tail in fields.items() for word in (head, *tail.split())}
    flags = {"host": "host", "lld_managed": "lld-managed", "cee": "cee", "ieee": "ieee", "static": "static"}
    return {"dcbx": Dcbx(**{name: word in words for name, word in flags.items()})} if words else {}


_DCB: Mapping[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    "pfc": _dcb_pfc,
    "app": _dcb_app,
    "ets": _dcb_ets,
    "buffer": _dcb_buffer,
    "dcbx": _dcb_dcbx,
}


# --- niccli --------------------------------------------------------------------------------------------------------


def _niccli_qos(lines: list[str], name: str) -> list[NicQos]:
    fields = {head.strip(): tail.strip() for head, _, tail in (line.partition(":") for line in lines)}
    apps, entry = [], dict[str, str]()
    for head, _, tail in (line.strip().partition(":") for line in lines):
        if head.startswith("APP#"):
            entry = {}
        entry[head] = tail.strip()
        selector = number(entry.get("Sel", ""), 0, 255)
        protocol = number(entry.get("DSCP") or entry.get("UDP or DCCP") or entry.get("Ethertype") or "", 0, 65535)
        priority = number(entry.get("Priority", ""), 0, 7)
        if selector is not None and protocol is not None and priority is not None:
            apps.append(App(selector=_SELECTORS.get(selector, str(selector)), protocol=protocol, priority=priority))
            entry = {}
    shares = [number(word.rstrip("%"), 0, 100) or 0 for word in fields.get("TC Bandwidth", "").split()[:8]]
    ets = Ets(
        prio_tc=_eight({key: number(word, 0, 7) or 0 for key, word in _pairs(fields.get("PRIO_MAP", "")).items()}, 0),
        tsa=_eight({key: _tsa(word) for key, word in _pairs(fields.get("TSA_MAP", "")).items()}, "strict"),
        tc_bw=_eight(dict(enumerate(shares)), 0),
    )
    on = tuple(number(word, 0, 7) for word in fields.get("PFC enabled", "").replace(",", " ").split())
    pfc = Pfc(enabled=tuple(sorted(each for each in on if each is not None)))
    return [NicQos(name=name, driver="bnxt_en", dcb=True, ets=ets, pfc=pfc, apps=tuple(apps))]


def _niccli_list(lines: list[str], _name: str) -> list[NicQos]:
    found: list[NicQos] = []
    fields: dict[str, str] = {}
    for line in [*lines, "end)"]:
        if re.match(r"\s*(?:[0-9]+|end)\)", line):
            if "Device Interface" in fields:
                mac, address = fields.get("MAC Address"), fields.get("PCI Address")
                pci = Pci(address=address) if address else None
                found.append(
                    NicQos(name=fields["Device Interface"], driver="bnxt_en", mac=mac.lower() if mac else None, pci=pci)
                )
            fields = {}
        head, colon, tail = line.partition(" :")
        if colon:
            fields[head.strip()] = tail.strip()
    return found


_READERS: Mapping[re.Pattern[str], Callable[[list[str], str], list[NicQos]]] = {
    re.compile(r"^Priority trust state:", re.MULTILINE): _mlnx_qos,
    re.compile(r"^[$#] dcb \S+ show dev ", re.MULTILINE): _dcb,
    re.compile(r"^IEEE 8021QAZ ETS Configuration TLV:", re.MULTILINE): _niccli_qos,
    re.compile(r"^\s*Device Interface\s+:", re.MULTILINE): _niccli_list,
}
