"""Network configurations for tests: one that is right, and ways to make it wrong."""

from __future__ import annotations

import copy
from typing import Any

from cni import netconf
from cni.netconf import NetConf
from conf.errors import ConfigError


def good(**extra: Any) -> dict[str, Any]:
    """Two rails of one family each."""
    return copy.deepcopy(
        {
            "cniVersion": "1.1.0",
            "name": "pods",
            "type": "roceway-cni",
            "rails": [
                {"name": "rail0", "netdev": "eth2", "ipam": {"ranges": [{"subnet": "10.200.0.0/24"}]}},
                {"name": "rail1", "pci": "0000:2A:00.0", "ipam": {"ranges": [{"subnet": "fd00:201::/64"}]}},
            ],
            **extra,
        }
    )


def rail(number: int = 0, /, **keys: Any) -> dict[str, Any]:
    """``good()`` with keys of one rail changed; a key that is Ellipsis is removed."""
    raw = good()
    raw["rails"][number] |= keys
    raw["rails"][number] = {key: value for key, value in raw["rails"][number].items() if value is not ...}
    return raw


def parsed(raw: dict[str, Any]) -> NetConf:
    """The configuration, which must be right."""
    return netconf.parse(raw, "1.1.0")


def findings(raw: dict[str, Any]) -> dict[str, str]:
    """Path to message of every finding; empty for a configuration that is right."""
    return {finding.path: finding.message for finding in refusal(raw).findings}


def refusal(raw: dict[str, Any]) -> ConfigError:
    """The error of a configuration that must be wrong."""
    try:
        netconf.parse(raw, "1.1.0")
    except ConfigError as error:
        return error
    raise AssertionError("the configuration was accepted")
