"""A pod's run directory: ``nccl.conf``, ``topo.xml`` and ``rails.json``, mounted into containers that ask for rails.

The kubelet asks the device plugin for mounts when it admits a pod: before its sandbox, and so before ADD, which alone
knows addresses; and without saying whose they are. So the directory is named by the devices, which are one container's
until its pod has ended; Allocate names it, ADD fills it, the end of the attachment removes it. A container starts after
ADD, so it finds it full. ``.owner`` says whose it is: the next pod with the same devices may be there before the last
one's DEL.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from cni.ncclconf import PodRail, nccl_conf, rails_document
from cni.podconf import Nccl
from cni.topoxml import Cpu, topo_xml
from host import files, pci
from host.errors import HostError

__all__ = ["INSIDE", "cpu", "fill", "folder_of", "make", "read_tree", "remove"]

INSIDE = "/run/roceway"
"""Where containers find it."""

_OWNER = ".owner"
_NAME_MAX = 200
_ARCHES = {"aarch64": "arm64", "ppc64le": "ppc64"}


def folder_of(run_dir: str, devices: Iterable[str]) -> str:
    """The run directory of the container that was given these devices of ``roceway.io/rail``."""
    name = "+".join(re.sub(r"[^A-Za-z0-9._@\-]", "-", device) for device in sorted(devices))
    if len(name) > _NAME_MAX or name.startswith("."):
        import hashlib

        name = hashlib.sha256(name.encode()).hexdigest()[:32]
    return os.path.join(run_dir, name)


def make(folder: str) -> None:
    """The directory, as it must be there when a container is made, also for a pod that never has an ADD (hostNetwork).

    HostError when it cannot be made.
    """
    try:
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)  # noqa: S103 - whatever the umask: who works in a container need not be root
    except OSError as error:
        raise HostError("make the run directory", folder, error.errno or 0) from error


def fill(folder: str, owner: str, rails: Sequence[PodRail], gpus: Sequence[str], nccl: Nccl, root: str = "/") -> None:
    """Write the files for a container that has ``rails``; each is put in place whole. HostError when one cannot be."""
    make(folder)
    functions = sorted({*gpus, *(rail.pci for rail in rails if rail.pci)})
    tree = read_tree(functions, root)
    functions = [each for each in functions if each in tree]
    files = {
        _OWNER: owner,
        "nccl.conf": nccl_conf(rails, nccl, f"{INSIDE}/topo.xml" if functions else ""),
        "rails.json": json.dumps(rails_document(rails, gpus), indent=2) + "\n",
        **({"topo.xml": topo_xml(functions, tree, cpu(root))} if functions else {}),
    }
    try:
        for name, text in files.items():
            _write(os.path.join(folder, name), text)
    except OSError as error:
        raise HostError("fill the run directory", folder, error.errno or 0) from error


def _write(path: str, text: str) -> None:
    fresh = f"{path}.{os.getpid()}"
    with suppress(FileNotFoundError):
        os.unlink(fresh)
    with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o400), "w") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o444)
    os.replace(fresh, path)


def remove(folder: str, owner: str) -> None:
    """Remove it, if it is still ``owner``'s. One that is gone, or cannot be removed, keeps no pod."""
    with suppress(OSError):
        with open(os.path.join(folder, _OWNER)) as file:
            if file.read() != owner:
                return
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def read_tree(functions: Iterable[str], root: str = "/") -> Mapping[str, pci.Device]:
    """``functions`` (PCI addresses) and every function above them; those that the machine lacks are left out."""
    tree: dict[str, pci.Device] = {}
    for address in functions:
        try:
            found = pci.read(address, root)
            tree |= {each: pci.read(each, root) for each in found.chain if each not in tree}
        except (HostError, ValueError):
            continue
    return tree


def cpu(root: str = "/") -> Cpu:
    """The machine's CPUs as NCCL wants to know them."""
    fields: dict[str, str] = {}
    for line in files.text(root, "proc/cpuinfo").partition("\n\n")[0].splitlines():
        key, _, value = line.partition(":")
        fields[key.strip()] = value.strip()
    machine = platform.machine()
    return Cpu(
        arch=_ARCHES.get(machine, machine),
        vendor=fields.get("vendor_id", ""),
        family=_number(fields.get("cpu family")),
        model=_number(fields.get("model")),
        affinity=_affinity(root),
    )


def _affinity(root: str) -> dict[int, str]:
    folder = os.path.join(root, "sys/devices/system/node")
    names = [name for name in files.names(folder) if name.startswith("node") and name[4:].isdigit()]
    return {int(name[4:]): files.text(folder, name, "cpumap") for name in names}


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0
