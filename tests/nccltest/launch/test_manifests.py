"""Kubernetes manifests: of the published types, on the right nodes, low and preemptible, all or none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from conf.errors import ConfigError
from conf.fabric import load, parse
from conf.probe import Kubernetes
from nccltest.kube import TAINT
from nccltest.launch.job import Job, job_of
from nccltest.launch.manifests import bench_in_pods, documents, objections, priority_class
from nccltest.model import Member
from nccltest.schedule import Group
from tests.nccltest.launch.schema import mistakes
from tests.world import ROOT

LAB = ROOT / "conf" / "examples" / "lab-4-hosts.yaml"
WORKLOADS = ("indexed-job", "jobset", "mpijob")
GANGS = ("none", "volcano", "kueue", "coscheduling")
# Fields of the custom resources (spec level), from their published CRDs.
FIELDS = {
    "JobSet": {
        *("network", "failurePolicy", "successPolicy", "startupPolicy", "suspend", "ttlSecondsAfterFinished"),
        *("replicatedJobs", "coordinator", "managedBy"),
    },
    "MPIJob": {
        *("slotsPerWorker", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath", "launcherCreationPolicy"),
        *("mpiImplementation", "runLauncherAsWorker"),
    },
    "PodGroup": {
        *("minMember", "queue", "priorityClassName", "minResources", "minTaskMember", "scheduleTimeoutSeconds"),
    },
}
RUN_POLICY = {
    *("cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit", "schedulingPolicy"),
    *("suspend", "managedBy"),
}


def job(rail: str | None = "rail1", nodes: int = 2) -> Job:
    fabric = load(LAB)
    members = tuple(Member(f"host{number}", rail) for number in range(nodes))
    return job_of(bench_in_pods(fabric), Group(members, "pair"), "0123456789abcdef", (1 << 20, 1 << 23, 2), 120.0)


def made(workload: str, gang: str, **extra: Any) -> dict[str, Any]:
    kubernetes = Kubernetes.model_validate({"workload": workload, "gang": gang, "queue": "probes", **extra})
    return {document["kind"]: document for document in documents(job(), kubernetes)}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_a_rails_job_names_the_interface_and_the_gpu_as_a_pod_has_them(workload: str) -> None:
    """Not the host's NIC, which a pod does not see. All GPUs are the pod's, so its rail's own has the host's number."""
    *_, document = documents(job("rail1"), Kubernetes(workload=workload))
    for pod in pods(document):
        given = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"] if "value" in each}
        assert (given["NCCL_SOCKET_IFNAME"], given["CUDA_VISIBLE_DEVICES"]) == ("=rail1", "1")


def test_the_text_has_no_yaml_aliases() -> None:
    assert "&id" not in yaml.safe_dump_all(documents(job(), Kubernetes()))


def pods(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The pod templates of one object."""
    spec = document["spec"]
    if document["kind"] == "JobSet":
        return [each["template"]["spec"]["template"] for each in spec["replicatedJobs"]]
    if document["kind"] == "MPIJob":
        return [each["template"] for each in spec["mpiReplicaSpecs"].values()]
    return [spec["template"]]


@pytest.mark.parametrize("gang", GANGS)
@pytest.mark.parametrize("workload", WORKLOADS)
def test_every_object_is_of_its_published_type(workload: str, gang: str) -> None:
    for document in made(workload, gang, annotations={"k8s.v1.cni.cncf.io/networks": "rails"}).values():
        kind = document["kind"]
        if kind in ("Job", "Service"):
            assert list(mistakes(f"V1{kind}", document)) == []
        else:
            assert set(document) == {"apiVersion", "kind", "metadata", "spec"}
            assert list(mistakes("V1ObjectMeta", document["metadata"])) == []
            assert set(document["spec"]) <= FIELDS[kind]
        if kind == "JobSet":
            (replicated,) = document["spec"]["replicatedJobs"]
            assert list(mistakes("V1JobTemplateSpec", replicated["template"])) == []
        if kind == "MPIJob":
            assert set(document["spec"]["runPolicy"]) <= RUN_POLICY
        if kind in ("Job", "JobSet", "MPIJob"):
            for template in pods(document):
                assert list(mistakes("V1PodTemplateSpec", template)) == []
    assert list(mistakes("V1PriorityClass", priority_class(Kubernetes()))) == []


def test_the_check_is_not_blind() -> None:
    document = made("indexed-job", "none")["Job"]
    document["spec"]["template"]["spec"]["tolerations"][0]["operater"] = "Exists"
    document["spec"]["parallelism"] = "2"
    assert list(mistakes("V1Job", document)) == [
        ".spec.parallelism: '2' is no int",
        ".spec.template.spec.tolerations[0].operater: V1Toleration has no such field",
    ]


@pytest.mark.parametrize("workload", WORKLOADS)
def test_pods_land_one_on_each_of_the_groups_nodes_below_all_other_work(workload: str) -> None:
    document = made(workload, "none")[{"indexed-job": "Job", "jobset": "JobSet", "mpijob": "MPIJob"}[workload]]
    worker = pods(document)[-1]["spec"]
    terms = worker["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert terms == [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["host0", "host1"]}]}
    ]
    (apart,) = worker["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    labels = pods(document)[-1]["metadata"]["labels"]
    assert apart["labelSelector"]["matchLabels"].items() <= labels.items()
    assert worker["priorityClassName"] == "roceway-probe"
    # What `act` taints must be measured again, or it keeps the taint for ever.
    assert worker["tolerations"] == [{"key": key, "operator": "Exists"} for key in ("nvidia.com/gpu", TAINT)]
    assert worker["automountServiceAccountToken"] is False
    assert worker["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}, "of fewer the kubelet chooses"
    low = priority_class(Kubernetes())
    assert low["value"] < 0
    assert low["preemptionPolicy"] == "Never"


def test_an_indexed_job_meets_at_its_barrier_and_ends_in_time() -> None:
    objects = made("indexed-job", "none")
    spec = objects["Job"]["spec"]
    assert (spec["completionMode"], spec["completions"], spec["parallelism"], spec["backoffLimit"]) == (
        "Indexed",
        2,
        2,
        0,
    )
    assert spec["activeDeadlineSeconds"] == 120 + 300 + 3600
    (barrier,) = spec["template"]["spec"]["initContainers"]
    name = objects["Job"]["metadata"]["name"]
    assert barrier["command"][-2:] == [f"{name}-0.{name}", f"{name}-1.{name}"]
    assert objects["Service"]["spec"]["clusterIP"] == "None"
    assert objects["Service"]["metadata"]["name"] == spec["template"]["spec"]["subdomain"] == name
    assert objects["Service"]["spec"]["selector"].items() <= spec["template"]["metadata"]["labels"].items()


def test_gangs_start_all_or_none() -> None:
    volcano = made("indexed-job", "volcano")
    assert volcano["PodGroup"]["spec"] == {"minMember": 2, "priorityClassName": "roceway-probe", "queue": "probes"}
    template = volcano["Job"]["spec"]["template"]
    assert (
        template["metadata"]["annotations"]["scheduling.k8s.io/group-name"] == volcano["PodGroup"]["metadata"]["name"]
    )
    assert template["spec"]["schedulerName"] == "volcano"
    kueue = made("jobset", "kueue")["JobSet"]
    assert kueue["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "probes"
    assert kueue["spec"]["suspend"] is True
    mpijob = made("mpijob", "volcano")
    assert set(mpijob) == {"MPIJob"}  # the operator makes its own group
    assert mpijob["MPIJob"]["spec"]["runPolicy"]["schedulingPolicy"]["minAvailable"] == 3
    beside = made("indexed-job", "coscheduling")
    assert beside["Job"]["spec"]["template"]["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"]


def test_a_benchmark_that_the_workload_cannot_start_is_refused() -> None:
    text = LAB.read_text().replace("launcher: mpirun", "launcher: kubernetes, benchmark: nccl")
    with pytest.raises(ConfigError, match=r"probe\.benchmark: nccl needs MPI"):
        objections(parse(text))
    objections(parse(text.replace("benchmark: nccl", "benchmark: torch")))
    objections(parse(text.replace("benchmark: nccl", "benchmark: nccl, kubernetes: {workload: mpijob}")))


def test_plan_writes_them_and_run_says_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text(LAB.read_text().replace("launcher: mpirun", "launcher: kubernetes, benchmark: torch"))
    common = ["-f", str(path), "--state", str(tmp_path / "state")]

    def probe(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "nccltest", *words], capture_output=True, text=True, cwd=ROOT, timeout=120
        )

    done = probe("plan", *common, "--no-budget", "--manifests", str(tmp_path / "out"), "--json")
    assert done.returncode == 0, done.stderr
    groups = sum(len(one["groups"]) for one in json.loads(done.stdout)["rounds"])
    files = sorted((tmp_path / "out").glob("round-*.yaml"))
    assert len(files) == groups > 0
    for document in yaml.safe_load_all(files[0].read_text()):
        assert list(mistakes(f"V1{document['kind']}", document)) == []
    refused = probe("run", *common)
    assert refused.returncode == 3
    assert "plan --manifests" in refused.stderr
