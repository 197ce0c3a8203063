"""Rates and buffers step by step, rounding, and faults while a run is being undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.guest.kit import knob, sh
from tests.lab.guest.tunekit import BNXT, LENIENT, MLX5, configfs, world
from tuner.apply import Outcome, recover, run
from tuner.gather import Doors, gather
from tuner.hands import Hands
from tuner.nic import Buffer, NicWanted
from tuner.plan import plan_nic
from tuner.store import Store

RATES = (0, 0, 0, 1_050_000, 0, 0, 0, 30_400_000)
BUFFER = Buffer(prio_buffer=(0, 0, 0, 1, 0, 0, 0, 0), size=(65_536, 131_072, 0, 0, 0, 0, 0, 0))
ETS = {"prio_tc": (0, 0, 0, 3, 0, 0, 6, 0), "tc_bw": (50, 0, 0, 50, 0, 0, 0, 0)}


@pytest.fixture(scope="module", autouse=True)
def _configfs() -> Iterator[None]:
    with configfs():
        yield


@pytest.fixture
def doors() -> Iterator[Doors]:
    with Doors() as found:
        yield found


def wanted(nic: str) -> NicWanted:
    tsa = ("ets", "strict", "strict", "ets", "strict", "strict", "strict", "strict")
    return NicWanted(nic=nic, rail="rail0", maxrate=RATES, buffer=BUFFER, pfc=(3,), tsa=tsa, **ETS)  # type: ignore[arg-type]


def attempt(doors: Doors, nic: str, folder: Path, on_failure: int = 0) -> tuple[Outcome, Store]:
    """One run; ``on_failure`` are bits of ``fail`` that are set as soon as a step has failed."""
    host, store = gather(doors, [nic]), Store(str(folder))

    def tell(line: str) -> None:
        if line.startswith("  failed:"):
            knob(nic, "fail", on_failure)

    with store.held():
        steps = plan_nic(wanted(nic), host.nics[0]).steps
        assert {"SetMaxrate", "SetBuffer", "SetPfc", "SetEts"} <= {type(step).__name__ for step in steps}
        return run(steps, host, store, Hands(doors), tell), store


def put_back(doors: Doors, store: Store) -> None:
    """As ``rollback`` after a kill."""
    with store.held():
        assert recover(store, Hands(doors), None, lambda line: None) == ()


@pytest.mark.parametrize("nic", [MLX5, LENIENT])
@pytest.mark.parametrize("bit", [1, 3])
def test_eio_for_rates_and_buffers_undoes_all(nic: str, bit: int, doors: Doors, tmp_path: Path) -> None:
    before = world([nic])
    knob(nic, "fail", 1 << bit)
    outcome, store = attempt(doors, nic, tmp_path)
    knob(nic, "fail", 0)
    assert outcome.cause is not None
    assert outcome.cause.errno == 5
    assert outcome.left == ()
    assert store.journal() is None
    assert world([nic]) == before


def test_what_the_plan_says_of_rounding_is_what_the_driver_does(doors: Doors, tmp_path: Path) -> None:
    before = world([MLX5])
    outcome, store = attempt(doors, MLX5, tmp_path)
    assert outcome.cause is None
    seen = gather(doors, [MLX5]).nics[0]
    assert seen.maxrate == (0, 0, 0, 1_100_000, 0, 0, 0, 31_000_000)
    assert seen.buffer is not None
    assert seen.buffer.size == BUFFER.size
    store.begin(gather(doors, [MLX5]), outcome.done, "20990101T000000Z")  # as if it had been killed at its last step
    put_back(doors, store)
    assert world([MLX5]) == before


@pytest.mark.parametrize("nic", [MLX5, BNXT])
def test_an_undo_that_fails_is_told_kept_and_finished_later(nic: str, doors: Doors, tmp_path: Path) -> None:
    if nic == BNXT:
        sh("dcb", "dcbx", "set", "dev", nic, "host", "ieee")
    before = world([nic])
    knob(nic, "fail", 1 << 3)  # buffers, after ETS
    outcome, store = attempt(doors, nic, tmp_path, on_failure=1 << 0)  # and then ETS, on the way back
    assert outcome.cause is not None
    assert [error.errno for error in outcome.left] == [5]
    assert store.journal() is not None
    assert world([nic]) != before
    knob(nic, "fail", 0)
    put_back(doors, store)
    assert store.journal() is None
    assert world([nic]) == before
    if nic == BNXT:
        sh("dcb", "dcbx", "set", "dev", nic, "lld-managed", "ieee")
