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
import os
import sys
from collections.abc import Callable

from conf.errors import ConfigError
from host.errors import Busy, HostError

__all__ = ["BAD_INPUT", "DONE", "FOUND", "REFUSED", "guarded"]

DONE, FOUND, BAD_INPUT, REFUSED = 0, 1, 2, 3


def guarded(command: str, action: Callable[[], int]) -> int:
    """Run a command; known errors become one message on stderr and their code, anything else is a bug and is raised."""
    try:
        code = action()
        sys.stdout.flush()  # a full disk is found here, not when the interpreter ends
        return code
    except ConfigError as error:
        code, message = BAD_INPUT, str(error)
    except (HostError, Busy) as error:
        code, message = REFUSED, str(error)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away; nobody is left to tell
        return DONE
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        code, message = REFUSED, f"cannot write: {error.strerror}"
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is still buffered has nowhere to go
    except KeyboardInterrupt:
        code, message = REFUSED, "interrupted"
    print(f"{command}: {message}", file=sys.stderr)
    return code
