"""The six verbs against a real kernel, as a runtime calls them."""

from __future__ import annotations

from tests.world import Host, World


def test_add_then_del_leaves_host_and_pod_as_they_were(world: World, host: Host) -> None:
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    added = host.call("ADD", host.conf(), netns=pod)
    assert added.code == 0, added
    assert [each["name"] for each in added.body["interfaces"]] == ["rail0", "rail1"]
    assert host.call("DEL", host.conf(), netns=pod) == (0, None, "")
    assert (host.ns.snapshot(), pod.snapshot()) == before


def test_check_passes_after_add_and_names_a_lost_rule(world: World, host: Host) -> None:
    pod = world.ns("pod")
    added = host.call("ADD", host.conf(), netns=pod)
    conf = host.conf(prevResult=added.body)
    assert host.call("CHECK", conf, netns=pod).code == 0
    pod.ip("rule", "del", "table", "1001")
    answer = host.call("CHECK", conf, netns=pod)
    assert answer.error == 100
    assert "lookup 1001" in answer.body["details"]
