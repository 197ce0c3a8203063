"""A slice's GPU, from a library that answers as NVIDIA's does: no machine here has one with slices."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from host import nvml

# nvmlPciInfo_t of nvml.h (API 12): its layout comes from the header's own declaration, compiled by a C compiler.
SOURCE = r"""
#include <string.h>
typedef struct
{ char busIdLegacy[16]; unsigned domain, bus, device, pciDeviceId, pciSubSystemId; char busId[32]; } info_t;
static int on = 0;
int nvmlInit_v2(void) { on = 1; return 0; }
int nvmlShutdown(void) { on = 0; return 0; }
int nvmlDeviceGetHandleByUUID(const char *uuid, void **device)
{ *device = (void *)0x1111; return on && !strcmp(uuid, "MIG-known") ? 0 : 6; }
int nvmlDeviceGetDeviceHandleFromMigDeviceHandle(void *slice, void **gpu)
{ *gpu = (void *)0x2222; return slice == (void *)0x1111 ? 0 : 2; }
int nvmlDeviceGetPciInfo_v3(void *gpu, info_t *info)
{ memset(info, 0xff, sizeof *info); strcpy(info->busIdLegacy, "0000:99:00.0"); strcpy(info->busId, "00000000:1B:00.0");
  return gpu == (void *)0x2222 ? 0 : 2; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler")
    folder: Path = tmp_path_factory.mktemp("nvml")
    (folder / "nvml.c").write_text(SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "n.so", folder / "nvml.c"], check=True, timeout=60)
    return str(folder / "n.so")


def test_a_slice_has_its_gpus_address_as_the_kernel_writes_it(library: str) -> None:
    assert nvml.parent_of("MIG-known", library) == "0000:1b:00.0"


def test_an_unknown_slice_and_a_missing_library_say_nothing(library: str) -> None:
    assert nvml.parent_of("MIG-unknown", library) == ""
    assert nvml.parent_of("MIG-known", "/nonexistent/libnvidia-ml.so.1") == ""
