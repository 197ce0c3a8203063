"""One run in a page of numbers: what is remembered of it, exported as metrics and shown in lists. Pure.

Bounded whatever the cluster's size: groups are folded into classes (``pair``, ``whole``, ``half``, ``single``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import median
from typing import Any

from nccltest.causes import to_json as cause_to_json
from nccltest.conclude import Conclusion
from nccltest.judgement import Judgement
from nccltest.locate.names import fold
from nccltest.locate.verdict import to_json

__all__ = ["summary"]

_MOST_CLASSES = 500
_TESTED = ("ok", "wrong-data", "failed", "timeout", "incomplete")


def summary(conclusion: Conclusion) -> dict[str, Any]:
    """``{"schedule", "time", "nodes", "statuses", "classes", "locate", "causes"}``, JSON values.

    ``nodes``: who was tested, folded.

    A class has ``test``, ``group``, ``rail``, ``size``, ``groups`` (how many), ``busbw`` and ``lowest`` (GB/s, median
    and least), ``baseline`` (GB/s), ``change_pct`` (of the median), ``regressed`` and ``confirmed`` (how many).
    """
    classes: dict[tuple[str, str, str, int], list[Judgement]] = {}
    for each in conclusion.judgements:
        key = (each.series.test, each.series.group.split()[0], each.series.rail, each.series.size)
        classes.setdefault(key, []).append(each)
    return {
        "schedule": conclusion.schedule,
        "time": conclusion.time,
        "nodes": fold(node for one in conclusion.measurements if one.status in _TESTED for node in one.nodes),
        "statuses": dict(Counter(each.status for each in conclusion.judgements)),
        "classes": [_class(*key, each) for key, each in sorted(classes.items())[:_MOST_CLASSES]],
        "locate": to_json(conclusion.verdict),
        "causes": [cause_to_json(each) for each in conclusion.causes],
    }


def _class(test: str, group: str, rail: str, size: int, judgements: Sequence[Judgement]) -> dict[str, Any]:
    measured = [each.busbw for each in judgements if each.busbw]
    usual = [each.baseline for each in judgements if each.baseline]
    changes = [each.change_pct for each in judgements if each.change_pct is not None]
    return {
        "test": test,
        "group": group,
        "rail": rail,
        "size": size,
        "groups": len(judgements),
        "busbw": median(measured) if measured else None,
        "lowest": min(measured, default=None),
        "baseline": median(usual) if usual else None,
        "change_pct": median(changes) if changes else None,
        "regressed": sum(each.status == "regressed" for each in judgements),
        "confirmed": sum(each.status == "regressed" and each.confirmed for each in judgements),
    }
