"""Output of real switches: every file is read, and what was not understood of it is told.

The files are not part of the project; without them these tests are skipped.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.world import ROOT
from tuner.switch.load import load_file
from tuner.switch.model import Platform, Switch

DATA = ROOT / "../shared/data/switch"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the files are not on this machine")

# file -> platform, ports, findings by kind, tables that no rule reads
EXPECTED: dict[str, tuple[Platform, int, dict[str, int], set[str]]] = {
    "sonic_buffer-lt2-p32o64.json": ("sonic", 96, {"partial": 1}, set()),
    "sonic_buffers-mellanox4600c-t0.json": ("sonic", 88, {"partial": 1}, set()),
    "sonic_buffers-mellanox4600c-t0-dynamic.json": ("sonic", 88, {"partial": 1}, set()),
    "sonic_pg_profile_lookup_msn4700.ini": ("sonic", 0, {"partial": 1}, set()),
    "sonic_pg_profile_lookup_th_rdma.ini": ("sonic", 0, {"partial": 1}, set()),
    "sonic_qos-arista7060x6.json": ("sonic", 130, {}, set()),
    "sonic_qos-arista7260-t0.json": ("sonic", 22, {}, set()),
    "sonic_qos-mellanox4600c-c64.json": ("sonic", 28, {}, set()),
    "sonic_qos-no-config.json": ("sonic", 144, {}, set()),
    "sonic_yang_sample_config_db.qos_only.json": (
        "sonic",
        41,
        {"ignored": 4},
        {"VERSIONS", "FLEX_COUNTER_TABLE", "LLDP", "LLDP_PORT"},
    ),
    "sonicmgmt_clet-add-qos-new-dbfmt.json": (
        "sonic",
        1,
        {"partial": 1, "ignored": 6},
        {
            "PORTCHANNEL",
            "PORTCHANNEL_MEMBER",
            "PORTCHANNEL_INTERFACE",
            "ACL_TABLE",
            "DEVICE_NEIGHBOR_METADATA",
            "BGP_NEIGHBOR",
        },
    ),
    "sonicmgmt_dynamic_buffer_param.json": ("sonic", 0, {"unreadable": 1, "ignored": 1}, {"mellanox"}),
    "sonicmgmt_pfc_config_params.json": ("sonic", 0, {"unreadable": 1, "ignored": 1}, {"pfc_wd_fwd_action"}),
    "sonicutil_config_qos.json": ("sonic", 32, {"ignored": 1}, {"MPLS_TC_TO_TC_MAP"}),
    "sonicutil_mock_config_db.qos_only.json": (
        "sonic",
        32,
        {"dangling": 1, "old-form": 1, "ignored": 1},
        {"FLEX_COUNTER_TABLE"},
    ),
    "sonicutil_mock_counters_db.pfc_only.json": (
        "sonic",
        3,
        {"partial": 1, "ignored": 2},
        {"COUNTERS_LAG_NAME_MAP", "PERSISTENT_DROP_ALERTS"},
    ),
    "sonicutil_pfcwd_show_stats_multi_queue_output.txt": ("sonic", 2, {"partial": 1}, set()),
    "sonicutil_pfcwd_show_stats_output.txt": ("sonic", 3, {"partial": 1}, set()),
    "sonicutil_pfcwd_show_stats_single_queue_output.txt": ("sonic", 1, {"partial": 1}, set()),
    "sonicutil_show_pfc_counters_history.txt": ("sonic", 3, {"partial": 1}, set()),
    "sonicutil_show_pfcwd_stats_all.txt": ("sonic", 6, {"partial": 1}, set()),
    "sonicutil_show_pfcwd_stats_with_queues.txt": ("sonic", 4, {"partial": 1}, set()),
    "nvue_show_qos_roce.txt": ("cumulus", 1, {}, set()),
    "eos_anta_pfc_ecn_counters.json": ("eos", 8, {"partial": 1}, set()),
    "nxos_show_interface_pfc_lab_auto_off.txt": ("nxos", 2, {"partial": 1}, set()),
    "nxos_show_interface_pfc_otel.txt": ("nxos", 2, {"partial": 1}, set()),
    "nxos_show_queuing_interface_otel.txt": ("nxos", 1, {"partial": 1}, set()),
    # A build's template is no switch's configuration; nor is the output of host tools, which tuner.nic_text reads.
    "sonic_mellanox_asic_table.j2": ("sonic", 0, {"unreadable": 1}, set()),
    "host_dcb_connectx3_before.txt": ("sonic", 0, {"unreadable": 1}, set()),
    "host_dcb_connectx3_after.txt": ("sonic", 0, {"unreadable": 1}, set()),
    "host_mlnx_qos_os_controlled.txt": ("sonic", 0, {"unreadable": 1}, set()),
    "bnxt_niccli_getqos.txt": ("sonic", 0, {"unreadable": 1}, set()),
    "bnxt_niccli_list_devices.txt": ("sonic", 0, {"unreadable": 1}, set()),
    "own_dcb61_on_dcbsim_transcript.txt": ("sonic", 0, {"unreadable": 1}, set()),
}


def loaded(name: str) -> Switch:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{name} is not among the files")
    return load_file(EXPECTED[name][0], path)


def test_every_file_has_an_expectation() -> None:
    assert {path.name for path in DATA.iterdir()} - {"SOURCES.md"} <= {*EXPECTED}


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_is_read_and_what_was_not_is_told(name: str) -> None:
    _, ports, kinds, ignored = EXPECTED[name]
    switch = loaded(name)
    assert len(switch.ports) == ports
    assert Counter(finding.kind for finding in switch.findings) == kinds
    assert {finding.place for finding in switch.findings if finding.kind == "ignored"} == ignored


@pytest.mark.parametrize("name", [name for name in EXPECTED if name.startswith("sonic_qos-")])
def test_sonics_own_defaults_put_26_into_a_lossy_class_and_have_no_strict_queue(name: str) -> None:
    switch = loaded(name)
    mapping = (switch.maps or {})["dscp_to_tc"]["AZURE"]
    lossless = frozenset().union(*(port.pfc or () for port in switch.ports.values()))
    assert mapping.get(26) not in lossless | {3, 4}
    assert (mapping.get(3), mapping.get(4)) == (3, 4)
    assert {each.kind for each in (switch.schedulers or {}).values()} == {"dwrr"}


def test_sonic_qos_of_an_arista_7060x6() -> None:
    port = loaded("sonic_qos-arista7060x6.json").ports["Ethernet0"]
    assert port.trust == frozenset({"dscp"})
    assert port.pfc == frozenset({3, 4})
    assert (port.tc_of(3), port.queue_of(3), port.pg_of(3), port.pg_of(7)) == (3, 3, 3, 7)
    queue = port.queue(3)
    assert queue is not None
    assert queue.ecn is not None
    assert queue.scheduler is not None
    assert (queue.ecn.enabled, queue.ecn.kmin, queue.ecn.kmax, queue.ecn.pmax) == (True, 131072, 262144, 5)
    assert (queue.scheduler.kind, queue.scheduler.weight) == ("dwrr", 20)
    assert (queue.ecn.place, queue.place) == ("WRED_PROFILE|WRED_LOSSLESS_Q3", "QUEUE|Ethernet0|3")
    assert port.place("pfc") == "PORT_QOS_MAP|Ethernet0.pfc_enable"
    assert (port.speed, port.mtu, port.cable, port.groups) == (None, None, None, None)  # the file does not say


def test_maps_that_are_bound_nowhere() -> None:
    switch = loaded("sonicutil_config_qos.json")
    assert switch.bindings_known
    assert {*(switch.maps or {})} == {"dscp_to_tc", "tc_to_queue", "tc_to_pg", "pfc_to_queue"}
    assert {port.pfc for port in switch.ports.values()} == {frozenset()}
    assert {(port.dscp_to_tc and port.dscp_to_tc.name) for port in switch.ports.values()} == {""}


def test_flat_keys_and_references_in_brackets() -> None:
    switch = loaded("sonicutil_mock_config_db.qos_only.json")
    port = switch.ports["Ethernet0"]
    assert (port.speed, port.mtu, port.pfc, port.pfc_asymmetric) == (40000, 9100, frozenset({3, 4}), False)
    queue = port.queue(3)
    assert queue is not None
    assert queue.scheduler is not None
    assert queue.ecn is not None
    assert (queue.scheduler.name, queue.ecn.name) == ("scheduler.1", "AZURE_LOSSLESS")
    assert port.groups is not None
    assert (port.groups[3].automatic, port.groups[3].lossless, port.groups[0].lossless) == (True, True, False)
    assert (switch.buffer_model, switch.default_dynamic_th, switch.over_subscribe_ratio) == ("dynamic", 0, 2)
    assert port.watchdog is not None
    assert (port.watchdog.action, port.watchdog.detection, switch.watchdog_poll) == ("drop", 600, 600)
    assert port.expected_neighbour is not None
    assert port.expected_neighbour.system == "Servers"


def test_static_and_dynamic_buffers_of_one_switch() -> None:
    static, dynamic = (loaded(f"sonic_buffers-mellanox4600c-t0{suffix}.json") for suffix in ("", "-dynamic"))
    assert (static.pools or {})["ingress_lossless_pool"].xoff == 1712128
    assert (dynamic.pools or {})["ingress_lossless_pool"].size is None
    assert (static.buffer_model, dynamic.buffer_model) == (None, "dynamic")
    assert dynamic.traffic_pattern is not None
    assert (dynamic.traffic_pattern.mtu, dynamic.traffic_pattern.small_packet_percentage) == (1024, 50)
    assert (static.ports["Ethernet2"].groups or {}).keys() == {0}
    assert (dynamic.ports["Ethernet2"].groups or {})[3].automatic
    assert {port.cable for port in dynamic.ports.values()} == {5.0, 40.0}
    assert static.ports["Ethernet2"].pfc is None  # there is no PORT_QOS_MAP: unknown, not off
    assert static.ports["Ethernet2"].queue(3) is not None
    assert static.ports["Ethernet2"].queue(3).ecn is None  # type: ignore[union-attr] # asserted above


def test_lookup_tables_with_and_without_an_offset() -> None:
    rows = loaded("sonic_pg_profile_lookup_msn4700.ini").lookup or ()
    assert len(rows) == 21
    assert [(row.xoff, row.size, row.xon) for row in rows if (row.speed, row.cable) == (400000, 40.0)] == [
        (77824, 124928, 37888)
    ]
    offsets = loaded("sonic_pg_profile_lookup_th_rdma.ini").lookup or ()
    assert {row.xon_offset for row in offsets} == {2288}


def test_counters_by_name() -> None:
    switch = loaded("sonicutil_mock_counters_db.pfc_only.json")
    counters = switch.ports["Ethernet0"].counters
    assert counters is not None
    assert counters.pfc_rx is not None
    assert counters.pfc_tx is not None
    assert counters.rx_pause_us is not None
    assert (counters.pfc_rx[3], counters.pfc_tx[3], counters.rx_pause_us[3]) == (203, 213, 20000003)
    queue = (counters.queues or {})[3]
    assert (queue.ecn_marked, queue.packets, queue.deadlocks, queue.status) == (19, 52, 1, "stormed")
    assert (counters.rx_discards, (counters.pg_watermark or {})[0]) == (100, 200)


def test_what_show_commands_print() -> None:
    paused = loaded("sonicutil_show_pfc_counters_history.txt").ports["Ethernet4"].counters
    assert paused is not None
    assert (paused.rx_pause_us or {})[7] == 40_000_007
    stormed = loaded("sonicutil_pfcwd_show_stats_output.txt").ports["Ethernet8"].counters
    assert stormed is not None
    queue = (stormed.queues or {})[4]
    assert (queue.status, queue.deadlocks, queue.restored, queue.dropped) == ("stormed", 3, 2, 300)


def test_nvues_table() -> None:
    port = loaded("nvue_show_qos_roce.txt").ports["swp*"]
    assert (port.pfc, port.cable, port.trust) == (frozenset({3}), 100.0, frozenset({"dscp", "pcp"}))
    assert (port.tc_of(26), port.queue_of(3), port.tc_of(48), port.queue_of(6)) == (3, 3, 6, 6)
    strict, shared = port.queue(6), port.queue(3)
    assert strict is not None
    assert strict.scheduler is not None
    assert strict.scheduler.kind == "strict"
    assert shared is not None
    assert shared.ecn is not None
    assert shared.scheduler is not None
    assert (shared.scheduler.kind, shared.scheduler.weight) == ("dwrr", 50)
    # "146.48 KB" and "1.43 MB" are what the screen has room for, of 150,000 and 1,501,500 bytes
    assert shared.ecn.kmin == pytest.approx(150_000, rel=0.01)
    assert shared.ecn.kmax == pytest.approx(1_501_500, rel=0.01)


def test_nxos_auto_without_a_peer_is_off_and_says_so() -> None:
    port = loaded("nxos_show_interface_pfc_lab_auto_off.txt").ports["Ethernet1/27"]
    assert (port.pfc_mode, port.pfc_oper, port.pfc) == ("auto", frozenset(), None)


def test_nxos_lanes_and_counters() -> None:
    ports = loaded("nxos_show_interface_pfc_otel.txt").ports
    assert (ports["Ethernet1/2"].pfc_oper, ports["Ethernet1/5"].pfc_oper) == (frozenset({0, 3}), frozenset[int]())
    counters = ports["Ethernet1/2"].counters
    assert counters is not None
    assert (counters.pfc_rx_total, counters.pfc_tx_total) == (4088353, 1890)


def test_nxos_queuing_adds_the_columns_of_a_queue() -> None:
    counters = loaded("nxos_show_queuing_interface_otel.txt").ports["Ethernet2/1"].counters
    assert counters is not None
    queues = counters.queues or {}
    assert (queues[0].packets, queues[0].dropped, queues[3].packets, queues[3].dropped) == (68, 3, 50, 6)
    assert (counters.pfc_tx, counters.pfc_rx, counters.rx_discards) == ({0: 0, 3: 7}, {0: 0, 3: 8}, 10)


def test_eos_counters_with_a_dash_for_not_counted() -> None:
    ports = loaded("eos_anta_pfc_ecn_counters.json").ports
    pfc, ecn = ports["Ethernet3/2/1"].counters, ports["Ethernet10/16/1"].counters
    assert pfc is not None
    assert ecn is not None
    assert (pfc.pfc_rx_total, pfc.pfc_tx_total) == (1, 2)
    assert (ecn.queues or {})[0].ecn_marked is None
    assert (ecn.queues or {})[1].ecn_marked == 0


def test_a_folder_is_one_switch(tmp_path: Path) -> None:
    for name in ("sonic_qos-arista7060x6.json", "sonic_pg_profile_lookup_msn4700.ini"):
        (tmp_path / name).write_bytes((DATA / name).read_bytes())
    switch = load_file("sonic", tmp_path)
    assert (len(switch.ports), len(switch.lookup or ())) == (130, 21)
    assert not switch.findings
