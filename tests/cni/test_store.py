"""The plugin's memory: complete or absent, of this boot, and never silently replaced."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from cni.lifecycle import open_store
from cni.steps import Bring
from cni.store import ATTACHED, ATTACHING, DamagedError, Key, LeaseRow, Store
from host.errors import HostError
from host.netns import Identity

KEY = Key("pods", "c1", "eth0")


def opened(folder: Path) -> Store:
    store = Store.open(str(folder))
    assert store is not None
    return store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "state") as made:
        yield made


def insert(store: Store, key: Key = KEY) -> int:
    return store.insert(key, "/run/netns/x", Identity(4, 5), 0x40000001, (Bring("rail0"),), {"why": "test"})


def test_what_was_written_is_read_by_the_next_process(tmp_path: Path) -> None:
    with opened(tmp_path) as first:
        row = insert(first)
        first.reach(row, 1)
        first.lease(LeaseRow("rail0", 4, "10.0.0.2/24", "10.0.0.0/24", "10.0.0.1", row), 0x0A000002)
        first.claim("eth2", row, exclusive=True)
    with opened(tmp_path) as second:
        found = second.find(KEY)
        assert found is not None
        assert (found.id, found.key, found.state, found.netns, found.identity) == (
            *(row, KEY, ATTACHING, "/run/netns/x"),
            Identity(4, 5),
        )
        assert (found.reached, found.steps(), found.details) == (1, (Bring("rail0"),), {"why": "test"})
        assert [lease.prefix for lease in second.leases(row)] == ["10.0.0.2/24"]
        assert [(owner.key, exclusive) for owner, exclusive in second.claimants("eth2")] == [(KEY, True)]
        assert second.last("rail0", 4) == 0x0A000002


def test_it_belongs_to_root_alone(tmp_path: Path) -> None:
    with opened(tmp_path / "a" / "state"):
        folder = tmp_path / "a" / "state"
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_without_leave_to_create_there_is_none(tmp_path: Path) -> None:
    assert Store.open(str(tmp_path / "state"), create=False) is None
    assert not (tmp_path / "state").exists()


def test_removing_takes_leases_and_claims_along_and_leaves_the_cursor(store: Store) -> None:
    row, other = insert(store), insert(store, KEY._replace(container_id="c2"))
    for number, each in enumerate((row, other)):
        store.lease(LeaseRow("rail0", 4, f"10.0.0.{number}/24", "", "", each), 0x0A000000 + number)
        store.claim("eth2", each, exclusive=False)
    store.remove(row)
    assert [lease.attachment for lease in store.leases()] == [other]
    assert [owner.id for owner, _ in store.claimants("eth2")] == [other]
    assert store.last("rail0", 4) == 0x0A000001


def test_a_row_number_is_never_used_again(store: Store) -> None:
    """Who looked at a row before it had the lock would otherwise take a new attachment for the old one."""
    first = insert(store)
    store.remove(first)
    assert insert(store) > first


def test_an_attachment_exists_once(store: Store) -> None:
    insert(store)
    with pytest.raises(HostError):
        insert(store)


def test_an_address_is_leased_once(store: Store) -> None:
    row = insert(store)
    store.lease(LeaseRow("rail0", 4, "10.0.0.2/24", "", "", row), 0x0A000002)
    with pytest.raises(HostError) as caught:
        store.lease(LeaseRow("rail0", 4, "10.0.0.2/24", "", "", row), 0x0A000002)
    assert not isinstance(caught.value, DamagedError)


def test_held_addresses_come_in_order_and_within_bounds(store: Store) -> None:
    row = insert(store)
    for number in (300, 5, 2**31, 70, 2**32 - 1):
        store.lease(LeaseRow("rail0", 4, str(number), "", "", row), number)
    store.lease(LeaseRow("rail0", 6, "six", "", "", row), 2**127 + 9)
    store.lease(LeaseRow("rail1", 4, "other", "", "", row), 6)
    assert list(store.held(4)(0, 2**32 - 1)) == [5, 6, 70, 300, 2**31, 2**32 - 1]
    assert list(store.held(4)(70, 2**31)) == [70, 300, 2**31]
    assert list(store.held(6)(0, 2**128 - 1)) == [2**127 + 9]


def test_an_error_within_a_transaction_takes_all_of_it_back(store: Store) -> None:
    def half_done() -> None:
        with store.transaction():
            insert(store)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        half_done()
    assert store.attachments() == []
    with store.transaction():
        insert(store)
    assert len(store.attachments()) == 1


def test_a_killed_process_leaves_nothing_of_an_unfinished_transaction(tmp_path: Path) -> None:
    opened(tmp_path).close()
    pid = os.fork()
    if pid == 0:
        store = opened(tmp_path)
        with store.transaction():
            insert(store)
            os._exit(0)
    os.waitpid(pid, 0)
    with opened(tmp_path) as store:
        assert store.attachments() == []


def test_many_processes_at_once_make_one_database(tmp_path: Path) -> None:
    count = 16
    reading, writing = os.pipe()
    pids = []
    for number in range(count):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.close(writing)
                os.read(reading, 1)  # until all are there
                with opened(tmp_path / "state") as store:
                    insert(store, KEY._replace(container_id=f"c{number}"))
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    os.close(reading)
    os.close(writing)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0] * count
    with opened(tmp_path / "state") as store:
        assert {each.key.container_id for each in store.attachments()} == {f"c{number}" for number in range(count)}
    assert not [name for name in os.listdir(tmp_path / "state") if ".new." in name]


@pytest.mark.parametrize("data", [b"\xa5" * 8192, b"not a database at all", b"SQLite format 3\x00" + b"\xff" * 4080])
def test_a_damaged_file_is_an_error_that_says_what_to_do_and_stays(tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "state.db"
    file.write_bytes(data)
    with pytest.raises(HostError) as caught:
        opened(tmp_path)
    assert str(file) in str(caught.value)
    assert "drain the node's pods, move it away" in str(caught.value)
    assert isinstance(caught.value, DamagedError)
    assert file.read_bytes() == data


def test_another_layout_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path):
        pass
    connection = sqlite3.connect(tmp_path / "state.db")
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    with pytest.raises(HostError) as caught:
        opened(tmp_path)
    assert "layout 7, this roceway knows 1" in str(caught.value)


def test_an_empty_file_is_not_taken_for_an_empty_database(tmp_path: Path) -> None:
    (tmp_path / "state.db").write_bytes(b"")
    with pytest.raises(HostError):
        opened(tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HostError) as caught:
        opened(tmp_path / "file" / "state")
    assert "file/state" in str(caught.value)


def test_another_boot_drops_attachments_leases_and_claims_and_keeps_cursors(tmp_path: Path) -> None:
    for boot in ("this", "that"):
        store = open_store(str(tmp_path), create=True)
        assert store is not None
        with store:
            if boot == "this":
                row = insert(store)
                store.set_state(row, ATTACHED)
                store.lease(LeaseRow("rail0", 4, "10.0.0.2/24", "", "", row), 0x0A000002)
                store.claim("eth2", row, exclusive=True)
                store._rows("UPDATE meta SET value = 'an earlier boot' WHERE key = 'boot_id'")
                continue
            assert (store.attachments(), store.leases(), store.claimants("eth2")) == ([], [], [])
            assert store.last("rail0", 4) == 0x0A000002
            assert store.boot_id() == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def test_the_same_boot_keeps_everything(tmp_path: Path) -> None:
    for _ in range(2):
        store = open_store(str(tmp_path), create=True)
        assert store is not None
        with store:
            if store.find(KEY) is None:
                insert(store)
    with opened(tmp_path) as store:
        assert len(store.attachments()) == 1


def test_details_that_are_damaged_cost_only_themselves(store: Store) -> None:
    row = insert(store)
    for text in ("{", "5", "null"):
        store._rows("UPDATE attachments SET details = ? WHERE id = ?", (text, row))
        found = store.get(row)
        assert found is not None
        assert found.details == {}
