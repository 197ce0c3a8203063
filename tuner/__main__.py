"""``roceway-tune``: host QoS of the rails."""

from __future__ import annotations

import sys

from tuner.cli import Program, run

TUNE = Program(
    "roceway-tune",
    "Makes the NICs of the rails what fabric.yaml says, and says where host, switch and intent disagree.",
    "tuner.commands",
    {
        "show": "the QoS of this host's NICs as it is",
        "plan": "what apply would do to this host",
        "apply": "make this host what fabric.yaml says, or leave it as it was",
        "verify": "whether this host is what fabric.yaml says",
        "rollback": "back to what this host was before an apply",
        "watch": "stay, and say what happens to the rails' QoS",
        "lint": "where hosts and switches disagree with fabric.yaml and with each other",
        "headroom": "bytes behind a pause threshold, and whether ECN comes before PFC",
        "render": "the configuration that fabric.yaml calls for on a switch",
        "diff": "how a switch differs from what fabric.yaml calls for",
        "lldp": "what a NIC is plugged into, and what that port says by DCBX",
        "prove": "shows with packets what a rail does to each class",
    },
)


def main() -> None:
    """Entry point of the installed script."""
    sys.exit(run(TUNE, sys.argv[1:]))


if __name__ == "__main__":
    main()
