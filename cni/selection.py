"""Which rails a pod gets. Pure.

``attach: always`` gives every pod all rails; ``auto`` gives rails only to a pod that asks. A pod asks, or declines, by
the annotation ``roceway.io/rails`` (``all``, ``none``, or names separated by commas), which the runtime hands over
where the capability io.kubernetes.cri.pod-annotations is declared: no API server is asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from cni.netconf import NetConf, Rail
from conf.errors import ConfigError, Finding

__all__ = ["ANNOTATION", "CAPABILITY", "select"]

CAPABILITY = "io.kubernetes.cri.pod-annotations"
ANNOTATION = "roceway.io/rails"


def select(conf: NetConf) -> tuple[tuple[Rail, ...], str]:
    """The rails for this pod, in the configuration's order, and why."""
    annotations = conf.runtime_config.get(CAPABILITY)
    asked = annotations.get(ANNOTATION) if isinstance(annotations, Mapping) else None
    if asked is None:
        always = conf.attach == "always"
        return (conf.rails if always else ()), f"attach: {conf.attach}, no annotation {ANNOTATION}"
    why = f"annotation {ANNOTATION}: {asked}"
    if asked == "none":
        return (), why
    if asked == "all":
        return conf.rails, why
    names = [name.strip() for name in str(asked).split(",")]
    known = {rail.name for rail in conf.rails}
    unknown = [name for name in names if name not in known]
    if unknown:
        finding = Finding(ANNOTATION, f"unknown rails {', '.join(unknown)}; this node has {', '.join(sorted(known))}")
        raise ConfigError("pod annotation", [finding])
    return tuple(rail for rail in conf.rails if rail.name in names), why
