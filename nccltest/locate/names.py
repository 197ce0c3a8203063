"""Many names as one short text, in the hostlist syntax that fabric.yaml is written in."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import groupby

__all__ = ["fold"]

_NUMBERED = re.compile(r"(.*?)([0-9]{1,15})", re.DOTALL)


def fold(names: Iterable[str]) -> str:
    """``gpu-1 gpu-2 gpu-3 x`` → ``gpu-[1-3],x``; ``conf.hostlist.expand`` gives the names back, sorted."""
    plain: list[str] = []
    numbered: list[tuple[str, int, int]] = []  # prefix, width of a padded number (0: not padded), number
    for name in sorted(set(names)):
        match = _NUMBERED.fullmatch(name)
        if match is None or "[" in name or "]" in name:
            plain.append(name)
        else:
            digits = match[2]
            numbered.append((match[1], len(digits) if digits[0] == "0" and len(digits) > 1 else 0, int(digits)))
    groups = [_group(*key, [each[2] for each in members]) for key, members in _by_form(numbered)]
    return ",".join(plain + groups)


def _by_form(numbered: list[tuple[str, int, int]]) -> list[tuple[tuple[str, int], list[tuple[str, int, int]]]]:
    """By prefix and width: ``09`` and ``10`` are of one width, ``9`` and ``10`` have none."""
    padded = {(prefix, width) for prefix, width, _ in numbered if width}
    same = sorted((p, w or _width(p, n, padded), n) for p, w, n in numbered)
    return [(key, list(members)) for key, members in groupby(same, key=lambda each: each[:2])]


def _width(prefix: str, number: int, padded: set[tuple[str, int]]) -> int:
    return len(str(number)) if (prefix, len(str(number))) in padded else 0


def _group(prefix: str, width: int, numbers: list[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    parts = [f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}" for low, high in runs]
    return f"{prefix}{parts[0]}" if len(runs) == 1 and runs[0][0] == runs[0][1] else f"{prefix}[{','.join(parts)}]"
