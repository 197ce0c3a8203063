"""``roceway-agent``: the resident half of the plugin on a node."""

from __future__ import annotations

import sys

from tuner.exits import not_yet


def main() -> None:
    """Entry point of the installed script."""
    sys.exit(not_yet("roceway-agent", "the resident agent"))


if __name__ == "__main__":
    main()
