"""DEL works with whatever is left: no namespace, no result, no journal, no database, another boot."""

from __future__ import annotations

import json

import pytest

from tests.netns.support import EMPTY, added, call, collected, database, deleted, difference, rows
from tests.world import Host, Ns, World


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


def links(space: Ns) -> set[str]:
    return {each["ifname"] for each in space.json("link", "show")}


def set_journal(host: Host, text: str) -> None:
    connection = database(host)
    connection.execute("UPDATE attachments SET journal = ?", (text,))
    connection.close()


def journal(host: Host) -> str:
    connection = database(host)
    ((text,),) = connection.execute("SELECT journal FROM attachments").fetchall()
    connection.close()
    return str(text)


def test_a_second_del_is_silent(host: Host, pod: Ns) -> None:
    before = pod.snapshot()
    added(host, host.conf(), netns=pod)
    for _ in range(3):
        deleted(host, host.conf(), netns=pod)
        assert pod.snapshot() == before


def test_a_del_of_what_never_was_is_silent_and_makes_no_state(host: Host, pod: Ns) -> None:
    deleted(host, host.conf(), netns=pod)
    assert not host.state.exists()


@pytest.mark.parametrize("spoken", ["gone", "unset"])
def test_a_namespace_that_is_gone_frees_the_addresses(host: Host, pod: Ns, spoken: str) -> None:
    added(host, host.conf(), netns=pod)
    pod.delete()
    deleted(host, host.conf(), netns=pod if spoken == "gone" else "")
    assert rows(host) == EMPTY


def test_without_cni_netns_the_journals_path_is_used(host: Host, pod: Ns) -> None:
    before = pod.snapshot()
    added(host, host.conf(), netns=pod)
    deleted(host, host.conf())
    assert pod.snapshot() == before


def test_another_namespace_under_the_old_path_is_left_alone(host: Host, pod: Ns, world: World) -> None:
    added(host, host.conf(), netns=pod)
    parked = world.ns("parked")  # so that the kernel does not give the next namespace the same inode
    added(host, host.conf(), "c2", parked)
    pod.delete()
    again = world.ns("pod")
    again.ip("link", "add", "rail0", "type", "bridge")
    again.ip("rule", "add", "from", "10.200.0.2", "lookup", "1000", "priority", "1000")
    before = again.snapshot()
    deleted(host, host.conf(), netns=again)
    assert again.snapshot() == before
    assert {key[1] for key in rows(host)["attachments"]} == {"c2"}


@pytest.mark.parametrize(
    "text",
    ["", "{", "null", "5", '"text"', "[5]", "[[]]", '[["NoSuchStep", 1]]', '[["Bring"]]', '[["Bring", "a", "b"]]'],
)
def test_a_damaged_journal_does_not_keep_the_links(host: Host, pod: Ns, text: str) -> None:
    before = host.ns.snapshot(), difference(pod.snapshot(), pod.snapshot())
    added(host, host.conf(), netns=pod)
    set_journal(host, text)
    deleted(host, host.conf(), netns=pod)
    assert links(pod) == {"lo"}
    assert host.ns.snapshot() == before[0]
    assert rows(host) == EMPTY


def test_a_journal_with_values_of_wrong_types_counts_as_damaged(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    steps = json.loads(journal(host))
    for step in steps:
        if step[0] == "CreateLink":
            step[-1] = "no group"
        if step[0] == "AddRule":
            step[1:] = [5, "x", None]
    set_journal(host, json.dumps(steps))
    deleted(host, host.conf(), netns=pod)
    assert links(pod) == {"lo"}
    assert rows(host) == EMPTY


def test_a_lost_database_does_not_keep_the_links(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    for file in host.state.iterdir():
        file.unlink()
    deleted(host, host.conf(), netns=pod)
    assert links(pod) == {"lo"}


@pytest.mark.parametrize("damage", ["first page", "later pages", "one table", "empty", "another layout"])
def test_a_damaged_database_does_not_keep_the_links(host: Host, pod: Ns, damage: str) -> None:
    added(host, host.conf(), netns=pod)
    connection = database(host)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    sql = "SELECT rootpage FROM sqlite_master WHERE tbl_name = 'attachments'"
    pages = [4096 * (page - 1) for (page,) in connection.execute(sql)]
    connection.close()
    file = host.state / "state.db"
    data = file.read_bytes()
    if damage == "first page":
        file.write_bytes(b"\xa5" * 4096 + data[4096:])
    elif damage == "later pages":
        file.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
    elif damage == "one table":
        with file.open("r+b") as opened:
            for page in pages:
                opened.seek(page)
                opened.write(b"\xa5" * 4096)
    elif damage == "empty":
        file.write_bytes(b"")
    else:
        with database(host) as connection:
            connection.execute("PRAGMA user_version = 7")
    deleted(host, host.conf(), netns=pod)
    assert links(pod) == {"lo"}


def test_after_a_reboot_claims_and_leases_of_the_last_boot_are_dropped(host: Host, pod: Ns, world: World) -> None:
    first = added(host, host.conf(mode="host-device"), netns=pod)
    deleted(host, host.conf(mode="host-device"), netns=pod)
    added(host, host.conf(), netns=pod)
    connection = database(host)
    connection.execute("UPDATE meta SET value = 'another boot' WHERE key = 'boot_id'")
    connection.execute("UPDATE claims SET exclusive = 1")
    connection.close()
    second = added(host, host.conf(), "c2", world.ns("pod2"))
    assert [key[1] for key in rows(host)["attachments"]] == ["c2"]
    assert len(rows(host)["leases"]) == 2
    assert first["ips"][0]["address"] != second["ips"][0]["address"], "an address is not reused at once"
    deleted(host, host.conf(), netns=pod)
    assert links(pod) == {"lo"}, "the group still tells whose links these are"
    assert [key[1] for key in rows(host)["attachments"]] == ["c2"]


def test_a_configuration_that_went_bad_since_does_not_hinder_del(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    conf = host.conf(rails=0, oops=True, routing="bad", prevResult=None)
    deleted(host, conf, netns=pod)
    assert links(pod) == {"lo"}
    assert rows(host) == EMPTY


def test_cni_args_that_cannot_be_read_do_not_hinder_del(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    deleted(host, host.conf(), netns=pod, env={"CNI_ARGS": "nonsense"})
    assert rows(host) == EMPTY


def test_links_that_somebody_already_deleted_are_no_error(host: Host, pod: Ns) -> None:
    before = pod.snapshot()
    added(host, host.conf(), netns=pod)
    pod.ip("link", "del", "rail0")
    pod.ip("rule", "del", "table", "1001")
    deleted(host, host.conf(), netns=pod)
    assert pod.snapshot() == before


def test_only_the_links_of_the_attachment_go(host: Host, pod: Ns) -> None:
    pod.ip("link", "add", "mine", "type", "bridge")
    before = pod.snapshot()
    other = {**host.conf(1), "name": "others", "routing": False}
    other["rails"][0]["name"] = "storage0"
    added(host, other, netns=pod)
    added(host, host.conf(), netns=pod)
    deleted(host, host.conf(), netns=pod)
    assert links(pod) == {"lo", "mine", "storage0"}
    deleted(host, other, netns=pod)
    assert pod.snapshot() == before
    assert collected(host, host.conf()).code == 0
    assert call(host, "STATUS", host.conf()).code == 0


@pytest.mark.parametrize("loss", ["removed", "damaged"])
def test_without_a_database_a_nic_still_comes_home_under_the_name_that_the_configuration_has(
    world: World, host: Host, loss: str
) -> None:
    pod = world.ns("pod")
    conf = host.conf(mode="host-device")
    assert host.call("ADD", conf, netns=pod).code == 0
    for path in host.state.glob("state.db*"):
        if loss == "removed":
            path.unlink()
        else:
            path.write_bytes(b"no database " * 400)
    assert host.call("DEL", conf, netns=pod).code == 0
    assert {"nic0", "nic1"} <= {device["ifname"] for device in host.ns.json("link", "show")}
    assert [device["ifname"] for device in pod.json("link", "show")] == ["lo"]


def test_with_a_damaged_journal_a_nic_still_comes_home(world: World, host: Host) -> None:
    pod = world.ns("pod")
    conf = host.conf(mode="host-device")
    assert host.call("ADD", conf, netns=pod).code == 0
    set_journal(host, "[1, 2")
    assert host.call("DEL", conf, netns=pod).code == 0
    assert {"nic0", "nic1"} <= links(host.ns)
    assert links(pod) == {"lo"}
    assert rows(host) == EMPTY
