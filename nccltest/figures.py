"""The published error rates, measured: ``python -m nccltest.figures locate|judge`` prints docs/figures/*.md.

Every figure has a fixed seed, so that a second run prints the same text; tests hold the same rates with fewer trials.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from math import exp, lgamma, log, log1p

import numpy as np

from nccltest.cusum import ANCHOR, H, K
from nccltest.judge_sim import detection, drifts
from nccltest.signatures import SIGNATURES, Counted, Signature, count, trial

__all__ = ["at_least", "at_most", "calibration", "main"]

_TRIALS = {"locate": 120, "judge": 400}
_BINS = (0.02, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99, 1.01)
_BLURRED = (
    ("NIC, 64-128 nodes", 1, 0.8),
    ("NIC, 8-32 nodes", 1, 0.8),
    ("node, 8-32 nodes", 1, 0.85),
    ("NIC, 64-128 nodes", 2, 0.88),
    ("one of 4 uplink cables", 2, 0.8),
    ("one spine of 4, 64-128 nodes", 1, 0.85),
)
"""Too few rounds or too small a fault: signature, matchings, what is left."""


def at_least(successes: int, trials: int, share: float) -> float:
    """Probability of so few successes or fewer when the true share is ``share``: small refutes "at least share"."""
    return sum(_binomial(k, trials, share) for k in range(successes + 1))


def at_most(successes: int, trials: int, share: float) -> float:
    """Probability of so many successes or more when the true share is ``share``: small refutes "at most share"."""
    return sum(_binomial(k, trials, share) for k in range(successes, trials + 1))


def _binomial(k: int, trials: int, share: float) -> float:
    ways = lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1)
    return exp(ways + k * log(share) + (trials - k) * log1p(-share))


def calibration(trials: int, seed: int = 0) -> list[tuple[float, float, int, float, float]]:
    """For bins of stated confidence: bounds, number of suspects, mean confidence stated, share that was right."""
    stated: list[tuple[float, bool]] = []
    signatures = {each.name: each for each in SIGNATURES}
    for name, rounds, ratio in _BLURRED:
        base = signatures[name]
        blurred = Signature(name, base.kinds, base.clusters, rounds=rounds, ratio=ratio, share=base.share)
        rng = np.random.default_rng([seed, rounds, len(name)])
        for number in range(trials):
            faults, verdict = trial(blurred, blurred.clusters[number % len(blurred.clusters)], rng)
            true = {(fault.kind, fault.id) for fault in faults}
            stated += [(each.confidence, (each.kind, each.id) in true) for each in verdict.suspects]
    bins = []
    for low, high in pairwise(_BINS):
        inside = [(confidence, right) for confidence, right in stated if low <= confidence < high]
        if inside:
            mean, share = (float(np.mean([each[i] for each in inside])) for i in (0, 1))
            bins.append((low, min(high, 1.0), len(inside), mean, share))
    return bins


def locate_page(trials: int) -> str:
    """docs/figures/locate.md."""
    with ProcessPoolExecutor() as pool:  # each row has its own seed: the order of work changes nothing
        counted = pool.map(count, SIGNATURES, [max(1, trials // each.cost) for each in SIGNATURES])
        rows = list(zip(SIGNATURES, counted, strict=True))
    lines = [
        "# Locating, measured",
        "",
        "Printed by `python -m nccltest.figures locate`. Random matchings of all nodes (4 unless told), every rail",
        "on its own, a fault of 20 % unless told, noise 1.5 %, a third of the paths 4 % slower, one result in a",
        "thousand far off. *Right*: every fault named, alone, and nothing else. *Unsure*: an ambiguity set, or not",
        "found. *Wrong*: somebody innocent blamed alone.",
        "",
        "| | promised | trials | right | unsure | wrong |",
        "|---|---|---|---|---|---|",
        *(_row(signature, counted) for signature, counted in rows),
        "",
        *_together(rows),
        "",
        "Leaf or uplink? Only pairs inside a leaf tell them apart, and random pairs of a large cluster have few: from",
        "a few hundred nodes on one of the matchings should stay inside leaves (`probe.purposes`: same-leaf), or the",
        "verdict names both and the follow-up decides.",
        "",
        "*Two levels*: what crosses leaves runs at 90 % (oversubscribed: 60 %) of what stays inside, in health. With",
        "a topology the classes of paths are known, without one they are guessed from the pairs; a fault is judged",
        "against its class. What cannot be known without history stays unsure: with two leaves and no other rail to",
        "compare, a slow uplink or a fabric built so; without a topology, one slow leaf of a rack, parts of a cluster",
        "that are slow to each other, or nodes of another type.",
        "",
        "A wrong traffic class is not among them: it shows in counters, not in bandwidth. Three faults on 64 nodes",
        "that stay unsure are NICs whose only peers were behind another fault.",
        "",
        "## Does the confidence mean what it says?",
        "",
        "Suspects of runs that had too little evidence (one or two matchings, losses of 12 to 20 %).",
        "",
        "| stated | suspects | mean stated | were right |",
        "|---|---|---|---|",
        *(
            f"| {low:.0%}–{high:.0%} | {number} | {mean:.1%} | {share:.1%} |"
            for low, high, number, mean, share in calibration(trials // 2)
        ),
    ]
    return "\n".join(lines) + "\n"


def _together(rows: Sequence[tuple[Signature, Counted]]) -> list[str]:
    """What is promised, over all rows that it is promised for."""
    lines = []
    for least, what in ((0.99, "NICs, nodes, and health"), (0.95, "leaves, uplinks, spines")):
        mine = [each for signature, each in rows if signature.least == least]
        right, trials = sum(each.right for each in mine), sum(each.trials for each in mine)
        lines.append(f"- {what} (promised {least:.0%}): {right} of {trials} right, {right / trials:.2%}")
    wrong, trials = sum(each.wrong for _, each in rows), sum(each.trials for _, each in rows)
    lines.append(f"- wrong blame, all rows (promised 0.5 % at most): {wrong} of {trials}, {wrong / trials:.2%}")
    return lines


def _row(signature: Signature, counted: Counted) -> str:
    shares = (counted.right, counted.unsure, counted.wrong)
    promised = f"≥ {signature.least:.0%}" if signature.least else ""
    cells = " | ".join(f"{each / counted.trials:.1%}" for each in shares)
    return f"| {signature.name} | {promised} | {counted.trials} | {cells} |"


def judge_page(trials: int) -> str:
    """docs/figures/judge.md. False alarms are counted in a hundred times as many runs as the rest."""
    lines = [
        "# Judging, measured",
        "",
        "Printed by `python -m nccltest.figures judge`. σ is the noise of one run (the median of its repeats), two",
        "runs in a thousand are anything from 30 % to 100 %, and the baseline is learnt from that many such runs. A",
        "confirmed judgement is: one run; if it looks slow, five more at once, whose median decides.",
        "",
        "| σ | runs in the baseline | false alarms, confirmed | run again | 5 % found | 7 % | 10 % | 20 % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for sigma, count_ in ((0.005, 30), (0.01, 12), (0.01, 30), (0.02, 12), (0.02, 20), (0.02, 30), (0.02, 60)):
        healthy = detection(sigma, count_, 0.0, 100 * trials)
        found = [detection(sigma, count_, drop, 4 * trials) for drop in (0.05, 0.07, 0.10, 0.20)]
        shares = " | ".join(f"{each.confirmed / each.runs:.1%}" for each in found)
        lines.append(
            f"| {sigma:.1%} | {count_} | {healthy.confirmed} of {healthy.runs} | {healthy.screened / healthy.runs:.1%} "
            f"| {shares} |"
        )
    lines += [
        "",
        "Promised: at σ = 2 % a loss of 10 % is found in 99 % of the runs; of 10,000 confirmed judgements of healthy",
        "runs one at most is false. *Run again* is the cost: that share of healthy runs is followed by five more of",
        "the same group, 15 to 25 % more time for probing on average.",
        "",
        "## Slow drift",
        "",
        f"CUSUM of clipped z against the first {ANCHOR} runs, k = {K:g}, h = {H:g}, over 240 runs at σ = 2 %.",
        "",
        "| lost over 240 runs | k = 1, h = 8 | textbook: k = 0.5, h = 5 |",
        "|---|---|---|",
    ]
    for loss in (0.0, 0.02, 0.04, 0.06):
        ours, textbook = (drifts(loss, 2 * trials, *setting) for setting in ((K, H), (0.5, 5.0)))
        name = "nothing (false alarms)" if not loss else f"{loss:.0%}"
        lines.append(f"| {name} | {ours:.1%} | {textbook:.1%} |")
    return "\n".join(lines) + "\n"


_PAGES = {"locate": locate_page, "judge": judge_page}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure one page and print it."""
    parser = argparse.ArgumentParser(prog="python -m nccltest.figures", description=__doc__)
    parser.add_argument("page", choices=sorted(_PAGES))
    parser.add_argument("--trials", type=int, help="trials of each row (locate: 120, judge: 400)")
    options = parser.parse_args(arguments)
    sys.stdout.write(_PAGES[options.page](options.trials or _TRIALS[options.page]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
