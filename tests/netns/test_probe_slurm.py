"""The probe by a real Slurm: srun with PMIx starts the ranks, and a rank that hangs is ended by it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.netns.probe_lab import ProbeLab
from tests.netns.slurm import MISSING, Slurm

pytestmark = [
    pytest.mark.netns,
    pytest.mark.skipif(bool(MISSING), reason=f"no {', '.join(MISSING)} here (apt-get install slurm-wlm)"),
]


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    with ProbeLab(4, rails=2) as lab, Slurm(lab) as made, pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment.items():
            patch.setenv(name, value)
        yield made


def fabric(slurm: Slurm, **changes: str) -> Path:
    """fabric.yaml with Slurm for a launcher, and no remote shell."""
    path = slurm.lab.write_fabric(repeats=1, matchings=1, timeout="60s")
    text = path.read_text().replace("launcher: mpirun", "launcher: srun\n  slurm: {mpi: pmix}")
    text = text.replace(f"  agent: [{slurm.lab.agent}]\n", "")
    for old, new in changes.items():
        text = text.replace(old, new)
    path.write_text(text)
    return path


def test_srun_measures_every_rail_at_line_rate_and_reads_its_counters(slurm: Slurm) -> None:
    done = slurm.lab.probe("run", *slurm.lab.files(fabric(slurm)), "--no-confirm")
    assert done.returncode == 0, done.stderr
    measured = slurm.lab.recorded()
    assert sorted(each.rail or "" for each in measured) == ["rail0", "rail0", "rail1", "rail1"]
    line = slurm.lab.speed / 8000
    for each in measured:
        assert each.status == "ok"
        # Both directions at once: Open MPI's rendezvous would give half of it.
        assert 0.6 * line < (each.busbw or 0) < line
        assert {delta.rail for delta in each.counters} == {each.rail}


def test_what_hangs_is_ended_by_slurm_and_nothing_is_left(slurm: Slurm) -> None:
    hang = f"benchmark: [{sys.executable}, -m, tests.netns.probe_hang]"
    path = fabric(slurm, **{"benchmark: mpi": hang, "timeout: 60s": "timeout: 5s"})
    known = len(slurm.lab.recorded())
    done = slurm.lab.probe("run", *slurm.lab.files(path), "--no-confirm")
    assert done.returncode == 1, done.stderr
    assert {each.status for each in slurm.lab.recorded()[known:]} == {"timeout"}
    assert slurm.ask("squeue", "--noheader") == ""
