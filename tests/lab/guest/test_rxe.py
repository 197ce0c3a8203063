"""Soft RoCE: real RDMA traffic between two namespaces, over simulated NICs and over VFs."""

from __future__ import annotations

import subprocess

from tests.lab.guest.kit import HOST, ROCE, namespace, netdev, sh, wait_until


def write_bandwidth(here: str, there: str, server: str) -> float:
    """``ib_write_bw`` from one namespace to the other, in MB/s."""
    words = ["ib_write_bw", "-d", "{}", "-x", "1", "-s", "4096", "-n", "64", "-F"]
    listening = subprocess.Popen(
        ["ip", "netns", "exec", there, *(word.format("rxe1") for word in words)], stdout=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: listens(there))
        printed = sh("ip", "netns", "exec", here, *(word.format("rxe0") for word in words), server)
        listening.communicate(timeout=30)
    finally:
        listening.kill()
    (row,) = (line.split() for line in printed.splitlines() if line.strip().startswith("4096"))
    return float(row[3])


def listens(space: str) -> bool:
    """Whether somebody listens on ib_write_bw's port there; what an earlier one left waits on it for a minute."""
    lines = sh("ip", "netns", "exec", space, "cat", "/proc/net/tcp").splitlines()[1:]
    return any(line.split()[1].endswith(":4853") and line.split()[3] == "0A" for line in lines)


def rail(pod: str, device: str, number: int) -> None:
    """What the plugin does for a rail, as far as rxe needs it."""
    sh("ip", "link", "set", device, "netns", pod, "name", "rail0")
    sh("ip", "-n", pod, "addr", "add", f"10.11.0.{number + 1}/24", "dev", "rail0")
    sh("ip", "-n", pod, "link", "set", "rail0", "mtu", "9000", "up")
    sh("ip", "netns", "exec", pod, "rdma", "link", "add", f"rxe{number}", "type", "rxe", "netdev", "rail0")


def test_two_pods_on_two_nics_of_a_wire() -> None:
    sh("modprobe", "rdma_rxe")
    pair = [number for number, seat in enumerate(ROCE) if seat.wire == ROCE[0].wire]
    with namespace() as left, namespace() as right:
        for number, (pod, nic) in enumerate(zip((left, right), pair, strict=True)):
            rail(pod, f"sim{nic}", number)
        assert write_bandwidth(left, right, "10.11.0.2") > 0
        for number, (pod, nic) in enumerate(zip((left, right), pair, strict=True)):
            sh("ip", "netns", "exec", pod, "rdma", "link", "delete", f"rxe{number}")
            sh("ip", "-n", pod, "link", "set", "rail0", "netns", HOST, "name", f"sim{nic}")
    for nic in pair:
        assert netdev(ROCE[nic].address) == f"sim{nic}"
