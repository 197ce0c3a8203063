"""SONiC's tables: shapes they are saved in, references, and what is unknown rather than off."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any

import pytest

from tuner.switch import sonic
from tuner.switch.model import NO_ECN, UNBOUND, Switch
from tuner.switch.read import read

TABLES: dict[str, Any] = {
    "DEVICE_METADATA": {"localhost": {"hostname": "leaf-r0", "platform": "x86_64-mlnx_msn4700-r0"}},
    "PORT": {f"Ethernet{port}": {"speed": "400000", "mtu": "9100", "pfc_asym": "off"} for port in (0, 8, 16)},
    "PORT_QOS_MAP": {
        "global": {"dscp_to_tc_map": "AZURE"},
        "Ethernet0": {
            "dscp_to_tc_map": "AZURE",
            "tc_to_queue_map": "AZURE",
            "tc_to_pg_map": "AZURE",
            "pfc_enable": "3,4",
        },
        "Ethernet8": {"dot1p_to_tc_map": "PCP"},
    },
    "DSCP_TO_TC_MAP": {"AZURE": {"26": "3", "48": "6"}},
    "DOT1P_TO_TC_MAP": {"PCP": {"3": "3"}},
    "TC_TO_QUEUE_MAP": {"AZURE": {str(tc): str(tc) for tc in range(8)}},
    "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {"3": "3"}},
    "SCHEDULER": {"s": {"type": "DWRR", "weight": "20", "cir": "1250000", "pir": "25000000", "meter_type": "bytes"}},
    "WRED_PROFILE": {"w": {"ecn": "ecn_all", "green_min_threshold": "1048576", "green_max_threshold": "2097152"}},
    "QUEUE": {"Ethernet0|3-4": {"scheduler": "s", "wred_profile": "w"}, "Ethernet0|5": {"scheduler": "s"}},
    "BUFFER_POOL": {"p": {"type": "ingress", "mode": "dynamic", "size": "1000", "xoff": "10"}},
    "BUFFER_PROFILE": {
        "lossless": {"pool": "p", "size": "0", "xon": "1", "xoff": "38912", "dynamic_th": "0"},
        "lossy": {"pool": "p", "size": "0", "dynamic_th": "3"},
        "auto": {"pool": "p", "dynamic_th": "0", "headroom_type": "dynamic"},
    },
    "BUFFER_PG": {
        "Ethernet0|3-4": {"profile": "lossless"},
        "Ethernet0|0": {"profile": "lossy"},
        "Ethernet8|3": {"profile": "auto"},
    },
    "CABLE_LENGTH": {"AZURE": {"Ethernet0": "5m", "Ethernet8": "0m"}},
    "PFC_WD": {"GLOBAL": {"POLL_INTERVAL": "200"}, "Ethernet0": {"action": "drop", "detection_time": "400"}},
}


def from_tables(*documents: Any) -> Switch:
    return sonic.read("leaf-r0", {str(at): json.dumps(document).encode() for at, document in enumerate(documents)})


def text(source: str) -> Switch:
    return sonic.read("leaf-r0", {"f": source.encode()})


def flat(tables: dict[str, Any], separator: str = "|") -> dict[str, Any]:
    return {f"{table}{separator}{key}": row for table, rows in tables.items() for key, row in rows.items()}


def bare(switch: Switch) -> Switch:
    """Without where it was read from."""
    return replace(switch, source="")


def test_every_shape_of_the_same_tables_is_the_same_switch() -> None:
    nested = from_tables(TABLES)
    dumped = {key: {"type": "hash", "ttl": -0.001, "value": row} for key, row in flat(TABLES).items()}
    split = [{table: rows} for table, rows in TABLES.items()]
    for other in (from_tables(flat(TABLES)), from_tables(dumped), from_tables(split), from_tables(*split)):
        assert bare(other) == bare(nested)
    assert not nested.findings


def test_both_forms_of_references_are_the_same_but_for_a_finding() -> None:
    old = json.loads(json.dumps(TABLES))
    old["QUEUE"]["Ethernet0|3-4"] = {"scheduler": "[SCHEDULER|s]", "wred_profile": "[WRED_PROFILE|w]"}
    old["PORT_QOS_MAP"]["Ethernet0"]["dscp_to_tc_map"] = "[DSCP_TO_TC_MAP|AZURE]"
    switch = from_tables(old)
    assert switch.ports == from_tables(TABLES).ports
    assert {(finding.kind, finding.rule) for finding in switch.findings} == {("old-form", "S14")}


def test_a_port_and_its_queues() -> None:
    port = from_tables(TABLES).ports["Ethernet0"]
    assert (port.speed, port.mtu, port.cable, port.pfc) == (400_000, 9100, 5.0, frozenset({3, 4}))
    three, five, seven = (port.queue(number) for number in (3, 5, 7))
    assert three is not None
    assert three.ecn is not None
    assert three.scheduler is not None
    assert (three.ecn.enabled, three.ecn.kmin, three.scheduler.min_rate, three.scheduler.max_rate) == (
        True,
        1 << 20,
        10,
        200,
    )
    assert five is not None
    assert seven is not None
    assert (five.ecn, seven.ecn, seven.scheduler) == (NO_ECN, NO_ECN, None)


def test_a_queue_is_unknown_without_the_table_and_without_marking_with_it() -> None:
    tables = {table: rows for table, rows in TABLES.items() if table not in ("QUEUE", "WRED_PROFILE")}
    assert from_tables(tables).ports["Ethernet0"].queue(3) is None
    assert from_tables({**tables, "QUEUE": {}}).ports["Ethernet0"].queue(3) is not None


def test_groups_are_lossless_by_headroom_or_by_the_buffer_manager() -> None:
    ports = from_tables(TABLES).ports
    groups = ports["Ethernet0"].groups or {}
    assert [groups[number].lossless for number in (0, 3, 4)] == [False, True, True]
    assert (ports["Ethernet8"].groups or {})[3].lossless
    assert ports["Ethernet16"].groups == {}
    assert groups[3].profile is not None
    assert groups[3].profile.pool is not None
    assert groups[3].profile.pool.xoff == 10


def test_trust_by_what_is_bound_and_the_switch_wide_map() -> None:
    ports = from_tables(TABLES).ports
    assert ports["Ethernet0"].trust == frozenset({"dscp"})
    assert ports["Ethernet8"].trust == frozenset({"dscp", "pcp"})  # DSCP by the switch-wide map
    without = json.loads(json.dumps(TABLES))
    del without["PORT_QOS_MAP"]["global"]
    ports = from_tables(without).ports
    assert (ports["Ethernet8"].trust, ports["Ethernet16"].trust) == (frozenset({"pcp"}), frozenset[str]())
    assert ports["Ethernet16"].dscp_to_tc == UNBOUND


def test_what_the_source_does_not_say_is_unknown_and_not_off() -> None:
    port = from_tables({"PORT": {"Ethernet0": {}}, "BUFFER_POOL": {}}).ports["Ethernet0"]
    told = {
        name: getattr(port, name)
        for name in ("pfc", "trust", "dscp_to_tc", "queues", "groups", "cable", "watchdog", "pfc_asymmetric", "speed")
    }
    assert {*told.values()} == {None}


def test_a_watchdog_is_a_row_of_its_own_table() -> None:
    ports = from_tables(TABLES).ports
    dogs = [ports[name].watchdog for name in ("Ethernet0", "Ethernet16")]
    assert [dog.enabled if dog else None for dog in dogs] == [True, False]


def test_zero_metres_are_a_length() -> None:
    assert from_tables(TABLES).ports["Ethernet8"].cable == 0.0


@pytest.mark.parametrize(
    ("table", "field", "attribute"),
    [("PORT_QOS_MAP", "pfc_enable", "pfc"), ("PORT", "mtu", "mtu"), ("CABLE_LENGTH", "Ethernet0", "cable")],
)
def test_a_field_named_twice_with_two_values_is_unknown(table: str, field: str, attribute: str) -> None:
    source = json.dumps(TABLES)
    row = json.dumps(TABLES[table]["AZURE" if table == "CABLE_LENGTH" else "Ethernet0"])
    switch = text(source.replace(row, row[:-1] + f', "{field}": "7"}}', 1))
    assert getattr(switch.ports["Ethernet0"], attribute) is None
    assert [(finding.kind, finding.rule) for finding in switch.findings] == [("duplicate-key", "S14")]


def test_rows_and_tables_named_twice_are_unknown_and_not_absent() -> None:
    row = '"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}, "Ethernet0": {"pfc_enable": "4"}}'
    port = text('{"PORT": {"Ethernet0": {}}, ' + row + "}").ports["Ethernet0"]
    assert (port.pfc, port.trust) == (None, None)
    table = '"PORT_QOS_MAP": {"Ethernet0": {"pfc_enable": "3"}}, "PORT_QOS_MAP": {}'
    assert text('{"PORT": {"Ethernet0": {}}, ' + table + "}").ports["Ethernet0"].pfc is None
    queue = '"QUEUE": {"Ethernet0|3": {"scheduler": "s"}, "Ethernet0|3": {}}'
    found = text('{"PORT": {"Ethernet0": {}}, ' + queue + "}").ports["Ethernet0"].queue(3)
    assert found is not None
    assert found.ecn is None


def test_references_into_a_table_that_is_there_dangle_and_into_one_that_is_not_are_unknown() -> None:
    binding = {"PORT_QOS_MAP": {"Ethernet0": {"dscp_to_tc_map": "GONE"}}}
    there = from_tables({**binding, "DSCP_TO_TC_MAP": {"AZURE": {}}})
    assert [finding.kind for finding in there.findings if finding.rule == "S14"] == ["dangling"]
    absent = from_tables(binding)
    assert not [finding for finding in absent.findings if finding.rule]
    for switch in (there, absent):
        mapping = switch.ports["Ethernet0"].dscp_to_tc
        assert mapping is not None
        assert (mapping.name, mapping.entries) == ("GONE", None)


def test_one_cause_on_many_ports_is_one_finding_with_their_number() -> None:
    queues = {f"Ethernet{port}|3": {"scheduler": "gone"} for port in range(100)}
    (finding,) = [each for each in from_tables({"QUEUE": queues, "SCHEDULER": {}}).findings if each.rule]
    assert finding.message == "gone is not in SCHEDULER (and 99 more like it)"


def test_keys_that_list_ports_and_queues_of_other_cards() -> None:
    switch = from_tables(
        {"QUEUE": {"Ethernet0,Ethernet4|3": {}, "host1|asic0|Ethernet8|2-3": {}}, "PORT_QOS_MAP": {"Ethernet0": {}}}
    )
    assert {*switch.ports} == {"Ethernet0", "Ethernet4", "host1|asic0|Ethernet8"}
    other = switch.ports["host1|asic0|Ethernet8"]
    assert other.queues is not None
    assert {*other.queues} == {2, 3}
    assert other.pfc is None  # bound on its own card


def test_maps_that_tunnels_bind_are_bound() -> None:
    tunnel = {"TUNNEL": {"MuxTunnel0": {"decap_dscp_to_tc_map": "AZURE_TUNNEL", "encap_tc_to_queue_map": "T"}}}
    assert from_tables({**TABLES, **tunnel}).maps_elsewhere == {"DSCP_TO_TC_MAP|AZURE_TUNNEL", "TC_TO_QUEUE_MAP|T"}


def test_the_asic_by_the_platform_and_what_fabric_yaml_says_wins() -> None:
    assert from_tables(TABLES).asic == "spectrum-3"
    switch = read("sonic", "leaf-r0", {"f": json.dumps(TABLES).encode()}, asic="spectrum-4", role=None)
    assert (switch.asic, switch.role) == ("spectrum-4", None)


def test_a_broken_file_beside_a_good_one_costs_itself_alone() -> None:
    switch = sonic.read("s", {"good": json.dumps(TABLES).encode(), "bad": b"{"})
    assert switch.readable
    assert [(finding.kind, finding.place) for finding in switch.findings] == [("partial", "bad")]


def test_a_lookup_table_with_a_bad_row() -> None:
    switch = text("# speed cable size xon xoff threshold\n400000 5m 86016 37888 38912 0\n400000 40m nonsense\n")
    assert switch.lookup is not None
    assert [(row.speed, row.xoff, row.place) for row in switch.lookup] == [(400_000, 38912, "f:2")]
    assert ("bad-value", "f:3") in {(finding.kind, finding.place) for finding in switch.findings}


def test_show_pfc_counters_in_both_directions() -> None:
    lines = (
        "     Port Rx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7\n"
        "------------  ------  ------  ------  ------  ------  ------  ------  ------\n"
        "   Ethernet0       0       0       0   1,234     N/A       0       0       0\n\n"
        "     Port Tx    PFC0    PFC1    PFC2    PFC3    PFC4    PFC5    PFC6    PFC7\n"
        "------------  ------  ------  ------  ------  ------  ------  ------  ------\n"
        "   Ethernet0       0       0       0      56       0       0       0       0\n"
    )
    counters = text(lines).ports["Ethernet0"].counters
    assert counters is not None
    assert counters.pfc_rx is not None
    assert counters.pfc_tx is not None
    assert (counters.pfc_rx[3], 4 in counters.pfc_rx, counters.pfc_tx[3]) == (1234, False, 56)


def test_a_switch_can_be_sent_to_another_process() -> None:
    switch = from_tables(TABLES)
    assert pickle.loads(pickle.dumps(switch)) == switch
    assert pickle.loads(pickle.dumps(switch)).ports["Ethernet0"].place("pfc") == "PORT_QOS_MAP|Ethernet0.pfc_enable"


def test_findings_tell_the_table_the_key_and_the_field() -> None:
    bad = json.loads(json.dumps(TABLES))
    bad["PORT_QOS_MAP"]["Ethernet0"]["pfc_enable"] = "3,9"
    bad["WRED_PROFILE"]["w"]["green_min_threshold"] = "1M"
    bad["DSCP_TO_TC_MAP"]["AZURE"]["64"] = "1"
    bad["CABLE_LENGTH"]["AZURE"]["Ethernet0"] = "five"
    found = {finding.place: finding.message for finding in from_tables(bad).findings}
    assert found == {
        "PORT_QOS_MAP|Ethernet0.pfc_enable": "3,9 is not a list of priorities, such as 3,4",
        "WRED_PROFILE|w.green_min_threshold": "1M is not a whole number from 0 to 1000000000000",
        "DSCP_TO_TC_MAP|AZURE": "64 is not a number from 0 to 63",
        "CABLE_LENGTH|AZURE.Ethernet0": "five is not a length such as 5m",
    }


def vlans(**tables: object) -> dict[str, frozenset[str] | None]:
    """VLANs of the ports of a small configuration."""
    ports = {name: {"speed": "400000"} for name in ("Ethernet0", "Ethernet4", "Ethernet8")}
    document = {"PORT": ports, "PORT_QOS_MAP": {name: {"pfc_enable": "3"} for name in ports}, **tables}
    switch = read("sonic", "leaf", {"config_db.json": json.dumps(document).encode()})
    return {name: port.vlans for name, port in switch.ports.items()}


def test_ports_bridge_by_themselves_or_in_a_bundle_or_not_at_all() -> None:
    member = {"tagging_mode": "untagged"}
    assert vlans(
        VLAN_MEMBER={"Vlan10|Ethernet0": member, "Vlan20|Ethernet0": member, "Vlan10|PortChannel1": member},
        PORTCHANNEL_MEMBER={"PortChannel1|Ethernet4": {}},
    ) == {"Ethernet0": {"Vlan10", "Vlan20"}, "Ethernet4": {"Vlan10"}, "Ethernet8": frozenset()}


def test_routed_ports_are_in_no_vlan_and_a_file_of_qos_does_not_tell() -> None:
    assert set(vlans(INTERFACE={"Ethernet0": {}, "Ethernet0|10.0.0.1/31": {}}).values()) == {frozenset()}
    assert set(vlans().values()) == {None}
    assert set(vlans(VLAN_MEMBER={"|": {}, "Vlan10": {}, "|Ethernet0": {}}).values()) == {frozenset()}
