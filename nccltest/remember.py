"""Putting a conclusion into the history."""

from __future__ import annotations

import time

from nccltest.conclude import Conclusion
from nccltest.history import History
from nccltest.summary import summary

__all__ = ["remember"]


def remember(conclusion: Conclusion, history: History) -> bool:
    """Keep the run with its summary; False where this very run is there already."""
    return history.record(
        conclusion.schedule,
        conclusion.time or time.time(),
        conclusion.measurements,
        conclusion.judgements,
        summary(conclusion),
    )
