"""What single fields cannot tell: contradictions between parts of the document, each as a finding with its path.

Checks take a ``Draft`` and are silent about what could not be read: that is reported already, and must not make
everything that refers to it look wrong too.
"""

from __future__ import annotations

from conf.checks.names import named_nodes, too_many_names
from conf.checks.nodes import check_nodes
from conf.checks.qos import check_qos
from conf.checks.rails import check_blocks, check_rails
from conf.checks.switches import check_switches
from conf.checks.types import check_types
from conf.draft import Draft
from conf.errors import Finding

__all__ = ["check"]


def check(draft: Draft) -> tuple[Finding, ...]:
    """Every contradiction in a draft."""
    findings = [*check_rails(draft), *check_qos(draft), *check_types(draft)]
    if excess := too_many_names(draft):
        return (*findings, excess)
    nodes = named_nodes(draft)
    findings += [*check_nodes(draft, nodes), *check_blocks(draft, nodes), *check_switches(draft, nodes)]
    return tuple(findings)
