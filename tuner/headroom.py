"""How many bytes still arrive after a pause was sent: three models, and whether ECN marks come before pauses. Pure.

Speeds in Mb/s, lengths in metres, everything else in bytes; exact fractions until the vendor's own rounding.

``sonic-static``   the pg_profile_lookup.ini tables that SONiC ships for Spectrum switches. The factor 2.25 is their
                   cell, 144 B, over the smallest frame of 64 B: each small frame in flight occupies a whole cell.
``sonic-dynamic``  buffer_headroom_mellanox.lua of sonic-swss, which the buffer manager runs; the cell is the ASIC's.
``mlx5``           calculate_xoff in Linux's mlx5 en/port_buffer.c: a host's NIC, in integers as the driver reckons.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Literal

__all__ = [
    "ASICS",
    "MODELS",
    "EcnFirst",
    "Headroom",
    "Model",
    "Term",
    "ecn_first",
    "mlx5",
    "quanta",
    "reckon",
    "sonic_dynamic",
    "sonic_static",
    "storm_frames",
    "trigger",
]

Model = Literal["sonic-static", "sonic-dynamic", "mlx5"]
MODELS: tuple[Model, ...] = ("sonic-static", "sonic-dynamic", "mlx5")

ASICS = {"spectrum": 96, "spectrum-2": 144, "spectrum-3": 144, "spectrum-4": 192, "spectrum-5": 192, "spectrum-6": 256}
"""Cell size in bytes (SONiC's platform/mellanox/asic_table.j2)."""

_LIGHT = 198_000_000  # m/s in fibre, as in sonic-swss; copper is taken as fibre
_KIB = 1024
_SMALLEST = 64  # bytes of the smallest Ethernet frame
_STATIC_FRAME, _STATIC_RESPONSE, _STATIC_CELL = 9216, Fraction("3891.2"), 144  # 3.8 KiB; the tables' own MTU
_MAC_PHY = Fraction("819.2")  # mac_phy_delay of asic_table.j2: 0.8 KiB
_LOSSLESS_MTU = 1024  # LOSSLESS_TRAFFIC_PATTERN: mtu 1024, small_packet_percentage 50
_SMALL_SHARE = Fraction(64, (64 + 1024) // 2)  # small_packet_percentage_by_byte: 64 B over the mean packet
_EXTRA = 2048  # a reserve that the lua adds
_QUANTUM = 64  # bytes: 512 bit times

# IEEE 802.3 31B.3.7: pause quanta that a peer may take to stop, by its speed in Mb/s
_QUANTA = {
    800_000: 905,
    400_000: 905,
    200_000: 453,
    100_000: 394,
    50_000: 147,
    40_000: 118,
    25_000: 80,
    10_000: 67,
    1_000: 2,
}
_MLX5_LEAST = 40_000  # Mb/s: the driver reckons slower links as 40G
_MAX_QUANTA = 65535
_PRIORITIES = 8


@dataclass(frozen=True, slots=True)
class Term:
    """One summand, for people."""

    name: str
    bytes: Fraction
    how: str


@dataclass(frozen=True, slots=True)
class Headroom:
    """The bytes that a lossless priority needs behind its pause threshold."""

    model: Model
    terms: tuple[Term, ...]
    factor: Fraction
    """What the terms marked "× cells" are multiplied by: the share of a cell that a small packet wastes."""
    xoff_bytes: int


def _cable(speed: int, metres: float) -> Term:
    out_and_back = Fraction(2 * speed * 10**9, _LIGHT * 8000) * Fraction(str(metres))
    return Term("cable, × cells", out_and_back, f"2 × {metres:g} m × {speed} Mb/s ÷ 198,000 km/s")


def _up(value: Fraction) -> int:
    return ceil(value / _KIB) * _KIB


def sonic_static(speed: int, metres: float) -> int:
    """Headroom of SONiC's shipped tables. 400G and 40 m: 77,824."""
    return _static(speed, metres).xoff_bytes


def _static(speed: int, metres: float) -> Headroom:
    factor = Fraction(_STATIC_CELL, _SMALLEST)
    inner = (
        Term("frame, × cells", Fraction(_STATIC_FRAME), "the largest frame that the peer has begun"),
        _cable(speed, metres),
        Term("MAC and PHY, × cells", _MAC_PHY, "0.8 KiB"),
        Term("peer's response, × cells", _STATIC_RESPONSE, "3.8 KiB"),
    )
    own = Term("own frame", Fraction(_LOSSLESS_MTU), "a frame of ours that delays the pause")
    total = own.bytes + factor * sum(term.bytes for term in inner)
    return Headroom("sonic-static", (own, *inner), factor, _up(Fraction(total)))


def quanta(speed: int) -> int:
    """Pause quanta (of 512 bit times) that a peer may take to stop. ValueError for a speed that IEEE does not list."""
    if speed not in _QUANTA:
        listed = ", ".join(str(each) for each in sorted(_QUANTA))
        raise ValueError(f"no pause response time is known for {speed} Mb/s; it is for {listed}")
    return _QUANTA[speed]


def sonic_dynamic(speed: int, metres: float, mtu: int = 9216, asic: str = "spectrum-4") -> int:
    """Headroom that SONiC's buffer manager works out. 400G, 40 m, MTU 9216 on Spectrum-4: 112,640."""
    return _dynamic(speed, metres, mtu, asic).xoff_bytes


def _occupancy(cell: int) -> Fraction:
    """Buffer bytes per byte on the wire, with 50 % small packets (the lua's worst_case_factor)."""
    worst = Fraction(cell, _SMALLEST) if cell > 2 * _SMALLEST else Fraction(2 * cell, 1 + cell)
    return 1 + _SMALL_SHARE * (worst - 1)


def _dynamic(speed: int, metres: float, mtu: int, asic: str) -> Headroom:
    if asic not in ASICS:
        raise ValueError(f"no cell size is known for {asic}; it is for {', '.join(ASICS)}")
    factor = _occupancy(ASICS[asic])
    peer = quanta(speed)
    inner = (
        Term("frame, × cells", Fraction(mtu), "the largest frame that the peer has begun"),
        _cable(speed, metres),
        Term("MAC and PHY, × cells", _MAC_PHY, "0.8 KiB"),
        Term("peer's response, × cells", Fraction(_QUANTUM * peer), f"{peer} quanta of 64 B (IEEE 802.3 31B.3.7)"),
    )
    own = Term("own frame", Fraction(_LOSSLESS_MTU), "a frame of ours that delays the pause")
    extra = Term("reserve", Fraction(_EXTRA), "2 KiB")
    total = own.bytes + factor * sum(term.bytes for term in inner) + extra.bytes
    return Headroom("sonic-dynamic", (own, *inner, extra), factor, _up(Fraction(total)))


def mlx5(speed: int, metres: float, mtu: int) -> int:
    """What mlx5 reserves on a host for one lossless buffer. 100G, 7 m, MTU 9216: 56,667."""
    return _mlx5(speed, metres, mtu).xoff_bytes


def _mlx5(speed: int, metres: float, mtu: int) -> Headroom:
    counted = max(speed, _MLX5_LEAST)
    length = ceil(metres)  # the driver takes whole metres
    flight = (301 + 216 * length // 100) * counted // 1000
    frames = 272 * mtu // 100
    terms = (
        Term("in flight", Fraction(flight), f"(301 + 2.16 × {length} m) × {counted} Mb/s ÷ 1000"),
        Term("frames", Fraction(frames), f"2.72 × {mtu} B"),
    )
    return Headroom("mlx5", terms, Fraction(1), flight + frames)


def reckon(model: Model, speed: int, metres: float, mtu: int = 9216, asic: str = "spectrum-4") -> Headroom:
    """The model's number with its terms. ValueError for a speed or ASIC that the model does not know.

    sonic-static knows one MTU, its tables' 9216.
    """
    if model == "sonic-static":
        return _static(speed, metres)
    return _dynamic(speed, metres, mtu, asic) if model == "sonic-dynamic" else _mlx5(speed, metres, mtu)


def trigger(pool: int, alpha: Fraction, incast: int) -> int:
    """Queue length at which a dynamic buffer pauses: T = αB ÷ (1 + nα), with n queues filling at once."""
    return int(alpha * pool / (1 + incast * alpha))


@dataclass(frozen=True, slots=True)
class EcnFirst:
    """Whether a queue is marked before its ingress pauses."""

    trigger_bytes: int
    """Where pausing starts with this many senders."""
    paper_bytes: int
    """The DCQCN paper's bound (§4) on Kmin: t_ECN < β (B − 8 n t_flight) ÷ (8 n (β + 1))."""
    kmin_bytes: int
    first: bool
    """Kmin is below the trigger."""
    always: bool
    """Kmin is below the paper's bound too: ECN comes first whatever the eight priorities of the port do."""


def ecn_first(pool: int, alpha: Fraction, incast: int, kmin: int, headroom: int = 0) -> EcnFirst:
    """Whether ECN comes before PFC on a switch with one shared pool.

    ``pool`` B bytes; ``alpha`` (the paper's β) the dynamic threshold's share; ``incast`` n senders that fill queues at
    once; ``headroom`` t_flight per port and priority, taken off the pool for each. ValueError for what is no buffer.
    """
    if pool <= 0 or alpha <= 0 or incast < 1:
        raise ValueError("a buffer, α and an incast above zero are wanted")
    left = max(0, pool - _PRIORITIES * incast * headroom)
    bound = int(alpha * left / (_PRIORITIES * incast * (alpha + 1)))
    threshold = trigger(pool, alpha, incast)
    return EcnFirst(threshold, bound, kmin, first=kmin < threshold, always=kmin < bound)


def storm_frames(speed: int) -> float:
    """Pause frames a second that hold one class of a port fully paused: each stops it for 65535 quanta of 512 bits.

    400G: 11,921 (83.9 µs each); 100G: 2,980.
    """
    return speed * 1e6 / (_MAX_QUANTA * 512)
