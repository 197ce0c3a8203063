"""The door to other hosts: small commands through the operator's remote shell, several at a time, none for long."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from nccltest.launch.job import MARK
from nccltest.launch.process import Ended, Task, run_together

__all__ = ["Answer", "Shell", "local", "never", "sweep_command"]

_AT_ONCE = 32
_ID = re.compile(r"[0-9a-f]{8,32}")


class Answer(NamedTuple):
    """What a host said."""

    reached: bool
    """Whether the command ran and ended with 0."""
    text: str


def never() -> bool:
    """Nothing stops these: they are short."""
    return False


class Shell:
    """A remote shell: ``words(host, line)`` are the words that run a line of shell on a host."""

    def __init__(self, words: Callable[[str, str], tuple[str, ...]]) -> None:
        self._words = words

    def everywhere(
        self, commands: Mapping[str, str], timeout: float, stop: Callable[[], bool] = never
    ) -> dict[str, Answer]:
        """Each host's answer to its command, a line of shell; ``timeout`` in seconds for each."""
        if not commands:
            return {}
        with tempfile.TemporaryDirectory(prefix="roceway-probe-") as folder:
            tasks = []
            for number, (host, command) in enumerate(commands.items()):
                own = Path(folder, str(number))
                own.mkdir()
                tasks.append(Task(self._words(host, command), {}, own, timeout))
            ended = run_together(tasks, _AT_ONCE, stop)
        return {host: _answer(each) for host, each in zip(commands, ended, strict=True)}

    def unreachable(self, hosts: Iterable[str], timeout: float) -> tuple[str, ...]:
        """The hosts on which not even ``true`` runs."""
        answers = self.everywhere(dict.fromkeys(hosts, "true"), timeout)
        return tuple(host for host, answer in answers.items() if not answer.reached)

    def sweep(self, hosts: Sequence[str], id_: str, timeout: float) -> tuple[str, ...]:
        """End whatever a job left on these hosts; the hosts that did not answer."""
        answers = self.everywhere(dict.fromkeys(hosts, sweep_command(id_)), timeout)
        return tuple(host for host, answer in answers.items() if not answer.reached)


def local(words: tuple[str, ...], timeout: float) -> Answer:
    """A small command on this host."""
    with tempfile.TemporaryDirectory(prefix="roceway-probe-") as folder:
        (ended,) = run_together([Task(words, {}, Path(folder), timeout)], 1, never)
    return _answer(ended)


def _answer(ended: Ended) -> Answer:
    return Answer(ended.how == "ended" and ended.code == 0, ended.text)


def sweep_command(id_: str) -> str:
    """What ends a job's processes on a host that need not have more than a shell. ``id_``: hexadecimal digits."""
    if _ID.fullmatch(id_) is None:
        raise ValueError(f"{id_!r} is no id of a job")
    return (
        f"for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ 2>/dev/null | grep -qx {MARK}={id_} && "
        "kill -9 ${p#/proc/} 2>/dev/null; done; true"
    )
