"""The initial RAM disk: busybox, the few modules that the guest's root needs, and a script that switches to it."""

from __future__ import annotations

import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

INIT = """#!/bin/sh
mount -t devtmpfs dev /dev
for module in {modules}; do insmod /modules/$module.ko; done
mount -t virtiofs -o ro host /host &&
mount -t tmpfs -o size=75% tmpfs /rw && mkdir /rw/upper /rw/work &&
mount -t overlay -o lowerdir=/host,upperdir=/rw/upper,workdir=/rw/work overlay /root &&
exec switch_root /root /bin/sh {init} {arguments}
echo "lab: the guest could not reach its root" >/dev/console
echo o >/proc/sysrq-trigger; reboot -f
"""
APPLETS = ("sh", "mount", "insmod", "mkdir", "switch_root", "reboot")
FOLDERS = ("bin", "dev", "host", "modules", "proc", "root", "rw", "sys")


def build(busybox: Path, modules: Sequence[Path], init: Path, arguments: Sequence[str]) -> bytes:
    """A cpio archive in the kernel's newc format."""
    script = INIT.format(
        modules=" ".join(module.stem for module in modules),
        init=shlex.quote(str(init)),
        arguments=shlex.join(arguments),
    )
    files: dict[str, bytes] = {"bin/busybox": busybox.read_bytes(), "init": script.encode()}
    files |= {f"modules/{module.name}": module.read_bytes() for module in modules}
    links = {f"bin/{applet}": b"busybox" for applet in APPLETS}
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in FOLDERS]
    entries += _of_kind(files, stat.S_IFREG | 0o755) + _of_kind(links, stat.S_IFLNK | 0o777)
    archive = b"".join(_entry(number, *entry) for number, entry in enumerate(entries, start=1))
    return archive + _entry(0, "TRAILER!!!", 0, b"")


def _of_kind(contents: Mapping[str, bytes], mode: int) -> list[tuple[str, int, bytes]]:
    return [(name, mode, data) for name, data in sorted(contents.items())]


def _entry(number: int, name: str, mode: int, data: bytes) -> bytes:
    """One member: thirteen hexadecimal fields, the name and the data, each padded to four bytes."""
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
