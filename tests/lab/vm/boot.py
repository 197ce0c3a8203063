"""One guest: the file server and QEMU as child processes that never outlive us, with a time limit."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from tests.lab.vm import initramfs, machine
from tests.lab.vm.cache import CHECKOUT, LabError
from tests.lab.vm.software import GUEST_ROOT, Root

GUEST_INIT = CHECKOUT / "tests" / "lab" / "guest" / "init.sh"
POLL = 0.1
_PR_SET_PDEATHSIG = 1


def guest(
    described: machine.Machine,
    root: Root,
    run: Path,
    *,
    limit: float,
    interactive: bool = False,
    watch: Callable[[], None] = lambda: None,
    init: Path = GUEST_INIT,
) -> bool:
    """Boot and wait until the guest ends; False when it had to be killed after ``limit`` seconds.

    The guest's root is this machine's own, copy-on-write; ``run`` is its /run/lab. Its console goes to console.log, or
    to the terminal. ``watch`` is called every now and then.
    """
    image = initramfs.build(
        root.path / "usr/bin/busybox", root.early_modules(), init, [str(root.path), str(GUEST_ROOT)]
    )
    (run / "initramfs").write_bytes(image)
    with contextlib.ExitStack() as stack:
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="roceway-lab-")))
        log = stack.enter_context((run / "qemu.log").open("w"))
        stack.enter_context(_process(_file_server(root, sockets / "fs"), log))
        _wait_for(sockets / "fs", run / "qemu.log")
        words = [*_qemu(root, run, sockets / "fs", interactive), *machine.qemu_arguments(described)]
        qemu = stack.enter_context(_process(words, log, terminal=interactive))
        deadline = time.monotonic() + limit
        while time.monotonic() < deadline:
            watch()
            with contextlib.suppress(subprocess.TimeoutExpired):
                qemu.wait(POLL)
                return True
    return False


def _qemu(root: Root, run: Path, server: Path, interactive: bool) -> list[str]:
    console = "hvc0" if interactive else "ttyS0"
    serial = ["-serial", f"file:{run}/console.log"]
    terminal = [
        *("-device", "virtio-serial-pci,bus=pcie.0", "-chardev", "stdio,id=terminal,signal=off"),
        *("-device", "virtconsole,chardev=terminal"),
    ]
    data = root.path / "usr/share"
    return [
        *root.program("usr/bin/qemu-system-x86_64"),
        *(
            "-L",
            f"{data}/seabios",
            "-L",
            f"{data}/qemu",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ),
        *("-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-device", "isa-debug-exit,iobase=0xf4"),
        *("-kernel", str(root.modules / "vmlinuz"), "-initrd", f"{run}/initramfs"),
        *("-append", f"console={console} quiet panic=-1 lab.root={root.path}"),
        *("-chardev", f"socket,id=host,path={server}"),
        *("-device", "vhost-user-fs-pci,chardev=host,tag=host,bus=pcie.0"),
        *("-fsdev", f"local,id=run,path={run},security_model=none"),
        *("-device", "virtio-9p-pci,fsdev=run,mount_tag=run,bus=pcie.0"),
        *serial,
        *(terminal if interactive else []),
    ]


def _file_server(root: Root, at: Path) -> list[str]:
    """The host's root, read-only. virtiofs: importing Python packages through 9p takes twice as long."""
    return [
        *root.program("usr/libexec/virtiofsd"),
        *("--socket-path", str(at), "--shared-dir", "/", "--readonly", "--sandbox", "none", "--cache", "always"),
        *("--no-announce-submounts", "--inode-file-handles=never", "--log-level", "error"),
    ]


def _wait_for(path: Path, log: Path) -> None:
    deadline = time.monotonic() + 10
    while not path.exists():
        if time.monotonic() > deadline:
            raise LabError(f"the file server did not start: {log.read_text()[-500:]}")
        time.sleep(0.02)


@contextlib.contextmanager
def _process(words: Sequence[str], log: IO[str], *, terminal: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    """A child that is gone when the block ends, and also when we are killed."""
    child = subprocess.Popen(
        words,
        stdin=None if terminal else subprocess.DEVNULL,
        stdout=None if terminal else log,
        stderr=log,
        preexec_fn=_die_with_parent(),
    )
    try:
        yield child
    finally:
        child.kill()
        child.wait()


def _die_with_parent() -> Callable[[], None]:
    """For the child, between fork and exec: SIGKILL when the thread that started it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    parent = os.getpid()

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)

    return prepare
