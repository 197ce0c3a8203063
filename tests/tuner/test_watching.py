"""Events out of two readings: each kind when it happened, none when it did not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.tuner.nics import fabric, host, mlx5
from tuner.counters import counters, paused_share
from tuner.desired import desired
from tuner.nic import Counters, Gid, HostQos, HostWanted, InUse, NicQos
from tuner.watching import Limits, changed, rates, traffic

ZERO = (0,) * 8


def wanted() -> HostWanted:
    full = desired(fabric(), "n0", {"rail0": "eth2", "rail1": "eth3"})
    return replace(
        full,
        nics=(
            replace(full.nics[0], dscp_prio=None, prio_tc=None, pfc=None, mtu=9000, pause=None, tos=None, cable_m=None),
        ),
    )


def at(values: dict[int, int]) -> tuple[int, ...]:
    return tuple(values.get(priority, 0) for priority in range(8))


def counted(rdma: dict[str, int] | None = None, **prio: dict[int, int]) -> Counters:
    fields: dict[str, Any] = dict.fromkeys(
        ("rx_bytes", "tx_bytes", "rx_pause", "tx_pause", "rx_pause_us", "tx_pause_us", "rx_discards"), ZERO
    )
    return Counters(**{**fields, **{name: at(values) for name, values in prio.items()}}, rdma=rdma or {})


def one(nic: NicQos) -> HostQos:
    return host(replace(nic, mtu=nic.mtu or 9000))


def kinds(before: NicQos, after: NicQos, seconds: float = 10.0) -> list[str]:
    found = changed(wanted(), one(before), one(after)) + traffic(wanted(), one(before), one(after), seconds)
    return [event.kind for event in found]


QUIET = mlx5(mtu=9000, counters=counted())


def test_nothing_happened() -> None:
    assert kinds(QUIET, QUIET) == []


def test_drift_is_said_once_and_its_end_too() -> None:
    bent = replace(QUIET, mtu=1500)
    assert kinds(QUIET, bent) == ["drift"]
    assert kinds(bent, bent) == []
    assert kinds(bent, QUIET) == ["mended"]


def test_links() -> None:
    assert QUIET.link is not None
    down = replace(QUIET, link=replace(QUIET.link, carrier=False, changes=3))
    up = replace(QUIET, link=replace(QUIET.link, changes=1))
    (event,) = changed(wanted(), one(up), one(down))
    assert (event.kind, event.values["changes"]) == ("link", 2)
    assert str(event) == "rail0 (eth2) link: down, 2 changes of the carrier"


def test_a_flap_between_two_readings_is_seen_by_its_count() -> None:
    assert QUIET.link is not None
    once, twice = (replace(QUIET, link=replace(QUIET.link, changes=number)) for number in (1, 3))
    assert kinds(once, twice) == ["link"]


def test_a_gid_that_moved() -> None:
    def gid(index: int) -> Gid:
        return Gid(index=index, type="RoCE v2", address="10.200.0.1")

    assert kinds(replace(QUIET, gids=(gid(3),)), replace(QUIET, gids=(gid(5),))) == ["gid"]
    assert kinds(replace(QUIET, gids=(gid(3),)), replace(QUIET, gids=())) == []


def test_a_nic_that_goes_into_a_pod_and_comes_back() -> None:
    away = NicQos(name="0000:18:00.0", in_use=InUse(reason="absent", detail="elsewhere"))
    assert [event.kind for event in changed(wanted(), one(QUIET), host(away))] == ["gone"]
    assert [event.kind for event in changed(wanted(), host(away), one(QUIET))] == ["back"]
    assert changed(wanted(), host(away), host(away)) == ()


def test_a_driver_that_is_reloaded_is_gone_then_back_with_its_drift() -> None:
    nothing = HostQos(node="n0", nics=())
    assert [event.kind for event in changed(wanted(), one(QUIET), nothing)] == ["gone"]
    back = changed(wanted(), nothing, one(replace(QUIET, mtu=1500)))
    assert [event.kind for event in back] == ["back", "drift"]


@pytest.mark.parametrize(("paused", "seconds", "expected"), [(999_999, 10, []), (1_000_000, 10, ["pause-storm"])])
def test_a_storm_is_a_share_of_time_not_a_number_of_frames(paused: int, seconds: float, expected: list[str]) -> None:
    stormy = replace(QUIET, counters=counted(rx_pause_us={3: paused}, rx_pause={3: 1}, tx_pause={3: 10**9}))
    assert kinds(QUIET, stormy, seconds) == expected


def test_pauses_of_another_priority_are_no_storm_of_the_lossless_one() -> None:
    assert kinds(QUIET, replace(QUIET, counters=counted(rx_pause_us={4: 10**7}))) == []


def test_drops_of_the_lossless_class_alone() -> None:
    assert kinds(QUIET, replace(QUIET, counters=counted(rx_discards={3: 1}))) == ["drops"]
    assert kinds(QUIET, replace(QUIET, counters=counted(rx_discards={0: 1}))) == []


def test_roce_on_the_wrong_priority() -> None:
    before = replace(QUIET, counters=counted(rdma={"rx_write_requests": 5}))
    wrong = replace(QUIET, counters=counted(rdma={"rx_write_requests": 9}, rx_bytes={0: 4096}))
    right = replace(QUIET, counters=counted(rdma={"rx_write_requests": 9}, rx_bytes={0: 4096, 3: 1}))
    idle = replace(QUIET, counters=counted(rdma={"rx_write_requests": 5}, rx_bytes={0: 4096}))
    assert kinds(before, wrong) == ["wrong-priority"]
    assert kinds(before, right) == []
    assert kinds(before, idle) == []


def test_marks_without_cnps_and_pauses_without_marks() -> None:
    none = {"np_ecn_marked_roce_packets": 0, "np_cnp_sent": 0, "rp_cnp_handled": 0}
    before = replace(QUIET, counters=counted(rdma=none))
    marked = replace(QUIET, counters=counted(rdma={**none, "np_ecn_marked_roce_packets": 100}))
    answered = replace(QUIET, counters=counted(rdma={**none, "np_ecn_marked_roce_packets": 100, "np_cnp_sent": 1}))
    assert kinds(before, marked) == ["no-cnp"]
    assert kinds(before, answered) == []
    pausing = replace(QUIET, counters=counted(rdma=none, rx_pause={3: 100}))
    assert kinds(before, pausing) == ["no-ecn"]


def test_a_reloaded_driver_tells_nothing() -> None:
    before = replace(QUIET, counters=counted(rdma={"np_cnp_sent": 9}, rx_pause_us={3: 10**9}, rx_discards={3: 9}))
    after = replace(QUIET, counters=counted(rdma={"np_cnp_sent": 1}))
    assert kinds(before, after) == []
    assert paused_share(before.counters, after.counters, 1, 3) is None


def test_rates() -> None:
    before = replace(QUIET, counters=counted(rdma={"np_cnp_sent": 10, "np_ecn_marked_roce_packets": 0}))
    after = replace(
        QUIET, counters=counted(rdma={"np_cnp_sent": 30, "np_ecn_marked_roce_packets": 5}, rx_pause_us={3: 500_000})
    )
    found = rates(before, after, 10, 3)
    assert (found.cnp_sent, found.ecn_marked, found.cnp_handled, found.paused[3]) == (2.0, 0.5, None, 0.05)


def test_limits_are_the_caller_s() -> None:
    paused = replace(QUIET, counters=counted(rx_pause_us={3: 400_000}, rx_pause={3: 1}))
    assert traffic(wanted(), one(QUIET), one(paused), 10.0) == ()
    assert traffic(wanted(), one(QUIET), one(paused), 10.0, Limits(paused=0.04))


def test_counters_of_both_families_have_one_set_of_names() -> None:
    mellanox = counters({f"rx_prio{n}_pause": n for n in range(8)} | {"link_down_events_phy": 2}, {})
    broadcom = counters({f"rx_pfc_ena_frames_pri{n}": n for n in range(8)} | {"link_down_events": 2}, {"x": 1})
    assert mellanox.rx_pause == broadcom.rx_pause == tuple(range(8))
    assert mellanox.port == broadcom.port == {"link_downs": 2}
    assert mellanox.rx_bytes is None
    assert broadcom.rdma == {"x": 1}


def test_mlx5_has_three_reasons_to_drop_and_one_loss() -> None:
    names = ("rx_prio{}_discards", "rx_prio{}_buf_discard", "rx_prio{}_cong_discard")
    found = counters({form.format(n): n for form in names for n in range(8)}, {})
    assert found.rx_discards == tuple(3 * n for n in range(8))


def test_bnxt_counts_dropped_packets_where_it_can() -> None:
    byte, packet = (
        {f"rx_discard_{what}_cos{n}": scale * n for n in range(8)} for what, scale in (("bytes", 64), ("packets", 1))
    )
    assert counters(byte, {}).rx_discards == tuple(64 * n for n in range(8))
    assert counters(byte | packet, {}).rx_discards == tuple(range(8))
