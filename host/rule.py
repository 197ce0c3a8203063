"""Routing policy rules over rtnetlink: RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE.

Kernel documents: ``ip-rule(8)``, ``include/uapi/linux/fib_rules.h``.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from host.inet import family_of, pack, split, unpack
from host.netlink import NLM_F_CREATE, NLM_F_EXCL, Request, Route, attributes, blob, flag8, u32
from host.route import OURS

__all__ = ["Rule", "add", "delete", "rules"]

_RTM_NEWRULE, _RTM_DELRULE, _RTM_GETRULE = 32, 33, 34
_FRA_SRC, _FRA_PRIORITY, _FRA_TABLE, _FRA_PROTOCOL = 2, 6, 15, 21
_FR_ACT_TO_TBL = 1

# struct fib_rule_hdr: family, dst_len, src_len, tos, table, (reserved) ×2, action, flags
_RULE = struct.Struct("=BBBBBxxBI")


class Rule(NamedTuple):
    """``from SOURCE lookup TABLE`` at a priority."""

    source: str
    """A prefix, or ``all``."""
    table: int
    priority: int
    protocol: int


def rules(route: Route, family: int) -> tuple[Rule, ...]:
    """Every rule of one family in the socket's namespace."""
    body = _RULE.pack(family, 0, 0, 0, 0, 0, 0)
    return tuple(_parse(data) for data in route.dump(Request(_RTM_GETRULE, 0, body, "list", "rules")))


def _parse(data: bytes) -> Rule:
    _, _, length, _, table, _, _ = _RULE.unpack_from(data)
    attrs = attributes(data, _RULE.size)
    if _FRA_TABLE in attrs:
        (table,) = struct.unpack("=I", attrs[_FRA_TABLE])
    (priority,) = struct.unpack("=I", attrs.get(_FRA_PRIORITY, bytes(4)))
    return Rule(
        source=f"{unpack(attrs[_FRA_SRC])}/{length}" if _FRA_SRC in attrs else "all",
        table=table,
        priority=priority,
        protocol=attrs.get(_FRA_PROTOCOL, b"\0")[0],
    )


def _body(source: str, table: int, priority: int) -> bytes:
    address, length = split(source)
    return b"".join(
        [
            _RULE.pack(family_of(address), 0, length, 0, 0, _FR_ACT_TO_TBL, 0),
            blob(_FRA_SRC, pack(address)),
            u32(_FRA_PRIORITY, priority),
            u32(_FRA_TABLE, table),
            flag8(_FRA_PROTOCOL, OURS),
        ]
    )


def add(source: str, table: int, priority: int) -> Request:
    """Look traffic from ``source`` (a prefix) up in ``table``."""
    return Request(
        _RTM_NEWRULE,
        NLM_F_CREATE | NLM_F_EXCL,
        _body(source, table, priority),
        "add rule",
        f"from {source} lookup {table}",
    )


def delete(source: str, table: int, priority: int) -> Request:
    """Remove exactly the rule that :func:`add` made."""
    return Request(_RTM_DELRULE, 0, _body(source, table, priority), "delete rule", f"from {source} lookup {table}")
