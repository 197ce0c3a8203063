"""The simulation leaves as it came, also with VFs switched on, a link up and counters asked for."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests.lab.guest.kit import KNOBS, ROCE, attempt, names, sh, virtual_functions


def test_the_module_can_be_unloaded_and_loaded_again() -> None:
    virtual_functions(ROCE[0].address, 2)
    sh("ip", "link", "set", "sim0", "up")
    sh("ip", "addr", "add", "10.12.0.1/24", "dev", "sim0")
    sh("dcb", "app", "add", "dev", "sim2", "dscp-prio", "26:3")
    attempt("rmmod", "rdma_rxe", "rdma_ucm", "rdma_cm")  # other tests may have loaded them
    sh("rmmod", "simroce")
    assert not {name for name in names() if name.startswith("sim")}
    assert not list(Path("/sys/class/infiniband").iterdir())
    assert not KNOBS.exists()
    sh(*shlex.split(os.environ["ROCEWAY_LAB_SIMULATION"]))
    assert {f"sim{number}" for number in range(len(ROCE))} <= names()
    assert sh("dcb", "app", "show", "dev", "sim2") == ""


@pytest.mark.parametrize("cards", ["0000:99:00.0/mlx5/a", "nonsense", f"{ROCE[0].address}/unheard-of/a"])
def test_cards_that_are_not_there_are_not_driven(cards: str) -> None:
    insmod, module, _ = shlex.split(os.environ["ROCEWAY_LAB_SIMULATION"])
    sh("rmmod", "simroce")
    sh(insmod, module, f"cards={cards}")
    assert not {name for name in names() if name.startswith("sim")}
    sh("rmmod", "simroce")
    sh(*shlex.split(os.environ["ROCEWAY_LAB_SIMULATION"]))
