"""The rules on two cores say what they say on one, whatever becomes of the other process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import pytest

from tests.tuner.lint import big
from tests.world import ROOT
from tuner.lint import halves
from tuner.lint.engine import evaluate
from tuner.lint.rule import Rule, Scope, Severity, Verdict, rule
from tuner.lint.rules import RULES
from tuner.lint.world import World

Subjects = Mapping[Scope, Sequence[object]]


@pytest.fixture(scope="module")
def subjects() -> Subjects:
    """Of a fabric with planted faults, enough of them for a second process."""
    found = World(big.planted(64)).subjects()
    assert sum(map(len, found.values())) >= halves.WORTH_IT
    return found


@pytest.fixture
def two_cores() -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")


def declared(check: Callable[[object], Verdict]) -> Rule:
    said = {"title": "t", "why": "w", "source": "s", "fix": "f"}
    return rule("H99", Severity.INFO, Scope.NIC, **said)(check)


def test_two_processes_say_what_one_does(subjects: Subjects) -> None:
    assert halves.evaluate_on_two(RULES, subjects) == evaluate(RULES, subjects)


def elsewhere(me: int) -> Callable[[object], Verdict]:
    """A rule whose process dies, unless it is this one."""

    def check(_at: object) -> Verdict:
        if os.getpid() != me:
            os._exit(9)
        return ()

    return check


def test_host_rules_are_looked_at_here_when_the_other_process_dies(subjects: Subjects, two_cores: None) -> None:
    rules = (declared(elsewhere(os.getpid())), *RULES)
    assert halves.evaluate_on_two(rules, subjects) == evaluate(rules, subjects)


_SLOW = """
import time
from tests.tuner.lint import big
from tests.tuner.lint.test_halves import declared
from tuner.lint.halves import evaluate_on_two
from tuner.lint.world import World

def check(_at):
    print("looking", flush=True)
    time.sleep(30)

evaluate_on_two((declared(check),), World(big.planted(64)).subjects())
"""


def test_an_interrupt_ends_both_and_is_told_once(two_cores: None) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", _SLOW], cwd=ROOT, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as running:
        try:
            assert running.stdout is not None
            assert running.stdout.readline() == "looking\n"
            os.killpg(running.pid, signal.SIGINT)
            _, said = running.communicate(timeout=20)  # the pipes close when both have ended
        finally:
            with suppress(ProcessLookupError):
                os.killpg(running.pid, signal.SIGKILL)
    assert said.count("Traceback") == said.count("KeyboardInterrupt") == 1


def test_nothing_is_forked_beside_a_thread(subjects: Subjects, two_cores: None) -> None:
    done = threading.Event()
    other = threading.Thread(target=done.wait, args=(30,))
    other.start()
    seen = set()

    def check(_at: object) -> Verdict:
        seen.add(os.getpid())
        return ()

    try:
        halves.evaluate_on_two((declared(check),), subjects)
    finally:
        done.set()
        other.join()
    assert seen == {os.getpid()}
