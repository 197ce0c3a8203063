"""What may be compared with what: the series that a measurement belongs to, and the repeats that confirm it. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from nccltest.model import Fingerprint, Measurement

__all__ = ["CONFIRM", "Series", "group_key", "parted", "series_of"]

CONFIRM = "confirm"
"""The purpose of measurements that check a suspicion."""


class Series(NamedTuple):
    """What is comparable."""

    test: str
    group: str
    """``pair``; ``pair, same leaf, 16 ranks``; ``whole of 64 (1f3a…)``, where the digits stand for the members; ``half
    of 32``; ``single gpu-1``."""
    rail: str
    """Empty for all rails at once."""
    size: int
    fingerprint: str

    @property
    def one_group(self) -> bool:
        """Whether it is always the same nodes that are measured, and not such as were drawn for the run."""
        return self.group.startswith(("whole", "single"))


def series_of(one: Measurement) -> Series:
    """The series that a measurement belongs to."""
    return Series(one.test, _group_class(one), one.rail or "", one.size, _key(one.fingerprint))


def _group_class(one: Measurement) -> str:
    """With the path where it is known, and the ranks where there are more than one a node: eight do not do what one
    does, and a path over a spine not what one within a leaf does."""
    ranks = f"{one.ranks} ranks" if one.ranks > len(one.members) else ""
    return ", ".join(part for part in (_members_class(one), one.path, ranks) if part)


def _members_class(one: Measurement) -> str:
    if one.kind == "pair":
        return "pair"
    if one.kind == "single":
        return f"single {one.nodes[0]}"
    return f"{one.kind} of {len(one.nodes)}{f' ({_digest(one)})' if one.kind == 'whole' else ''}"


@lru_cache(maxsize=1024)
def _key(fingerprint: Fingerprint) -> str:
    return fingerprint.key


def _digest(one: Measurement) -> str:
    return sha256("\0".join(sorted(one.nodes)).encode()).hexdigest()[:4]


def parted(
    measurements: Iterable[Measurement],
) -> tuple[tuple[Measurement, ...], dict[object, tuple[Measurement, ...]]]:
    """A run's own measurements, and those that repeat one of them to confirm it, by :func:`group_key`.

    A repeat of something that the run did not measure stands for itself; what was interrupted is left out.
    """
    told = [one for one in measurements if one.status != "interrupted"]
    plain = [one for one in told if one.purpose != CONFIRM]
    keys = {group_key(one) for one in plain}
    again: dict[object, list[Measurement]] = {}
    for one in told:
        if one.purpose == CONFIRM and group_key(one) in keys:
            again.setdefault(group_key(one), []).append(one)
    alone = [one for one in told if one.purpose == CONFIRM and group_key(one) not in keys]
    return (*plain, *alone), {key: tuple(each) for key, each in again.items()}


def group_key(one: Measurement) -> object:
    """Equal for measurements of the same test on the same members at the same size."""
    return one.test, one.size, one.members, one.ranks
