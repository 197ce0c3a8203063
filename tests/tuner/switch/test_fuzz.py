"""Hostile sources: whatever a file holds, it costs findings of its own switch, never an exception."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tuner.switch import eos, nvue, nxos, openconfig, read, sonic
from tuner.switch.model import Platform, Switch
from tuner.switch.text import MAX_BYTES

Reader = Callable[[str, Mapping[str, bytes]], Switch]
READERS: Mapping[Platform, Reader] = {
    "sonic": sonic.read,
    "cumulus": nvue.read,
    "eos": eos.read,
    "nxos": nxos.read,
    "dell-sonic": openconfig.read,
}
# The words that readers look for, so that what hypothesis makes gets past the first check.
WORDS = sorted(
    {
        *("PORT", "PORT_QOS_MAP", "QUEUE", "BUFFER_PG", "BUFFER_PROFILE", "BUFFER_POOL", "CABLE_LENGTH", "PFC_WD"),
        *("DSCP_TO_TC_MAP", "TC_TO_QUEUE_MAP", "SCHEDULER", "WRED_PROFILE", "COUNTERS", "COUNTERS_PORT_NAME_MAP"),
        *("COUNTERS_QUEUE_NAME_MAP", "LLDP_ENTRY_TABLE", "PORT_TABLE", "BUFFER_PG_TABLE", "DEVICE_METADATA"),
        *("Ethernet0", "Ethernet0|3", "Ethernet0|3-4", "Ethernet0:3", "global", "GLOBAL", "AZURE", "localhost", "NULL"),
        *("dscp_to_tc_map", "pfc_enable", "3,4", "scheduler", "wred_profile", "profile", "speed", "mtu", "ecn", "type"),
        *("[SCHEDULER|AZURE]", "ecn_all", "DWRR", "26", "3", "5m", "value", "hash", "oid:0x1", "POLL_INTERVAL"),
        *("qos", "interface", "roce", "enable", "on", "mode", "lossless", "mapping", "default-global", "dscp", "pcp"),
        *(
            "switch-priority",
            "traffic-class",
            "pfc",
            "congestion-control",
            "egress-scheduler",
            "swp1",
            "swp1-64",
            "set",
        ),
        *("link", "lldp", "neighbor", "trust", "trust-mode", "prio-map", "tc-map", "enabled-tc", "min-threshold"),
        *("interfaceCounters", "intfQueueCounters", "queueCounters", "interfaces", "lldpNeighbors", "cmds", "output"),
        *("TABLE_module", "ROW_module", "TABLE_pfc_interface", "ROW_pfc_interface", "if_name_str", "admin", "oper"),
        *("openconfig-qos:qos", "openconfig-interfaces:interfaces", "openconfig-qos:interfaces", "config", "name"),
        *(
            "dscp-maps",
            "dscp-map",
            "dscp-map-entries",
            "dscp-map-entry",
            "fwd-group",
            "interface-id",
            "queues",
            "queue",
        ),
        *("notification", "update", "path", "val", "openconfig-qos:qos/interfaces/interface[interface-id=Ethernet0]"),
    }
)
keys = st.one_of(st.sampled_from(WORDS), st.text(max_size=5))
leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(WORDS), st.text(max_size=8), st.just("9" * 30)
)
trees = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=25,
)
lines = st.lists(
    st.tuples(
        st.integers(0, 4),
        st.lists(
            st.one_of(
                st.sampled_from(
                    (
                        *("interface", "Ethernet1/1", "Ethernet1-4", "qos", "map", "dscp", "26", "to", "traffic-class"),
                        *("3", "profile", "priority-flow-control", "on", "priority", "no-drop", "random-detect", "ecn"),
                        *(
                            "minimum-threshold",
                            "150",
                            "kbytes",
                            "maximum-threshold",
                            "tx-queue",
                            "service-profile",
                            "X",
                        ),
                        *("class-map", "policy-map", "type", "network-qos", "queuing", "class", "c-8q-nq3", "pause"),
                        *("pfc-cos", "system", "service-policy", "input", "match", "set", "qos-group", "mode", "mtu"),
                        *("pause", "watchdog", "default", "timeout", "polling-interval", "watch-dog-interval", "value"),
                    )
                ),
                st.text(max_size=6),
            ),
            max_size=6,
        ),
    ),
    max_size=20,
)


def whole(switch: Switch) -> None:
    """The switch can be walked, printed and written: nothing in it waits to fail."""
    for finding in switch.findings:
        finding.place.encode()
        assert (finding.place + finding.message).isprintable()
    for name, port in switch.ports.items():
        name.encode()
        assert name == port.name
        for field in ("pfc", "mtu", "queues"):
            port.place(field).encode()
        port.tc_of(26), port.queue_of(3), port.pg_of(3), port.queue(3)
    if len(switch.ports) < 20:
        json.dumps(str(asdict(switch.ports[next(iter(switch.ports))])) if switch.ports else "")


@pytest.mark.parametrize("platform", READERS)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tree=trees)
def test_any_json(platform: Platform, tree: Any) -> None:
    whole(READERS[platform]("s", {"f": json.dumps(tree).encode()}))


@pytest.mark.parametrize("platform", READERS)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=lines)
def test_any_lines(platform: Platform, text: list[tuple[int, list[str]]]) -> None:
    content = "\n".join("   " * indent + " ".join(words) for indent, words in text)
    whole(READERS[platform]("s", {"f": content.encode(errors="replace")}))


@pytest.mark.parametrize("platform", READERS)
@settings(max_examples=80, deadline=None)
@given(data=st.binary(max_size=200))
@example(data=b"\x00" * 100)
@example(data=b"")
@example(data=b"[" * 200_000)
@example(data=b'{"a":' * 100_000)
@example(data=b'{"PORT": {"Ethernet0": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}}")
@example(data=b'{"qos": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}")
def test_any_bytes(platform: Platform, data: bytes) -> None:
    whole(READERS[platform]("s", {"f": data}))


ROWS: Mapping[str, Any] = {
    "PORT": {"Ethernet0": {"speed": "400000", "mtu": "9100"}},
    "PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "AZURE", "pfc_enable": "3,4", "pfcwd_sw_enable": "3"}},
    "QUEUE": {"Ethernet0|3": {"scheduler": "s", "wred_profile": "w"}},
    "BUFFER_PG": {"Ethernet0|3-4": {"profile": "p"}},
    "BUFFER_PROFILE": {"p": {"pool": "l", "xoff": "1", "size": "1", "dynamic_th": "0"}},
    "BUFFER_POOL": {"l": {"type": "ingress", "mode": "dynamic", "size": "1"}},
    "CABLE_LENGTH": {"AZURE": {"Ethernet0": "5m"}},
    "SCHEDULER": {"s": {"type": "DWRR", "weight": "1"}},
    "WRED_PROFILE": {"w": {"ecn": "ecn_all", "green_min_threshold": "1"}},
    "DSCP_TO_TC_MAP": {"AZURE": {"26": "3"}},
    "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "200"}, "Ethernet0": {"action": "drop", "detection_time": "400"}},
    "DEVICE_NEIGHBOR": {"Ethernet0": {"name": "gpu-1", "port": "eth0"}},
    "COUNTERS_PORT_NAME_MAP": {"Ethernet0": "oid:0x1"},
    "COUNTERS": {"oid:0x1": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "1"}},
}
WRONG: tuple[Any, ...] = (None, [], {}, "", "x", "NULL", 10**30, -1, 1.5, True, {"a": []}, ["a"], "\x1b[2J", "\ud800")


@pytest.mark.parametrize("table", ROWS)
@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_wrong_value_anywhere_in_a_sonic_table(table: str, wrong: Any) -> None:
    for replaced in (
        wrong,
        dict.fromkeys(ROWS[table], wrong),
        {key: dict.fromkeys(row, wrong) for key, row in ROWS[table].items()},
        {**ROWS[table], str(wrong): {"a": "b"}},
    ):
        whole(sonic.read("s", {"f": json.dumps({**ROWS, table: replaced}).encode()}))


@pytest.mark.parametrize("platform", READERS)
def test_a_file_that_names_no_end_of_ports_is_read_to_a_bound(platform: Platform) -> None:
    names = [f"Ethernet{number}" for number in range(20_000)]
    documents: dict[Platform, str] = {
        "sonic": json.dumps({"QUEUE": {f"{name}|0-63": {"scheduler": "s"} for name in names}}),
        "cumulus": json.dumps({"interface": {f"swp{number}": {"link": {}} for number in range(20_000)}}),
        "eos": "\n".join(f"interface {name}" for name in names),
        "nxos": "\n".join(f"interface {name}" for name in names),
        "dell-sonic": json.dumps(
            {"openconfig-interfaces:interfaces": {"interface": [{"name": name} for name in names]}}
        ),
    }
    switch = READERS[platform]("s", {"f": documents[platform].encode()})
    assert len(switch.ports) == 16_384
    assert any("more than 16384 ports" in finding.message for finding in switch.findings)


@pytest.mark.parametrize("reader", [eos.read, nxos.read])
def test_more_lines_than_any_switch_has_cost_one_finding(reader: Reader) -> None:
    switch = reader("s", {"f": b"interface Ethernet1\n" * 500_002})
    assert [finding.message for finding in switch.findings] == ["has more than 500000 lines"]


def test_a_huge_file_costs_one_finding() -> None:
    switch = read.read("sonic", "s", {"f": b" " * (MAX_BYTES + 1)})
    assert [(finding.kind, finding.message) for finding in switch.findings] == [("unreadable", "is larger than 24 MiB")]


def test_a_fault_of_the_reader_itself_is_one_finding_and_in_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(name: str, documents: Mapping[str, bytes]) -> Switch:
        raise ZeroDivisionError

    monkeypatch.setattr(read, "_READERS", {"sonic": broken})
    switch = read.read("sonic", "s", {"f": b"{}"}, role="leaf")
    assert (switch.readable, switch.role) == (False, "leaf")
    assert "ZeroDivisionError" in switch.findings[0].message
    assert "Traceback" in caplog.text
