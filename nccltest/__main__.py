"""``roceway-probe``: all-reduce rounds, judged against history."""

from __future__ import annotations

import sys

from tuner.cli import Program, run

PROBE = Program(
    "roceway-probe",
    "Runs NCCL all-reduce rounds, tells noise from regression and names the slow node, NIC, rail, leaf or uplink.",
    "nccltest.commands",
    {
        "parse": "nccl-tests' logs of any version as runs, or as measurements",
        "locate": "name the slow node, NIC, leaf, uplink or spine",
    },
)


def main() -> None:
    """Entry point of the installed script."""
    sys.exit(run(PROBE, sys.argv[1:]))


if __name__ == "__main__":
    main()
