"""``roceway-tune`` on every personality: what it plans it does, what it does it reads back, what fails it undoes."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.guest.kit import IGB, ROCE, knob, namespace, netdev, sh, statistics, virtual_functions, wait_for_netdev
from tests.lab.guest.tunekit import BNXT, LENIENT, LIAR, MLX5, SIMS, Answer, Bench, configfs, seen, world
from tuner.hands import Hands
from tuner.store import Store

HONEST = [MLX5, BNXT, LENIENT]
FAILS = {"ets": 0, "pfc": 2, "app": 4, "trust": 5, "pause": 7, "dcbx": 8}
NEEDED = {step: {"trust": [LENIENT], "dcbx": [BNXT]}.get(step, HONEST) for step in FAILS}


@pytest.fixture(scope="module", autouse=True)
def _configfs() -> Iterator[None]:
    with configfs():
        yield


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    for nic in (name for names in SIMS.values() for name in names):
        knob(nic, "fail", 0)


@contextlib.contextmanager
def bench(folder: Path, nics: list[str], **qos: object) -> Iterator[Bench]:
    names = [netdev(nic) if ":" in nic else nic for nic in nics]
    sh("ip", "-batch", "-", stdin="\n".join(f"link set {name} up" for name in names))
    found = Bench(folder, nics, **qos)
    try:
        yield found
    finally:
        for _ in Store(str(found.state)).snapshots():
            found.tune("rollback", "--in-use")
        sh("ip", "-batch", "-", stdin="\n".join(f"link set {name} down" for name in names))


@pytest.fixture
def honest(tmp_path: Path) -> Iterator[Bench]:
    with bench(tmp_path, HONEST) as found:
        yield found


def toggles() -> dict[str, int]:
    """How often each NIC has taken its link down by itself."""
    return {nic: knob(nic, "flaps") for nic in HONEST}


def test_a_host_is_made_what_the_fabric_says_with_the_link_toggles_announced_and_brought_back(honest: Bench) -> None:
    before = world(HONEST)
    planned = honest.tune("plan")
    assert planned.code == 1, planned
    announced = {rail["nic"]: int(rail["drops_link"]) for rail in honest.tune("plan", "--json").json["rails"]}
    flaps = toggles()
    done = honest.tune("apply")
    print(planned.out, done.out)
    assert done.code == 0, done
    assert {nic: count - flaps[nic] for nic, count in toggles().items()} == announced
    assert announced == {MLX5: 1, BNXT: 1, LENIENT: 0}
    assert honest.tune("verify") == Answer(0, "", honest.tune("verify").err)
    for nic in HONEST:
        app = sh("dcb", "-N", "app", "show", "dev", nic).split()
        assert {"26:3", "48:6"} <= set(app)
        assert sh("dcb", "pfc", "show", "dev", nic).splitlines()[1].split()[4] == "3:on"
        assert sh("ethtool", "-a", nic).split().count("off") == 3
    assert knob(MLX5, "trust_dscp") == 1
    state = sorted(honest.state.rglob("*"))
    flaps, downs = toggles(), statistics(MLX5)["link_down_events_phy"]
    again = honest.tune("apply")
    assert toggles() == flaps, "an apply of nothing new toggles no link"
    assert statistics(MLX5)["link_down_events_phy"] == downs
    assert again.code == 0
    assert again.out.splitlines()[-1].startswith("nothing to do; this host is what fabric.yaml says")
    assert sorted(honest.state.rglob("*")) == state
    back = honest.tune("rollback")
    assert back.code == 0, back
    assert world(HONEST) == before


@pytest.mark.parametrize("nic", HONEST)
def test_eio_at_any_step_leaves_the_host_as_it_was(nic: str, tmp_path: Path) -> None:
    with bench(tmp_path, [nic]) as found:
        before = world([nic])
        for step in (step for step, nics in NEEDED.items() if nic in nics):
            knob(nic, "fail", 1 << FAILS[step])
            done = found.tune("apply")
            knob(nic, "fail", 0)
            assert done.code == 3, (step, done)
            assert "everything was put back" in done.out
            assert "Input/output error" in done.err or "refused" in done.err
            assert not (found.state / "tune/journal.json").exists()
            assert world([nic]) == before, step


def test_the_liar_is_caught_at_once(tmp_path: Path) -> None:
    with bench(tmp_path, [LIAR]) as found:
        before = world([LIAR])
        done = found.tune("apply")
        assert done.code == 3
        assert "wanted" in done.err
        assert "got" in done.err
        assert world([LIAR]) == before
        assert found.tune("verify").code == 1


def killed(found: Bench, at: int, after: bool) -> None:
    """An apply in a child that kills itself at its nth step, before or after doing it."""
    child = os.fork()
    if child == 0:
        make, count = Hands.make, 0

        def counted(hands: Hands, step: object) -> bool:
            nonlocal count
            count += 1
            if count == at and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            changed = make(hands, step)  # type: ignore[arg-type]  # any step
            if count == at:
                os.kill(os.getpid(), signal.SIGKILL)
            return changed

        Hands.make = counted  # type: ignore[method-assign,assignment]  # in this child alone
        try:
            found.tune("apply")
        finally:
            os._exit(0)
    os.waitpid(child, 0)


@pytest.mark.parametrize("nic", [MLX5, BNXT])
def test_killed_at_every_step_the_host_is_consistent(nic: str, tmp_path: Path) -> None:
    with bench(tmp_path, [nic]) as found:
        before = world([nic])
        steps = len(found.tune("plan", "--json").json["rails"][0]["steps"])
        for at in range(1, steps + 1):
            killed(found, at, after=bool(at % 2))
            assert (found.state / "tune/journal.json").exists()
            if at == steps:  # the next apply mends it and goes on
                assert found.tune("apply").code == 0
                assert found.tune("verify").code == 0
            assert found.tune("rollback").code == 0
            assert world([nic]) == before, f"killed at step {at}"


def test_drift_is_shown_as_a_diff(tmp_path: Path) -> None:
    with bench(tmp_path, [MLX5]) as tuned:
        assert tuned.tune("apply").code == 0
        sh("dcb", "pfc", "set", "dev", MLX5, "prio-pfc", "4:on")
        found = tuned.tune("verify")
        assert found.code == 1
        assert f"-rail0 {MLX5} PFC 3,4 delay 3" in found.out.splitlines()
        assert f"+rail0 {MLX5} PFC 3 delay 3" in found.out.splitlines()
        assert tuned.tune("apply").code == 0
        assert tuned.tune("verify").code == 0


def test_a_rail_in_a_pod_is_left_alone(tmp_path: Path) -> None:
    address = ROCE[int(MLX5[3:])].address
    with bench(tmp_path, [address, LENIENT]) as found, namespace() as pod:
        sh("ip", "link", "add", "link", LENIENT, "name", "mv0", "netns", pod, "type", "macvlan", "mode", "bridge")
        done = found.tune("apply")
        assert done.code == 1
        assert "rail1 (sim2): skipped: in use by a pod (macvlan mv0" in done.out
        assert "3:on" not in sh("dcb", "pfc", "show", "dev", LENIENT).split()
        assert "3:on" in sh("dcb", "pfc", "show", "dev", MLX5).split()
        assert found.tune("apply", "--in-use").code == 0
        assert "3:on" in sh("dcb", "pfc", "show", "dev", LENIENT).split()
        sh("ip", "link", "set", MLX5, "netns", pod)
        gone = found.tune("plan", "--json").json["rails"][0]
        assert "a pod has it" in gone["skipped"]
        sh("ip", "-n", pod, "link", "set", MLX5, "netns", "host")
        sh("ip", "link", "set", MLX5, "up")


def test_a_nic_whose_vf_a_pod_has_is_in_use(tmp_path: Path) -> None:
    with bench(tmp_path, [MLX5]) as found:
        address = seen([MLX5]).nics[0].pci
        assert address is not None
        vf = virtual_functions(address.address, 1)[0]
        wait_for_netdev(vf)
        with namespace() as pod:
            sh("ip", "link", "set", netdev(vf), "netns", pod)
            rail = found.tune("plan", "--json").json["rails"][0]
            assert "virtual function" in rail["skipped"]
        Path(f"/sys/bus/pci/devices/{address.address}/sriov_numvfs").write_text("0")


def test_a_firmware_s_agent_is_named_not_fought(tmp_path: Path) -> None:
    with bench(tmp_path, [BNXT]) as found:
        sh("ethtool", "--set-priv-flags", BNXT, "fw-lldp-agent", "on")
        before = world([BNXT])
        done = found.tune("apply")
        assert done.code == 3
        assert f"ethtool --set-priv-flags {BNXT} fw-lldp-agent off" in done.out
        assert world([BNXT]) == before
        sh("ethtool", "--set-priv-flags", BNXT, "fw-lldp-agent", "off")
        sh("dcb", "dcbx", "set", "dev", BNXT, "lld-managed", "ieee")


def test_two_tuners_do_not_run_at_once(honest: Bench) -> None:
    with Store(str(honest.state)).held():
        second = honest.tune("apply")
    assert second.code == 3
    assert "another roceway-tune is changing this host" in second.err


def test_a_nic_without_dcb_is_told_in_a_sentence(tmp_path: Path) -> None:
    with bench(tmp_path, [netdev(IGB[0].address)]) as found:
        done = found.tune("plan")
        assert done.code == 3
        assert "has no DCB (driver igb)" in done.out
