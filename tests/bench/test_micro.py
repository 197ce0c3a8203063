"""pytest-benchmark: the pure parts on their own."""

from __future__ import annotations

from typing import Any

import pytest

from cni.ipam import next_free
from cni.netconf import parse
from host import link

pytestmark = pytest.mark.bench


def _conf(rails: int) -> dict[str, Any]:
    return {
        "cniVersion": "1.1.0",
        "name": "pods",
        "type": "roceway-cni",
        "attach": "always",
        "rails": [
            {"name": f"rail{i}", "netdev": f"nic{i}", "ipam": {"ranges": [{"subnet": f"10.{i}.0.0/24"}]}}
            for i in range(rails)
        ],
    }


@pytest.mark.parametrize("rails", [8, 64])
def test_parsing_a_configuration(benchmark: Any, rails: int) -> None:
    conf = _conf(rails)
    assert len(benchmark(parse, conf, "1.1.0").rails) == rails


def test_next_free_address_behind_ten_thousand_leases(benchmark: Any) -> None:
    taken = range(1, 10_001)

    def held(low: int, high: int) -> range:
        return range(max(low, taken.start), min(high + 1, taken.stop))

    assert benchmark(next_free, [(1, 65_000)], None, held) == 10_001


def test_encoding_a_link_creation(benchmark: Any) -> None:
    request = benchmark(link.create, "rail0", "macvlan", 7, netns_fd=5, mtu=9000, group=1)
    assert len(request.body) % 4 == 0
