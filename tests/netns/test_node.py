"""The agent's look at the node on a real kernel: drift in pods' namespaces, dead pods, metrics."""

from __future__ import annotations

import gc
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from cni.agent import railcounters
from cni.agent.api import cri_pb2 as cri
from cni.agent.drift import Drift
from cni.agent.lookout import Lookout
from cni.agent.metrics import Metrics
from cni.agent.noderails import NodeRails
from cni.agent.nodeview import look
from cni.agent.parts import Finished
from cni.agent.podevents import Notice
from cni.agent.reclaim import Reclaimer, is_inhabited
from cni.agent.runtime import Runtime
from cni.lifecycle import open_store
from host.allns import AllNamespaces, number_of
from host.netlink import Route
from host.netns import Netns, identity
from tests.cni.agent.kubelet import handler, wait_for
from tests.netns.support import EMPTY, added, deleted, in_child, rows, within
from tests.world import ROOT, Host, Ns, World


@pytest.fixture
def pod(world: World) -> Ns:
    return world.ns("pod")


class Told:
    """What the drift part said."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.fresh: list[str] = []
        self.repaired: list[str] = []
        self.notices: list[Notice] = []

    def __call__(self, counts: dict[str, int], fresh: Any, repaired: Any) -> None:
        self.counts = counts
        self.fresh += sorted(fresh)
        self.repaired += sorted(repaired)


@pytest.fixture
def told() -> Told:
    return Told()


@contextmanager
def watching(host: Host, told: Told, *, repair: bool = False) -> Iterator[Drift]:
    """The part's own turns, in the host's namespace."""
    drift = Drift(str(host.state), repair=repair, told=told, notice=told.notices.append)
    with within(host.ns), AllNamespaces() as ears:
        drift.turn(ears, time.time())  # finds the pods
        drift.turn(ears, time.time())
        drift.ears = ears  # type: ignore[attr-defined]
        yield drift


def turn(drift: Drift, times: int = 1) -> list[str]:
    """Listen and look; the differences of all pods."""
    for _ in range(times):
        drift.turn(drift.ears, time.time())  # type: ignore[attr-defined]
    return [line for lines in drift.found.values() for line in lines]


# notifications


def test_one_socket_hears_of_every_namespace_and_keeps_none_alive(host: Host, world: World) -> None:
    spaces = [world.ns(f"n{number}") for number in range(3)]
    with within(host.ns), AllNamespaces() as ears, Route() as connection:
        numbers = []
        for space in spaces:
            opened = Netns.open(space.path)
            numbers.append(number_of(connection, opened.fd))
            assert number_of(connection, opened.fd) == numbers[-1], "asked again it is the same"
            opened.close()
        assert len(set(numbers)) == 3
        spaces[1].ip("addr", "add", "192.0.2.1/32", "dev", "lo")
        assert wait_for(lambda: ears.wait(0.2)) == {numbers[1]}
        spaces[2].ip("rule", "add", "from", "192.0.2.1", "lookup", "100")
        assert wait_for(lambda: ears.wait(0.2)) == {numbers[2]}
        host.ns.ip("addr", "add", "192.0.2.2/32", "dev", "lo")
        assert ears.wait(0.2) == set(), "of its own namespace nothing is told"
        spaces[0].ip("link", "add", "v0", "type", "veth", "peer", "name", "v1", "netns", host.ns.name)
        spaces[0].delete()
        wait_for(lambda: "v1" not in host.ns.ip("link"))  # the namespace is dead though it has a number


# drift


def test_a_lost_address_a_lost_link_and_a_lost_rule_are_noticed_by_notification(
    host: Host, pod: Ns, told: Told
) -> None:
    added(host, host.conf(), netns=pod)
    with watching(host, told) as drift:
        assert turn(drift) == []
        pod.ip("addr", "del", "10.200.0.2/24", "dev", "rail0")
        assert "rail0: address: wanted 10.200.0.2/24, got none" in turn(drift)
        assert told.counts == {"rail0": 1}
        pod.ip("link", "del", "rail1")
        assert "rail1: the interface is gone" in turn(drift)
        assert told.counts == {"rail0": 1, "rail1": 1}
        assert told.fresh == ["rail0", "rail1"], "each is news once"
        turn(drift, 2)
        assert told.fresh == ["rail0", "rail1"]


def test_a_recovered_rail_is_noticed_too(host: Host, pod: Ns, told: Told, caplog: pytest.LogCaptureFixture) -> None:
    added(host, host.conf(), netns=pod)
    with watching(host, told) as drift, caplog.at_level("INFO"):
        pod.ip("rule", "del", "from", "10.200.0.2")
        assert turn(drift) == ["rule: wanted from 10.200.0.2/32 lookup 1000 priority 1000, got none"]
        assert told.counts == {"rail0": 1}
        pod.ip("rule", "add", "from", "10.200.0.2", "lookup", "1000", "priority", "1000")
        assert turn(drift) == []
        assert told.counts == {}
    assert [record.message for record in caplog.records] == ["rails drifted", "rails are as they were attached again"]


def test_rules_and_routes_are_put_back_and_nothing_else(host: Host, pod: Ns, told: Told) -> None:
    conf = host.conf()
    added(host, conf, netns=pod)
    before = pod.snapshot()
    with watching(host, told, repair=True) as drift:
        pod.ip("rule", "del", "from", "10.200.0.2")
        pod.ip("route", "flush", "table", "1001")
        assert turn(drift, 2) == []
        assert pod.snapshot() == before
        assert set(told.repaired) == {"rail0", "rail1"}
        pod.ip("addr", "del", "10.200.0.2/24", "dev", "rail0")
        lines = turn(drift, 2)
        assert "rail0: address: wanted 10.200.0.2/24, got none" in lines
        assert "10.200.0.2" not in pod.ip("addr"), "an address is not given back behind the pod's back"


def test_each_drift_and_each_repair_is_noted_for_its_pod(host: Host, pod: Ns, told: Told) -> None:
    added(host, host.conf(), netns=pod, env={"CNI_ARGS": "K8S_POD_NAMESPACE=ml;K8S_POD_NAME=train-0;K8S_POD_UID=u"})
    with watching(host, told, repair=True) as drift:
        pod.ip("rule", "del", "from", "10.200.0.2")
        turn(drift, 2)
        pod.ip("addr", "del", "10.201.0.2/24", "dev", "rail1")
        turn(drift, 3)
        pod.ip("addr", "add", "10.201.0.2/24", "dev", "rail1")
        turn(drift, 3)
    assert {(each.pod["namespace"], each.pod["name"], each.pod["uid"]) for each in told.notices} == {
        ("ml", "train-0", "u")
    }
    short = [(each.reason, each.warning, each.lasts, each.message.partition(":")[0]) for each in told.notices]
    assert short[0] == ("RailRepaired", False, False, "rail0")
    assert "from 10.200.0.2/32 lookup 1000 priority 1000, got none (put back)" in told.notices[0].message
    drifted = [each for each in told.notices if each.reason == "RailDrifted"]
    assert {each.message.partition(":")[0] for each in drifted} == {"rail1"}
    assert "address: wanted 10.201.0.2/24, got none" in drifted[0].message
    assert [each.lasts for each in drifted] == [False] + [True] * (len(drifted) - 1)


def test_somebody_who_insists_is_not_fought_for_ever(host: Host, pod: Ns, told: Told) -> None:
    added(host, host.conf(), netns=pod)
    with watching(host, told, repair=True) as drift:
        for _ in range(5):
            if "from 10.200.0.2 lookup" in pod.ip("rule"):
                pod.ip("rule", "del", "from", "10.200.0.2")
            turn(drift)
        assert told.repaired == ["rail0"] * 3
        assert turn(drift) == ["rule: wanted from 10.200.0.2/32 lookup 1000 priority 1000, got none"]


def test_a_pod_that_ends_is_forgotten(host: Host, pod: Ns, told: Told) -> None:
    conf = host.conf()
    added(host, conf, netns=pod)
    with watching(host, told) as drift:
        pod.ip("link", "del", "rail0")
        assert turn(drift) != []
        deleted(host, conf, netns=pod)
        assert turn(drift) == []
        assert told.counts == {}


def test_a_change_of_a_sysctl_is_found_at_the_next_look(host: Host, pod: Ns, told: Told) -> None:
    """The kernel notifies of none of these."""
    added(host, host.conf(), netns=pod)
    with watching(host, told) as drift:
        pod.run("sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/rail0/arp_ignore")
        drift.turn(drift.ears, time.time() + 61)  # type: ignore[attr-defined]
        assert turn(drift) == ["rail0: arp_ignore: wanted 1, got 0"]


# dead pods


class Cri:
    """A container runtime's socket with these sandboxes."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "cri.sock")
        self.sandboxes: dict[str, str] = {}
        self.listed = True
        """Whether the list has what asking by id finds."""
        self._server = grpc.server(ThreadPoolExecutor(2))
        methods = {
            "ListPodSandbox": handler(self._list, cri.ListPodSandboxRequest),
            "PodSandboxStatus": handler(self._status, cri.PodSandboxStatusRequest),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("runtime.v1.RuntimeService", methods),)
        )
        self._server.add_insecure_port(f"unix:{self.path}")
        self._server.start()

    def close(self) -> None:
        self._server.stop(0).wait()

    def _list(self, request: object, context: object) -> cri.ListPodSandboxResponse:
        shown = self.sandboxes if self.listed else {}
        return cri.ListPodSandboxResponse(
            items=[cri.PodSandbox(id=ident, metadata=cri.PodSandboxMetadata(uid=uid)) for ident, uid in shown.items()]
        )

    def _status(self, request: cri.PodSandboxStatusRequest, context: Any) -> cri.PodSandboxStatusResponse:
        if request.pod_sandbox_id not in self.sandboxes:
            context.abort(grpc.StatusCode.NOT_FOUND, "an error occurred when try to find sandbox: not found")
        return cri.PodSandboxStatusResponse(status=cri.PodSandboxStatus(id=request.pod_sandbox_id))


@pytest.fixture
def runtime() -> Iterator[Cri]:
    folder = Path(tempfile.mkdtemp(prefix="rw-"))
    made = Cri(folder)
    yield made
    made.close()
    shutil.rmtree(folder)


def reclaimer(host: Host, runtime: Cri | None, notices: list[Notice] | None = None) -> tuple[Reclaimer, list[str]]:
    reasons: list[str] = []
    heard = [] if notices is None else notices
    connect = lambda: Runtime(runtime.path) if runtime else None  # noqa: E731 - one line, as the part takes it
    return Reclaimer(str(host.state), connect, reasons.append, notice=heard.append), reasons


def looks(host: Host, part: Reclaimer, times: int, *, after: float = 200.0) -> list[str]:
    """Looks ten seconds apart; the containers reclaimed."""
    found = []
    now = time.time() + after
    with within(host.ns):
        for number in range(times):
            found += [each.key.container_id for each in part.look(now + 11 * number)]
    return found


def test_a_pod_whose_namespace_is_gone_is_reclaimed_after_three_looks(host: Host, pod: Ns) -> None:
    added(host, host.conf(), netns=pod)
    notices: list[Notice] = []
    part, reasons = reclaimer(host, None, notices)
    pod.delete()
    assert looks(host, part, 2) == []
    assert looks(host, part, 1, after=300.0) == ["c1"]
    assert rows(host) == EMPTY
    assert reasons == ["namespace gone"]
    (notice,) = notices
    assert (notice.reason, notice.warning, notice.pod) == ("RailReclaimed", False, {})
    assert notice.message == "rail0, rail1: taken back with their addresses, nobody had deleted them (namespace gone)"


def test_a_namespace_that_the_runtime_has_forgotten_is_reclaimed(host: Host, pod: Ns, runtime: Cri) -> None:
    added(host, host.conf(), netns=pod)
    part, reasons = reclaimer(host, runtime)
    assert looks(host, part, 2) == []
    assert looks(host, part, 1, after=300.0) == ["c1"]
    assert rows(host) == EMPTY
    assert [device["ifname"] for device in pod.json("link")] == ["lo"]
    assert reasons == ["unknown to the runtime"]


def test_a_pod_that_the_runtime_knows_is_left_alone(host: Host, pod: Ns, runtime: Cri) -> None:
    added(host, host.conf(), netns=pod)
    runtime.sandboxes["c1"] = ""
    assert looks(host, reclaimer(host, runtime)[0], 5) == []


def test_a_list_that_lacks_it_is_not_believed_when_the_runtime_finds_it_by_id(
    host: Host, pod: Ns, runtime: Cri
) -> None:
    added(host, host.conf(), netns=pod)
    runtime.sandboxes["c1"] = ""
    runtime.listed = False
    assert looks(host, reclaimer(host, runtime)[0], 5) == []


def test_one_look_that_lists_it_begins_the_count_anew(host: Host, pod: Ns, runtime: Cri) -> None:
    added(host, host.conf(), netns=pod)
    part, _ = reclaimer(host, runtime)
    assert looks(host, part, 2) == []
    runtime.sandboxes["c1"] = ""
    assert looks(host, part, 1, after=300.0) == []
    runtime.sandboxes.clear()
    assert looks(host, part, 2, after=400.0) == []
    assert looks(host, part, 1, after=500.0) == ["c1"]


def test_a_young_attachment_is_its_runtimes(host: Host, pod: Ns, runtime: Cri) -> None:
    added(host, host.conf(), netns=pod)
    assert looks(host, reclaimer(host, runtime)[0], 5, after=0.0) == []


def test_a_namespace_in_which_a_process_lives_is_never_taken(host: Host, pod: Ns, runtime: Cri) -> None:
    added(host, host.conf(), netns=pod)
    inside = subprocess.Popen(["nsenter", f"--net={pod.path}", "--", "sleep", "60"])
    try:
        own = identity(pod.path)
        assert own is not None
        wait_for(lambda: is_inhabited(own))
        assert looks(host, reclaimer(host, runtime)[0], 5) == []
    finally:
        inside.kill()
        inside.wait()


def test_who_cannot_see_the_runtimes_processes_takes_nothing_from_it(host: Host, pod: Ns, runtime: Cri) -> None:
    """As in a container without hostPID: a PID namespace of its own, from which nobody in the pod is seen."""
    added(host, host.conf(), netns=pod)
    code = (
        "import time; from cni.agent.reclaim import Reclaimer; from cni.agent.runtime import Runtime\n"
        f"part = Reclaimer({str(host.state)!r}, lambda: Runtime({runtime.path!r}), print)\n"
        "print([part.look(time.time() + 200 + 11 * number) for number in range(5)])"
    )
    words = ["nsenter", f"--net={host.ns.path}", "--", "unshare", "--pid", "--fork", "--mount-proc", sys.executable]
    done = subprocess.run([*words, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[[], [], [], [], []]", done.stderr
    assert len(rows(host)["attachments"]) == 1


def test_a_process_that_cannot_be_looked_at_may_live_anywhere(pod: Ns) -> None:
    """As without CAP_SYS_PTRACE: another user sees its own processes only."""
    own = identity(pod.path)
    assert own is not None
    with tempfile.TemporaryDirectory() as name, within_reach(Path(name)), subprocess.Popen(["sleep", "60"]) as sleeper:
        (Path(name) / str(sleeper.pid)).symlink_to(f"/proc/{sleeper.pid}")
        code = f"from cni.agent.reclaim import is_inhabited; print(is_inhabited({tuple(own)}, {name!r}))"
        words = [sys.executable, "-c", code]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, user=65534, group=65534)
        mine = is_inhabited(own, name)
        sleeper.kill()
    assert (done.stdout.strip(), mine) == ("True", False), done.stderr


@contextmanager
def within_reach(folder: Path) -> Iterator[None]:
    """Readable by everybody; skipped where the source tree is not."""
    folder.chmod(0o755)
    if any(each.stat().st_mode & 0o5 != 0o5 for each in (ROOT, *ROOT.parents)):
        pytest.skip(f"{ROOT} is not readable by others")
    yield


def test_an_agent_that_does_not_see_the_namespaces_folder_takes_nothing(host: Host, pod: Ns) -> None:
    """As in a container without that mount: every namespace looks gone there."""
    added(host, host.conf(), netns=pod)
    code = (
        "import time; from cni.agent.reclaim import Reclaimer\n"
        f"part = Reclaimer({str(host.state)!r}, lambda: None, print)\n"
        "print([part.look(time.time() + 200 + 11 * number) for number in range(5)])"
    )
    hidden = f'mount -t tmpfs tmpfs /run && exec nsenter --net=/proc/self/fd/9 {sys.executable} -c "$CODE"'
    words = ["unshare", "--mount", "sh", "-c", f"exec 9<{host.ns.path}; {hidden}"]
    environment = {**os.environ, "CODE": code}
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.strip() == "[[], [], [], [], []]", done.stderr
    assert len(rows(host)["attachments"]) == 1


def test_a_runtime_that_does_not_answer_reclaims_nobody(host: Host, pod: Ns, runtime: Cri) -> None:
    added(host, host.conf(), netns=pod)
    runtime.close()
    part, _ = reclaimer(host, runtime)
    with pytest.raises(Exception, match="ListPodSandbox"):
        looks(host, part, 1)
    assert len(rows(host)["attachments"]) == 1


# the view, metrics


def installed(host: Host, folder: Path) -> NodeRails:
    """The configuration as `roceway-cni install` leaves it."""
    conf = {**host.conf(), "agent": False}
    version, name = conf.pop("cniVersion"), conf.pop("name")
    document = {"cniVersion": version, "name": name, "plugins": [{"type": "bridge"}, conf]}
    (folder / "10-pods.conflist").write_text(json.dumps(document))
    return NodeRails(str(folder))


def test_the_view_tells_where_each_nic_is_and_who_has_it(host: Host, pod: Ns, tmp_path: Path) -> None:
    conf = host.conf()
    conf["rails"][0]["mode"] = "host-device"
    (tmp_path / "x.conflist").write_text(json.dumps({"name": "pods", "plugins": [conf]}))
    args = {"CNI_ARGS": "K8S_POD_NAMESPACE=ml;K8S_POD_NAME=train-0;K8S_POD_UID=u"}
    added(host, conf, netns=pod, env=args)
    with within(host.ns):
        store = open_store(str(host.state), create=False)
        assert store is not None
        with store:
            first, second = look(NodeRails(str(tmp_path)).read(), store)
    assert (first.inside, first.netdev, first.up, first.carrier, first.mtu) == ("c1", "rail0", True, True, 9000)
    assert (second.inside, second.netdev, second.up) == ("", "nic1", True)
    assert [[holder.pod for holder in rail.holders] for rail in (first, second)] == [["ml/train-0"], ["ml/train-0"]]
    assert first.speed == 10000, "veth says 10 Gb/s; read in the pod's own sysfs"


@contextmanager
def scraped(host: Host, folder: Path) -> Iterator[Metrics]:
    with within(host.ns):
        lookout = Lookout(installed(host, folder), str(host.state), str(folder / "kubelet"))
        made = Metrics(lookout, "127.0.0.1:0")
        lookout.refresh()
        yield made


def series(metrics: Metrics) -> dict[str, float]:
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in metrics.registry.collect()
        for sample in family.samples
    }


def finished(number: int, verb: str = "ADD", code: int = 0) -> Finished:
    return Finished(
        verb=verb,
        network="pods",
        container=f"container-{number}",
        ifname="eth0",
        netns=f"/run/netns/{number}",
        args={"K8S_POD_NAME": f"pod-{number}"},
        state_dir="/x",
        code=code,
        message=f"pod {number} failed",
        result=None,
        seconds=0.01,
    )


def test_metrics_tell_rails_leases_and_requests(host: Host, pod: Ns, tmp_path: Path) -> None:
    added(host, host.conf(), netns=pod)
    with scraped(host, tmp_path) as metrics:
        metrics.after(finished(1))
        metrics.after(finished(2, code=11))
        told = series(metrics)
    assert told["roceway_cni_request_seconds_count[('verb', 'ADD')]"] == 2
    assert told["roceway_cni_failures_total[('code', '11'), ('verb', 'ADD')]"] == 1
    assert told["roceway_rail_carrier[('rail', 'rail0')]"] == 1
    assert told["roceway_rail_fit[('rail', 'rail1')]"] == 1
    assert told["roceway_rail_pods[('rail', 'rail0')]"] == 1
    assert told["roceway_leases[('family', '4'), ('rail', 'rail0')]"] == 1
    assert told["roceway_lease_pool_size[('family', '4'), ('rail', 'rail0')]"] == 29
    assert told["roceway_attachments[('state', 'attached')]"] == 1


def test_the_number_of_series_does_not_grow_with_pods_and_errors(host: Host, tmp_path: Path) -> None:
    with scraped(host, tmp_path) as metrics:
        for code in (*range(12), 50, 51, 100, 999):
            for verb in ("ADD", "DEL", "CHECK", "GC"):
                metrics.after(finished(0, verb, code))
        metrics.after(finished(0, "ADD", 12345))
        before = len(series(metrics))
        for number in range(2000):
            metrics.after(finished(number, f"verb-{number}", 1000 + number))
        after = series(metrics)
        assert len(after) - before <= 1, "failures of verbs and codes that do not exist share one"
        assert not [name for name in after if "pod-" in name or "container" in name]


def test_a_rail_that_loses_its_link_is_unfit_when_that_lasts(host: Host, tmp_path: Path) -> None:
    with scraped(host, tmp_path) as metrics:
        lookout = metrics._lookout
        host.ns.ip("link", "set", "nic0", "down")
        lookout.refresh(now=1000.0)
        assert [unit.healthy for unit in lookout.units] == [True, True], "for a moment"
        lookout.refresh(now=1011.0)
        assert [(unit.healthy, unit.why) for unit in lookout.units] == [(False, "NIC nic0 is down"), (True, "")]
        assert series(metrics)["roceway_rail_fit[('rail', 'rail0')]"] == 0
        host.ns.ip("link", "set", "nic0", "up")
        lookout.refresh(now=1012.0)
        assert [unit.healthy for unit in lookout.units] == [True, True]


def test_a_scrape_over_http_on_loopback(host: Host, tmp_path: Path) -> None:
    with scraped(host, tmp_path) as metrics:
        metrics.start()
        try:
            wait_for(lambda: metrics.port)
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=10) as answer:
                text = answer.read().decode()
        finally:
            metrics.stop()
    assert 'roceway_rail_carrier{rail="rail0"} 1.0' in text


def test_a_node_without_a_configuration_says_so(host: Host, tmp_path: Path) -> None:
    with within(host.ns):
        lookout = Lookout(NodeRails(str(tmp_path)), str(host.state), str(tmp_path))
        lookout.refresh()
        assert "run `roceway-cni install`, or give -f fabric.yaml" in lookout.problem()
        installed(host, tmp_path)
        lookout.refresh()
        assert (lookout.problem(), [rail.name for rail in lookout.view]) == ("", ["rail0", "rail1"])


def test_without_the_capability_to_hear_pods_are_looked_at_often(host: Host, pod: Ns, told: Told) -> None:
    """In a child that gave CAP_NET_BROADCAST away, as a manifest without it leaves the agent."""

    def work() -> None:
        import ctypes

        from host.allns import AllNamespaces

        libc = ctypes.CDLL(None, use_errno=True)
        header = struct.pack("=Ii", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this thread
        data = ctypes.create_string_buffer(24)
        assert libc.capget(header, data) == 0
        words = list(struct.unpack("=6I", data.raw))
        words[0] &= ~(1 << 11)  # CAP_NET_BROADCAST, effective
        words[1] &= ~(1 << 11)
        assert libc.capset(header, struct.pack("=6I", *words)) == 0
        with pytest.raises(PermissionError):
            AllNamespaces()
        drift = Drift(str(host.state), repair=False, told=told)
        with within(host.ns), drift._ears() as ears:
            assert "no CAP_NET_BROADCAST" in ears.account
            drift.stopping.set()  # its ears wait for nothing
            drift.turn(ears, 1000.0)
            pod.ip("link", "del", "rail0")
            drift.turn(ears, 1005.0)
            assert list(drift.found.values()) == [()]
            drift.turn(ears, 1011.0)
            assert any(drift.found.values())

    added(host, host.conf(), netns=pod)
    assert in_child(work) == 0


def test_looking_again_and_again_leaves_no_descriptor(
    host: Host, pod: Ns, told: Told, runtime: Cri, tmp_path: Path
) -> None:
    conf = host.conf()
    conf["rails"][0]["mode"] = "host-device"
    added(host, conf, netns=pod)
    part, _ = reclaimer(host, runtime)
    runtime.sandboxes["c1"] = ""
    with scraped(host, tmp_path) as metrics, watching(host, told) as drift:

        def everything() -> int:
            for number in range(10):
                metrics._lookout.refresh()
                railcounters.read(metrics._lookout.view)
                series(metrics)
                drift.turn(drift.ears, time.time() + 100 * number)  # type: ignore[attr-defined]
                part.look(time.time() + 11 * number)
            gc.collect()
            return len(os.listdir("/proc/self/fd"))

        before = everything()
        assert everything() <= before
