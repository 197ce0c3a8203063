"""A RoCE NIC's ToS, ECN and DCQCN settings, which every driver shows elsewhere. One name for each, wherever it is.

Paths, the first that exists wins (``{net}`` netdev, ``{pci}`` address, ``{rdma}`` RDMA device, port 1):

=================  ==================================================================================================
``tos``            ``/sys/kernel/config/rdma_cm/{rdma}/ports/1/default_roce_tos`` (rdma_cm's configfs, any driver)
``mode``           ``…/default_roce_mode``: ``RoCE v2`` or ``IB/RoCE v1``
``traffic_class``  ``/sys/class/infiniband/{rdma}/tc/1/traffic_class`` (MLNX_OFED): overrides every program
``np.P``, ``rp.P`` ``/sys/class/net/{net}/ecn/roce_np/enable/P``, ``…/roce_rp/enable/P`` (MLNX_OFED), P a priority
``ecn``            bnxt_re out of tree ``…/cc/ecn_enable``; irdma ``/sys/kernel/config/irdma/{rdma}/roce_dcqcn_enable``
``cnp_dscp``       OFED ``…/roce_np/cnp_dscp``; mlx5 debugfs ``cc_params/np_cnp_dscp``; bnxt_re ``…/cc/cnp_dscp``
``cnp_prio``       OFED ``…/roce_np/cnp_802p_prio``; mlx5 ``cc_params/np_cnp_prio``; bnxt_re ``…/cc/cnp_prio``
``param.NAME``     OFED ``…/roce_rp/rpg_ai_rate`` and its like (NAME is the in-tree driver's: ``rp_ai_rate``); mlx5
                   ``/sys/kernel/debug/mlx5/{pci}/cc_params/NAME``; bnxt_re ``…/cc/NAME``
``trust``          ``/sys/class/net/{net}/qos/trust`` (MLNX_OFED): ``dscp`` or ``pcp``
=================  ==================================================================================================

Kernel documents: ``Documentation/ABI/testing/configfs-rdma_cm``; ``drivers/net/ethernet/mellanox/mlx5/core`` and
``drivers/infiniband/hw/mlx5/cong.c``. bnxt_re's ``cc`` folder is that of Broadcom's out-of-tree driver: what is
written there counts only after ``apply`` is written, and is read as hexadecimal by its older releases.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from host.errors import HostError

__all__ = ["BNXT_CC", "Place", "find", "names", "read", "reveal", "write"]

_RDMA_CM = "sys/kernel/config/rdma_cm/{rdma}"
_OFED = "sys/class/net/{net}/ecn"
_CC_PARAMS = "sys/kernel/debug/mlx5/{pci}/cc_params"
_OTHER_GROUPS = ("sys/kernel/config/irdma", "sys/kernel/config/bnxt_re")
BNXT_CC = "sys/kernel/config/bnxt_re/{rdma}/ports/1/cc"

_PATHS: dict[str, tuple[str, ...]] = {
    "tos": (f"{_RDMA_CM}/ports/1/default_roce_tos",),
    "mode": (f"{_RDMA_CM}/ports/1/default_roce_mode",),
    "traffic_class": ("sys/class/infiniband/{rdma}/tc/1/traffic_class",),
    "ecn": (f"{BNXT_CC}/ecn_enable", "sys/kernel/config/irdma/{rdma}/roce_dcqcn_enable"),
    "cnp_dscp": (f"{_OFED}/roce_np/cnp_dscp", f"{_CC_PARAMS}/np_cnp_dscp", f"{BNXT_CC}/cnp_dscp"),
    "cnp_prio": (f"{_OFED}/roce_np/cnp_802p_prio", f"{_CC_PARAMS}/np_cnp_prio", f"{BNXT_CC}/cnp_prio"),
    "trust": ("sys/class/net/{net}/qos/trust",),
}
_PER_PRIORITY = {"np": f"{_OFED}/roce_np/enable", "rp": f"{_OFED}/roce_rp/enable"}
_PARAMS = (_CC_PARAMS, BNXT_CC)
_OFED_PARAMS = {
    f"rp_{name}": f"{_OFED}/roce_rp/rpg_{name}"
    for name in (
        "time_reset",
        "byte_reset",
        "threshold",
        "ai_rate",
        "max_rate",
        "hai_rate",
        "min_dec_fac",
        "min_rate",
        "gd",
    )
} | {
    "rp_clamp_tgt_rate": f"{_OFED}/roce_rp/clamp_tgt_rate",
    "rp_clamp_tgt_rate_ati": f"{_OFED}/roce_rp/clamp_tgt_rate_after_time_inc",
    "rp_rate_to_set_on_first_cnp": f"{_OFED}/roce_rp/rate_to_set_on_first_cnp",
    "rp_dce_tcp_g": f"{_OFED}/roce_rp/dce_tcp_g",
    "rp_dce_tcp_rtt": f"{_OFED}/roce_rp/dce_tcp_rtt",
    "rp_rate_reduce_monitor_period": f"{_OFED}/roce_rp/rate_reduce_monitor_period",
    "rp_initial_alpha_value": f"{_OFED}/roce_rp/initial_alpha_value",
    "np_min_time_between_cnps": f"{_OFED}/roce_np/min_time_between_cnps",
}
"""OFED's files of the parameters that the in-tree driver has in debugfs, by the in-tree name."""
_WORD = re.compile(r"[A-Za-z0-9_]+")
_CLASS = re.compile(r"tclass=(-?[0-9]+)")


class Place(NamedTuple):
    """What the paths of one NIC are made of; empty for what it has not."""

    net: str
    pci: str
    rdma: str
    root: str = "/"


def names(place: Place) -> tuple[str, ...]:
    """Every setting that this NIC has here, sorted."""
    plain = [name for name in _PATHS if find(place, name)]
    numbered = [f"{kind}.{number}" for kind in _PER_PRIORITY for number in range(8) if find(place, f"{kind}.{number}")]
    return tuple(sorted({*plain, *numbered, *(f"param.{name}" for name in _parameters(place))}))


def _parameters(place: Place) -> Iterator[str]:
    yield from (name for name in _OFED_PARAMS if find(place, f"param.{name}"))
    for template in _PARAMS:
        folder = _fill(place, template)
        try:
            found = os.listdir(folder) if folder else []
        except OSError:
            continue
        yield from (name for name in found if _WORD.fullmatch(name) and name not in ("apply", "advanced"))


def find(place: Place, name: str) -> str | None:
    """The file of a setting; None where this NIC has none. ValueError for a name that no NIC has."""
    for template in _templates(name):
        path = _fill(place, template)
        if path and os.path.isfile(path):
            return path
    return None


def _templates(name: str) -> tuple[str, ...]:
    kind, dot, rest = name.partition(".")
    if not dot and name in _PATHS:
        return _PATHS[name]
    if kind in _PER_PRIORITY and rest.isdigit():
        return (f"{_PER_PRIORITY[kind]}/{rest}",)
    if kind == "param" and _WORD.fullmatch(rest):
        ofed = (_OFED_PARAMS[rest],) if rest in _OFED_PARAMS else ()
        return (*ofed, *(f"{folder}/{rest}" for folder in _PARAMS))
    raise ValueError(f"{name!r} is no setting of a RoCE NIC")


def _fill(place: Place, template: str) -> str | None:
    values = {"net": place.net, "pci": place.pci, "rdma": place.rdma}
    needed = re.findall(r"\{(\w+)\}", template)
    if any(not values[each] or "/" in values[each] or values[each] in (".", "..") for each in needed):
        return None
    return os.path.join(place.root, template.format(**values))


def read(place: Place, name: str) -> str | None:
    """A setting as text; None where the NIC has none or does not tell. OFED's ``traffic_class`` is its number alone,
    and None while none is set."""
    path = find(place, name)
    if path is None:
        return None
    try:
        with open(path) as file:
            text = file.read().strip()
    except OSError:
        return None
    if name == "traffic_class":
        found = _CLASS.search(text)
        return found[1] if found and int(found[1]) >= 0 else None
    return text


def write(place: Place, name: str, value: str) -> None:
    """Write a setting. rdma_cm's folder of the device is made first: it appears only on request.

    HostError where this NIC has no such setting, or refuses.
    """
    if name in ("tos", "mode"):
        _make(place)
    path = find(place, name)
    if path is None:
        raise HostError(f"write {value} to", f"{name} of {place.net or place.rdma}", 2, "this NIC has no such setting")
    if "/bnxt_re/" not in path or "/cc/" not in path:
        _write(path, value)
        return
    _write(path, hex(int(value)))
    _write(os.path.join(os.path.dirname(path), "apply"), "0x1")


def reveal(place: Place) -> None:
    """Make the device's folders in configfs, so that their settings can be read: rdma_cm's, and irdma's or bnxt_re's
    where the driver has any. It changes no setting. HostError where rdma_cm's cannot be made."""
    if not place.rdma:
        return
    for group in _OTHER_GROUPS:
        parent = os.path.join(place.root, group)
        if os.path.isdir(parent) and "/" not in place.rdma:
            with suppress(OSError):  # the group of another driver takes no device that is not its own
                os.mkdir(os.path.join(parent, place.rdma), 0o755)
    _make(place)


def _make(place: Place) -> None:
    folder = _fill(place, _RDMA_CM)
    if folder is None or os.path.isdir(folder):
        return
    try:
        os.mkdir(folder, 0o755)
    except FileExistsError:
        return
    except OSError as error:
        detail = "is configfs mounted and the module rdma_cm loaded?"
        raise HostError("make", folder, error.errno or 0, detail) from error


def _write(path: str, value: str) -> None:
    """In one write, and nothing is made: a debugfs file cannot seek, so no buffered file of Python's will do."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)
    except OSError as error:
        raise HostError(f"write {value} to", path, error.errno or 0) from error
