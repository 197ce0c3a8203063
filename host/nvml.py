"""Which GPU a MIG slice belongs to, as NVIDIA's driver library tells (libnvidia-ml.so.1).

NVML API reference, "Multi Instance GPU Management": ``nvmlDeviceGetHandleByUUID`` takes a slice's UUID,
``nvmlDeviceGetDeviceHandleFromMigDeviceHandle`` gives its GPU. No file under /proc or /sys has this.
"""

from __future__ import annotations

__all__ = ["parent_of"]

_LIBRARY = "libnvidia-ml.so.1"
_BUS_ID_AT, _BUS_ID_LENGTH = 36, 32
"""In nvmlPciInfo_t: char busIdLegacy[16], five unsigned int, char busId[32]."""
_INFO_SIZE = 68


def parent_of(uuid: str, library: str = _LIBRARY) -> str:
    """PCI address of the GPU that the slice ``MIG-<uuid>`` is of; empty where the driver does not tell."""
    import ctypes  # 2.5 ms: only for a slice

    try:
        nvml = ctypes.CDLL(library)
    except OSError:
        return ""
    if nvml.nvmlInit_v2() != 0:
        return ""
    try:
        slice_, gpu = ctypes.c_void_p(), ctypes.c_void_p()
        info = ctypes.create_string_buffer(_INFO_SIZE)
        if (
            nvml.nvmlDeviceGetHandleByUUID(uuid.encode(), ctypes.byref(slice_)) != 0
            or nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(slice_, ctypes.byref(gpu)) != 0
            or nvml.nvmlDeviceGetPciInfo_v3(gpu, info) != 0
        ):
            return ""
        text = info.raw[_BUS_ID_AT : _BUS_ID_AT + _BUS_ID_LENGTH].split(b"\0")[0].decode(errors="replace").lower()
    finally:
        nvml.nvmlShutdown()
    domain, _, rest = text.partition(":")
    return f"{domain[-4:]}:{rest}" if len(domain) == 8 and domain.startswith("0000") else text
