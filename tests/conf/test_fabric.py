from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conf.errors import ConfigError
from conf.fabric import Fabric, load, parse
from tests.conf.documents import document, fabric, findings, findings_of, rail

DESIGN = """
apiVersion: roceway/v1
kind: Fabric
metadata: {name: cluster-a}
rails:
  - {name: rail0, subnet: 10.200.0.0/16, nodeBlock: 27}     # each node gets the nth /27 of every rail
  - {name: rail1, subnet: 10.201.0.0/16, nodeBlock: 27}
qos:
  profile: lossless-dscp                                     # conf/profiles/; any field below overrides it
  lossless: {priority: 3, dscp: 26, bandwidth: 50%}
  cnp: {priority: 6, dscp: 48, scheduling: strict}
  ecn: {enabled: true, kmin: 1MiB, kmax: 2MiB, pmax: 5%}
  mtu: 9000
nodeTypes:
  hgx-h100: {driver: mlx5_core, speed: 400G, mode: host-device, cable: 3m,
             rails: {rail0: "0000:18:00.0", rail1: "0000:2a:00.0"}}   # or rails: auto
nodes:
  - {match: "gpu-[001-064]", type: hgx-h100, firstIndex: 0}
switches:
  - {name: leaf-r0, platform: sonic, role: leaf, source: {file: switches/leaf-r0.json},
     ports: {"Ethernet[0-252:4]": "gpu-[001-064]/rail0"}}
probe: {schedule: "0 * * * *", sizes: [1GiB, 4GiB, 8GiB], launcher: kubernetes, budget: {gpuSecondsPerDay: 86}}
"""


def node_type(**fields: Any) -> dict[str, Any]:
    """``nodeTypes`` of the test document with fields of its one type replaced."""
    base = {"speed": "100G", "mode": "macvlan", "rails": {"rail0": "eth2", "rail1": "eth3"}}
    return {"gpu": base | fields}


def switch(**fields: Any) -> list[dict[str, Any]]:
    """``switches`` with one leaf."""
    return [{"name": "leaf0", "platform": "sonic", "role": "leaf"} | fields]


def test_the_designs_example_is_read_in_fixed_units() -> None:
    cluster = parse(DESIGN)
    kind = cluster.node_types["hgx-h100"]
    assert (kind.speed, kind.cable) == (400_000, 3.0)
    assert (cluster.qos.ecn.kmin, cluster.qos.ecn.pmax, cluster.qos.lossless.bandwidth) == (1 << 20, 5.0, 50)
    assert cluster.probe.sizes == (1 << 30, 4 << 30, 8 << 30)
    attachments = list(cluster.switches[0].attachments())
    assert attachments[63] == ("Ethernet252", "gpu-064", "rail0")


def test_a_fabric_written_out_is_the_same_fabric() -> None:
    for cluster in (parse(DESIGN), fabric()):
        assert parse(json.dumps(cluster.model_dump(mode="json", exclude_none=True))) == cluster


def test_what_is_left_out_has_its_default() -> None:
    cluster = fabric()
    assert cluster.cni.model_dump() == {
        "attach": "auto",
        "policy": {"missing": "refuse", "foreign": "warn", "far": "warn", "farthest": "NODE", "unknown": "refuse"},
        "routing": {"tableBase": 1000},
        "resultIPs": "all",
        "nccl": {"crossNic": 0, "socketInterface": "eth0"},
        "stateDir": "/var/lib/roceway",
        "runDir": "/run/roceway/pods",
        "kubeletDir": "/var/lib/kubelet",
        "agent": "/run/roceway/agent.sock",
        "network": None,
    }
    assert cluster.probe.launcher == "mpirun"
    assert cluster.qos.profile == "lossless-dscp"


def test_routing_and_the_agent_can_be_switched_off() -> None:
    cni = fabric(cni={"routing": False, "agent": False}).cni
    assert cni.routing is False
    assert cni.agent is False


def test_a_fabric_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        fabric().metadata = None  # type: ignore[misc,assignment]


def test_links_pair_their_ends_in_order() -> None:
    assert [(str(one), str(other)) for one, other in fabric().links[0].ends()] == [
        ("leaf0:Ethernet32", "spine0:Ethernet1/1"),
        ("leaf0:Ethernet36", "spine0:Ethernet2/1"),
    ]


@pytest.mark.parametrize(
    ("changes", "path", "message"),
    [
        ({"kind": "Cluster"}, "kind", "Cluster is not Fabric"),
        ({"metadata": None}, "metadata", "is missing"),
        ({"metadata": {"name": "a b"}}, "metadata.name", "'a b' is not a name"),
        ({"metadata": {"name": "x", "owner": "me"}}, "metadata.owner", "unknown field; there is name"),
        ({"rail": []}, "rail", "unknown field; did you mean rails?"),
        ({"rails": []}, "rails", "at least 1 is wanted here"),
        ({"rails": {}}, "rails", "a list is wanted here, not a mapping"),
        ({"rails": [3]}, "rails[0]", "a mapping is wanted here, not 3"),
        ({"rails": [rail(nodeBlock="27")]}, "rails[0].nodeBlock", "a whole number is wanted here, not 27"),
        ({"rails": [rail(nodeBlock=True)]}, "rails[0].nodeBlock", "a whole number is wanted here, not true"),
        ({"rails": [rail(nodeBlock={"v5": 1})]}, "rails[0].nodeBlock.v5", "unknown field; there is v4, v6"),
        ({"rails": [rail(name="a" * 16)]}, "rails[0].name", "is 16 bytes long; an interface name has at most 15"),
        ({"rails": [rail(name="ä" * 8)]}, "rails[0].name", "is 16 bytes long"),
        ({"rails": [rail(name="a/b")]}, "rails[0].name", "'a/b' is not an interface name"),
        ({"rails": [rail(name="a:b")]}, "rails[0].name", "not an interface name"),
        ({"rails": [rail(name="a b")]}, "rails[0].name", "not an interface name"),
        ({"rails": [rail(name="..")]}, "rails[0].name", "not an interface name"),
        ({"rails": [rail(name="")]}, "rails[0].name", "not an interface name"),
        ({"rails": [rail(name="eth0")]}, "rails[0].name", "eth0 cannot name a rail"),
        ({"rails": [rail(name="lo")]}, "rails[0].name", "lo cannot name a rail"),
        (
            {"rails": [rail(subnet="10.200.0.5/16")]},
            "rails[0].subnet",
            "10.200.0.5/16 has host bits set; write 10.200.0.0/16",
        ),
        ({"rails": [rail(subnet="10.200.0.0")]}, "rails[0].subnet", "is not a subnet; write it with its prefix"),
        ({"rails": [rail(subnet="10.200.0.0/33")]}, "rails[0].subnet", "10.200.0.0/33 is not a subnet"),
        ({"rails": [rail(subnet="10.0.0.0/255.0.0.0")]}, "rails[0].subnet", "is not a subnet"),
        ({"rails": [rail(subnet="224.0.0.0/8")]}, "rails[0].subnet", "cannot be a subnet of hosts"),
        ({"rails": [rail(subnet=None)]}, "rails[0]", "a rail has either subnet, or subnets"),
        ({"rails": [rail(subnets=["10.9.0.0/24"])]}, "rails[0]", "a rail has either subnet, or subnets"),
        ({"rails": [rail(gateway="last")]}, "rails[0].gateway", "write none, first or an address"),
        ({"rails": [rail(exclude=["10.200.0.1-9"])]}, "rails[0].exclude[0]", "is not an IP address"),
        ({"qos": {"lossless": {"dscp": 64}}}, "qos.lossless.dscp", "64 is too large; the most is 63"),
        ({"qos": {"lossless": {"priority": 8}}}, "qos.lossless.priority", "8 is too large; the most is 7"),
        ({"qos": {"cnp": {"priority": -1}}}, "qos.cnp.priority", "-1 is too small; the least is 0"),
        ({"qos": {"mtu": 500}}, "qos.mtu", "500 is too small; the least is 576"),
        ({"qos": {"mtu": 9217}}, "qos.mtu", "9217 is too large; the most is 9216"),
        ({"qos": {"ecn": {"enabled": "yes"}}}, "qos.ecn.enabled", "true or false is wanted here, not yes"),
        ({"qos": {"ecn": {"kmin": "3MiB"}}}, "qos.ecn", "kmin is above kmax"),
        (
            {"qos": {"profile": "lossles"}},
            "qos.profile",
            "there is no profile lossles; there is ecn-off, ecn-only, lossless-dscp",
        ),
        ({"nodeTypes": node_type(speed=100)}, "nodeTypes.gpu.speed", "a speed needs its unit"),
        ({"nodeTypes": node_type(mode="bridge")}, "nodeTypes.gpu.mode", "bridge is not macvlan, ipvlan, host-device"),
        ({"nodeTypes": node_type(mtu=9300)}, "nodeTypes.gpu.mtu", "9300 is too large; the most is 9216"),
        ({"nodeTypes": node_type(rails="Auto")}, "nodeTypes.gpu.rails", "Auto is not auto"),
        (
            {"nodeTypes": node_type(rails={"rail0": "18:00.0", "rail1": "eth3"})},
            "nodeTypes.gpu.rails.rail0",
            "18:00.0 is not a PCI address",
        ),
        (
            {"nodeTypes": node_type(mode="sriov", rails={"rail0": {"nic": "eth2", "trust": True}, "rail1": "eth3"})},
            "nodeTypes.gpu.rails.rail0.trust",
            "true is not on or off",
        ),
        (
            {"nodeTypes": node_type(mode="sriov", rails={"rail0": {"nic": "eth2", "vlanQos": 3}, "rail1": "eth3"})},
            "nodeTypes.gpu.rails.rail0.vlanQos",
            "unknown field; did you mean vlanQoS?",
        ),
        ({"nodes": [{"match": "h[0-", "type": "gpu"}]}, "nodes[0].match", "is not a hostlist"),
        ({"nodes": [{"match": "h0", "type": "gpu", "firstIndex": -1}]}, "nodes[0].firstIndex", "the least is 0"),
        ({"switches": switch(role="tor")}, "switches[0].role", "tor is not leaf, spine or superspine"),
        ({"switches": switch(source={})}, "switches[0].source", "exactly one of file, redis, ssh, rest"),
        (
            {"switches": switch(source={"file": "a", "ssh": "b"})},
            "switches[0].source",
            "exactly one of file, redis, ssh, rest",
        ),
        ({"switches": switch(source={"ssh": "-oProxyCommand=x"})}, "switches[0].source.ssh", "is not user@host"),
        ({"switches": switch(source={"rest": "https://u:p@leaf0"})}, "switches[0].source.rest", "without user and"),
        ({"switches": switch(ports={"E[": "h0/rail0"})}, 'switches[0].ports["E["]', "is not a hostlist"),
        ({"probe": {"schedule": "0 * * *"}}, "probe.schedule", "a schedule has five fields"),
        ({"probe": {"sizes": ["1GiB", 4]}}, "probe.sizes[1]", "a size needs its unit"),
        ({"probe": {"launcher": "ssh"}}, "probe.launcher", "ssh is not mpirun, srun, torchrun or kubernetes"),
        ({"cni": {"routing": {"tableBase": 254}}}, "cni.routing.tableBase", "254 is too small; the least is 256"),
        ({"cni": {"routing": True}}, "cni.routing", "leave it out, or write false"),
        ({"cni": {"stateDir": "var"}}, "cni.stateDir", "'var' is not an absolute path"),
        ({"lint": {"suppressions": [{"rule": "S06"}]}}, "lint.suppressions[0].reason", "is missing"),
        (
            {"lint": {"suppressions": [{"rule": "S06", "reason": "x", "expires": "soon"}]}},
            "lint.suppressions[0].expires",
            "soon is not a date; write it as 2030-12-31",
        ),
    ],
)
def test_a_bad_field_is_told_at_its_path(changes: dict[str, Any], path: str, message: str) -> None:
    told = findings(**changes)
    assert path in told, told
    assert message in told[path]


def test_everything_wrong_is_told_at_once() -> None:
    told = findings_of("""
apiVersion: roceway/v1
kind: Fabric
metadata: {name: cluster-a, owner: me}
rails:
  - {name: rail0, subnet: 10.200.0.5/16, nodeBlock: 27}
  - {name: rail1, subnet: 10.201.0.0/24, nodeBlock: 27, gateway: 10.9.9.9}
  - {name: rail1, subnet: 10.201.0.0/16, nodeBlok: 27}
qos: {profile: lossless-dscp, lossless: {priority: 6, dscp: 99}, ecn: {kmin: 3MiB}}
nodeTypes:
  hgx-h100: {speed: 400, mode: host-device, rails: {rail0: "0000:18:00.0", rail1: "0000:18:00.0", rail1: eth4}}
nodes:
  - {match: "gpu-[001-064]", type: hgx-h10, firstIndex: 0}
  - {match: "gpu-[060-064]", type: hgx-h100, firstIndex: 3}
switches:
  - name: leaf-r0
    platform: sonic
    role: leaf
    ports: {"Ethernet[0-252:8]": "gpu-[001-064]/rail0", "Ethernet[0-4:4]": "gpu-[100-101]/rail7"}
links: [{from: "leaf-r0:Ethernet0", to: "spine:x"}]
probe: {schedule: "0 * * *"}
""")
    assert set(told) == {
        "nodeTypes.hgx-h100.rails.rail1",
        "metadata.owner",
        "rails[0].subnet",
        "rails[1].gateway",
        "rails[1].nodeBlock",
        "rails[2].name",
        "rails[2].subnet",
        "rails[2].nodeBlok",
        "rails[2].nodeBlock",
        "qos.lossless.dscp",
        "qos.ecn",
        "nodeTypes.hgx-h100.speed",
        "nodes[0].type",
        "nodes[1].match",
        "nodes[1].firstIndex",
        'switches[0].ports["Ethernet[0-252:8]"]',
        'switches[0].ports["Ethernet[0-4:4]"]',
        "links[0].from",
        "links[0].to",
        "probe.schedule",
    }


def test_one_mistake_makes_one_finding() -> None:
    """What refers to a part that cannot be read is not called wrong too."""
    good = document()
    bad_name = [rail(name="eth0"), good["rails"][1]]
    assert set(findings(rails=bad_name)) == {"rails[0].name"}
    assert set(findings(nodes=[{"match": "h[", "type": "gpu"}])) == {"nodes[0].match"}
    assert set(findings(switches=[good["switches"][0] | {"name": "a b"}, good["switches"][1]])) == {"switches[0].name"}
    assert set(findings(rails=[rail(nodeBlock=99), good["rails"][1]])) == {"rails[0].nodeBlock"}
    assert set(findings(qos={"lossless": {"dscp": 99}})) == {"qos.lossless.dscp"}


def test_there_is_an_end_to_what_a_person_reads() -> None:
    with pytest.raises(ConfigError) as caught:
        parse("\n".join(f"k{n}: 1" for n in range(5000)))
    assert len(caught.value.findings) == 1001
    assert "the first 1000 findings" in caught.value.findings[-1].message


@pytest.mark.parametrize(
    ("text", "message"),
    [("", "the file is empty"), ("# nothing", "the file is empty"), ("[]", "a mapping is wanted here, not a list")],
)
def test_what_is_no_mapping_is_one_finding(text: str, message: str) -> None:
    assert findings_of(text) == {"": message}


def test_all_lists_together_are_bounded() -> None:
    groups = [{"match": f"{letter}[0-399999]", "type": "gpu"} for letter in "abc"]
    assert "more than 1000000" in findings(nodes=groups)[""]


def test_load_reads_a_file(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(DESIGN)
    assert load(path) == parse(DESIGN)


def test_load_tells_what_cannot_be_read(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"name: \xe9\n")
    huge = tmp_path / "huge.yaml"
    with huge.open("wb") as file:
        file.truncate(100 << 20)
    for path, message in (
        (tmp_path / "none.yaml", "cannot be read: No such file or directory"),
        (tmp_path, "cannot be read: Is a directory"),
        (latin, "is not UTF-8 text (byte 6)"),
        (huge, "the file is larger than 4 MiB"),
    ):
        with pytest.raises(ConfigError) as caught:
            load(path)
        assert caught.value.source == str(path)
        assert [finding.message for finding in caught.value.findings] == [message]


def test_the_error_prints_source_count_and_every_finding() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(json.dumps(document(kind="X", rails=[])), "cluster.yaml")
    assert str(caught.value).splitlines()[:2] == ["cluster.yaml: 2 mistakes", "  kind: X is not Fabric"]


def test_conf_imports_none_of_its_users() -> None:
    script = "import conf.node, conf.schema, sys; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout.split()
    assert not {"host", "cni", "tuner", "nccltest", "scapy", "kubernetes", "pyroute2", "rich"} & set(loaded)


def test_the_model_is_closed_everywhere() -> None:
    """A misspelt key must never pass for a default."""
    definitions = Fabric.model_json_schema()["$defs"]
    objects = {name: part for name, part in definitions.items() if part.get("type") == "object"}
    assert len(objects) > 15
    assert [name for name, part in objects.items() if part.get("additionalProperties") is not False] == []
