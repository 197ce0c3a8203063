"""The hosts that ``nodes`` names, with their indices, for the checks that need them."""

from __future__ import annotations

from typing import NamedTuple

from conf.draft import Draft
from conf.errors import Finding
from conf.hostlist import MAX_NAMES, count, expand

__all__ = ["NamedGroup", "NamedNodes", "expanded", "named_nodes", "some", "too_many_names"]


class NamedGroup(NamedTuple):
    """``nodes[position]``, expanded."""

    position: int
    names: tuple[str, ...]
    type: str | None
    first_index: int | None


class NamedNodes(NamedTuple):
    """The groups that could be read."""

    groups: tuple[NamedGroup, ...]
    complete: bool
    """Whether these are all: if not, a host must not be called unknown."""
    findings: tuple[Finding, ...]

    def indices(self) -> dict[int, str]:
        """Index -> host, in ascending order."""
        pairs = (
            (group.first_index + offset, name)
            for group in self.groups
            if group.first_index is not None
            for offset, name in enumerate(group.names)
        )
        return dict(sorted(pairs))


def too_many_names(draft: Draft) -> Finding | None:
    """Each list is bounded by itself; here all of them together are."""
    total = sum(count(text) for text in draft.hostlists())
    if total <= MAX_NAMES:
        return None
    return Finding("", f"hosts and ports come to {total} names, more than {MAX_NAMES}")


def named_nodes(draft: Draft) -> NamedNodes:
    """Expands every group of ``nodes``."""
    groups, findings = [], []
    for position, group in enumerate(draft.groups):
        names, finding = expanded(group.match, f"nodes[{position}].match")
        if names:
            groups.append(NamedGroup(position, names, group.type, group.first_index))
        if finding:
            findings.append(finding)
    return NamedNodes(tuple(groups), 0 < len(draft.groups) == len(groups), tuple(findings))


def expanded(text: str | None, path: str) -> tuple[tuple[str, ...], Finding | None]:
    """The names of a readable hostlist; a finding where a name occurs twice."""
    try:
        return expand(text) if text else (), None
    except ValueError as error:
        return (), Finding(path, str(error))


def some(names: list[str] | tuple[str, ...]) -> str:
    """The first few of many names, and how many there are."""
    return ", ".join(names[:3]) + (f" … ({len(names)} in all)" if len(names) > 3 else "")
