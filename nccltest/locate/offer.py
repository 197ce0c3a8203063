"""A fault, and what each candidate would add to the explanation. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nccltest.locate.evidence import Floats, Ints

__all__ = ["Fault", "Offer"]


@dataclass(frozen=True)
class Fault:
    """A candidate with its ceiling (log) and the share of its measurements that it slows."""

    candidate: int
    ceiling: float
    share: float


@dataclass(frozen=True)
class Offer:
    """The best fault for each of some candidates, and by how much (log) it makes the evidence likelier, all paid."""

    candidates: Ints
    gain: Floats
    ceiling: Floats
    share: Floats

    def best(self) -> tuple[float, Fault | None]:
        """The fault that offers most, and log odds that there is one, there or elsewhere."""
        if not len(self.candidates):
            return 0.0, None
        return float(np.logaddexp.reduce(self.gain)), self.fault(int(np.argmax(self.gain)))

    def fault(self, index: int) -> Fault:
        """The fault of one of the candidates."""
        return Fault(int(self.candidates[index]), float(self.ceiling[index]), float(self.share[index]))
