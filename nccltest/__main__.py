"""``roceway-probe``: all-reduce rounds, judged against history."""

from __future__ import annotations

import sys

from tuner.cli import Program, run

PROBE = Program(
    "roceway-probe",
    "Runs NCCL all-reduce rounds, tells noise from regression and names the slow node, NIC, rail, leaf or uplink.",
    "nccltest.commands",
    {
        "plan": "the rounds of the next run and what they cost",
        "run": "measure: all-reduce rounds, recorded as JSON lines",
        "parse": "nccl-tests' logs of any version as runs, or as measurements",
        "judge": "compare runs with their series' past, and remember them",
        "locate": "name the slow node, NIC, leaf, uplink or spine",
        "report": "what was found: terminal, HTML page, JSON, Prometheus",
        "act": "webhook, Kubernetes marks: on a blame that lasts, and off again",
        "history": "what is remembered; let a baseline begin anew",
    },
)


def main() -> None:
    """Entry point of the installed script."""
    sys.exit(run(PROBE, sys.argv[1:]))


if __name__ == "__main__":
    main()
