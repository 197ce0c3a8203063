"""The kubelet's PodResources API, v1: which devices each pod was given. A door: it decides nothing.

``<kubelet's directory>/pod-resources/kubelet.sock``, KEP 606, 1884 and 3695. ``Get`` (one pod) is on by default from
Kubernetes 1.34; where it is off, ``List`` tells the same with all pods. Claims of dynamic resources are told from 1.34.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import grpc

from cni.agent.api import podresources_pb2 as api
from cni.poddevices import Given, PodDevices, cdi
from host.errors import HostError

__all__ = ["KubeletPod", "PodResources", "given"]

_SOCKET = "pod-resources/kubelet.sock"
_TIMEOUT = 2.0  # seconds; a kubelet answers within milliseconds
_PAUSE = 0.02, 0.1  # seconds
_BROKEN = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""The kubelet is not there; another thread has closed the connection because of that."""
_OPTIONS = (
    ("grpc.max_receive_message_length", 16 << 20),  # as the kubelet's own clients
    ("grpc.use_local_subchannel_pool", 1),  # a fresh channel must not inherit the back-off of the last
)


class KubeletPod(NamedTuple):
    """One pod that the kubelet lists."""

    namespace: str
    name: str
    devices: tuple[Given, ...]


class PodResources:
    """A client that outlives the kubelet: a restarted one is found at the next call. For any number of threads."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, _SOCKET)
        self._channel: grpc.Channel | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Let go of the connection."""
        with self._lock:
            channel, self._channel = self._channel, None
        if channel is not None:
            channel.close()

    def pod(self, namespace: str, name: str) -> PodDevices:
        """What a pod was given. HostError when the kubelet cannot be reached, or does not know the pod."""
        request = api.GetPodResourcesRequest(pod_name=name, pod_namespace=namespace)
        try:
            found = self._call("Get", request, api.GetPodResourcesResponse)
            return PodDevices(tuple(given(found.pod_resources)), "the kubelet (PodResources Get)")
        except grpc.RpcError as error:
            if error.code() in _BROKEN:
                raise self._refusal("Get", error) from error
        # Switched off (an unimplemented or a plain error, by version), or the pod is not found: the list knows.
        pods = [pod for pod in self.list() if (pod.namespace, pod.name) == (namespace, name)]
        if len(pods) != 1:  # two: a pod of the same name is still ending, and which is which is not told here
            count = "lists" if not pods else f"lists {len(pods)} pods"
            what = f"no pod {namespace}/{name}" if not pods else f"named {namespace}/{name}"
            raise HostError("ask", self._path, 0, f"the kubelet {count} {what}")
        return PodDevices(pods[0].devices, "the kubelet (PodResources List)")

    def list(self) -> tuple[KubeletPod, ...]:
        """Every pod of the node. HostError when the kubelet cannot be reached."""
        try:
            found = self._call("List", api.ListPodResourcesRequest(), api.ListPodResourcesResponse)
        except grpc.RpcError as error:
            raise self._refusal("List", error) from error
        return tuple(KubeletPod(pod.namespace, pod.name, tuple(given(pod))) for pod in found.pod_resources)

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        """One call. A connection that a kubelet's restart has broken is made anew; a kubelet that is asked too often
        (100 times a second) is asked again in a moment.
        """
        deadline = time.monotonic() + _TIMEOUT
        renewed = False
        while True:
            channel = self._open()
            try:
                return self._method(channel, method, answer)(request, timeout=_TIMEOUT)
            except ValueError:  # another thread has closed it
                broken, error = True, None
            except grpc.RpcError as refusal:
                broken, error = refusal.code() in _BROKEN, refusal
                if not broken and refusal.code() != grpc.StatusCode.RESOURCE_EXHAUSTED:
                    raise
            if time.monotonic() >= deadline or (broken and renewed):
                raise error or HostError("ask", self._path, 0, "the connection was closed")
            if broken:
                self._drop(channel)
                renewed = True
            else:
                time.sleep(random.uniform(*_PAUSE))  # noqa: S311 - spreads those who wait

    def _open(self) -> grpc.Channel:
        with self._lock:
            if self._channel is None:
                self._channel = grpc.insecure_channel(f"unix:{self._path}", options=_OPTIONS)
            return self._channel

    def _drop(self, channel: grpc.Channel) -> None:
        """Close a broken connection, unless another thread has made a new one."""
        with self._lock:
            if self._channel is channel:
                self._channel = None
        channel.close()

    @staticmethod
    def _method(channel: grpc.Channel, name: str, answer: Any) -> Callable[..., Any]:
        method: Callable[..., Any] = channel.unary_unary(
            f"/v1.PodResourcesLister/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return method

    def _refusal(self, method: str, error: Any) -> HostError:
        return HostError(f"ask ({method})", self._path, 0, f"{error.code().name}: {error.details()}")


def given(pod: api.PodResources) -> Iterator[Given]:
    """The devices of a pod's containers, those of claims by their driver's name.

    The kubelet lists each device of a container by itself, in no order (ContainerDevicesFromResourceDeviceInstances,
    pkg/kubelet/apis/podresources): here a container's devices of one resource are together. Kubelets before 1.31 name
    only the CDI device of a claim.
    """
    for container in pod.containers:
        by_resource: dict[str, list[str]] = {}
        for each in container.devices:
            by_resource.setdefault(each.resource_name, []).extend(each.device_ids)
        for name, idents in sorted(by_resource.items()):
            yield Given(container.name, name, tuple(sorted(idents)))
        for claim in container.dynamic_resources:
            for resource in claim.claim_resources:
                if resource.device_name:
                    yield Given(container.name, resource.driver_name, (resource.device_name,))
                    continue
                for device in resource.cdi_devices:
                    yield cdi(device.name)._replace(container=container.name)
