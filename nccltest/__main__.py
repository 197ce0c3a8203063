"""``roceway-probe``: all-reduce rounds, judged against history."""

from __future__ import annotations

import sys

from tuner.exits import not_yet


def main() -> None:
    """Entry point of the installed script."""
    sys.exit(not_yet("roceway-probe", "probing on a schedule"))


if __name__ == "__main__":
    main()
