"""The door to a launcher: a round's jobs in, what each printed out; nothing of them is left running."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from conf.fabric import Fabric
from conf.probe import Probe
from host.errors import HostError
from nccltest.launch import mpirun, srun, torchrun
from nccltest.launch.job import MARK, Job
from nccltest.launch.mpirun import Call
from nccltest.launch.process import Ended, Task, run_together, sweep
from nccltest.launch.remote import Shell, local

__all__ = ["Backend", "Result", "backend_of", "workspace"]

_REACH = 15.0
"""Seconds for a host to answer; ssh's own ConnectTimeout is 10."""
_TRIES, _PAUSE = 50, 0.1
_WRONG_DATA = 7
"""nccl-tests' exit code for wrong data, from 2.17.3."""


class Result(NamedTuple):
    """What became of a job."""

    ended: Ended
    unreachable: tuple[str, ...]
    """Members that did not answer after it failed."""
    left: tuple[str, ...]
    """Hosts where what it may have left could not be ended."""


@contextmanager
def workspace() -> Iterator[Path]:
    """A folder for one round, with a short name: launchers make sockets below it.

    A launcher's daemons that are being ended still write there, so that removing it takes more than one try.
    """
    top = Path(tempfile.mkdtemp(prefix="rcw-"))
    try:
        yield top
    finally:
        for _ in range(_TRIES):
            shutil.rmtree(top, ignore_errors=True)
            if not top.exists():
                break
            time.sleep(_PAUSE)


@dataclass(frozen=True)
class Backend:
    """One launcher on this machine."""

    name: str
    calls: Callable[[Job, int], tuple[Call, ...]]
    """The programs that make up a job, given its place in the round."""
    shell: Shell
    finish: Callable[[Job], tuple[str, ...]] | None
    """Words that end what the launcher itself may have kept of a job."""
    parallel: int

    def run(self, jobs: Sequence[Job], stop: Callable[[], bool]) -> list[Result]:
        """Run a round's jobs at the same time, each to its end or its timeout."""
        with workspace() as top:
            tasks, owners = self._tasks(jobs, top)
            ended = run_together(tasks, self.parallel, stop)
        mine = [
            [each for each, owner in zip(ended, owners, strict=True) if owner == place] for place in range(len(jobs))
        ]
        together = [_joined(parts) for parts in mine]
        bad = [place for place, each in enumerate(together) if each.how != "ended" or each.code not in (0, _WRONG_DATA)]
        unreachable, left = self._clean([jobs[place] for place in bad])
        return [
            Result(each, tuple(node for node in job.nodes if node in unreachable), left.get(job.id, ()))
            for job, each in zip(jobs, together, strict=True)
        ]

    def _tasks(self, jobs: Sequence[Job], top: Path) -> tuple[list[Task], list[int]]:
        tasks, owners = [], []
        for place, job in enumerate(jobs):
            for number, call in enumerate(self.calls(job, place)):
                folder = top / f"{place}.{number}"
                folder.mkdir()
                for name, text in call.files.items():
                    (folder / name).write_text(text)
                tasks.append(
                    Task(_placed(call.words, folder), _placed_map(call.environment, folder), folder, job.timeout)
                )
                owners.append(place)
        return tasks, owners

    def _clean(self, jobs: Sequence[Job]) -> tuple[set[str], dict[str, tuple[str, ...]]]:
        """End what failed jobs may have left, here and on their hosts; (hosts out of reach, job -> not swept).

        Nothing stops this: each host has its own short limit.
        """
        if not jobs:
            return set(), {}
        for job in jobs:
            sweep(f"{MARK}={job.id}")
            if self.finish is not None:
                local(self.finish(job), _REACH)
        hosts = list(dict.fromkeys(node for job in jobs for node in job.nodes))
        gone = set(self.shell.unreachable(hosts, _REACH))
        left = {
            job.id: tuple(gone & set(job.nodes))
            + self.shell.sweep([n for n in job.nodes if n not in gone], job.id, _REACH)
            for job in jobs
        }
        return gone, left


def _placed(words: Sequence[str], folder: Path) -> tuple[str, ...]:
    return tuple(word.replace("{folder}", str(folder)) for word in words)


def _placed_map(values: Mapping[str, str], folder: Path) -> dict[str, str]:
    return {name: value.replace("{folder}", str(folder)) for name, value in values.items()}


_WORST = ("interrupted", "timeout", "too much output", "not started", "ended")


def _joined(parts: Sequence[Ended]) -> Ended:
    """The calls of one job as one: the worst end, the first code that is not 0, all text."""
    worst = min(parts, key=lambda each: _WORST.index(each.how))
    code = next((each.code for each in parts if each.code), 0)
    return Ended(worst.how, code, "".join(each.text for each in parts), max(each.seconds for each in parts))


def backend_of(fabric: Fabric) -> Backend:
    """The launcher that fabric.yaml names. HostError for one that cannot run from here."""
    probe = fabric.probe
    gpus = probe.benchmark != "mpi"
    if probe.launcher == "mpirun":
        return Backend("mpirun", lambda job, _: (_mpirun(job, probe, gpus),), _agent(probe), None, probe.parallel)
    if probe.launcher == "torchrun":
        return Backend(
            "torchrun",
            lambda job, place: torchrun.calls_of(job, probe.agent, torchrun.PORT + place),
            _agent(probe),
            None,
            probe.parallel,
        )
    if probe.launcher == "srun":
        shell = Shell(lambda host, line: srun.inside(host, ("sh", "-c", line), probe.slurm))
        return Backend(
            "srun", lambda job, _: (srun.call_of(job, probe.slurm, gpus=gpus),), shell, srun.cancel, probe.parallel
        )
    raise HostError(
        "run on", "kubernetes", detail="this release renders the manifests: roceway-probe plan --manifests DIR"
    )


def _mpirun(job: Job, probe: Probe, gpus: bool) -> Call:
    return mpirun.call_of(job, probe.agent, root=os.geteuid() == 0, gpus=gpus)


def _agent(probe: Probe) -> Shell:
    return Shell(lambda host, line: (*probe.agent, host, line))
