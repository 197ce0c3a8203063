"""ipvlan, dummy, vrf and vlan: kinds of link that only a real kernel has."""

from __future__ import annotations

import pytest

from tests.lab.guest.kit import link, names, namespace, sh, wait_until


def test_ipvlan_slaves_are_made_in_a_namespace_and_deleted_as_a_group() -> None:
    with namespace() as pod:
        for number in range(4):
            sh(*f"ip link add rw{number} group 77 link sim0 netns {pod} type ipvlan mode l2".split())
        assert {f"rw{number}" for number in range(4)} <= names(pod)
        assert link("rw0", ns=pod)["linkinfo"]["info_data"]["mode"] == "l2"
        assert link("rw0", ns=pod)["address"] == link("sim0")["address"]
        sh("ip", "-n", pod, "link", "delete", "group", "77")
        wait_until(lambda: names(pod) == {"lo"})


@pytest.mark.parametrize("kind", ["dummy", "vrf table 77", "vlan id 7"])
def test_other_kinds(kind: str) -> None:
    parent = ["link", "sim0"] if kind.startswith("vlan") else []
    sh("ip", "link", "add", *parent, "name", "rwkind", "type", *kind.split())
    assert link("rwkind")["linkinfo"]["info_kind"] == kind.split()[0]
    sh("ip", "link", "delete", "rwkind")
