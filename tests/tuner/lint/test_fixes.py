"""A fix is not advice: on SONiC it is a JSON patch, and the patched configuration has the finding no more."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest

from conf.qos import Qos
from tests.tuner.lint import big
from tuner.lint import remedy
from tuner.lint.report import Finding
from tuner.lint.run import lint
from tuner.lint.world import Given
from tuner.switch.model import Port, Switch
from tuner.switch.read import read

Config = dict[str, Any]


def one_port() -> Config:
    """A leaf with one port that is well."""

    def only(key: str) -> bool:
        return not key.startswith("Ethernet") or key.partition("|")[0] == "Ethernet0"

    whole = big.config_db(0)
    cut = {table: {key: row for key, row in rows.items() if only(key)} for table, rows in whole.items()}
    config: Config = json.loads(json.dumps(cut | {"CABLE_LENGTH": {"AZURE": {"Ethernet0": "5m"}}}))  # shares nothing
    return config


def found(config: Config) -> list[Finding]:
    switch = read("sonic", "leaf0", {"config_db.json": json.dumps(config).encode()})
    qos = Qos.model_validate({"profile": "lossless-dscp"})
    return list(lint(Given(None, qos, (), (switch,)), date(2030, 6, 1)).findings)


def patched(config: Config, fix: str) -> Config:
    """RFC 6902, as far as ``config apply-patch`` is given here: add and remove."""
    match = re.match(r"config apply-patch: (\[.*\])", fix)
    assert match, fix
    new = copy.deepcopy(config)
    for operation in json.loads(match[1]):
        *path, last = [part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]]
        target = new
        for part in path:
            target = target.setdefault(part, {})
        if operation["op"] == "remove":
            del target[last]
        else:
            target[last] = operation["value"]
    return new


def _set(*path: str, value: Any) -> Callable[[Config], None]:
    def change(config: Config) -> None:
        for part in path[:-1]:
            config = config.setdefault(part, {})
        config[path[-1]] = value

    return change


def _drop(*path: str) -> Callable[[Config], None]:
    def change(config: Config) -> None:
        for part in path[:-1]:
            config = config[part]
        del config[path[-1]]

    return change


def _dot1p(config: Config) -> None:
    config["DOT1P_TO_TC_MAP"] = {"AZURE": {"3": "3"}}
    row = config["PORT_QOS_MAP"]["Ethernet0"]
    del row["dscp_to_tc_map"]
    row["dot1p_to_tc_map"] = "AZURE"


def _rewritten(config: Config) -> None:
    config["TC_TO_DSCP_MAP"] = {"REMARK": {"3": "24"}}
    config["PORT_QOS_MAP"]["Ethernet0"]["tc_to_dscp_map"] = "REMARK"


def _starved(config: Config) -> None:
    config["SCHEDULER"]["thin"] = {"type": "DWRR", "weight": "5"}
    config["QUEUE"]["Ethernet0|6"] = {"scheduler": "thin"}


def _light(config: Config) -> None:
    config["SCHEDULER"]["thin"] = {"type": "DWRR", "weight": "2"}
    config["QUEUE"]["Ethernet0|3"]["scheduler"] = "thin"


def _no_group(config: Config) -> None:
    config["BUFFER_PG"] = {"Ethernet0|0": {"profile": "lossy"}}
    config["BUFFER_PROFILE"]["lossy"] = {"pool": "ingress_lossless_pool", "size": "0", "dynamic_th": "3"}
    del config["CABLE_LENGTH"]


def _unbound(config: Config) -> None:
    config["PORT_QOS_MAP"] = {"Ethernet0": {"pfc_enable": "3"}}


FAULTS: dict[str, Callable[[Config], None]] = {
    "L01": _set("PORT_QOS_MAP", "Ethernet0", "pfc_enable", value="4"),
    "L02": _set("DSCP_TO_TC_MAP", "AZURE", "26", value="1"),
    "L03": _starved,
    "L04": _dot1p,
    "L07": _set("PORT", "Ethernet0", "mtu", value="1500"),
    "L08": _set("CABLE_LENGTH", "AZURE", "Ethernet0", value="0m"),
    "L10": _rewritten,
    "S01": _unbound,
    "S02": _no_group,
    "S03": _set("MAP_PFC_PRIORITY_TO_QUEUE", "AZURE", "3", value="4"),
    "S04": _set("BUFFER_PROFILE", "pg_lossless", "xoff", value="20000"),
    "S05": _set("BUFFER_POOL", "ingress_lossless_pool", "xoff", value="1000"),
    "S06": _drop("QUEUE", "Ethernet0|3", "wred_profile"),
    "S07": _set("BUFFER_PROFILE", "pg_lossless", "static_th", value="500000"),
    "S08": _set("WRED_PROFILE", "ROCE", "green_min_threshold", value="2097152"),
    "S09": _drop("PFC_WD", "Ethernet0"),
    "S10": _set("PFC_WD", "Ethernet0", "detection_time", value="3000"),
    "S11": _light,
}


def test_the_configuration_is_well_before() -> None:
    assert found(one_port()) == []


@pytest.mark.parametrize("rule", FAULTS)
def test_the_fix_mends_what_was_found(rule: str) -> None:
    config = one_port()
    FAULTS[rule](config)
    findings = [finding for finding in found(config) if finding.rule == rule]
    assert findings
    mended = config
    for finding in findings:
        mended = patched(mended, finding.fix)
    assert [finding for finding in found(mended) if finding.rule == rule] == []


@pytest.mark.parametrize("rule", FAULTS)
def test_the_fix_does_no_harm(rule: str) -> None:
    """With every fix applied, round by round, nothing is left."""
    config = one_port()
    FAULTS[rule](config)
    for _ in range(3):
        for finding in found(config):
            config = patched(config, finding.fix)
    assert found(config) == []


def typed(lines: str) -> Config:
    """What NVUE has after these lines: each is one path with one value at its end."""
    config: Config = {}
    for line in lines.split("; "):
        verb, way, *path, name, value = line.split()
        assert (verb, way) == ("nv", "set")
        place = config
        for part in path:
            place = place.setdefault(part, {})
        place[name] = value
    return config


def test_lines_for_cumulus_set_one_thing_each_and_mean_what_they_say() -> None:
    def after(lines: str) -> Switch:
        config = {**typed(lines), "interface": {"swp1": {"type": "swp"}}}
        return read("cumulus", "leaf0", {"config.json": json.dumps(config).encode()})

    switch = Switch("leaf0", "cumulus", "config.json")
    port = Port("swp1")
    marks = after(remedy.ecn(switch, port, 3, 150_000, 1_500_000, 0.4))
    queue = marks.ports["swp1"].queue(3)
    assert queue is not None
    assert queue.ecn is not None
    assert (queue.ecn.enabled, queue.ecn.kmin, queue.ecn.kmax, queue.ecn.pmax) == (True, 150_000, 1_500_000, 1)
    shares = after(remedy.weight(switch, port, 3, 50))
    queue = shares.ports["swp1"].queue(3)
    assert queue is not None
    assert queue.scheduler is not None
    assert (queue.scheduler.kind, queue.scheduler.weight) == ("dwrr", 50)
    assert [each.findings for each in (marks, shares)] == [(), ()]
