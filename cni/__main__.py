"""``roceway-cni``: a CNI plugin when CNI_COMMAND is set, else an ordinary command."""

from __future__ import annotations

import gc
import os
import sys

IN_PROCESS = "--in-process"
"""Do not ask the agent: the compiled plugin has, before it starts this one."""
TRACE = "--trace"
"""Say on stderr where the time went."""


def main() -> None:
    """Entry point of the installed script and of ``python -m cni``."""
    if "CNI_COMMAND" not in os.environ:
        from cni.cli import run

        sys.exit(run(sys.argv[1:]))
    gc.disable()  # a life of milliseconds: collecting costs more than it frees
    stdin = sys.stdin.buffer.read()
    if IN_PROCESS not in sys.argv:
        _by_agent(stdin)
    _in_process(stdin)


def _by_agent(stdin: bytes) -> None:
    """Ends the process with the agent's answer; returns when there is none."""
    from cni.agent.client import ask

    answer = ask(os.environ, stdin, trace=TRACE in sys.argv)
    if answer is not None:
        sys.stderr.buffer.write(answer.stderr)
        _leave(answer.code, answer.stdout)


def _in_process(stdin: bytes) -> None:
    from cni.skel import dispatch

    if TRACE in sys.argv:
        from host import stopwatch

        stopwatch.restart()
    code, answer = dispatch(os.environ, stdin)
    if TRACE in sys.argv:
        spent = " ".join(f"{door} {1e3 * seconds:.2f}" for door, seconds in stopwatch.spent().items())
        print(f"roceway-cni: in process: {spent} ms", file=sys.stderr)
    _leave(code, answer.encode(errors="surrogateescape"))


def _leave(code: int, answer: bytes) -> None:
    if answer:
        sys.stdout.buffer.write(answer + b"\n")
    sys.stdout.flush()
    sys.stderr.flush()
    # Straight out: closing SQLite and tearing the interpreter down would cost a checkpoint and milliseconds.
    os._exit(code)


if __name__ == "__main__":
    main()
