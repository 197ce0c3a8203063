"""The device-info file that a meta-plugin reads: which PCI function and RDMA device an interface is.

Specification: k8snetworkplumbingwg/device-info-spec, version 1.1.0. The path comes from the meta-plugin as the
capability CNIDeviceInfoFile and stands for one interface, so it is written for configurations with one rail.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from host.errors import HostError

__all__ = ["CAPABILITY", "remove", "write"]

CAPABILITY = "CNIDeviceInfoFile"
_VERSION = "1.1.0"


def write(path: str, *, pci: str, rdma: str, pf: str) -> None:
    """Write the file whole, mode 0444. HostError when it cannot be written."""
    device = {"pci-address": pci, "rdma-device": rdma, "pf-pci-address": pf}
    document = {"type": "pci", "version": _VERSION, "pci": {key: value for key, value in device.items() if value}}
    fresh = f"{path}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o444)
        with open(descriptor, "w") as file:
            file.write(json.dumps(document))
        os.replace(fresh, path)
    except OSError as error:
        with suppress(OSError):
            os.unlink(fresh)
        raise HostError("write", path, error.errno or 0) from error


def remove(path: str) -> None:
    """Remove the file; one that is gone, or cannot be removed, keeps no pod."""
    with suppress(OSError):
        os.unlink(path)
