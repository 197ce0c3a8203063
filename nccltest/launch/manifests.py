"""Kubernetes: the objects that run one group. Pure: values in, documents out; nothing here talks to a cluster.

indexed-job and jobset run torchrun, whose pods find each other by DNS; mpijob runs nccl-tests under the MPI operator.
Sources: Kubernetes batch/v1 and scheduling/v1; JobSet jobset.x-k8s.io/v1alpha2; MPI operator kubeflow.org/v2beta1;
Volcano scheduling.volcano.sh/v1beta1; scheduler-plugins scheduling.x-k8s.io/v1alpha1; Kueue's queue-name label.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from conf.errors import ConfigError, Finding
from conf.fabric import Fabric
from conf.hostlist import expand
from conf.probe import Kubernetes
from nccltest.launch import torchrun
from nccltest.launch.job import Bench, Job, bench_of

__all__ = ["BARRIER_SECONDS", "Document", "bench_in_pods", "documents", "objections", "priority_class"]

Document = dict[str, Any]

BARRIER_SECONDS = 300
"""How long pods wait for each other; a gang scheduler starts them together, so that this is short."""
BARRIER_PORT = 29_399
_TURN = 3600
"""Seconds that a group may wait until its nodes are free: each of its pods takes all GPUs of a node."""
_KEEP = 3600
"""Seconds that a finished job stays, for its log."""
_PRIORITY = -1000
_PYTHON = "python3"
"""Of the image; its paths are not this machine's."""
_APP = "roceway-probe"
_HOSTNAME = "kubernetes.io/hostname"


def objections(fabric: Fabric) -> None:
    """ConfigError where the workload cannot start the benchmark."""
    probe = fabric.probe
    if probe.kubernetes.workload != "mpijob" and probe.benchmark in ("nccl", "mpi"):
        text = (
            f"{probe.benchmark} needs MPI, which {probe.kubernetes.workload} does not start; torch or workload: mpijob"
        )
        raise ConfigError("fabric.yaml", [Finding("probe.benchmark", text)])


def bench_in_pods(fabric: Fabric) -> Bench:
    """The benchmark as :func:`bench_of`; but in a pod a rail's interface is called as the rail is, on every node."""
    names = [rail.name for rail in fabric.rails]
    nics = {(node, rail): rail for group in fabric.nodes for node in expand(group.match) for rail in names}
    return replace(bench_of(fabric), nics=nics)


def documents(job: Job, kubernetes: Kubernetes) -> tuple[Document, ...]:
    """All objects of one group, in the order in which they are to be made."""
    name = f"{_APP}-{job.id}"
    gang = _pod_group(name, len(job.nodes), kubernetes)
    if kubernetes.workload == "mpijob":
        return (*gang, _mpijob(name, job, kubernetes))
    service = _service(name, kubernetes)
    if kubernetes.workload == "jobset":
        return (*gang, _jobset(name, job, kubernetes))
    return (*gang, service, _indexed_job(name, job, kubernetes))


def priority_class(kubernetes: Kubernetes) -> Document:
    """Below everything else, and it preempts nobody."""
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": kubernetes.priority_class},
        "value": _PRIORITY,
        "preemptionPolicy": "Never",
        "globalDefault": False,
        "description": "roceway-probe: any other work comes first",
    }


def _metadata(name: str, kubernetes: Kubernetes) -> Document:
    labels = {"app.kubernetes.io/name": _APP, "roceway.io/probe-job": name}
    if kubernetes.gang == "kueue" and kubernetes.queue:
        labels["kueue.x-k8s.io/queue-name"] = kubernetes.queue
    return {"name": name, "namespace": kubernetes.namespace, "labels": labels}


def _deadline(job: Job) -> int:
    return math.ceil(job.timeout) + BARRIER_SECONDS + _TURN


def _service(name: str, kubernetes: Kubernetes) -> Document:
    """Headless: gives every pod a name before it is ready."""
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"roceway.io/probe-job": name}}
    return {"apiVersion": "v1", "kind": "Service", "metadata": _metadata(name, kubernetes), "spec": spec}


def _indexed_job(name: str, job: Job, kubernetes: Kubernetes) -> Document:
    spec = _job_spec(name, job, kubernetes, [f"{name}-{index}.{name}" for index in range(len(job.nodes))])
    if kubernetes.gang == "kueue":
        spec["suspend"] = True  # Kueue starts it
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": _metadata(name, kubernetes), "spec": spec}


def _jobset(name: str, job: Job, kubernetes: Kubernetes) -> Document:
    peers = [f"{name}-workers-0-{index}.{name}" for index in range(len(job.nodes))]
    job_spec = _job_spec(name, job, kubernetes, peers)
    del job_spec["ttlSecondsAfterFinished"]
    spec: Document = {
        "network": {"enableDNSHostnames": True, "subdomain": name, "publishNotReadyAddresses": True},
        "failurePolicy": {"maxRestarts": 0},
        "ttlSecondsAfterFinished": _KEEP,
        "replicatedJobs": [{"name": "workers", "replicas": 1, "template": {"spec": job_spec}}],
    }
    if kubernetes.gang == "kueue":
        spec["suspend"] = True
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": _metadata(name, kubernetes),
        "spec": spec,
    }


def _job_spec(name: str, job: Job, kubernetes: Kubernetes, peers: Sequence[str]) -> Document:
    nodes = len(job.nodes)
    pod = _pod(name, job, kubernetes, subdomain=name)
    wait = (
        _PYTHON,
        "-m",
        "nccltest.launch.barrier",
        "--seconds",
        str(BARRIER_SECONDS),
        "--port",
        str(BARRIER_PORT),
        *peers,
    )
    pod["initContainers"] = [{"name": "barrier", "image": kubernetes.image, "command": list(wait), "env": [_index()]}]
    words = torchrun.words(job, "$(JOB_COMPLETION_INDEX)", f"{peers[0]}:{torchrun.PORT}", python=_PYTHON)
    pod["containers"] = [_container("probe", words, job, kubernetes, extra=[_index()])]
    return {
        "completions": nodes,
        "parallelism": nodes,
        "completionMode": "Indexed",
        "backoffLimit": 0,
        "activeDeadlineSeconds": _deadline(job),
        "ttlSecondsAfterFinished": _KEEP,
        "template": {"metadata": _pod_metadata(name, kubernetes), "spec": pod},
    }


def _index() -> Document:
    return {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}


_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"


def _mpijob(name: str, job: Job, kubernetes: Kubernetes) -> Document:
    worker = _pod(name, job, kubernetes)
    sshd = ("/usr/sbin/sshd", "-De")
    worker["containers"] = [_container("worker", sshd, job, kubernetes)]
    launcher = {
        **_common(kubernetes),
        "containers": [_container("launcher", _mpirun(job), job, kubernetes, gpus=False)],
    }
    metadata = _pod_metadata(name, kubernetes)
    policy: Document = {
        "cleanPodPolicy": "All",
        "backoffLimit": 0,
        "activeDeadlineSeconds": _deadline(job),
        "ttlSecondsAfterFinished": _KEEP,
        "suspend": kubernetes.gang == "kueue",
    }
    if kubernetes.gang in ("volcano", "coscheduling"):
        queue = {"queue": kubernetes.queue} if kubernetes.queue else {}
        policy["schedulingPolicy"] = {
            "minAvailable": len(job.nodes) + 1,
            "priorityClass": kubernetes.priority_class,
            **queue,
        }
    spec = {
        "slotsPerWorker": job.ranks_per_node,
        "mpiImplementation": "OpenMPI",
        "launcherCreationPolicy": "WaitForWorkersReady",
        "runPolicy": policy,
        "mpiReplicaSpecs": {
            "Launcher": {"replicas": 1, "restartPolicy": "Never", "template": {"metadata": metadata, "spec": launcher}},
            "Worker": {
                "replicas": len(job.nodes),
                "restartPolicy": "Never",
                "template": {"metadata": metadata, "spec": worker},
            },
        },
    }
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": _metadata(name, kubernetes),
        "spec": spec,
    }


def _mpirun(job: Job) -> tuple[str, ...]:
    """The operator gives mpirun its hostfile and its remote shell."""
    exported = (word for variable in sorted(job.environment) for word in ("-x", variable))
    options = (
        "--allow-run-as-root",
        "-np",
        str(job.ranks),
        "--map-by",
        f"ppr:{job.ranks_per_node}:node",
        "--bind-to",
        "none",
    )
    mca = ("--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--timeout", str(math.ceil(job.timeout)))
    return ("mpirun", *options, *mca, *exported, *job.command)


def _pod(name: str, job: Job, kubernetes: Kubernetes, subdomain: str | None = None) -> Document:
    """A pod that lands on one of the group's nodes, each on its own."""
    here = {"key": _HOSTNAME, "operator": "In", "values": list(job.nodes)}
    apart = {"labelSelector": {"matchLabels": {"roceway.io/probe-pod": name}}, "topologyKey": _HOSTNAME}
    return {
        **_common(kubernetes),
        **({"subdomain": subdomain} if subdomain else {}),
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]},
        },
        "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory"}}],
    }


_SCHEDULERS = {"volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}


def _common(kubernetes: Kubernetes) -> Document:
    scheduler = _SCHEDULERS.get(kubernetes.gang)
    return {
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "priorityClassName": kubernetes.priority_class,
        "tolerations": [{"key": key, "operator": "Exists"} for key in kubernetes.tolerations],
        **({"schedulerName": scheduler} if scheduler else {}),
    }


def _pod_metadata(name: str, kubernetes: Kubernetes) -> Document:
    labels = {"app.kubernetes.io/name": _APP, "roceway.io/probe-job": name, "roceway.io/probe-pod": name}
    annotations = dict(kubernetes.annotations)
    if kubernetes.gang == "coscheduling":
        labels["scheduling.x-k8s.io/pod-group"] = name
    if kubernetes.gang == "volcano":
        annotations["scheduling.k8s.io/group-name"] = name
    return {"labels": labels, **({"annotations": annotations} if annotations else {})}


def _container(
    name: str,
    words: Sequence[str],
    job: Job,
    kubernetes: Kubernetes,
    *,
    gpus: bool = True,
    extra: Sequence[Document] = (),
) -> Document:
    """``gpus``: it does the work; the MPI operator's launcher only starts it."""
    made: Document = {
        "name": name,
        "image": kubernetes.image,
        "command": list(words),
        "env": [*extra, *({"name": key, "value": value} for key, value in sorted(job.environment.items()))],
    }
    if gpus:
        # Of fewer GPUs the kubelet chooses which: the pod would have another rail than the one that is measured, and on
        # each node another. With all of them CUDA_VISIBLE_DEVICES means the same as on the host.
        limits = {kubernetes.gpu: str(job.gpus), **kubernetes.resources}
        made["resources"] = {"limits": limits, "requests": dict(limits)}
        made["securityContext"] = {"capabilities": {"add": ["IPC_LOCK"]}}  # memory registered for RDMA stays in place
        made["volumeMounts"] = [{"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108  # where NCCL wants it
    return made


def _pod_group(name: str, members: int, kubernetes: Kubernetes) -> tuple[Document, ...]:
    """The gang; the MPI operator and Kueue make their own."""
    if kubernetes.workload == "mpijob" or kubernetes.gang not in _SCHEDULERS:
        return ()
    metadata = _metadata(name, kubernetes)
    if kubernetes.gang == "volcano":
        spec: Document = {"minMember": members, "priorityClassName": kubernetes.priority_class}
        spec |= {"queue": kubernetes.queue} if kubernetes.queue else {}
        return (
            {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": metadata, "spec": spec},
        )
    spec = {"minMember": members, "scheduleTimeoutSeconds": BARRIER_SECONDS}
    return ({"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "PodGroup", "metadata": metadata, "spec": spec},)
