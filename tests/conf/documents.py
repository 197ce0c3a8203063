"""Small fabrics to bend: a correct document as plain values, and the findings of a bent one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conf.errors import ConfigError
from conf.fabric import Fabric, parse


def document(**changes: Any) -> dict[str, Any]:
    """A correct fabric of four hosts and two rails, with top-level keys replaced; a key of None is left out."""
    base: dict[str, Any] = {
        "apiVersion": "roceway/v1",
        "kind": "Fabric",
        "metadata": {"name": "test"},
        "rails": [
            {"name": "rail0", "subnet": "10.200.0.0/24", "nodeBlock": 27},
            {"name": "rail1", "subnet": "10.201.0.0/24", "nodeBlock": 27},
        ],
        "nodeTypes": {"gpu": {"speed": "100G", "mode": "macvlan", "rails": {"rail0": "eth2", "rail1": "eth3"}}},
        "nodes": [{"match": "h[0-3]", "type": "gpu"}],
        "switches": [
            {
                "name": "leaf0",
                "platform": "sonic",
                "role": "leaf",
                "ports": {"Ethernet[0-12:4]": "h[0-3]/rail0", "Ethernet[16-28:4]": "h[0-3]/rail1"},
            },
            {"name": "spine0", "platform": "eos", "role": "spine"},
        ],
        "links": [{"from": "leaf0:Ethernet[32,36]", "to": "spine0:Ethernet[1-2]/1"}],
    }
    return {key: value for key, value in (base | changes).items() if value is not None}


def fabric(**changes: Any) -> Fabric:
    """The bent document, parsed. JSON is YAML."""
    return parse(json.dumps(document(**changes)))


def findings(**changes: Any) -> dict[str, str]:
    """Path -> message of every finding about the bent document."""
    return findings_of(json.dumps(document(**changes)))


def findings_of(text: str) -> dict[str, str]:
    """Path -> message of every finding about a text; several at one path are joined by a newline."""
    with pytest.raises(ConfigError) as caught:
        parse(text)
    told: dict[str, str] = {}
    for path, message in caught.value.findings:
        told[path] = f"{told[path]}\n{message}" if path in told else message
    return told


def rail(**fields: Any) -> dict[str, Any]:
    """A rail in the form of the file, ``rail0`` on 10.200.0.0/24 unless told otherwise; None leaves a field out."""
    base: dict[str, Any] = {"name": "rail0", "subnet": "10.200.0.0/24", "nodeBlock": 27}
    return {key: value for key, value in (base | fields).items() if value is not None}


def one_rail(hosts: str = "h[0-3]", **fields: Any) -> dict[str, Any]:
    """Top-level changes for a fabric with a single rail and no switches."""
    return {
        "rails": [rail(**fields)],
        "nodeTypes": {"gpu": {"speed": "100G", "mode": "macvlan"}},
        "nodes": [{"match": hosts, "type": "gpu"}],
        "switches": None,
        "links": None,
    }
