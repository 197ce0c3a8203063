"""Running switches: SONiC's databases in a real redis-server, a real sshd, a real HTTPS server."""

from __future__ import annotations

import base64
import json
import logging
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
import redis

from conf.switches import Switch as Described
from host.errors import HostError
from tests.tuner.switch.servers import free_port, needs, redis_server, ssh_server, web_server
from tests.world import ROOT
from tuner.switch import live_redis, live_rest, live_ssh
from tuner.switch.credentials import Credentials, credentials
from tuner.switch.load import load, load_all
from tuner.switch.model import Switch

CONFIG = {
    "PORT|Ethernet0": {"speed": "400000", "mtu": "9100"},
    "PORT_QOS_MAP|Ethernet0": {"dscp_to_tc_map": "AZURE", "pfc_enable": "3,4"},
    "DSCP_TO_TC_MAP|AZURE": {"26": "3", "48": "6"},
    "CABLE_LENGTH|AZURE": {"Ethernet0": "5m"},
    "BUFFER_PG|Ethernet0|3-4": {"profile": "NULL"},
    "DEVICE_METADATA|localhost": {"platform": "x86_64-nvidia_sn5600-r0", "hwsku": "SN5600", "hostname": "leaf-r0"},
}
APPL = {
    "PORT_TABLE:Ethernet0": {"oper_status": "up", "speed": "400000"},
    "LLDP_ENTRY_TABLE:Ethernet0": {
        "lldp_rem_sys_name": "gpu-001",
        "lldp_rem_port_id": "B8:CE:F6:00:00:01",
        "lldp_rem_chassis_id": "b8:ce:f6:00:00:01",
        "lldp_rem_port_desc": "eth2",
    },
    "BUFFER_PG_TABLE:Ethernet0:3-4": {"profile": "[BUFFER_PROFILE_TABLE:pg_lossless_400000_5m_profile]"},
    "BUFFER_PROFILE_TABLE:pg_lossless_400000_5m_profile": {"xoff": "38912", "size": "86016", "pool": "p"},
    "BUFFER_POOL_TABLE:p": {"type": "ingress", "mode": "dynamic", "size": "1000000"},
}
COUNTERS = {
    "COUNTERS_PORT_NAME_MAP": {"Ethernet0": "oid:0x1"},
    "COUNTERS_QUEUE_NAME_MAP": {"Ethernet0:3": "oid:0x15"},
    "COUNTERS:oid:0x1": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "17"},
    "COUNTERS:oid:0x15": {"SAI_QUEUE_STAT_WRED_ECN_MARKED_PACKETS": "5"},
    "COUNTERS:oid:0x99": {"SAI_PORT_STAT_PFC_3_RX_PKTS": "99"},
    "USER_WATERMARKS:oid:0x15": {"SAI_QUEUE_STAT_SHARED_WATERMARK_BYTES": "4096"},
}


def described(platform: str = "sonic", **source: str) -> Described:
    return Described.model_validate({"name": "leaf-r0", "platform": platform, "role": "leaf", "source": source})


def fill(port: int, password: str | None = None) -> None:
    for number, rows in ((4, CONFIG), (0, APPL), (2, COUNTERS)):
        database = redis.Redis(port=port, db=number, password=password)
        for key, row in rows.items():
            database.hset(key, mapping=cast(Any, row))
        database.set("CONFIG_DB_INITIALIZED", "1")  # not every key is a hash
        database.close()


def the_switch(switch: Switch | None) -> Switch:
    assert switch is not None
    assert switch.readable, switch.findings
    return switch


@needs("redis-check-rdb")
@pytest.mark.parametrize("way", ["tcp", "unix"])
def test_a_sonic_is_read_from_its_databases(tmp_path: Path, way: str) -> None:
    with redis_server(tmp_path) as (port, path):
        fill(port)
        address = f"127.0.0.1:{port}" if way == "tcp" else f"unix:{path}"
        switch = the_switch(load(described(redis=address), tmp_path))
    ethernet = switch.ports["Ethernet0"]
    assert (switch.hostname, switch.asic, switch.role) == ("leaf-r0", "spectrum-4", "leaf")
    assert (ethernet.speed, ethernet.cable, ethernet.pfc, ethernet.tc_of(26)) == (400000, 5.0, frozenset({3, 4}), 3)
    assert ethernet.oper_up
    assert ethernet.neighbour is not None
    assert (ethernet.neighbour.system, ethernet.neighbour.port) == ("gpu-001", "b8:ce:f6:00:00:01")
    assert ethernet.neighbour.description == "eth2"
    assert ethernet.counters is not None
    assert ethernet.counters.pfc_rx == {3: 17}
    queue = (ethernet.counters.queues or {})[3]
    assert (queue.ecn_marked, queue.watermark) == (5, 4096)
    assert (ethernet.groups or {})[3].automatic
    assert switch.operational is not None
    running = (switch.operational.ports["Ethernet0"].groups or {})[3].profile
    assert running is not None
    assert (running.xoff, running.pool and running.pool.size) == (38912, 1_000_000)


@needs("redis-check-rdb")
def test_a_password_comes_from_the_environment_or_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with redis_server(tmp_path, password="s3cret") as (port, _):
        fill(port, "s3cret")
        refused = load(described(redis=f"127.0.0.1:{port}"), tmp_path)
        assert refused is not None
        assert not refused.readable
        assert "Authentication required" in refused.findings[0].message
        (tmp_path / "secret").write_text("s3cret\n")
        monkeypatch.setenv("ROCEWAY_SWITCH_PASSWORD_FILE", str(tmp_path / "secret"))
        assert the_switch(load(described(redis=f"127.0.0.1:{port}"), tmp_path)).ports
        monkeypatch.setenv("ROCEWAY_SWITCH_PASSWORD", "another switch's")
        monkeypatch.setenv("ROCEWAY_SWITCH_PASSWORD__LEAF_R0", "s3cret")
        assert the_switch(load(described(redis=f"127.0.0.1:{port}"), tmp_path)).ports


@pytest.mark.parametrize("kind", ["redis", "ssh", "rest"])
def test_a_switch_that_cannot_be_reached_is_one_finding(tmp_path: Path, kind: str) -> None:
    port = free_port()
    address = {"redis": f"127.0.0.1:{port}", "ssh": f"root@127.0.0.1:{port}", "rest": f"https://127.0.0.1:{port}"}[kind]
    switch = load(described("dell-sonic", **{kind: address}), tmp_path)
    assert switch is not None
    (finding,) = switch.findings
    assert (finding.kind, finding.place) == ("unreadable", address)
    assert str(port) in finding.message


@needs("redis-check-rdb")
def test_live_and_saved_switches_come_back_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "saved.json").write_text(json.dumps({"PORT": {"Ethernet0": {}}}))
    with redis_server(tmp_path) as (port, _):
        fill(port)
        names = ["b", "a", "c"]
        sources = [{"redis": f"127.0.0.1:{port}"}, {"file": "saved.json"}, {"redis": f"127.0.0.1:{free_port()}"}]
        wanted = [
            Described.model_validate({"name": name, "platform": "sonic", "role": "leaf", "source": source})
            for name, source in zip(names, sources, strict=True)
        ]
        cabling = Described.model_validate({"name": "d", "platform": "sonic", "role": "spine"})
        switches = load_all([*wanted, cabling], tmp_path)
    assert [switch.name for switch in switches] == names
    assert [switch.readable for switch in switches] == [True, True, False]


@needs("sshd", "ssh-keygen")
def test_a_sonic_is_read_over_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nested: dict[str, dict[str, Any]] = {}
    for key, row in CONFIG.items():
        table, _, name = key.partition("|")
        nested.setdefault(table, {})[name] = row
    dumped = {key: {"type": "hash", "ttl": -0.001, "value": row} for key, row in COUNTERS.items()}
    with ssh_server(tmp_path) as ssh:
        program(ssh.commands / "sonic-cfggen", f"cat <<'END'\n{json.dumps(nested)}\nEND")
        program(
            ssh.commands / "sonic-db-dump", f'[ "$2" = COUNTERS_DB ] || exit 3\ncat <<"END"\n{json.dumps(dumped)}\nEND'
        )
        use_key(monkeypatch, tmp_path, ssh.known_hosts, ssh.key)
        switch = the_switch(load(described(ssh=f"root@127.0.0.1:{ssh.port}"), tmp_path))
    port = switch.ports["Ethernet0"]
    assert (port.speed, port.pfc, port.counters and port.counters.pfc_rx) == (400000, frozenset({3, 4}), {3: 17})


@needs("sshd", "ssh-keygen")
@pytest.mark.parametrize(
    ("script", "why"), [("exit 7", "prints nothing"), ("echo no; exit 7", "exit 7"), (None, "prints nothing")]
)
def test_a_command_that_fails_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, why: str
) -> None:
    with ssh_server(tmp_path) as ssh:
        if script:
            program(ssh.commands / "nv", script)
        use_key(monkeypatch, tmp_path, ssh.known_hosts, ssh.key)
        with pytest.raises(HostError, match=f"nv config show.*{why}"):
            live_ssh.fetch("cumulus", f"root@127.0.0.1:{ssh.port}", Credentials())


@needs("sshd", "ssh-keygen")
def test_an_unknown_host_key_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ssh_server(tmp_path) as ssh:
        ssh.known_hosts.write_text("")
        use_key(monkeypatch, tmp_path, ssh.known_hosts, ssh.key)
        with pytest.raises(HostError, match=r"(?i)host key"):
            live_ssh.fetch("cumulus", f"root@127.0.0.1:{ssh.port}", Credentials())


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def use_key(monkeypatch: pytest.MonkeyPatch, home: Path, known_hosts: Path, key: Path) -> None:
    """A home directory whose .ssh is the user's."""
    folder = home / ".ssh"
    folder.mkdir()
    (folder / "known_hosts").write_text(known_hosts.read_text())
    (folder / "id_ed25519").write_text(key.read_text())
    (folder / "id_ed25519").chmod(0o600)
    monkeypatch.setenv("HOME", str(home))


EOS = {
    "show running-config": {"result": [{"output": "interface Ethernet1\n   no switchport\n   mtu 9214\n"}]},
    "show interfaces": {"result": [{"interfaces": {"Ethernet1": {"bandwidth": 400_000_000_000, "mtu": 9214}}}]},
    "show priority-flow-control counters": {
        "result": [{"interfaceCounters": {"Ethernet1": {"rxFrames": 3, "txFrames": 4}}}]
    },
}
NXOS = {
    "show running-config": {"result": {"msg": "interface Ethernet1/1\n  priority-flow-control mode on\n  mtu 9216\n"}},
    "show interface": {
        "result": {"body": {"TABLE_interface": {"ROW_interface": {"interface": "Ethernet1/1", "eth_bw": 400_000_000}}}}
    },
}
NVUE = {
    "/nvue_v1/?rev=applied": {"qos": {"roce": {"enable": "on"}}, "interface": {"swp1": {"link": {"mtu": 9216}}}},
    "/nvue_v1/interface": {"swp1": {"link": {"speed": "400G", "oper-status": "up"}, "type": "swp"}},
}
DELL = {
    "/restconf/data/openconfig-qos:qos": {
        "openconfig-qos:qos": {
            "interfaces": {
                "interface": [
                    {
                        "interface-id": "Ethernet0",
                        "pfc": {
                            "pfc-priorities": {"pfc-priority": [{"dot1p": 3, "config": {"dot1p": 3, "enable": True}}]}
                        },
                    }
                ]
            }
        }
    },
    "/restconf/data/openconfig-interfaces:interfaces": {
        "openconfig-interfaces:interfaces": {
            "interface": [
                {
                    "name": "Ethernet0",
                    "config": {"mtu": 9216},
                    "openconfig-if-ethernet:ethernet": {"config": {"port-speed": "openconfig-if-ethernet:SPEED_400GB"}},
                }
            ]
        }
    },
}


@needs("openssl")
@pytest.mark.parametrize(
    ("platform", "answers", "port", "mtu"),
    [
        ("eos", EOS, "Ethernet1", 9214),
        ("nxos", NXOS, "Ethernet1/1", 9216),
        ("cumulus", NVUE, "swp1", 9216),
        ("dell-sonic", DELL, "Ethernet0", 9216),
    ],
)
def test_a_switch_is_read_from_its_web_api(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, answers: dict[str, Any], port: str, mtu: int
) -> None:
    with web_server(tmp_path, answers) as web:
        monkeypatch.setenv("ROCEWAY_SWITCH_USER", "reader")
        monkeypatch.setenv("ROCEWAY_SWITCH_PASSWORD", "s3cret")
        monkeypatch.setenv("ROCEWAY_SWITCH_CA_FILE", str(web.ca))
        switch = the_switch(load(described(platform, rest=web.address), tmp_path))
    assert (switch.ports[port].mtu, switch.ports[port].speed) == (mtu, 400_000)
    expected = "Basic " + base64.b64encode(b"reader:s3cret").decode()
    assert {request.authorization for request in web.seen} == {expected}


@needs("openssl")
def test_a_certificate_that_nobody_vouches_for_is_refused(tmp_path: Path) -> None:
    with web_server(tmp_path, NVUE) as web, pytest.raises(HostError, match="certificate verify failed"):
        live_rest.fetch("cumulus", web.address, Credentials())
    assert not web.seen


def test_a_password_does_not_travel_in_the_clear_to_another_machine() -> None:
    with pytest.raises(HostError, match="use https") as refused:
        live_rest.fetch("cumulus", "http://192.0.2.1", Credentials("reader", "s3cret"))
    assert "s3cret" not in str(refused.value)


def test_what_the_api_does_not_know_is_said_and_the_rest_is_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with web_server(tmp_path, {"show running-config": EOS["show running-config"]}, tls=False) as web:
        documents = live_rest.fetch("eos", web.address, Credentials())
    assert [*documents] == ["show running-config"]
    assert caplog.text.count("404") == 5


def test_no_configuration_is_an_error(tmp_path: Path) -> None:
    with web_server(tmp_path, {}, tls=False) as web, pytest.raises(HostError, match="404"):
        live_rest.fetch("cumulus", web.address, Credentials())


def test_a_secret_is_in_no_log_and_no_representation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("ROCEWAY_SWITCH_PASSWORD", "s3cret")
    known = credentials("leaf-r0", os.environ)
    with web_server(tmp_path, {}, tls=False) as web, pytest.raises(HostError):
        live_rest.fetch("cumulus", web.address, known)
    with pytest.raises(HostError):
        live_redis.fetch(f"127.0.0.1:{free_port()}", known)
    assert "s3cret" not in caplog.text + repr(known)


def test_a_password_file_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="nowhere"):
        credentials("a", {"ROCEWAY_SWITCH_PASSWORD_FILE": str(tmp_path / "nowhere")})


def test_a_saved_file_pays_for_no_client() -> None:
    script = (
        "import sys, tuner.switch.load, tuner.switch.render, tuner.commands.prove, tuner.commands.lldp\n"
        "print({'redis', 'httpx', 'asyncssh', 'scapy', 'pyroute2'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "set()\n"
