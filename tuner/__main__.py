"""``roceway-tune``: host QoS of the rails."""

from __future__ import annotations

import sys

from tuner.cli import Program, run

TUNE = Program(
    "roceway-tune",
    "Makes the NICs of the rails what fabric.yaml says, and says where host, switch and intent disagree.",
    "tuner.commands",
    {
        "lint": "where hosts and switches disagree with fabric.yaml and with each other",
        "headroom": "bytes behind a pause threshold, and whether ECN comes before PFC",
    },
)


def main() -> None:
    """Entry point of the installed script."""
    sys.exit(run(TUNE, sys.argv[1:]))


if __name__ == "__main__":
    main()
