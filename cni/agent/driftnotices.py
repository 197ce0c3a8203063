"""What Kubernetes is told of a pod's drift: what was put back, what lasts, what is well again. Sends nothing itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from cni.agent.podevents import DRIFTED, RECOVERED, REPAIRED, Notice, describe

__all__ = ["DriftNotices", "Look"]


class Look(NamedTuple):
    """One look at one pod."""

    attachment: int
    pod: Mapping[str, str]
    wrong: Mapping[str, Sequence[str]]
    """Rail to its differences now."""
    mended: Mapping[str, Sequence[str]]
    """Rail to the differences that were put right in this look."""
    exhausted: bool
    """Whether it was put right so often that it is left now."""


class DriftNotices:
    """Turns looks into notices. Drift is told when a second look finds the rail so: a DEL in between is none."""

    def __init__(self, *, repair: bool, notice: Callable[[Notice], None]) -> None:
        self._repair = repair
        self._notice = notice
        self._seen: dict[int, frozenset[str]] = {}
        self._said: dict[int, frozenset[str]] = {}

    def look(self, look: Look) -> None:
        """Tell what one look found."""
        seen = self._seen.get(look.attachment, frozenset())
        said = self._said.get(look.attachment, frozenset())
        rails = frozenset(look.wrong)
        self._seen[look.attachment] = rails
        self._said[look.attachment] = rails & (seen | said)
        for rail, lines in look.mended.items():
            self._notice(Notice(look.pod, REPAIRED, warning=False, message=describe(rail, lines, "put back")))
        for rail in sorted(rails & seen):
            message = describe(rail, look.wrong[rail], self._done(look.wrong[rail], exhausted=look.exhausted))
            self._notice(Notice(look.pod, DRIFTED, warning=True, message=message, lasts=rail in said))
        for rail in sorted(said - rails - frozenset(look.mended)):
            message = f"{rail}: as it was attached again"
            self._notice(Notice(look.pod, RECOVERED, warning=False, message=message))

    def forget(self, here: set[int]) -> None:
        """Of attachments other than these nothing is remembered."""
        for memory in (self._seen, self._said):
            for ident in memory.keys() - here:
                del memory[ident]

    def _done(self, lines: Sequence[str], *, exhausted: bool) -> str:
        if not self._repair:
            return "not put back: --no-repair"
        if not all(line.startswith("rule: ") or ": route: " in line for line in lines):
            return "left as it is: somebody took it or it broke"
        return "no longer put back: lost too often within the hour" if exhausted else "not put back yet"
