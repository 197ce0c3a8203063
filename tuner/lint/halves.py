"""The rules on two cores: those about hosts in a forked process, the others here. What comes back is a report.

A fork shares what was read, so nothing but the report is sent, and the kernel copies only the pages that get written.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection

from tuner.lint.engine import evaluate
from tuner.lint.report import Report, ordered
from tuner.lint.rule import Rule, Scope

__all__ = ["evaluate_on_two"]

WORTH_IT = 10_000
"""Subjects; fewer are looked at in the time that a fork takes."""

_Subjects = Mapping[Scope, Sequence[object]]


def evaluate_on_two(rules: Sequence[Rule], subjects: _Subjects) -> Report:
    """The report of :func:`tuner.lint.engine.evaluate`, in half the time where there is much to look at.

    On one core, beside other threads (which a fork would lose in the middle of something), and where the other process
    ends without a report, everything is evaluated here.
    """
    many = sum(len(each) for each in subjects.values()) >= WORTH_IT
    if not many or len(os.sched_getaffinity(0)) < 2 or threading.active_count() > 1:
        return evaluate(rules, subjects)
    apart = [rule for rule in rules if {*rule.scopes} <= {Scope.NIC, Scope.HOST}]
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(send, apart, subjects))
    child.start()
    send.close()
    try:
        here = evaluate([rule for rule in rules if rule not in apart], subjects)
        there = _receive(receive)
    except BaseException:
        child.kill()  # its report is wanted no more
        raise
    finally:
        receive.close()
        child.join()
    return _merged(rules, here, evaluate(apart, subjects) if there is None else there)


def _send(to: Connection, rules: Sequence[Rule], subjects: _Subjects) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C reaches both; one of them says so
    to.send(evaluate(rules, subjects))


def _receive(connection: Connection) -> Report | None:
    """None where the other end closed without a word: the process was killed."""
    try:
        report: Report = connection.recv()
    except EOFError:
        return None
    return report


def _merged(rules: Sequence[Rule], one: Report, other: Report) -> Report:
    order = {rule.id: number for number, rule in enumerate(rules)}
    gaps = sorted((*one.gaps, *other.gaps), key=lambda gap: order[gap.rule])
    return Report(ordered((*one.findings, *other.findings)), tuple(gaps))
