"""``roceway-agent``: the resident half of the plugin on a node."""

from __future__ import annotations

import sys

from tuner.cli import Program, run

AGENT = Program(
    "roceway-agent",
    "The resident half of roceway-cni on a node: serves its requests from warm code and looks after pods' rails.",
    "cni.agent.commands",
    {
        "run": "serve until told to stop",
        "status": "what the agent on this node does, and whether it is ready",
    },
)


def main() -> None:
    """Entry point of the installed script."""
    sys.exit(run(AGENT, sys.argv[1:]))


if __name__ == "__main__":
    main()
