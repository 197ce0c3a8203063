"""ipvlan, dummy, vrf and vlan: kinds of link that this machine's own kernel may not have.

tests/netns runs its kills and faults in every mode that its kernel has; here the main ones run in mode ipvlan with one
rail. All of them, with two rails and both families, take six minutes in this machine, and passed.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cni import apply
from host import addr, rule
from host import link as link_door
from host.inet import AF_INET
from host.netlink import Route
from tests.lab.guest.kit import link, names, namespace, sh, wait_until
from tests.netns.faults import Point, refusing
from tests.netns.support import call, deleted, rows, within
from tests.netns.test_kill import Scene, deaths
from tests.world import World


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


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    """One for all tests: each leaves it as found."""
    with World(rails=2) as world:
        made = Scene(world, "ipvlan")
        del made.conf["rails"][1]
        yield made
        assert made.leftovers() == ""


def seen(scene: Scene) -> list[object]:
    """What an attachment changes, read in this process: the guest starts others slowly."""
    found: list[object] = [rows(scene.host)]
    for space in (scene.host.ns, scene.pod):
        with within(space), Route() as connection:
            names = [(each.name, each.mac, each.mtu, each.up) for each in link_door.devices(connection)]
            wide = [
                each for each in addr.addresses(connection) if each.scope == 0
            ]  # link-local ones come by themselves
            found += [names, wide, rule.rules(connection, AF_INET)]
    return found


def test_a_killed_add_is_put_right_by_a_del(scene: Scene) -> None:
    before = seen(scene)
    for at in deaths(scene, "ADD", Point(apply.Kernel, "run", after=False)):
        deleted(scene.host, scene.conf, netns=scene.pod)
        assert seen(scene) == before, f"killed at step {at}"
    deleted(scene.host, scene.conf, netns=scene.pod)


def test_a_killed_del_is_put_right_by_another(scene: Scene) -> None:
    before = seen(scene)
    assert call(scene.host, "ADD", scene.conf, netns=scene.pod).code == 0
    for at in deaths(scene, "DEL", Point(apply.Kernel, "run", after=False)):
        deleted(scene.host, scene.conf, netns=scene.pod)
        assert seen(scene) == before, f"killed at step {at}"
        assert call(scene.host, "ADD", scene.conf, netns=scene.pod).code == 0
    deleted(scene.host, scene.conf, netns=scene.pod)


@pytest.mark.parametrize("undo_too", [False, True])
def test_a_refused_step_leaves_nothing_behind_whichever_it_is(scene: Scene, undo_too: bool) -> None:
    before, at = seen(scene), 1
    while True:
        with refusing(at, undo_too=undo_too) as tally:
            answer = call(scene.host, "ADD", scene.conf, netns=scene.pod)
        if answer.code == 0:
            break
        assert answer.error == 5, answer
        assert answer.body["msg"].startswith(f"injected {tally.seen[at - 1]}:"), answer
        if undo_too:  # the journal stays for a DEL
            deleted(scene.host, scene.conf, netns=scene.pod)
        assert seen(scene) == before, f"step {at}: {tally.seen[at - 1]}"
        at += 1
    assert at > 6
    deleted(scene.host, scene.conf, netns=scene.pod)
