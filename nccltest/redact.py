"""Secrets out of whatever is read: logs, ``-J`` files and environments hold tokens. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

__all__ = ["kept_environment", "printable", "redact"]

HIDDEN = "[redacted]"

_KEY = (
    r"[\w.-]{0,64}(?:secret|token|passw|passphrase|passwd|pwd|credential|cred|api[_-]?key|access[_-]?key|private[_-]?key"
    r"|auth|cookie|bearer|signature|conn(?:ection)?[_-]?str)[\w.-]{0,64}"
)
_VALUE = r"""(?:"[^"]{0,4096}"|'[^']{0,4096}'|[^\s,;"']{1,4096})"""
_RULES = (
    # user:password@ in an address
    (re.compile(r"(?<=://)[^\s/@:]{1,256}:[^\s/@]{1,256}(?=@)"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{8,4096}"), rf"\1 {HIDDEN}"),
    # KEY=value, KEY: value, "key": "value", --key value
    (re.compile(rf"(?i)((?<![\w.-]){_KEY}[\"']?\s{{0,3}}[=:]\s{{0,3}}){_VALUE}"), rf"\1{HIDDEN}"),
    (re.compile(rf"(?i)((?<![\w.-])--?{_KEY}\s{{1,3}})(?!-)[^\s]{{1,4096}}"), rf"\1{HIDDEN}"),
    (re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"), HIDDEN),
    (re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,255}\b"), HIDDEN),
    (re.compile(r"\beyJ[\w-]{8,4096}\.[\w-]{8,4096}\.[\w-]{0,4096}"), HIDDEN),
)
_HINT = re.compile(
    r"(?i)secret|token|passw|passphrase|pwd|cred|key|auth|cookie|bearer|basic|signature|conn|://|akia|asia|gh[pousr]_|eyj"
)

_KEPT = (
    *("NCCL_", "RCCL_", "UCX_", "OMPI_MCA_", "PMIX_MCA_", "FI_", "RDMAV_", "MLX5_", "IBV_", "HSA_", "SHARP_"),
    *("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TORCH_NCCL_", "LD_LIBRARY_PATH"),
    *("SLURM_NNODES", "SLURM_NTASKS", "SLURM_JOB_NUM_NODES", "OMP_NUM_THREADS"),
)
"""What changes a measurement. An environment's other variables are nobody's business here."""
_LONGEST = 1024


def redact(text: str) -> str:
    """The text with the values of what is named like a secret, or looks like one, replaced."""
    if _HINT.search(text) is None:
        return text
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def printable(text: str) -> str:
    """The text with its control characters as question marks: a log must not steer the terminal of its reader."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


def kept_environment(variables: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Of ``NAME=value`` words those that change a measurement, sorted; secrets among them hidden, lengths bounded."""
    kept = {}
    for variable in variables:
        name, equals, value = variable.partition("=")
        if equals and name.startswith(_KEPT):
            shown = redact(f"{name}={value[:_LONGEST]}").removeprefix(f"{name}=")
            kept[printable(name[:_LONGEST])] = printable(shown)
    return tuple(sorted(kept.items()))
