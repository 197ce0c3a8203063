"""Which rails a container should be given when the kubelet asks (GetPreferredAllocation). Pure.

The kubelet tells which devices are free and how many it wants; not whose they will be, nor which GPUs that container
has. It gives a container its resources one after the other, in no order that can be relied on: the GPUs may be known
by then (PodResources lists them) or not yet. So:

- known: the rails of these GPUs, then those of their NUMA node;
- not known: rails whose GPUs nobody has, together on one NUMA node, on the fullest one that has enough, so that the
  GPU plugin can still match them, which sees the same node through the Topology Manager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Offer", "newcomer", "preferred"]


class Offer(NamedTuple):
    """What is known of one device."""

    rail: str
    gpu: str
    """PCI address; empty for none."""
    numa_node: int
    """-1 for unknown."""


def newcomer(waiting: Mapping[str, Collection[str]], seen: Collection[str], size: int) -> Collection[str]:
    """GPUs of the container that is being admitted; empty when that cannot be told.

    ``waiting`` are containers that have GPUs and no rails yet, ``seen`` those of them that were there before: they did
    not ask for rails. Admission is one pod at a time, so one of the right size is the one.
    """
    fresh = [gpus for name, gpus in waiting.items() if name not in seen]
    if len(fresh) == 1:
        return fresh[0]
    fitting = [gpus for gpus in fresh if len(gpus) == size]
    return fitting[0] if len(fitting) == 1 else ()


def preferred(
    available: Sequence[str],
    must: Sequence[str],
    size: int,
    offers: Mapping[str, Offer],
    gpus: Collection[str],
    taken: Collection[str],
) -> list[str]:
    """``size`` of ``available`` with all of ``must``, best first; fewer where there are not as many.

    ``gpus`` are the container's, if known; ``taken`` those of any pod. One device of a rail is enough: a second
    virtual function of the same rail comes last.
    """
    chosen = list(must)
    rest = [ident for ident in available if ident not in must]
    nodes = {offers[ident].numa_node for ident in offers if offers[ident].gpu in gpus and gpus}
    nodes |= {offers[ident].numa_node for ident in must if ident in offers}
    nodes = nodes or _best_node(rest, offers, size, taken)
    while rest and len(chosen) < size:
        rails = {offers[ident].rail for ident in chosen if ident in offers}
        best = min(rest, key=lambda ident: _rank(ident, offers, gpus, taken, nodes, rails))
        rest.remove(best)
        chosen.append(best)
    return chosen


def _rank(
    ident: str,
    offers: Mapping[str, Offer],
    gpus: Collection[str],
    taken: Collection[str],
    nodes: Collection[int],
    rails: Collection[str],
) -> tuple[bool, bool, bool, bool, bool, str]:
    """False is better."""
    offer = offers.get(ident, Offer("", "", -1))
    own = bool(offer.gpu) and offer.gpu in gpus
    return (
        offer.rail in rails,
        not own,
        offer.numa_node not in nodes,
        offer.gpu in taken and not own,
        not offer.rail,
        ident,
    )


def _best_node(idents: Sequence[str], offers: Mapping[str, Offer], size: int, taken: Collection[str]) -> set[int]:
    """The NUMA node with the fewest free rails that are still enough; the one with most where none has enough."""
    free = {offers[ident].rail: offers[ident] for ident in idents if ident in offers}
    counts = Counter(offer.numa_node for offer in free.values() if offer.gpu not in taken or not offer.gpu)
    if not counts:
        return set()
    enough = {node: count for node, count in counts.items() if count >= size}
    if enough:
        return {min(enough, key=lambda node: (enough[node], node))}
    return {min(counts, key=lambda node: (-counts[node], node))}
