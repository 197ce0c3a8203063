"""Where one call of the plugin spends its time: run in place of the plugin, prints milliseconds by part to stderr.

Started as the plugin is (``python -IS breakdown.py ROOT``); measures from inside with wrappers round the doors.
"""

import sys
import time

_BORN = time.perf_counter()
sys.path.append(sys.argv[1])

import gc  # noqa: E402

gc.disable()
import os  # noqa: E402

from cni import skel  # noqa: E402

if os.environ["CNI_COMMAND"] == "ADD":
    from cni.commands import add as _verb
else:
    from cni.commands import delete as _verb  # type: ignore[no-redef]  # noqa: F401
from cni.store import Store  # noqa: E402
from host import netlink  # noqa: E402

_IMPORTED = time.perf_counter()
_spent = {"state": 0.0, "netlink": 0.0}
_depth = {"state": 0, "netlink": 0}


def _timed(owner: type, name: str, part: str) -> None:
    inner = getattr(owner, name)

    def wrapper(*args, **kwargs):  # type: ignore[no-untyped-def]
        start = time.perf_counter()
        _depth[part] += 1
        try:
            return inner(*args, **kwargs)
        finally:
            _depth[part] -= 1
            if not _depth[part]:
                _spent[part] += time.perf_counter() - start

    setattr(owner, name, wrapper)


for _name in ("_batch", "_dump_once"):
    _timed(netlink.Route, _name, "netlink")
_timed(Store, "_rows", "state")
_open = Store.open.__func__  # type: ignore[attr-defined]


def _timed_open(cls, *args, **kwargs):  # type: ignore[no-untyped-def]
    start = time.perf_counter()
    try:
        return _open(cls, *args, **kwargs)
    finally:
        _spent["state"] += time.perf_counter() - start


Store.open = classmethod(_timed_open)  # type: ignore[assignment, method-assign]

code, answer = skel.dispatch(os.environ, sys.stdin.read())
_done = time.perf_counter()
sys.stdout.write(answer)
sys.stdout.flush()
rest = _done - _IMPORTED - sum(_spent.values())
print(
    f"imports {1e3 * (_IMPORTED - _BORN):.2f} state {1e3 * _spent['state']:.2f} "
    f"netlink {1e3 * _spent['netlink']:.2f} rest {1e3 * rest:.2f}",
    file=sys.stderr,
    flush=True,
)
os._exit(code)
