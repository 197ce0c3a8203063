"""The exit codes of all three commands, and the one place where errors become them.

=====  ==========================================================================================
code   meaning
=====  ==========================================================================================
0      done; nothing to report
1      the check ran and found something: drift, lint findings, a regression, a slow component
2      bad input: usage, fabric.yaml, an unreadable log
3      the host, switch or launcher refused or could not be reached
=====  ==========================================================================================
"""

from __future__ import annotations

import errno
import io
import os
import sys
from collections.abc import Callable
from typing import TextIO

from conf.errors import ConfigError
from host.errors import Busy, HostError

__all__ = ["BAD_INPUT", "DONE", "FOUND", "REFUSED", "guarded", "mend_streams", "to_nowhere"]

DONE, FOUND, BAD_INPUT, REFUSED = 0, 1, 2, 3


def guarded(command: str, action: Callable[[], int]) -> int:
    """Run a command; known errors become one message on stderr and their code, anything else is a bug and is raised.

    A reader of our output that went away (``| head``) is nobody's error and gets no message, but what the command would
    have found was not told: that is no success.
    """
    try:
        code = _run(action)
    except ConfigError as error:
        code, message = BAD_INPUT, str(error)
    except (HostError, Busy) as error:
        code, message = REFUSED, str(error)
    except BrokenPipeError:
        to_nowhere(sys.stdout)
        return REFUSED
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        code, message = REFUSED, f"cannot write: {error.strerror}"
        to_nowhere(sys.stdout)
    except KeyboardInterrupt:
        code, message = REFUSED, "interrupted"
    else:
        return code
    try:
        print(f"{command}: {message}", file=sys.stderr)
    except OSError:
        to_nowhere(sys.stderr)
    return code


def _run(action: Callable[[], int]) -> int:
    """The action's code, once all that it printed is written (its help too, for which argparse raises SystemExit): a
    full disk is found here, not when the interpreter ends."""
    try:
        code = action()
    except SystemExit:
        sys.stdout.flush()
        raise
    sys.stdout.flush()
    return code


def to_nowhere(stream: TextIO) -> None:
    """What is still buffered can be written to nobody; nor can anything that follows."""
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())


def mend_streams() -> None:
    """Output that is closed (``>&-``) goes nowhere; what a terminal's character set lacks (arrows) becomes "?"."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
