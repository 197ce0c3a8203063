"""``roceway-tune prove`` between two hosts, with a box between them that rewrites, drops, or works one way only."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.conf.documents import document
from tests.tuner.switch.servers import redis_server
from tests.world import ROOT, Ns, World

pytestmark = pytest.mark.netns

# Forwards frames between two interfaces; each rule is DIRECTION WHAT DSCP VALUE: "out rewrite 26 0", "back drop 48 0",
# "back deaf 0 0", "out ecn 26 0". Prints a line when it is ready.
BOX = """
import select, socket, sys
rules = [tuple(rule.split()) for rule in sys.argv[1:]]
ends = {}
for name in ("west", "east"):
    ends[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    ends[name].bind((name, 3))
print("ready", flush=True)
while True:
    for end in select.select(list(ends.values()), [], [])[0]:
        data, address = end.recvfrom(65536)
        if address[2] == 4:
            continue
        frame, way = bytearray(data), "out" if end is ends["west"] else "back"
        keep = True
        for direction, what, dscp, value in rules:
            if direction != way:
                continue
            if what == "deaf":
                keep = False
            if frame[12:14] != b"\\x08\\x00" or frame[23] != 17 or frame[15] >> 2 != int(dscp):
                continue
            if what == "drop":
                keep = False
            elif what == "rewrite":
                frame[15] = int(value) << 2 | frame[15] & 3
            elif what == "ecn":
                frame[15] = frame[15] & 0xfc | int(value)
        if keep:
            (ends["east"] if way == "out" else ends["west"]).send(bytes(frame))
"""


class Pair:
    """Two hosts on a rail through a box, and on a network of their own for the conversation."""

    def __init__(self, world: World) -> None:
        self.one, self.other, self.box = world.ns("one"), world.ns("other"), world.ns("box")
        for space, end, number in ((self.one, "west", 1), (self.other, "east", 2)):
            space.ip("link", "add", "rail", "type", "veth", "peer", "name", end, "netns", self.box.name)
            space.ip("addr", "add", f"10.9.0.{number}/24", "dev", "rail")
            space.ip("link", "set", "rail", "up")
            self.box.ip("link", "set", end, "up")
        self.one.ip("link", "add", "mgmt", "type", "veth", "peer", "name", "mgmt", "netns", self.other.name)
        for number, space in enumerate((self.one, self.other), 1):
            space.ip("addr", "add", f"10.8.0.{number}/24", "dev", "mgmt")
            space.ip("link", "set", "mgmt", "up")


@pytest.fixture
def pair() -> Iterator[Pair]:
    with World(rails=0) as world:
        yield Pair(world)


def inside(space: Ns, *words: str) -> list[str]:
    return ["nsenter", f"--net={space.path}", "--", *words]


def tune(*words: str) -> list[str]:
    return [sys.executable, "-m", "tuner", "prove", *words]


@contextmanager
def running(words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, cwd=ROOT
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=10)


@contextmanager
def box(pair: Pair, *rules: str) -> Iterator[None]:
    with running(inside(pair.box, sys.executable, "-c", BOX, *rules)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield


@contextmanager
def listener(space: Ns, *words: str) -> Iterator[subprocess.Popen[str]]:
    with running(inside(space, *tune("--listen", "--wait", "60", *words))) as process:
        assert process.stderr is not None
        assert "listening on" in process.stderr.readline()
        yield process


def send(space: Ns, *words: str) -> tuple[int, Any, str]:
    """Exit code, JSON on stdout, stderr. The listener may be a moment away from listening."""
    for _ in range(20):
        done = subprocess.run(
            inside(space, *tune("--json", *words)), capture_output=True, text=True, timeout=60, cwd=ROOT
        )
        if "ECONNREFUSED" not in done.stderr:
            break
        time.sleep(0.2)
    return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr


def exchange(pair: Pair, *rules: str, options: Sequence[str] = ()) -> tuple[int, dict[tuple[str, int, int], Any]]:
    """Prove through the box; exit code and the results by direction, DSCP and ECN."""
    with box(pair, *rules), listener(pair.other, "--device", "rail", "--control", "10.8.0.2"):
        words = ("--device", "rail", "--to", "10.9.0.2", "--control", "10.8.0.2", "--count", "20", *options)
        code, told, stderr = send(pair.one, *words)
    assert told is not None, stderr
    return code, {(row["direction"], row["dscp"], row["ecn"]): row for row in told["results"]}


def verdicts(rows: dict[tuple[str, int, int], Any], **only: Any) -> set[str]:
    return {row["verdict"] for row in rows.values() if all(row[key] == value for key, value in only.items())}


def test_a_box_that_only_forwards_is_well(pair: Pair) -> None:
    code, rows = exchange(pair)
    assert (code, verdicts(rows)) == (0, {"ok"})
    assert len(rows) == 18
    assert {row["arrived"] for row in rows.values()} == {20}


def test_a_dscp_that_is_rewritten_on_the_way_out(pair: Pair) -> None:
    code, rows = exchange(pair, "out rewrite 26 0")
    assert code == 1
    assert verdicts(rows, direction="out", dscp=26) == {"re-marked"}
    assert rows["out", 26, 2]["remarked"] == [{"dscp": 0, "ecn": 2, "count": 20}]
    assert verdicts(rows, direction="back") == verdicts(rows, dscp=48) == {"ok"}


def test_a_class_that_is_dropped_on_the_way_back(pair: Pair) -> None:
    code, rows = exchange(pair, "back drop 48 0")
    assert code == 1
    assert verdicts(rows, direction="back", dscp=48) == {"dropped"}
    assert verdicts(rows, direction="out") == verdicts(rows, dscp=26) == {"ok"}


@pytest.mark.parametrize(("deaf", "hears"), [("out", "back"), ("back", "out")])
def test_a_rail_that_works_in_one_direction_only(pair: Pair, deaf: str, hears: str) -> None:
    code, rows = exchange(pair, f"{deaf} deaf 0 0")
    assert code == 1
    assert (verdicts(rows, direction=deaf), verdicts(rows, direction=hears)) == ({"dropped"}, {"ok"})


def test_ecn_bits_that_are_cleared_and_marks_that_are_made(pair: Pair) -> None:
    code, rows = exchange(pair, "out ecn 26 0", "back ecn 26 3")
    assert code == 1
    assert rows["out", 26, 2]["verdict"] == rows["out", 26, 3]["verdict"] == "re-marked"
    assert rows["out", 26, 0]["verdict"] == "ok"
    assert (rows["back", 26, 2]["verdict"], rows["back", 26, 2]["congestion_marks"]) == ("ok", 20)
    assert rows["back", 26, 0]["verdict"] == "re-marked"


def test_chosen_classes_another_port_and_large_probes(pair: Pair) -> None:
    code, rows = exchange(pair, options=("--dscp", "10", "--port", "4790", "--size", "1400", "--rate", "500"))
    assert code == 0
    assert {*rows} == {(way, 10, ecn) for way in ("out", "back") for ecn in (0, 2, 3)}


def test_the_conversation_on_the_rail_itself_and_the_table() -> None:
    with World(rails=1) as world:
        one, other = world.host(), world.host()
        for number, host in enumerate((one, other), 1):
            host.ns.ip("addr", "add", f"10.9.0.{number}/24", "dev", "nic0")
            host.ns.ip("addr", "add", f"fd09::{number}/64", "dev", "nic0", "nodad")
        for extra, address in (((), "10.9.0.2"), (("--ipv6",), "fd09::2")):
            with listener(other.ns, "--device", "nic0", *extra) as process:
                time.sleep(0.3)
                text = one.ns.run(*tune("--device", "nic0", "--to", address, "--count", "5", *extra))
                assert "exchanged 5 probes of 9 classes with" in process.communicate(timeout=20)[0]
            assert "every class comes through as it is sent" in text
            assert f"→ {address}" in text


def test_one_end_with_ipv4_and_the_other_with_ipv6_say_so(pair: Pair) -> None:
    pair.other.ip("addr", "add", "fd09::2/64", "dev", "rail", "nodad")
    with box(pair), listener(pair.other, "--device", "rail", "--ipv6", "--control", "10.8.0.2"):
        code, _, stderr = send(pair.one, "--device", "rail", "--to", "10.9.0.2", "--control", "10.8.0.2")
    assert (code, "--ipv6 at both ends or neither" in stderr) == (3, True), stderr


def test_probes_find_their_way_over_a_router() -> None:
    with World(rails=0) as world:
        one, router, other = (world.ns(name) for name in ("one", "router", "other"))
        for number, space in enumerate((one, other), 1):
            space.ip("link", "add", "rail", "type", "veth", "peer", "name", f"r{number}", "netns", router.name)
            space.ip("addr", "add", f"10.{number}.0.2/24", "dev", "rail")
            space.ip("link", "set", "rail", "up")
            router.ip("addr", "add", f"10.{number}.0.1/24", "dev", f"r{number}")
            router.ip("link", "set", f"r{number}", "up")
            space.ip("route", "add", "default", "via", f"10.{number}.0.1")
        router.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        with listener(other, "--device", "rail"):
            code, told, stderr = send(one, "--device", "rail", "--to", "10.2.0.2", "--count", "5")
        assert (code, told and told["ok"]) == (0, True), stderr


def test_nobody_there_a_missing_nic_and_bad_options_say_so(pair: Pair) -> None:
    missing = subprocess.run(
        inside(pair.one, *tune("--listen", "--device", "eth7")), capture_output=True, text=True, cwd=ROOT
    )
    assert (missing.returncode, "no such interface" in missing.stderr) == (3, True)
    nobody = subprocess.run(
        inside(pair.one, *tune("--device", "rail", "--to", "10.8.0.2", "--control", "10.8.0.2")),
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert nobody.returncode == 3
    assert "is `roceway-tune prove --listen` running there?" in nobody.stderr
    bad = subprocess.run(
        tune("--to", "10.9.0.2", "--device", "rail", "--dscp", "64,x", "--count", "0"),
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert bad.returncode == 2
    assert "--dscp" in bad.stderr
    assert "--count" in bad.stderr


def test_a_stranger_on_the_listeners_port_is_told_so_and_forgotten(pair: Pair) -> None:
    with box(pair), listener(pair.other, "--device", "rail", "--control", "10.8.0.2") as process:
        script = (
            "import socket\ns = socket.create_connection(('10.8.0.2', 4792), 5)\n"
            "s.sendall(b'GET / HTTP/1.1\\r\\n\\r\\n')\nprint(s.recv(500))"
        )
        for _ in range(20):
            done = subprocess.run(inside(pair.one, sys.executable, "-c", script), capture_output=True, text=True)
            if "refused" not in done.stderr:
                break
            time.sleep(0.2)
        assert "no roceway-tune prove" in done.stdout
        words = ("--device", "rail", "--to", "10.9.0.2", "--control", "10.8.0.2", "--count", "5")
        code, _, stderr = send(pair.one, *words)
        assert code == 0, stderr
        assert "still listening" in process.communicate(timeout=20)[1]


def test_a_plan_that_asks_for_too_much_is_refused_at_both_ends(pair: Pair) -> None:
    with listener(pair.other, "--device", "rail", "--control", "10.8.0.2") as process:
        plan = {"run": "00" * 8, "markings": [[26, 2]], "count": 100_000, "size": 64, "rate": 10, "port": 4791}
        message = json.dumps({"plan": plan, "address": "10.9.0.1", "mac": "02:00:00:00:00:01"})
        script = (
            "import socket\ns = socket.create_connection(('10.8.0.2', 4792), 5)\n"
            f"s.sendall({message!r}.encode() + b'\\n')\nprint(s.recv(500).decode())"
        )
        for _ in range(20):
            done = subprocess.run(inside(pair.one, sys.executable, "-c", script), capture_output=True, text=True)
            if "refused" not in done.stderr:
                break
            time.sleep(0.2)
        assert "last longer than 45 s" in done.stdout
        assert "last longer than 45 s" in process.communicate(timeout=20)[1]
        assert process.returncode == 3


@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_the_counters_of_the_switch_stand_beside_the_hosts(pair: Pair, tmp_path: Path) -> None:
    """The leaf is a SONiC whose database moves while the probes run."""
    leaf: dict[str, Any] = {
        "name": "leaf0",
        "platform": "sonic",
        "role": "leaf",
        "ports": {"Ethernet[0-12:4]": "h[0-3]/rail0"},
    }
    kind = {"speed": "100G", "mode": "macvlan", "rails": {"rail0": "rail", "rail1": "eth3"}}
    with redis_server(tmp_path) as (port, path):
        leaf["source"] = {"redis": f"unix:{path}"}
        text = json.dumps(document(nodeTypes={"gpu": kind}, switches=[leaf], links=None))
        (tmp_path / "fabric.yaml").write_text(text)
        database = redis.Redis(port=port, db=2)
        database.hset("COUNTERS_PORT_NAME_MAP", "Ethernet0", "oid:0x1")
        database.hset("COUNTERS:oid:0x1", "SAI_PORT_STAT_PFC_3_RX_PKTS", 100)
        redis.Redis(port=port, db=4).hset("PORT|Ethernet0", "mtu", "9100")
        with box(pair), listener(pair.other, "--device", "rail", "--control", "10.8.0.2"):
            words = ("-f", str(tmp_path / "fabric.yaml"), "--node", "h0", "--rail", "rail0")
            sender = inside(pair.one, *tune("--json", *words, "--to", "10.9.0.2", "--control", "10.8.0.2"))
            with running(sender) as process:
                for _ in range(200):
                    database.hincrby("COUNTERS:oid:0x1", "SAI_PORT_STAT_PFC_3_RX_PKTS", 1)
                    if process.poll() is not None:
                        break
                    time.sleep(0.1)
                out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err
        told = json.loads(out)["counters"]["switch"]
        assert told["port"] == "leaf0 Ethernet0"
        assert told["pfc_rx"]["3"] > 0
