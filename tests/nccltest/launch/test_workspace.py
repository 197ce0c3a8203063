"""A round's folder goes, also while daemons that are being ended still write into it."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from nccltest.launch.backend import workspace


def test_what_is_still_written_does_not_keep_the_folder() -> None:
    over = threading.Event()

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            with suppress(OSError):
                folder = top / "session" / f"jf.{number}"
                folder.mkdir()
                (folder / "file").touch()

    with workspace() as top:
        (top / "session").mkdir()
        thread = threading.Thread(target=write)
        thread.start()
        threading.Timer(0.5, over.set).start()
        time.sleep(0.05)
    thread.join()
    assert not top.exists()
