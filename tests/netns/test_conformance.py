"""Every verb in every version of the specification, alone and chained after the reference bridge plugin."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.netns.support import EMPTY, added, call, deleted, rows
from tests.world import CNI_PLUGINS, PLUGIN, Answer, Host, Ns, World

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
BRIDGE = CNI_PLUGINS / "bridge"


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


def bridge_conf(host: Host, version: str) -> dict[str, Any]:
    """The primary network: addresses of both families, a default route, no masquerading."""
    return {
        "cniVersion": version,
        "name": "pods",
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "ipam": {
            "type": "host-local",
            "dataDir": str(host.world.folder / "host-local"),
            "ranges": [[{"subnet": "172.30.0.0/24"}], [{"subnet": "fd00:30::/64"}]],
            "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}, {"dst": "10.96.0.0/12", "gw": "172.30.0.9"}],
        },
    }


class Chain:
    """A pod with the primary network, as libcni would have left it before calling us."""

    def __init__(self, host: Host, pod: Ns, version: str) -> None:
        self.host, self.pod, self.version = host, pod, version
        self.result = self.primary("ADD").body

    def primary(self, verb: str) -> Answer:
        answer = self.host.call(verb, bridge_conf(self.host, self.version), netns=self.pod, program=[str(BRIDGE)])
        assert answer.code == 0, answer
        return answer

    def eth0(self) -> str:
        """What `ip` says of the primary interface and of the main table."""
        words = (
            ("-4", "addr", "show", "dev", "eth0"),
            ("-6", "addr", "show", "dev", "eth0", "scope", "global"),
            ("-4", "route", "show", "dev", "eth0"),
            ("-6", "route", "show", "dev", "eth0"),
            ("-4", "route", "show", "table", "main"),
        )
        lines = "".join(self.pod.ip(*each) for each in words).splitlines()
        return "\n".join(line for line in lines if " dev rail" not in line)

    def conf(self, **extra: Any) -> dict[str, Any]:
        return self.host.conf(version=self.version, prevResult=self.result, **extra)


@pytest.fixture(params=[version for version in VERSIONS if version != "1.1.0"])
def chained(host: Host, pod: Ns, request: pytest.FixtureRequest) -> Chain:
    """Debian 12's reference plugins end with 1.0.0."""
    if not BRIDGE.exists():
        pytest.skip(f"{BRIDGE}: the reference plugins are not installed")
    return Chain(host, pod, request.param)


def test_chained_the_primary_result_comes_first_and_unchanged(chained: Chain) -> None:
    before = chained.result
    result = added(chained.host, chained.conf(), netns=chained.pod)
    count = len(before["interfaces"])
    assert result["interfaces"][:count] == before["interfaces"]
    assert result["ips"][: len(before["ips"])] == before["ips"]
    assert result["routes"] == before["routes"]
    assert result["dns"] == before["dns"]
    assert result["cniVersion"] == chained.version
    ours = result["ips"][len(before["ips"]) :]
    assert [result["interfaces"][ip["interface"]]["name"] for ip in ours] == ["rail0", "rail1"]


def test_chained_eth0_stays_as_it_was_through_add_check_and_del(chained: Chain) -> None:
    before, links = chained.eth0(), chained.pod.snapshot()
    result = added(chained.host, chained.conf(), netns=chained.pod)
    assert chained.eth0() == before
    if chained.version >= "0.4.0":
        conf = chained.host.conf(version=chained.version, prevResult=result)
        assert call(chained.host, "CHECK", conf, netns=chained.pod) == (0, None, "")
        assert chained.eth0() == before
    deleted(chained.host, chained.conf(), netns=chained.pod)
    assert chained.eth0() == before
    assert chained.pod.snapshot() == links
    chained.primary("DEL")
    assert rows(chained.host) == EMPTY


def test_chained_the_primary_plugin_may_go_first(chained: Chain) -> None:
    """DEL runs in reverse; a runtime that lost count must not leave anything either."""
    added(chained.host, chained.conf(), netns=chained.pod)
    chained.primary("DEL")
    deleted(chained.host, chained.conf(), netns=chained.pod)
    assert {each["ifname"] for each in chained.pod.json("link", "show")} == {"lo"}


@pytest.mark.parametrize("version", VERSIONS)
def test_the_life_of_a_pod_in_every_version(host: Host, pod: Ns, version: str) -> None:
    """As processes: what the runtime really sees on stdout and in the exit code."""
    conf = host.conf(version=version)
    before = pod.snapshot()
    answer = host.call("ADD", conf, netns=pod)
    assert answer.code == 0, answer
    assert answer.body["cniVersion"] == version
    interfaces = answer.body["interfaces"]
    keys = {"name", "mac", "sandbox"} | ({"mtu"} if version == "1.1.0" else set())
    assert [set(each) for each in interfaces] == [keys, keys]
    assert [each["sandbox"] for each in interfaces] == [pod.path, pod.path]
    shown = {each["ifname"]: each for each in pod.json("link", "show")}
    assert [each["mac"] for each in interfaces] == [shown["rail0"]["address"], shown["rail1"]["address"]]
    family = {"version": "4"} if version < "1.0.0" else {}
    assert answer.body["ips"] == [
        {**family, "address": f"10.20{n}.0.2/24", "interface": n, "gateway": f"10.20{n}.0.1"} for n in (0, 1)
    ]
    check = host.call("CHECK", {**conf, "prevResult": answer.body}, netns=pod)
    assert (check.error, check.body is None) == ((1, False) if version < "0.4.0" else (0, True))
    for verb in ("STATUS", "GC"):
        asked = host.call(verb, {**conf, "cni.dev/valid-attachments": [{"containerID": "c1", "ifname": "eth0"}]})
        assert (asked.error, asked.body is None) == ((1, False) if version < "1.1.0" else (0, True))
    assert host.call("DEL", {**conf, "prevResult": answer.body}, netns=pod) == (0, None, "")
    assert pod.snapshot() == before


@pytest.mark.parametrize("asked", [*VERSIONS, "9.9.9", None])
def test_version_echoes_what_it_knows(host: Host, asked: str | None) -> None:
    stdin = json.dumps({"cniVersion": asked}) if asked else ""
    answer = host.call("VERSION", stdin)
    assert answer.code == 0
    known = asked if asked in VERSIONS else "1.1.0"
    assert answer.body == {"cniVersion": known, "supportedVersions": list(VERSIONS)}


def test_a_repeated_add_gives_the_same_answer_and_changes_nothing(host: Host, pod: Ns) -> None:
    first = added(host, host.conf(), netns=pod)
    before = pod.snapshot(), rows(host)
    assert added(host, host.conf(), netns=pod) == first
    assert (pod.snapshot(), rows(host)) == before


def test_a_repeated_add_without_a_carrier_changes_nothing(world: World, host: Host, pod: Ns) -> None:
    first = added(host, host.conf(), netns=pod)
    world.fabric.ip("link", "set", f"h{host.number}r0", "down")
    before = pod.json("link", "show", "rail0")[0]["ifindex"]
    assert added(host, host.conf(), netns=pod) == first
    assert pod.json("link", "show", "rail0")[0]["ifindex"] == before


def test_a_repeated_add_mends_what_was_lost_and_keeps_the_addresses(host: Host, pod: Ns) -> None:
    first = added(host, host.conf(), netns=pod)
    pod.ip("link", "del", "rail0")
    pod.ip("rule", "del", "table", "1001")
    again = added(host, host.conf(), netns=pod)
    assert again["ips"] == first["ips"]
    assert call(host, "CHECK", host.conf(prevResult=again), netns=pod).code == 0
    deleted(host, host.conf(), netns=pod)
    assert rows(host) == EMPTY


def test_input_that_is_no_utf8_is_answered_as_undecodable(host: Host, world: World) -> None:
    name = world.folder / "stdin"
    name.write_bytes(b'{"cniVersion": "1.1.0", "name": "\xff\xfe"}')
    answer = host.call("VERSION", "", program=["sh", "-c", f"exec {' '.join(PLUGIN)} < {name}"])
    assert answer.error == 6, answer
