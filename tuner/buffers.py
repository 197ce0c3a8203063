"""Receive buffers of a NIC: how large a lossless priority's must be, how to lay them out, and in which moves. Pure.

The kernel's interface (dcbnl's buffer: eight sizes, and a buffer for each priority) has one NIC driver behind it, mlx5,
and what holds here is what its ``en/port_buffer.c`` demands. All sizes are bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tuner import headroom
from tuner.nic import Buffer

__all__ = ["UNIT", "enough", "laid_out", "moves", "need", "of_sizes"]

UNIT = 2304
"""Sizes are multiples of it: the least common one of all cells there are (96, 128, 144, 192 and 256 B), to which the
driver would round them down unseen."""
_FRAME = 9978
"""The largest MTU that mlx5 allows: whatever the MTU is, room for it is kept between pausing and resuming."""
_CELL = 256
_CABLE = 7.0
"""Metres: MLX5E_DEFAULT_CABLE_LEN."""
_LEAST_REST = 13 * UNIT
"""Three of those frames, for all that is not lossless."""


def need(speed: int, metres: float, mtu: int) -> int:
    """The least that a lossless priority's buffer may have: headroom, a frame, a cell (update_xoff_threshold).

    ``speed`` Mb/s, ``metres`` of cable, ``mtu`` bytes. 400G, 3 m, 9000: 161,280. A cable counts as 7 m at least: that
    is what the driver takes it for until PFC's step says otherwise, which comes later.
    """
    return -(-(headroom.mlx5(speed, max(metres, _CABLE), mtu) + _FRAME + _CELL) // UNIT) * UNIT


def of_sizes(lossless: Sequence[int], own: int, rest: int) -> Buffer:
    """Buffer 1, 2, … of ``own`` bytes for each lossless priority, buffer 0 of ``rest`` bytes for all others."""
    number = {priority: place for place, priority in enumerate(sorted(lossless), 1)}
    sizes = (rest, *(own for _ in number), *(0 for _ in range(7 - len(number))))
    return Buffer(prio_buffer=tuple(number.get(priority, 0) for priority in range(8)), size=sizes)


def enough(buffer: Buffer, lossless: Sequence[int], least: int) -> bool:
    """Whether every lossless priority is in a buffer of ``least`` bytes with lossless ones alone."""
    own = {buffer.prio_buffer[priority] for priority in lossless}
    others = {buffer.prio_buffer[priority] for priority in range(8) if priority not in lossless}
    return not own & others and all(buffer.size[number] >= least for number in own)


def laid_out(lossless: Sequence[int], least: int, seen: Buffer) -> Buffer | None:
    """Buffers with at least ``least`` bytes for each lossless priority; None where the port has too little.

    What is enough stays as it is. Else what the buffers have together now is shared out anew: the rest gets what three
    frames need, and what remains goes in equal parts to all. It grows only where that does not do, since on newer cards
    the port's other half is shared by all buffers.
    """
    if enough(seen, lossless, least):
        return seen
    now, count = sum(seen.size), len(lossless)
    spare = max(0, now - count * least - _LEAST_REST) // (count + 1)
    own = least + spare // UNIT * UNIT
    rest = max(_LEAST_REST, now - count * own)
    if count * own + rest > max(seen.total, now):
        return None
    return replace(of_sizes(lossless, own, rest), total=seen.total)


def moves(now: Buffer, wanted: Buffer) -> Iterator[Buffer]:
    """From one layout to the other in steps of which mlx5 takes each.

    It maps priorities before it looks at sizes: a lossless priority that moves into a buffer which is still empty is
    refused, and so is emptying a buffer that one has. So every buffer is first as large as before or after, whichever
    is more; then priorities move; then sizes are what is wanted.
    """
    grown = tuple(max(pair) for pair in zip(now.size, wanted.size, strict=True))
    if now.total and sum(grown) > now.total:
        grown = wanted.size  # there is no room for both; the driver decides
    last = now
    for move in (replace(now, size=grown), replace(wanted, size=grown), wanted):
        if (move.prio_buffer, move.size) != (last.prio_buffer, last.size):
            yield move
        last = move
