"""Names of GPUs to PCI addresses, as this machine's drivers tell. A door: reads files, decides nothing.

- NVIDIA: ``/proc/driver/nvidia/gpus/<PCI address>/information`` has UUID and minor number; indexes of nvidia-smi and
  CDI count by PCI address. Which GPU a ``MIG-<uuid>`` is a slice of, only the driver's library tells (host.nvml).
- AMD: ``/sys/class/drm/card<N>/device``.
- Ascend: attribute ``dev_id`` of each PCI function, or the driver's table ``devdrv_sysfs_bdf_to_devid`` on any of them
  (lines ``c1:00.0 ---> 3``). Device numbers do not follow PCI addresses: without either file a number tells nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from cni.poddevices import GpuName
from host import files, pci

__all__ = ["resolve"]

_NVIDIA = "proc/driver/nvidia/gpus"
_FIELDS = {"uuid": "GPU UUID", "minor": "Device Minor"}
_ASCEND_VENDOR = "0x19e5"
_ASCEND_LINE = re.compile(r"([0-9a-f]{2}:[01][0-9a-f]\.[0-7]) ---> ([0-9]+)")


def resolve(names: Iterable[GpuName], root: str = "/") -> dict[str, str]:
    """PCI address of each name (by its text) that the machine knows. A PCI address stands for itself."""
    found: dict[str, str] = {}
    tables: dict[str, Mapping[str, str]] = {}
    for name in names:
        if name.kind == "pci":
            found[name.text] = name.value
            continue
        if name.kind not in tables:
            tables[name.kind] = _table(name.kind, root)
        address = _mig(name.value) if name.kind == "mig" else tables[name.kind].get(name.value, "")
        if address:
            found[name.text] = address
    return found


def _table(kind: str, root: str) -> Mapping[str, str]:
    """What a kind of name means here."""
    if kind == "uuid":
        return {fields["GPU UUID"]: address for address, fields in _nvidia(root).items() if "GPU UUID" in fields}
    if kind == "minor":
        return {
            fields["Device Minor"]: address for address, fields in _nvidia(root).items() if "Device Minor" in fields
        }
    if kind == "index":
        return {f"nvidia {number}": address for number, address in enumerate(_nvidia(root))} | {
            f"amd {number}": address for number, address in enumerate(sorted(_cards(root).values(), key=pci.order))
        }
    if kind == "card":
        return _cards(root)
    return _ascend(root) if kind == "ascend" else {}


def _nvidia(root: str) -> dict[str, dict[str, str]]:
    """PCI address to the fields of its ``information``, in order of addresses."""
    folder = os.path.join(root, _NVIDIA)
    addresses = sorted((name.lower() for name in files.names(folder) if _is_pci(name)), key=pci.order)
    found = {}
    for address in addresses:
        lines = [line.partition(":") for line in files.text(folder, address, "information").splitlines()]
        found[address] = {key.strip(): value.strip() for key, _, value in lines}
    return found


def _cards(root: str) -> dict[str, str]:
    """Number of each DRM card of AMD's to its PCI address."""
    folder = os.path.join(root, "sys/class/drm")
    found = {}
    for name in files.names(folder):
        number = name.removeprefix("card")
        driver = os.path.basename(os.path.realpath(os.path.join(folder, name, "device/driver")))
        place = os.path.basename(os.path.realpath(os.path.join(folder, name, "device")))
        if name.startswith("card") and number.isdigit() and driver == "amdgpu" and _is_pci(place):
            found[number] = place
    return found


def _ascend(root: str) -> dict[str, str]:
    """Device number to PCI address."""
    folder = os.path.join(root, "sys/bus/pci/devices")
    found: dict[str, str] = {}
    for address in files.names(folder):
        if files.text(folder, address, "vendor") != _ASCEND_VENDOR:
            continue
        number = files.text(folder, address, "dev_id")
        if number.isdigit():
            found[number] = address
        for short, listed in _ASCEND_LINE.findall(files.text(folder, address, "devdrv_sysfs_bdf_to_devid")):
            found.setdefault(listed, f"{address.partition(':')[0]}:{short}")  # the table leaves the domain out
    return found


def _mig(uuid: str) -> str:
    from host import nvml  # loads the driver's library: only for a slice

    return nvml.parent_of(uuid)


def _is_pci(name: str) -> bool:
    try:
        pci.order(name)
    except ValueError:
        return False
    return True
