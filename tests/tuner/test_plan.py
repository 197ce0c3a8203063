"""From wanted and seen to steps: order, effects, what blocks, what is left alone."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from conf.errors import ConfigError
from tests.tuner.nics import bnxt, dscp, fabric, generic, host, mlx5
from tuner.desired import classes, desired, fitted, nics_of, tos_of
from tuner.drift import diff, drifted
from tuner.nic import Buffer, Dcbx, Ets, HostQos, HostWanted, InUse, NicQos, NicWanted, Pfc
from tuner.plan import plan, plan_nic
from tuner.report import code_of, plans_text
from tuner.steps import SetApps, SetDcbx, SetEts, SetMaxrate, SetPfc, Step, dump, load, undo

NICS = {"rail0": "eth2", "rail1": "eth3"}


def wanted(qos: str = "{}") -> HostWanted:
    return desired(fabric(qos), "n0", NICS)


def one(nic: NicQos, qos: str = "{}", agents: tuple[str, ...] = ()) -> Any:
    return plan_nic(wanted(qos).nics[0], nic, agents)


def after(nic: NicQos, steps: tuple[Step, ...]) -> NicQos:
    """The NIC with every step taken, as a driver that does as it is told would show it."""
    fields = {"SetDcbx": "dcbx", "SetMtu": "mtu", "SetPause": "pause", "SetEts": "ets", "SetMaxrate": "maxrate"}
    fields |= {"SetApps": "apps", "SetTrust": "apptrust", "SetPfc": "pfc", "SetBuffer": "buffer"}
    for step in steps:
        name = type(step).__name__
        if name in fields:
            value: Any = step.wanted
            nic = replace(nic, **{fields[name]: value})
        elif step.name == "tos":  # type: ignore[union-attr]  # a knob
            nic = replace(nic, tos=replace(nic.tos, rdma_cm=step.wanted))  # type: ignore[arg-type]
        elif step.name == "ecn":  # type: ignore[union-attr]
            nic = replace(nic, ecn=replace(nic.ecn, np=(True,) * 8, rp=(True,) * 8))
        elif step.name == "cnp_prio":  # type: ignore[union-attr]
            nic = replace(nic, ecn=replace(nic.ecn, cnp_prio=step.wanted))  # type: ignore[arg-type]
    return nic


def test_mlx5_at_power_on() -> None:
    found = one(mlx5())
    assert [str(step) for step in found.steps] == [
        "eth2: MTU 1500 → 9000",
        "eth2: global pause rx on tx on → rx off tx off",
        "eth2: ETS 1:vendor 0:vendor 2:vendor 3:vendor 4:vendor 5:vendor 6:vendor 7:vendor"
        " → 0,1,2,4,5,7:50% 3:50% 6:strict",
        "eth2: DSCP none → 26:3 48:6 rest:0",
        "eth2: PFC off delay 7 → 3 delay 3  (the link drops for a moment)",
        "eth2: RoCE ToS of rdma_cm 0 → 106",
    ]
    assert found.unseen == ("eth2: mlx5 does not show ECN by priority",)


def test_bnxt_takes_dcbx_first_and_ets_before_pfc() -> None:
    kinds = [type(step).__name__ for step in one(bnxt()).steps]
    assert kinds[0] == "SetDcbx"
    assert kinds.index("SetEts") < kinds.index("SetPfc") < kinds.index("SetApps")


def test_dcbx_in_the_firmware_s_hands_is_taken_by_a_step_that_says_so() -> None:
    managed = mlx5(dcbx=Dcbx(lld_managed=True, ieee=True))
    assert str(one(managed).steps[0]) == "eth2: DCBX lld-managed+ieee → host+ieee"
    assert not any(isinstance(step, SetDcbx) for step in one(mlx5()).steps)


def test_ionic_maps_before_it_schedules() -> None:
    kinds = [type(step).__name__ for step in one(mlx5(driver="ionic")).steps]
    assert kinds.index("SetApps") < kinds.index("SetEts")


def test_a_driver_that_goes_by_the_kernel_s_order_is_given_one() -> None:
    assert "eth2: trust none → dscp" in [str(step) for step in one(generic()).steps]
    assert not any("trust" in str(step) for step in one(mlx5(apptrust=())).steps)


@pytest.mark.parametrize("nic", [mlx5(), bnxt(), generic(), mlx5(driver="ionic"), mlx5(driver="ice")])
@pytest.mark.parametrize("profile", ["lossless-dscp", "sonic-default", "ecn-only", "ecn-off"])
def test_what_is_done_leaves_nothing_to_do(nic: NicQos, profile: str) -> None:
    steps = one(nic, f"{{profile: {profile}}}").steps
    assert steps
    assert one(after(nic, steps), f"{{profile: {profile}}}").steps == ()


def test_a_step_that_drops_the_link_is_not_emitted_for_the_cable_alone() -> None:
    done = after(mlx5(), one(mlx5()).steps)
    other = replace(done, pfc=replace(done.pfc or Pfc(), delay=7))
    (step,) = one(other).steps
    assert isinstance(step, SetPfc)
    assert (step.toggles, step.wanted.delay) == (False, 3)


def test_counters_of_pfc_are_no_drift() -> None:
    done = after(mlx5(), one(mlx5()).steps)
    counted = replace(done, pfc=replace(done.pfc or Pfc(), requests=(9,) * 8, indications=(9,) * 8))
    assert one(counted).steps == ()


def test_a_rounded_rate_is_rounded_in_the_plan_and_said() -> None:
    asked = NicWanted(nic="eth2", rail="rail0", maxrate=(0, 0, 0, 30_400_000, 0, 0, 0, 150_000))
    (step,) = plan_nic(asked, mlx5()).steps
    assert isinstance(step, SetMaxrate)
    assert step.wanted == (0, 0, 0, 31_000_000, 0, 0, 0, 200_000)
    assert "class 3: 30400000 kb/s becomes 31000000" in str(step)
    (kept,) = plan_nic(asked, generic()).steps
    assert kept.wanted == asked.maxrate


def test_a_cable_of_half_a_metre_counts_as_a_whole_one() -> None:
    (step,) = plan_nic(NicWanted(nic="eth2", rail="rail0", cable_m=2.5), mlx5()).steps
    assert isinstance(step, SetPfc)
    assert step.wanted.delay == 3


def test_what_a_driver_does_not_show_is_neither_set_nor_claimed() -> None:
    bare = NicQos(name="eth2", dcb=True, driver="x", mtu=9000)
    found = one(bare)
    assert found.steps == ()
    assert "PFC" in found.unseen[0]
    assert "traffic classes" in found.unseen[0]


def test_no_dcb_is_a_sentence() -> None:
    found = one(NicQos(name="eth2", dcb=False, driver="virtio_net", mtu=9000))
    assert found.blocked == (
        "eth2 has no DCB (driver virtio_net): PFC, ETS and a DSCP map can neither be set nor seen",
    )
    assert code_of([found]) == 3


@pytest.mark.parametrize(
    ("nic", "agents", "said"),
    [
        (mlx5(fw_lldp=True), (), "ethtool --set-priv-flags eth2 fw-lldp-agent off"),
        (mlx5(), ("lldpad",), "systemctl disable --now lldpad"),
        (mlx5(function="vf"), (), "is a virtual function"),
    ],
)
def test_who_else_decides_is_named(nic: NicQos, agents: tuple[str, ...], said: str) -> None:
    found = one(nic, agents=agents)
    assert found.steps == ()
    assert said in found.blocked[0]


def test_an_agent_does_not_matter_where_nothing_is_to_be_done() -> None:
    done = after(mlx5(), one(mlx5()).steps)
    assert one(done, agents=("lldpad",)).blocked == ()


def test_more_lossless_priorities_than_the_nic_has_are_refused() -> None:
    asked = NicWanted(nic="eth2", rail="rail0", pfc=(3, 4, 5))
    assert plan_nic(asked, bnxt()).blocked == ("eth2 can have 2 lossless priorities; 3 are wanted",)
    assert plan_nic(asked, mlx5()).blocked == ()


def busy(reason: Any) -> HostQos:
    return host(mlx5(in_use=InUse(reason=reason, detail="macvlan mv0 in pod")), mlx5("eth3"))


def test_a_rail_in_use_is_skipped_unless_told_otherwise() -> None:
    left, other = plan(wanted(), busy("upper-elsewhere"))
    assert (left.steps, bool(left.skipped), bool(other.steps)) == ((), True, True)
    assert plan(wanted(), busy("upper-elsewhere"), in_use=True)[0].steps
    assert plan(wanted(), busy("absent"), in_use=True)[0].steps == ()


def test_a_nic_that_is_not_there_blocks() -> None:
    assert plan(wanted(), host(mlx5()))[1].blocked[0].startswith("there is no NIC eth3 here")


def test_a_card_without_a_driver_is_in_no_pod() -> None:
    found = plan(wanted(), host(NicQos(name="0000:18:00.0"), mlx5("eth3")))[0]
    assert found.blocked == ("no driver is bound to 0000:18:00.0",)


def test_the_text_of_a_plan() -> None:
    text = plans_text(plan(wanted(), busy("upper-elsewhere")))
    assert text.splitlines()[0] == "rail0 (eth2): skipped"
    assert "  skipped: in use by a pod (macvlan mv0 in pod); --in-use changes it all the same" in text
    assert "rail1 (eth3): 6 steps" in text


def test_diff_shows_only_what_differs() -> None:
    done = after(mlx5(), one(mlx5()).steps)
    assert diff(wanted(), host(done, replace(done, name="eth3"))) == ""
    text = diff(wanted(), host(replace(done, mtu=1500), replace(done, name="eth3")))
    assert "-rail0 eth2 MTU 1500" in text.splitlines()
    assert "+rail0 eth2 MTU 9000" in text.splitlines()
    assert not any("eth3" in line for line in text.splitlines() if line[0] in "+-" and line[1] not in "+-")
    assert drifted(plan(wanted(), host(replace(done, mtu=1500), replace(done, name="eth3"))))


# -- desired --


def test_tos_has_the_ecn_bit_where_ecn_is_on() -> None:
    assert tos_of(fabric().qos) == 106
    assert tos_of(fabric("{profile: ecn-off}").qos) == 104


def test_sonic_s_default_maps_two_classes() -> None:
    nic = wanted("{profile: sonic-default}").nics[0]
    assert nic.pfc == (3, 4)
    assert nic.dscp_prio == ((3, 3), (4, 4), (48, 6))
    assert nic.tc_bw == (40, 0, 0, 25, 25, 0, 10, 0)


def test_ecn_alone_has_no_pfc() -> None:
    assert wanted("{profile: ecn-only}").nics[0].pfc == ()


@given(st.integers(0, 7), st.integers(0, 7), st.integers(0, 100), st.sampled_from(["strict", "ets"]), st.integers(3, 8))
def test_shares_always_add_up_and_lossless_is_alone(
    priority: int, cnp: int, share: int, scheduling: str, most: int
) -> None:
    if priority == cnp:
        return
    lossless, other = f"{{priority: {priority}, bandwidth: {share}%}}", f"{{priority: {cnp}, scheduling: {scheduling}}}"
    qos = f"{{lossless: {lossless}, cnp: {other}}}"
    try:
        found = fabric(qos).qos
    except ConfigError:
        return
    prio_tc, tsa, shares = classes(found, most)
    assert sum(shares) == 100
    assert all(value == 0 for value, how in zip(shares, tsa, strict=True) if how != "ets")
    assert max(prio_tc) < most
    assert [each for each in range(8) if prio_tc[each] == prio_tc[priority]] == [priority]
    assert [each for each in range(8) if prio_tc[each] == prio_tc[cnp]] == [cnp]


def test_a_nic_with_four_classes_has_them_renumbered() -> None:
    small = mlx5(ets=Ets(cap=4))
    found = fitted(wanted(), fabric().qos, host(small, mlx5("eth3"))).nics
    assert found[0].prio_tc == (0, 0, 0, 1, 0, 0, 2, 0)
    assert found[1].prio_tc == (0, 0, 0, 3, 0, 0, 6, 0)


def test_automatic_rails_need_one_nic_each() -> None:
    automatic = fabric(rails="auto")
    assert nics_of(automatic, "n0", ["a", "b"]) == {"rail0": "a", "rail1": "b"}
    with pytest.raises(ConfigError, match=r"n0 has 3 \(a, b, c\), rails are 2; name the NIC of every rail"):
        nics_of(automatic, "n0", ["a", "b", "c"])


# -- steps --


@pytest.mark.parametrize("nic", [mlx5(), bnxt(), generic()])
def test_undo_is_the_opposite_in_reverse(nic: NicQos) -> None:
    steps = one(nic).steps
    back = undo(steps)
    assert [step.nic for step in back] == [step.nic for step in steps]
    assert [(step.seen, step.wanted) for step in back] == [(step.wanted, step.seen) for step in reversed(steps)]
    assert undo(back) == steps


def test_what_was_not_shown_before_has_no_undo() -> None:
    unseen = mlx5(tos=replace(mlx5().tos, rdma_cm=None))
    names = [getattr(step, "name", "") for step in undo(one(unseen).steps)]
    assert "tos" not in names


def test_steps_survive_the_journal() -> None:
    buffer = Buffer(prio_buffer=(0, 0, 0, 1, 0, 0, 0, 0), size=(1, 2, 0, 0, 0, 0, 0, 0))
    more = NicWanted(nic="eth2", rail="rail0", buffer=buffer, maxrate=(1,) * 8, sysctls={"arp_ignore": 1})
    steps = one(bnxt()).steps + one(generic()).steps + plan_nic(more, mlx5(sysctls={"arp_ignore": 0})).steps
    kinds = {type(step).__name__ for step in steps}
    assert len(kinds) == 11
    assert load(json.loads(json.dumps(dump(steps)))) == steps


@pytest.mark.parametrize("damaged", [{}, [1], [{"step": "Reboot"}], [{"step": "SetMtu", "nic": "a", "seen": "x"}]])
def test_a_damaged_journal_is_an_error(damaged: Any) -> None:
    with pytest.raises(ValueError, match=r"SetMtu|steps: "):
        load(damaged)


def test_kinds_in_use_are_typed() -> None:
    assert {SetApps, SetDcbx, SetEts} <= {type(step) for step in one(bnxt()).steps}
    assert dscp((26, 3))[0].protocol == 26


# -- what qos.nics asks for --


def asked(nics: str, nic: NicQos) -> Any:
    """The plan for one NIC under ``qos.nics``."""
    found = fabric(f"{{nics: {nics}}}")
    (want, _) = fitted(desired(found, "n0", NICS), found.qos, host(nic, mlx5("eth3"))).nics
    return plan_nic(want, nic)


def said(nics: str, nic: NicQos) -> list[str]:
    """Its steps that are not there without."""
    common = {str(step) for step in one(nic).steps}
    return [text for text in map(str, asked(nics, nic).steps) if text not in common]


def test_without_nics_nothing_of_it_is_touched() -> None:
    bare = wanted().nics[0]
    assert (bare.buffer, bare.headroom, bare.maxrate, bare.params, bare.sysctls) == (None, None, None, {}, {})


def test_rates_by_class_are_rates_of_the_classes_numbers() -> None:
    rates = "{maxRates: {lossless: 350G, cnp: 1050M}}"
    assert said(rates, generic()) == ["eth2: maximum rate none → 3:350Gb/s 6:1.05Gb/s"]
    (line,) = said(rates, mlx5())
    assert "class 6: 1050000 kb/s becomes 1100000" in line


def test_no_rates_at_all_is_a_wish_of_its_own() -> None:
    assert said("{maxRates: {}}", mlx5(maxrate=(0, 0, 0, 1_000_000, 0, 0, 0, 0))) == [
        "eth2: maximum rate 3:1Gb/s → none"
    ]


def test_rates_follow_their_classes_where_the_nic_has_few() -> None:
    small = generic(ets=Ets(cap=4))
    assert said("{maxRates: {lossless: 350G, rest: 100G}}", small)[-1].endswith("0:100Gb/s 1:350Gb/s")


def test_buffers_are_laid_out_before_pfc_on_mlx5_and_after_it_elsewhere() -> None:
    line = "eth2: buffers all→0 sizes 0:130944 → 3→1 sizes 0:29952 1:161280"
    assert said("{buffers: auto}", mlx5()) == [line]
    kinds = [type(step).__name__ for step in asked("{buffers: auto}", mlx5()).steps]
    assert kinds.index("SetBuffer") < kinds.index("SetPfc")
    kinds = [type(step).__name__ for step in asked("{buffers: auto}", generic()).steps]
    assert kinds.index("SetBuffer") > kinds.index("SetPfc")


def test_buffers_that_do_not_fit_block_with_the_numbers() -> None:
    tight = mlx5(buffer=Buffer(prio_buffer=(0,) * 8, size=(100_000, *(0,) * 7), total=120_000))
    found = asked("{buffers: auto}", tight)
    assert found.steps == ()
    assert found.blocked == (
        "eth2: receive buffers of 161280 B for a lossless priority (1) and of the rest do not fit into 120000 B",
    )


def test_given_sizes_that_are_too_small_block_with_what_would_do() -> None:
    found = asked("{buffers: {lossless: 100KB, rest: 64KiB}}", mlx5())
    sentence = "nics.buffers.lossless is 100000 B; speed, cable and MTU call for 161280 B for a lossless priority"
    assert found.blocked == (f"eth2: {sentence}",)
    (line,) = said("{buffers: {lossless: 160KiB, rest: 64KiB}}", mlx5())
    assert line.endswith("→ 3→1 sizes 0:65536 1:163840")


def test_what_the_nic_does_not_show_of_it_is_said_and_not_set() -> None:
    nics = "{buffers: auto, dcqcn: {rp_ai_rate: 10, rp_gd: 12}, sysctls: {rp_filter: 2, arp_ignore: 1}}"
    found = asked(nics, mlx5(buffer=None, sysctls={"arp_ignore": 0}))
    (sentence,) = found.unseen
    assert sentence.endswith("does not show receive buffers, ECN by priority, DCQCN rp_gd, sysctl rp_filter")
    assert {"eth2: DCQCN rp_ai_rate 5 → 10", "eth2: sysctl arp_ignore 0 → 1"} <= set(map(str, found.steps))


def test_settings_of_nics_survive_the_record_of_what_was_applied() -> None:
    found = desired(fabric("{nics: {buffers: auto, maxRates: {rest: 1G}, dcqcn: {rp_gd: 12}}}"), "n0", NICS)
    assert HostWanted.from_json(json.loads(json.dumps(found.to_json()))) == found


def test_a_card_without_an_rdma_device_is_said_to_have_none() -> None:
    assert any("has no RDMA device: is the driver's RDMA half loaded" in each for each in one(mlx5(rdma=None)).unseen)
    assert not any("RDMA device" in each for each in one(mlx5()).unseen)
