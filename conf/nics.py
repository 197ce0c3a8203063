"""``qos.nics`` and ``nodeTypes.*.nics``: what the rails' NICs are given besides their classes. All is optional."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, WithJsonSchema, model_serializer

from conf.base import Block, Whole, merge
from conf.findings import did_you_mean
from conf.units import Bytes, Speed

__all__ = ["PARAMETERS", "Buffers", "MaxRates", "Nics", "Sysctls", "overlaid"]

PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "mlx5_core": (
        "rp_clamp_tgt_rate", "rp_clamp_tgt_rate_ati", "rp_time_reset", "rp_byte_reset", "rp_threshold", "rp_ai_rate",
        "rp_max_rate", "rp_hai_rate", "rp_min_dec_fac", "rp_min_rate", "rp_rate_to_set_on_first_cnp", "rp_dce_tcp_g",
        "rp_dce_tcp_rtt", "rp_rate_reduce_monitor_period", "rp_initial_alpha_value", "rp_gd",
        "np_min_time_between_cnps",
    ),
    "bnxt_en": (
        "cc_mode", "ecn_marking", "disable_prio_vlan_tx", "g", "init_cr", "init_tr", "rtt", "inact_th", "inact_th_hi",
        "min_time_bet_cnp", "init_cp", "tr_update_mode", "tr_update_cyls", "fr_num_rtts", "ai_rate_incr",
        "red_rel_rtts_th", "act_rel_cr_th", "cr_min_th", "bw_avg_weight", "act_cr_factor", "max_cp_cr_th",
        "cp_bias_en", "cp_bias", "cnp_ecn", "rtt_jitter_en", "lbytes_per_usec", "reset_cc_cr_th", "cr_width",
        "min_quota", "max_quota", "abs_max_quota", "tr_lb", "cr_prob_fac", "tr_prob_fac", "fair_cr_th", "red_div",
        "cnp_ratio_th", "exp_ai_rtts", "exp_crcp_ratio", "rt_en", "cp_exp_update_th", "ai_rtt_th1", "ai_rtt_th2",
        "cf_rtt_th", "sc_cr_th1", "sc_cr_th2", "l64B_per_rtt", "cc_ack_bytes", "reduce_cf_rtt_th",
    ),
}  # fmt: skip
"""DCQCN's parameters by driver, under its own names: mlx5's ``cc_params`` (drivers/infiniband/hw/mlx5/cong.c), and the
``cc`` folder of Broadcom's out-of-tree bnxt_re. DSCP and priority of CNPs are not among them: they are ``qos.cnp``."""

_ALL = tuple(name for names in PARAMETERS.values() for name in names)
_LEAST_BUFFER = 1024


def _parameter(name: str) -> str:
    if name not in _ALL:
        raise ValueError(f"{name[:60]} is no DCQCN parameter{did_you_mean(name, _ALL)}")
    return name


Parameter = Annotated[
    str, AfterValidator(_parameter), WithJsonSchema({"type": "string", "enum": list(_ALL)}, mode="validation")
]


class Buffers(Block):
    """Sizes of a NIC's receive buffers: one for each lossless priority, and one for all others."""

    lossless: Bytes = Field(ge=_LEAST_BUFFER)
    """Of each lossless priority's buffer: room before the pause, and headroom after it."""
    rest: Bytes = Field(ge=_LEAST_BUFFER)
    """Of the first buffer, which every other priority uses."""


class _Sparse(Block):
    """Written as it was read: what was left out stays left out."""

    @model_serializer(mode="wrap")
    def _what_is_written(self, handler: Any) -> dict[str, Any]:
        written: dict[str, Any] = handler(self)
        return {key: value for key, value in written.items() if value is not None}


class MaxRates(_Sparse):
    """Highest transmit rate of each class; what is left out has no limit."""

    lossless: Speed | None = Field(default=None, ge=1)
    """Of each lossless class."""
    cnp: Speed | None = Field(default=None, ge=1)
    """Of the class of CNPs."""
    rest: Speed | None = Field(default=None, ge=1)
    """Of everything else."""


class Sysctls(_Sparse):
    """net.ipv4.conf.<NIC>.*, under the kernel's names. The kernel goes by the larger of this and conf.all."""

    arp_ignore: Whole | None = Field(default=None, ge=0, le=8, alias="arp_ignore")
    """1: answers ARP only for addresses of this NIC, as two rails in one subnet need."""
    arp_announce: Whole | None = Field(default=None, ge=0, le=2, alias="arp_announce")
    """2: asks by the address that belongs to this NIC."""
    rp_filter: Whole | None = Field(default=None, ge=0, le=2, alias="rp_filter")
    """Reverse-path filter: 0 off, 1 strict, 2 loose."""


class Nics(_Sparse):
    """Further settings of the rails' NICs; what is left out is left as it is on the host."""

    buffers: (
        Annotated[
            Annotated[Literal["auto"], Tag("<word>")] | Annotated[Buffers, Tag("<map>")],
            Discriminator(lambda value: "<word>" if isinstance(value, str) else "<map>"),
        ]
        | None
    ) = None
    """Receive buffers; auto: at least the headroom that speed, cable and MTU call for."""
    max_rates: MaxRates | None = None
    """Highest transmit rates by class; {}: none."""
    dcqcn: Mapping[Parameter, Annotated[Whole, Field(ge=0, le=(1 << 32) - 1)]] | None = None
    """Parameters of DCQCN, under the names of the driver."""
    sysctls: Sysctls | None = None
    """ARP and reverse-path settings of the NICs."""


def overlaid(base: Nics, own: Nics | None) -> Nics:
    """``base`` with what ``own`` says put in its place, field by field: the fabric's settings and a node type's."""
    if own is None:
        return base
    one, other = (each.model_dump(by_alias=True, exclude_unset=True) for each in (base, own))
    return Nics.model_validate(merge(one, other))
