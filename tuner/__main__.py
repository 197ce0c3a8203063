"""``roceway-tune``: host QoS of the rails."""

from __future__ import annotations

import sys

from tuner.exits import not_yet


def main() -> None:
    """Entry point of the installed script."""
    sys.exit(not_yet("roceway-tune", "tuning hosts and linting switches"))


if __name__ == "__main__":
    main()
