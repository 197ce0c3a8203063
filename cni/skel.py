"""The dispatcher: environment and stdin in, exit code and stdout out, all as values.

After containernetworking/cni's ``skel``. Tests call :func:`dispatch` without a process; ``__main__`` only connects it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping

from cni.errors import CniError, Code, as_cni
from cni.spec import (
    Call,
    Json,
    always,
    check_version,
    error_document,
    network_name_problem,
    parse_call,
    version_document,
)

__all__ = ["dispatch"]

_STDIN_MAX = 8 << 20  # bytes; the largest real configurations are some 10 KiB


def dispatch(env: Mapping[str, str], stdin: str | bytes, still_wanted: Callable[[], None] = always) -> tuple[int, str]:
    """One CNI call. Returns the exit code and what belongs on stdout (empty for silence).

    ``still_wanted`` is called once the pod's lock is held and raises when nobody waits for the answer any more.
    """
    raw: Json = {}
    try:
        call = parse_call(env)._replace(still_wanted=still_wanted)
        raw = _decode(stdin, optional=call.command == "VERSION")
        document = _run(call, raw)
    except Exception as error:  # noqa: BLE001 - the runtime must get an answer for every error; bugs show their trace
        known = as_cni(error)
        if known.code == Code.INTERNAL:
            import traceback  # 1.6 ms that only a bug has to pay

            traceback.print_exc(file=sys.stderr)
        return 1, json.dumps(error_document(raw.get("cniVersion"), known))
    return 0, "" if document is None else json.dumps(document)


def _decode(stdin: str | bytes, *, optional: bool) -> Json:
    if len(stdin) > _STDIN_MAX:
        raise CniError(Code.DECODE, f"the configuration on stdin is larger than {_STDIN_MAX} bytes")
    if optional and not stdin.strip():
        return {}
    try:
        raw = json.loads(stdin)
    except (ValueError, RecursionError) as error:
        raise CniError(Code.DECODE, "the configuration on stdin is no JSON", str(error)) from error
    if not isinstance(raw, dict):
        raise CniError(Code.DECODE, "the configuration on stdin is no JSON object")
    return raw


def _run(call: Call, raw: Json) -> Json | None:
    """The verb; imported here, so that each pays only for what it uses."""
    if call.command == "VERSION":
        return version_document(raw)
    version = check_version(raw.get("cniVersion"), call.command)
    problem = network_name_problem(raw.get("name"))
    if problem:
        raise CniError(Code.CONFIG, f"network configuration: name {problem}")
    if call.command == "ADD":
        from cni.commands.add import add

        return add(call, raw, version)
    if call.command == "DEL":
        from cni.commands.delete import delete

        delete(call, raw)
    elif call.command == "CHECK":
        from cni.commands.check import check

        check(call, raw, version)
    elif call.command == "GC":
        from cni.commands.gc import collect

        collect(call, raw)
    else:
        from cni.commands.status import status

        status(raw, version)
    return None
