"""``roceway-cni``: a CNI plugin when CNI_COMMAND is set, else an ordinary command."""

from __future__ import annotations

import gc
import os
import sys


def main() -> None:
    """Entry point of the installed script and of ``python -m cni``."""
    if "CNI_COMMAND" not in os.environ:
        from cni.cli import run

        sys.exit(run(sys.argv[1:]))
    gc.disable()  # a life of milliseconds: collecting costs more than it frees
    from cni.skel import dispatch

    code, answer = dispatch(os.environ, sys.stdin.buffer.read())
    if answer:
        sys.stdout.write(answer + "\n")
    sys.stdout.flush()
    # Straight out: closing SQLite and tearing the interpreter down would cost a checkpoint and milliseconds.
    os._exit(code)


if __name__ == "__main__":
    main()
