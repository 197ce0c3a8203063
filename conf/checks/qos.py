"""The lossless class and the congestion notifications must be told apart."""

from __future__ import annotations

from collections.abc import Iterator

from conf.draft import Draft
from conf.errors import Finding

__all__ = ["check_qos"]


def check_qos(draft: Draft) -> Iterator[Finding]:
    """CNPs that share the lossless class's priority or DSCP would be paused by the congestion they report."""
    lossless, cnp = draft.lossless, draft.cnp
    if lossless is None or cnp is None:
        return
    for field, one, other in (
        ("priority", lossless.priority, cnp.priority),
        ("dscp", lossless.dscp, cnp.dscp),
    ):
        if one == other:
            yield Finding(
                f"qos.cnp.{field}",
                f"{other} is also lossless.{field}: a CNP must not be paused by the congestion that it reports",
            )
