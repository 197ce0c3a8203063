"""A fabric of any size with planted faults, as objects or as files; and the curve of linting it.

``python -m tests.tuner.lint.big`` prints the curve: each size in a process of its own, so that peak memory is its own.
A leaf serves one rail of 64 hosts; eight uplinks go to spines. 512 leaves are 4,096 hosts with eight NICs.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

from conf.fabric import parse
from tests.bench.soak import pss
from tests.tuner.lint import scene
from tests.world import ROOT
from tuner.lint.run import lint
from tuner.lint.world import Given
from tuner.nic import HostQos, Pfc
from tuner.switch.model import Neighbour, Port, Switch

RAILS, PORTS, UPLINKS = 8, 64, 8
SIZES = (64, 128, 256, 512)
"""Leaves."""


def fabric(leaves: int, sources: bool = False) -> str:
    """fabric.yaml: ``leaves`` leaves, 64 hosts for each eight of them, a spine for each eight."""
    pods, spines = leaves // RAILS, max(UPLINKS, leaves // UPLINKS)
    lines = ["apiVersion: roceway/v1", "kind: Fabric", "metadata: {name: big}", "rails:"]
    lines += [f"  - {{name: rail{rail}, subnet: 10.{rail}.0.0/16, nodeBlock: 28}}" for rail in range(RAILS)]
    nics = ", ".join(f"rail{rail}: eth{rail}" for rail in range(RAILS))
    lines += [
        "nodeTypes:",
        f"  box: {{driver: mlx5_core, speed: 400G, mode: host-device, cable: 5m, rails: {{{nics}}}}}",
    ]
    lines += ["nodes:", f'  - {{match: "gpu-[1-{pods * PORTS}]", type: box}}', "switches:"]
    for leaf in range(leaves):
        pod, rail = divmod(leaf, RAILS)
        ports = f'"Ethernet[0-63]": "gpu-[{pod * PORTS + 1}-{pod * PORTS + PORTS}]/rail{rail}"'
        source = f"source: {{file: leaf-{leaf}.json}}, " if sources else ""
        lines.append(f"  - {{name: leaf-{leaf}, platform: sonic, role: leaf, {source}ports: {{{ports}}}}}")
    lines += [f"  - {{name: spine-{spine}, platform: sonic, role: spine}}" for spine in range(spines)]
    lines += ["links:"]
    for leaf in range(leaves):
        first = leaf // UPLINKS * UPLINKS  # the eight spines of its pod
        ends = ",".join(f"spine-{(first + up) % spines}:Ethernet{leaf}" for up in range(UPLINKS))
        lines.append(f'  - {{from: "leaf-{leaf}:Ethernet[64-71]", to: "{ends}", speed: 400G, cable: 40m}}')
    return "\n".join(lines) + "\n"


def hosts(leaves: int) -> tuple[HostQos, ...]:
    """Every host, well."""
    model = scene.host(1)
    nics = [scene.nic(1, rail) for rail in range(RAILS)]
    count = leaves // RAILS * PORTS
    return tuple(
        replace(
            model,
            node=f"gpu-{number}",
            applied=None,
            nics=tuple(
                replace(nic, addresses=(f"10.{rail}.{number // 250}.{number % 250}/16",))
                for rail, nic in enumerate(nics)
            ),
        )
        for number in range(1, count + 1)
    )


def switches(leaves: int) -> list[Switch]:
    """Every leaf and spine, well."""
    spines = max(UPLINKS, leaves // UPLINKS)
    found = []
    for leaf in range(leaves):
        pod, rail = divmod(leaf, RAILS)
        first = leaf // UPLINKS * UPLINKS
        down = {f"Ethernet{at}": (5.0, (f"gpu-{pod * PORTS + at + 1}", f"eth{rail}")) for at in range(PORTS)}
        up = {
            f"Ethernet{64 + at}": (40.0, (f"spine-{(first + at) % spines}", f"Ethernet{leaf}")) for at in range(UPLINKS)
        }
        found.append(_switch(f"leaf-{leaf}", "leaf", down | up))
    for spine in range(spines):
        below = [
            leaf
            for leaf in range(leaves)
            if any((leaf // UPLINKS * UPLINKS + at) % spines == spine for at in range(UPLINKS))
        ]
        found.append(
            _switch(
                f"spine-{spine}",
                "spine",
                {
                    f"Ethernet{leaf}": (
                        40.0,
                        (f"leaf-{leaf}", f"Ethernet{64 + (spine - leaf // UPLINKS * UPLINKS) % spines}"),
                    )
                    for leaf in below
                },
            )
        )
    return found


_PORT = scene.port("Ethernet0", 5.0, ("", ""))


def _switch(name: str, role: Any, ports: dict[str, tuple[float, tuple[str, str]]]) -> Switch:
    """Its ports share the objects that a reader shares."""
    model = scene.switch(name, role, {})
    made: dict[str, Port] = {
        each: replace(_PORT, name=each, cable=cable, neighbour=Neighbour(*other))
        for each, (cable, other) in ports.items()
    }
    return replace(model, ports=made, operational=None)


def planted(leaves: int) -> Given:
    """The fabric with faults: a port without cable length, a host without PFC, a swapped pair of cables."""
    made, found = switches(leaves), list(hosts(leaves))
    port = made[1].ports["Ethernet7"]
    made[1] = replace(made[1], ports={**made[1].ports, "Ethernet7": replace(port, cable=0.0)})
    swapped = {
        name: replace(made[2].ports[name], neighbour=made[2].ports[other].neighbour)
        for name, other in (("Ethernet1", "Ethernet2"), ("Ethernet2", "Ethernet1"))
    }
    made[2] = replace(made[2], ports={**made[2].ports, **swapped})
    nics = found[9].nics
    found[9] = replace(found[9], nics=(replace(nics[0], pfc=Pfc(enabled=())), *nics[1:]))
    return Given(parse(fabric(leaves)), None, tuple(found), tuple(made))


EXPECTED = {
    ("H06", ("gpu-10 rail0 (eth0)",)),
    ("X01", ("gpu-10 rail0 (eth0)",)),
    ("L01", ("leaf-0 PORT_QOS_MAP|Ethernet9.pfc_enable (gpu-10/rail0)",)),
    ("L08", ("leaf-1 CABLE_LENGTH|AZURE.Ethernet7",)),
    ("L11", ("leaf-2 Ethernet1 (gpu-2/rail2)",)),
    ("L11", ("leaf-2 Ethernet2 (gpu-3/rail2)",)),
}
"""What the planted faults come to."""


def write(folder: Path, leaves: int) -> None:
    """The same as files: fabric.yaml, a CONFIG_DB for each leaf, and hosts.json with one host per line."""
    (folder / "fabric.yaml").write_text(fabric(leaves, sources=True))
    for leaf in range(leaves):
        (folder / f"leaf-{leaf}.json").write_text(json.dumps(config_db(leaf)))
    with (folder / "hosts.json").open("w") as file:
        file.writelines(json.dumps(host.to_json()) + "\n" for host in hosts(leaves))


def config_db(leaf: int) -> dict[str, Any]:
    """A leaf's CONFIG_DB that is well."""
    names = [f"Ethernet{port}" for port in range(PORTS + UPLINKS)]
    bound = dict.fromkeys(("dscp_to_tc_map", "tc_to_queue_map", "tc_to_pg_map", "pfc_to_queue_map"), "AZURE")
    row = {"scheduler": "fair", "wred_profile": "ROCE"}
    same = {str(number): str(number) for number in range(8)}
    return {
        "DEVICE_METADATA": {"localhost": {"hostname": f"leaf-{leaf}", "platform": "x86_64-nvidia_sn5600-r0"}},
        "PORT": {name: {"speed": "400000", "mtu": "9100", "admin_status": "up"} for name in names},
        "CABLE_LENGTH": {"AZURE": {name: "5m" if port < PORTS else "40m" for port, name in enumerate(names)}},
        "DSCP_TO_TC_MAP": {"AZURE": {str(dscp): {26: "3", 48: "6"}.get(dscp, "0") for dscp in range(64)}},
        "TC_TO_QUEUE_MAP": {"AZURE": same},
        "TC_TO_PRIORITY_GROUP_MAP": {"AZURE": {str(tc): "3" if tc == 3 else "0" for tc in range(8)}},
        "MAP_PFC_PRIORITY_TO_QUEUE": {"AZURE": same},
        "PORT_QOS_MAP": {name: {**bound, "pfc_enable": "3", "pfcwd_sw_enable": "3"} for name in names},
        "SCHEDULER": {"fair": {"type": "DWRR", "weight": "50"}, "strict": {"type": "STRICT"}},
        "WRED_PROFILE": {
            "ROCE": {
                "ecn": "ecn_all",
                "green_min_threshold": "1048576",
                "green_max_threshold": "2097152",
                "green_drop_probability": "5",
            }
        },
        "QUEUE": {
            f"{name}|{queue}": row if queue == 3 else {"scheduler": "strict" if queue == 6 else "fair"}
            for name in names
            for queue in (0, 3, 6)
        },
        "BUFFER_POOL": {"ingress_lossless_pool": {"type": "ingress", "mode": "dynamic", "size": "100000000"}},
        "BUFFER_PROFILE": {
            "pg_lossless": {
                "pool": "ingress_lossless_pool",
                "size": "0",
                "xon": "0",
                "xoff": "80000",
                "dynamic_th": "0",
            }
        },
        "BUFFER_PG": {f"{name}|3": {"profile": "pg_lossless"} for name in names},
        "PFC_WD": {
            "GLOBAL": {"POLL_INTERVAL": "100"},
            **{name: {"action": "drop", "detection_time": "200", "restoration_time": "400"} for name in names},
        },
    }


def _measure(leaves: int) -> None:
    """One line of the curve, this process being for it alone: the rules on objects, then the command on files."""
    gc.disable()  # as the command does
    given = planted(leaves)
    before = time.process_time()
    report = lint(given, date(2030, 6, 1))
    rules = time.process_time() - before
    assert {(finding.rule, finding.where) for finding in report.findings} == EXPECTED
    nics = len(given.hosts) * RAILS
    del given, report
    wall, cpu, peak = _command(leaves)
    print(f"{leaves:8} {nics:8} {rules:8.2f} {1e6 * rules / nics:10.1f} {cpu:10.2f} {wall:8.2f} {peak:8}")


def _command(leaves: int) -> tuple[float, float, int]:
    """Wall and processor seconds and peak MB of ``roceway-tune lint`` on files, both of its processes together."""
    with tempfile.TemporaryDirectory() as name, (Path(name) / "report.json").open("w+") as report:
        write(Path(name), leaves)
        words = ["-f", f"{name}/fabric.yaml", "--host-state", f"{name}/hosts.json", "--json"]
        before, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        with subprocess.Popen([sys.executable, "-m", "tuner", "lint", *words], stdout=report, cwd=ROOT) as running:
            peak = 0
            while running.poll() is None and time.perf_counter() - before < 600:
                peak = max(peak, _memory(running.pid))
                time.sleep(0.1)
            running.kill()  # what takes ten minutes is measured enough
        wall, after = time.perf_counter() - before, resource.getrusage(resource.RUSAGE_CHILDREN)
        report.seek(0)
        found = json.load(report)["findings"]
    assert found == [], found[:1]
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return wall, cpu, peak >> 10


def _memory(pid: int) -> int:
    """KiB of a process and its children, each shared page counted once."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return sum(pss(each) for each in (pid, *map(int, children)))
    except (OSError, StopIteration):  # one has ended meanwhile
        return 0


def curve() -> None:
    """Print the curve."""
    print("\nroceway-tune lint: processor seconds of the rules alone, and of the command with reading its files")
    print(
        f"{'leaves':>8} {'NICs':>8} {'rules s':>8} {'µs per NIC':>10} {'command s':>10} {'wall s':>8} {'MB peak':>8}",
        flush=True,
    )
    for leaves in SIZES:
        subprocess.run([sys.executable, "-m", "tests.tuner.lint.big", str(leaves)], check=True, cwd=ROOT)


if __name__ == "__main__":
    _measure(int(sys.argv[1])) if len(sys.argv) > 1 else curve()
