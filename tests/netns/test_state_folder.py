"""The disk under the state: full, or seen from another folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.netns.support import EMPTY, added, call, collected, deleted, difference, rows
from tests.world import Host, World, sh


@pytest.fixture
def tiny(host: Host) -> Iterator[Path]:
    """The host's state folder on a file system that is soon full."""
    host.state.mkdir()
    sh("mount", "-t", "tmpfs", "-o", "size=1m", "tiny", str(host.state))
    try:
        yield host.state
    finally:
        sh("umount", "-l", str(host.state))


def fill(folder: Path) -> Path:
    """Leave no byte free; the file to remove to make room."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return ballast


def test_on_a_full_disk_add_changes_nothing_and_says_why(world: World, host: Host, tiny: Path) -> None:
    pod = world.ns("pod")
    for made in (False, True):  # without and with a database
        if made:
            added(host, host.conf(), netns=pod)
            deleted(host, host.conf(), netns=pod)
        before = host.ns.snapshot(), pod.snapshot()
        ballast = fill(tiny)
        answer = call(host, "ADD", host.conf(), netns=pod)
        assert answer.error == 5
        assert str(tiny) in answer.body["msg"]
        assert (host.ns.snapshot(), pod.snapshot()) == before
        ballast.unlink()
    added(host, host.conf(), netns=pod)


@pytest.mark.parametrize("mode", ["macvlan", "host-device"])
def test_a_del_on_a_full_disk_asks_to_be_repeated_and_then_gives_everything_back(
    world: World, host: Host, tiny: Path, mode: str
) -> None:
    pod = world.ns("pod")
    before = host.ns.snapshot(), pod.snapshot()
    added(host, host.conf(mode=mode), netns=pod)
    ballast = fill(tiny)
    answer = call(host, "DEL", host.conf(mode=mode), netns=pod)
    assert answer.error == 5, "a success would be the last that is heard of the pod"
    assert str(tiny) in answer.body["msg"]
    ballast.unlink()
    deleted(host, host.conf(mode=mode), netns=pod)
    assert not difference(before[0], host.ns.snapshot())
    assert not difference(before[1], pod.snapshot())
    assert rows(host) == EMPTY


def test_a_namespace_given_as_a_relative_path_is_found_from_any_folder(
    world: World, host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    pod = world.ns("pod")
    before = pod.snapshot()
    monkeypatch.chdir("/run")
    added(host, host.conf(), netns=f"netns/{pod.name}")
    monkeypatch.chdir("/")
    deleted(host, host.conf())
    assert pod.snapshot() == before


def test_a_state_folder_may_be_a_link(world: World, host: Host) -> None:
    elsewhere = world.folder / "elsewhere"
    elsewhere.mkdir()
    host.state.symlink_to(elsewhere)
    added(host, host.conf(), netns=world.ns("pod"))
    assert (elsewhere / "state.db").exists()
    assert collected(host, host.conf()).code == 0


def test_nothing_but_the_database_and_its_lock_is_left_in_the_folder(world: World, host: Host) -> None:
    pod = world.ns("pod")
    for _ in range(3):
        added(host, host.conf(), netns=pod)
        deleted(host, host.conf(), netns=pod)
    assert set(os.listdir(host.state)) <= {"state.db", "state.db-wal", "state.db-shm", "lock"}


def test_an_address_is_handed_out_once_whatever_the_rail_is_called(world: World, host: Host) -> None:
    """A rail is renamed while pods live, or two networks of a node use one subnet under two names."""
    first = added(host, host.conf(1), netns=world.ns("pod"))
    renamed = host.conf(1)
    renamed["rails"][0]["name"] = "fabric0"
    second = added(host, renamed, "c2", world.ns("pod2"))
    assert first["ips"][0]["address"] != second["ips"][0]["address"]
