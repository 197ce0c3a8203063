"""Confirmation rounds: every suspected group, as often as wanted, nobody in another's way."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np

from nccltest.detector import CONFIRMATIONS
from nccltest.follow import PURPOSE, confirmation_rounds
from nccltest.judge import Before, judge
from nccltest.model import Measurement, Member


def pair(one: str, other: str, rail: str | None, busbw: float) -> Measurement:
    return Measurement("all_reduce", 1 << 32, (Member(one, rail), Member(other, rail)), busbw)


def usual() -> Before:
    return Before((log(46) + np.random.default_rng(1).normal(0, 0.01, 30)).tolist())


def test_the_suspected_groups_run_again_side_by_side_where_they_can() -> None:
    measured = [
        pair("a", "b", "rail0", 40.0),
        replace(pair("a", "b", "rail0", 40.5), size=1 << 33),  # the same group: once
        pair("a", "b", "rail1", 40.0),  # other NICs: at the same time
        pair("a", "c", "rail0", 39.0),  # a's NIC again: another round
        pair("d", "e", "rail0", 46.0),  # healthy: not again
    ]
    rounds = confirmation_rounds(judge(measured, lambda _: usual()), measured)
    assert len(rounds) == 2 * CONFIRMATIONS
    assert {each.purpose for each in rounds} == {PURPOSE}
    assert [len(each.groups) for each in rounds] == [2, 1] * CONFIRMATIONS
    for each in rounds:
        nics = [member for group in each.groups for member in group.members]
        assert len(nics) == len(set(nics))


def test_all_rails_at_once_meet_every_rail_of_the_node() -> None:
    measured = [pair("a", "b", None, 40.0), pair("a", "c", "rail0", 40.0)]
    rounds = confirmation_rounds(judge(measured, lambda _: usual()), measured, times=1)
    assert [len(each.groups) for each in rounds] == [1, 1]


def test_in_health_there_is_nothing_to_do() -> None:
    measured = [pair("a", "b", "rail0", 46.0)]
    assert confirmation_rounds(judge(measured, lambda _: usual()), measured) == ()
