"""What the linter says of real files, each finding judged by hand.

The files are SONiC's own renderings, its tests' databases, and output of other systems. What is written down here is
what a network engineer finds in them by reading; why it is true stands beside it.
"""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path

import pytest

from conf.qos import Qos
from tuner.lint.report import Report
from tuner.lint.run import lint
from tuner.lint.world import Given
from tuner.switch.load import load_file
from tuner.switch.model import Platform

DATA = Path(__file__).parents[4] / "shared" / "data" / "switch"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the recorded switches are not on this machine")

PART = ("READ", "info", 1)  # part of a configuration, or counters alone: said once, and nothing else made of it
BROKEN = ("READ", "high", 1)  # nothing that a switch has

ALONE: dict[str, set[tuple[str, str, int]]] = {
    # rule, severity, places
    "sonic_qos-arista7060x6.json": {("S11", "medium", 128)},  # SCHEDULER_Q3 20 and _Q4 10, both lossless, on 128 ports
    "sonic_qos-arista7260-t0.json": set(),  # SONiC's default, consistent in itself
    "sonic_qos-mellanox4600c-c64.json": {("T04", "info", 20)},  # 20 uplinks with 2,3,4,6 beside 8 ports with 3,4
    "sonic_qos-no-config.json": {("S01", "critical", 1)},  # PORT_QOS_MAP has `global` alone: no port binds a map
    "sonicutil_config_qos.json": {("S01", "critical", 1)},  # PORT_QOS_MAP is {}
    "sonic_yang_sample_config_db.qos_only.json": {
        (
            "S02",
            "critical",
            1,
        ),  # Ethernet4: PFC 3,4 and no cable length; Ethernet0 has one, and no lookup table is here
        ("S06", "high", 1),  # Ethernet4: no row in QUEUE, so no WRED profile; Ethernet0's queues cannot be told
        ("S09", "high", 2),  # PFC_WD has GLOBAL alone
    },
    "sonicutil_mock_config_db.qos_only.json": {
        ("S02", "critical", 1),  # Ethernet4: PFC 3,4, dynamic model, no row in BUFFER_PG
        ("S10", "medium", 2),  # PFC_WD detection_time 600 on Ethernet0 and Ethernet4
        ("S14", "info", 1),  # port_scheduler is not in SCHEDULER; and 203 references in brackets
    },
    "sonic_buffers-mellanox4600c-t0.json": {PART},
    "sonic_buffers-mellanox4600c-t0-dynamic.json": {PART},
    "sonic_buffer-lt2-p32o64.json": {PART},
    "sonicmgmt_clet-add-qos-new-dbfmt.json": {PART},  # one port is added to a configuration that is not here
    "sonic_pg_profile_lookup_msn4700.ini": {PART},
    "sonic_pg_profile_lookup_th_rdma.ini": {PART},
    "sonic_mellanox_asic_table.j2": {BROKEN},
    "sonicmgmt_dynamic_buffer_param.json": {BROKEN},
    "sonicmgmt_pfc_config_params.json": {BROKEN},
    "sonicutil_mock_counters_db.pfc_only.json": {PART, ("R02", "critical", 2), ("R02", "high", 1)},
    "sonicutil_pfcwd_show_stats_output.txt": {PART, ("R02", "critical", 2), ("R02", "high", 1)},
    "sonicutil_pfcwd_show_stats_multi_queue_output.txt": {PART, ("R02", "critical", 1), ("R02", "high", 1)},
    "sonicutil_pfcwd_show_stats_single_queue_output.txt": {PART, ("R02", "critical", 1)},
    "sonicutil_show_pfcwd_stats_all.txt": {PART, ("R02", "high", 44)},
    "sonicutil_show_pfcwd_stats_with_queues.txt": {PART, ("R02", "high", 2)},
    "sonicutil_show_pfc_counters_history.txt": {PART},
    "nvue_show_qos_roce.txt": set(),
    "nxos_show_interface_pfc_lab_auto_off.txt": {PART, ("L05", "critical", 2)},  # both ports Auto and Off
    "nxos_show_interface_pfc_otel.txt": {PART},
    "nxos_show_queuing_interface_otel.txt": {PART},
    "eos_anta_pfc_ecn_counters.json": {PART},
}

RECIPE: dict[str, set[tuple[str, str, int]]] = {
    # beside hosts by the common recipe, DSCP 26 to priority 3 and CNPs 48 to 6
    "sonic_qos-arista7260-t0.json": {
        ("L02", "critical", 1),  # AZURE has 26:1, a lossy class
        ("L01", "medium", 22),  # PFC on 4 too
    },
    "sonic_qos-arista7060x6.json": {
        ("L02", "critical", 1),  # 26:0
        ("L01", "medium", 128),
        ("L03", "high", 128),  # 48:0, DWRR 10 of 150
        ("S11", "medium", 128),
    },
    "sonic_qos-mellanox4600c-c64.json": {
        ("L02", "critical", 2),  # AZURE and AZURE_UPLINK
        ("L01", "medium", 8),
        ("L01", "medium", 20),
        ("T04", "info", 20),
    },
    "sonic_yang_sample_config_db.qos_only.json": {
        ("L02", "critical", 2),  # neither map has an entry for 26
        ("L01", "medium", 2),
        *ALONE["sonic_yang_sample_config_db.qos_only.json"],
    },
    "nvue_show_qos_roce.txt": set(),  # NVUE's RoCE mode is the recipe
}


def platform_of(name: str) -> Platform:
    """By the file's name."""
    words: dict[str, Platform] = {"eos": "eos", "nxos": "nxos", "nvue": "cumulus"}
    return words.get(name.partition("_")[0], "sonic")


def linted(name: str, profile: str | None = None) -> Report:
    qos = Qos.model_validate({"profile": profile}) if profile else None
    switch = load_file(platform_of(name), DATA / name, "leaf")
    return lint(Given(None, qos, (), (switch,)), date(2030, 1, 1))


def told(report: Report) -> set[tuple[str, str, int]]:
    return {(finding.rule, str(finding.severity), len(finding.where)) for finding in report.findings}


@pytest.mark.parametrize("name", ALONE)
def test_a_file_alone(name: str) -> None:
    assert told(linted(name)) == ALONE[name]


@pytest.mark.parametrize("name", RECIPE)
def test_beside_hosts_by_the_common_recipe(name: str) -> None:
    assert told(linted(name, "lossless-dscp")) == RECIPE[name]


def test_sonics_default_fits_the_profile_that_is_named_after_it() -> None:
    assert told(linted("sonic_qos-arista7260-t0.json", "sonic-default")) == set()


def test_every_file_of_a_switch_is_judged() -> None:
    others = ("SOURCES", "host_", "bnxt_", "own_")  # hosts' output, and what the folder is
    names = {each.name for each in DATA.iterdir() if not each.name.startswith(others)}
    assert names == set(ALONE)


@pytest.mark.parametrize("name", [name for name in ALONE if BROKEN not in ALONE[name]])
def test_what_is_not_told_is_not_evaluated(name: str) -> None:
    """No file here tells everything: each leaves rules that say what they lack."""
    report = linted(name)
    missing = Counter(gap.rule for gap in report.gaps if not gap.evaluated)
    assert {"H01", "X01", "T01"} <= set(missing)
