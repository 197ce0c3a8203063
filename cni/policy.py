"""What to do about a pod whose GPUs and rails do not belong together. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from cni.podconf import Policy
from cni.topology import Assignment, Distance, Gpu
from conf.errors import Finding

__all__ = ["Policy", "Verdict", "check_policy", "pod_rails"]


_LOST = "no driver on this machine knows a GPU of this name, so no rail can be found for it"


class Verdict(NamedTuple):
    """What the policy says about one pod. It may start where ``refusals`` is empty."""

    refusals: tuple[Finding, ...]
    warnings: tuple[Finding, ...]


def pod_rails(pod_gpus: Collection[str], assignments: Iterable[Assignment]) -> tuple[Assignment, ...]:
    """The rails that belong to a pod's GPUs, given by PCI address or by UUID."""
    return tuple(each for each in assignments if each.gpu and _is_among(each.gpu, pod_gpus))


def _is_among(gpu: Gpu, names: Collection[str]) -> bool:
    return gpu.pci in names or bool(gpu.uuid and gpu.uuid in names)


def check_policy(
    pod_gpus: Collection[str],
    taken: Collection[str],
    assignments: Iterable[Assignment],
    policy: Policy = Policy(),  # noqa: B008 - a NamedTuple cannot change
    lost: Collection[str] = (),
) -> Verdict:
    """What is wrong with a pod that has these GPUs (PCI addresses or UUIDs) and takes the rails ``taken``.

    ``lost`` are GPUs of the pod by names that this machine's drivers do not know.
    """
    everything = tuple(assignments)
    own = pod_rails(pod_gpus, everything)
    refusals: list[Finding] = []
    warnings: list[Finding] = []
    for rule, findings in (
        (policy.missing, [Finding(f"GPU {name}", _LOST) for name in sorted(lost)] + _missing(pod_gpus, taken, own)),
        (policy.foreign, _foreign(taken, own, everything)),
        (policy.far, _far([each for each in own if each.rail in taken], policy.farthest)),
    ):
        if rule == "refuse":
            refusals += findings
        elif rule == "warn":
            warnings += findings
    return Verdict(tuple(refusals), tuple(warnings))


def _missing(pod_gpus: Collection[str], taken: Collection[str], own: Sequence[Assignment]) -> list[Finding]:
    served = {name for each in own if each.gpu for name in (each.gpu.pci, each.gpu.uuid)}
    findings = [Finding(f"GPU {name}", "has no rail on this node") for name in sorted(set(pod_gpus) - served)]
    left = [each for each in own if each.rail not in taken]
    return findings + [Finding(str(each.gpu), f"its rail {each.rail} is not one of the pod's") for each in left]


def _foreign(taken: Collection[str], own: Sequence[Assignment], everything: Sequence[Assignment]) -> list[Finding]:
    """Rails of other GPUs. A rail without a GPU (fewer GPUs than NICs) is nobody's and free to take."""
    others = [each for each in everything if each.gpu and each.rail in taken and each not in own]
    return [Finding(f"rail {each.rail}", f"belongs to {each.gpu}, which the pod does not have") for each in others]


def _far(own: Sequence[Assignment], farthest: int) -> list[Finding]:
    findings = []
    for each in own:
        if each.distance is None or each.nearest is None:
            continue
        far = f"{each.nic} is {each.distance.name} from {each.gpu}"
        if each.distance > farthest:
            findings.append(Finding(f"rail {each.rail}", f"{far}; the policy allows {Distance(farthest).name}"))
        elif each.distance > each.nearest:
            findings.append(Finding(f"rail {each.rail}", f"{far}, which has a NIC at {each.nearest.name}"))
    return findings
