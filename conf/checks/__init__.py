"""What single fields cannot tell: contradictions between parts of the document, each as a finding with its path.

Checks take a ``Draft`` and are silent about what could not be read: that is reported already, and must not make
everything that refers to it look wrong too.
"""

from __future__ import annotations

from collections.abc import Iterator

from conf.checks.names import named_nodes, too_many_names
from conf.checks.nics import check_nics
from conf.checks.nodes import check_nodes
from conf.checks.qos import check_qos
from conf.checks.rails import check_blocks, check_rails
from conf.checks.switches import check_switches
from conf.checks.types import check_types
from conf.draft import Draft
from conf.errors import Finding

__all__ = ["check"]


def check(draft: Draft) -> Iterator[Finding]:
    """Every contradiction in a draft."""
    yield from check_rails(draft)
    yield from check_qos(draft)
    yield from check_types(draft)
    yield from check_nics(draft)
    if excess := too_many_names(draft):
        yield excess
        return
    nodes = named_nodes(draft)
    yield from check_nodes(draft, nodes)
    yield from check_blocks(draft, nodes)
    yield from check_switches(draft, nodes)
