"""A kubelet as its plugins and clients see it, on real sockets: built from the published API and its documents.

Like the kubelet it removes every socket in its device-plugins folder when it starts, dials a plugin back after
Register, follows ListAndWatch, asks GetPreferredAllocation with what is healthy and free, and allocates at admission.
It answers PodResources for the pods that it admitted.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc

from cni.agent.api import deviceplugin_pb2 as dp
from cni.agent.api import podresources_pb2 as pr

_REFILL = 100.0
"""PodResources calls that a kubelet answers in a second."""


def wait_for(what: Callable[[], Any], seconds: float = 10.0) -> Any:
    """The first true answer; fails after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        found = what()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"nothing came within {seconds} s: {what}")
        time.sleep(0.01)


def handler(behaviour: Callable[[Any, grpc.ServicerContext], Any], request: Any) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        behaviour,
        request_deserializer=request.FromString,
        response_serializer=lambda answer: answer.SerializeToString(),
    )


class Plugin:
    """A registered plugin as the kubelet keeps it."""

    def __init__(self, folder: Path, request: dp.RegisterRequest) -> None:
        self.request = request
        self.devices: dict[str, dp.Device] = {}
        self.updates = 0
        self.ended = threading.Event()
        self.channel = grpc.insecure_channel(
            f"unix:{folder / request.endpoint}", options=[("grpc.use_local_subchannel_pool", 1)]
        )
        self._stream: Any = None

    def follow(self) -> None:
        watch: Any = self.channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=dp.ListAndWatchResponse.FromString,
        )
        try:
            self._stream = watch(dp.Empty(), wait_for_ready=True)
            for answer in self._stream:
                self.devices = {device.ID: device for device in answer.devices}
                self.updates += 1
        except (grpc.RpcError, ValueError):
            pass
        finally:
            self.ended.set()

    def call(self, method: str, request: Any, answer: Any) -> Any:
        return self.channel.unary_unary(
            f"/v1beta1.DevicePlugin/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )(request, timeout=10)

    @property
    def healthy(self) -> set[str]:
        return {ident for ident, device in self.devices.items() if device.health == "Healthy"}


class Kubelet:
    """Start it, restart it, admit pods."""

    def __init__(self, folder: Path, *, get: str = "on") -> None:
        self.folder = folder
        self.plugins_folder = folder / "device-plugins"
        self.get = get
        """``on``, ``off`` (an error, as before 1.34) or ``missing`` (unimplemented, before 1.27)."""
        self.pods: dict[tuple[str, str], dict[str, list[tuple[str, list[str]]]]] = {}
        self.claims: dict[tuple[str, str], list[pr.DynamicResource]] = {}
        self.plugins: list[Plugin] = []
        self.refuse = 0
        """How many registrations to refuse next."""
        self.calls: list[str] = []
        self.burst = 0
        """How many PodResources calls are let through at once (pkg/kubelet/apis/grpc/ratelimit.go: 10); 0: any."""
        self._tokens = 0.0
        self._last = 0.0
        self._lock = threading.Lock()
        self._servers: list[grpc.Server] = []

    def __enter__(self) -> Kubelet:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """As Server.Start of pkg/kubelet/cm/devicemanager/plugin/v1beta1: clean the folder, listen, serve."""
        for folder in (self.plugins_folder, self.folder / "pod-resources"):
            folder.mkdir(parents=True, exist_ok=True)
        for path in self.plugins_folder.iterdir():
            if path.name != "kubelet_internal_checkpoint":
                path.unlink()
        methods = {"Register": handler(self._register, dp.RegisterRequest)}
        self._serve(self.plugins_folder / "kubelet.sock", "v1beta1.Registration", methods)
        methods = {"List": handler(self._list, pr.ListPodResourcesRequest)}
        if self.get != "missing":
            methods["Get"] = handler(self._get, pr.GetPodResourcesRequest)
        with suppress(FileNotFoundError):
            (self.folder / "pod-resources/kubelet.sock").unlink()
        self._serve(self.folder / "pod-resources/kubelet.sock", "v1.PodResourcesLister", methods)

    def _serve(self, path: Path, service: str, methods: dict[str, grpc.RpcMethodHandler[Any, Any]]) -> None:
        server = grpc.server(ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
        server.add_insecure_port(f"unix:{path}")
        server.start()
        self._servers.append(server)

    def stop(self) -> None:
        for plugin in self.plugins:
            plugin.channel.close()
        for server in self._servers:
            server.stop(0).wait()
        self._servers.clear()
        self.plugins.clear()

    def restart(self, away: float = 0.0) -> None:
        """The process ends and another begins: sockets vanish, connections break, pods stay."""
        self.stop()
        time.sleep(away)
        self.start()

    # device plugins

    def _register(self, request: dp.RegisterRequest, context: grpc.ServicerContext) -> dp.Empty:
        self.calls.append(f"Register {request.resource_name}")
        if self.refuse:
            self.refuse -= 1
            context.abort(grpc.StatusCode.INTERNAL, "not now")
        assert request.version == "v1beta1", request
        assert "/" not in request.endpoint, request
        assert (self.plugins_folder / request.endpoint).is_socket(), "a plugin must serve before it registers"
        plugin = Plugin(self.plugins_folder, request)
        self.plugins.append(plugin)
        threading.Thread(target=plugin.follow, daemon=True).start()
        return dp.Empty()

    def plugin(self) -> Plugin:
        """The plugin that registered last and has told its devices."""
        found: Plugin = wait_for(lambda: self.plugins[-1] if self.plugins and self.plugins[-1].updates else None)
        return found

    def prefer(self, count: int, available: Sequence[str], must: Sequence[str] = ()) -> list[str]:
        """GetPreferredAllocation for one container."""
        request = dp.ContainerPreferredAllocationRequest(allocation_size=count)
        request.available_deviceIDs.extend(available)
        request.must_include_deviceIDs.extend(must)
        answer = self.plugin().call(
            "GetPreferredAllocation",
            dp.PreferredAllocationRequest(container_requests=[request]),
            dp.PreferredAllocationResponse,
        )
        (one,) = answer.container_responses
        return list(one.deviceIDs)

    def allocate(self, *idents: str) -> dp.ContainerAllocateResponse:
        """Allocate for one container."""
        one = dp.ContainerAllocateRequest(devices_ids=list(idents))
        answer = self.plugin().call("Allocate", dp.AllocateRequest(container_requests=[one]), dp.AllocateResponse)
        (response,) = answer.container_responses
        found: dp.ContainerAllocateResponse = response
        return found

    def admit(self, namespace: str, name: str, container: str, rails: int) -> dp.ContainerAllocateResponse:
        """Admission of a pod with so many rails: prefer among what is healthy and free, allocate, note."""
        taken = {
            ident
            for pod in self.pods.values()
            for given in pod.values()
            for resource, idents in given
            if resource == "roceway.io/rail"
            for ident in idents
        }
        free = sorted(self.plugin().healthy - taken)
        if len(free) < rails:
            raise AssertionError(f"Requested: {rails}, Available: {len(free)}")
        chosen = self.prefer(rails, free)[:rails] if rails < len(free) else free
        answer = self.allocate(*chosen)
        given = self.pods.setdefault((namespace, name), {}).setdefault(container, [])
        given.append(("roceway.io/rail", chosen))
        return answer

    # PodResources

    def give(self, namespace: str, name: str, container: str, resource: str, *idents: str) -> None:
        """Some other plugin's devices."""
        self.pods.setdefault((namespace, name), {}).setdefault(container, []).append((resource, list(idents)))

    def _pod(self, key: tuple[str, str]) -> pr.PodResources:
        containers = []
        for container, given in self.pods[key].items():
            # One entry for each device, in no order: so a real kubelet (1.34) answers.
            devices = [
                pr.ContainerDevices(resource_name=resource, device_ids=[ident])
                for resource, idents in given
                for ident in reversed(idents)
            ]
            containers.append(
                pr.ContainerResources(name=container, devices=devices, dynamic_resources=self.claims.get(key, []))
            )
        return pr.PodResources(name=key[1], namespace=key[0], containers=containers)

    def _limit(self, context: grpc.ServicerContext) -> None:
        if not self.burst:
            return
        with self._lock:
            now = time.monotonic()
            self._tokens = min(self._tokens + (now - self._last) * _REFILL, self.burst)
            self._last = now
            allowed = self._tokens >= 1
            self._tokens -= allowed
        if not allowed:
            context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _list(self, request: pr.ListPodResourcesRequest, context: grpc.ServicerContext) -> pr.ListPodResourcesResponse:
        self.calls.append("List")
        self._limit(context)
        return pr.ListPodResourcesResponse(pod_resources=[self._pod(key) for key in self.pods])

    def _get(self, request: pr.GetPodResourcesRequest, context: grpc.ServicerContext) -> pr.GetPodResourcesResponse:
        self.calls.append("Get")
        self._limit(context)
        if self.get == "off":
            context.abort(grpc.StatusCode.UNKNOWN, "PodResources API Get method disabled")
        key = (request.pod_namespace, request.pod_name)
        if key not in self.pods:
            context.abort(grpc.StatusCode.UNKNOWN, f"pod {key[1]} in namespace {key[0]} not found")
        return pr.GetPodResourcesResponse(pod_resources=self._pod(key))

    def checkpoint(self, uids: dict[tuple[str, str], str]) -> None:
        """Write what was given to its own file, as the kubelet does at every admission."""
        rows = [
            {"PodUID": uids[key], "ContainerName": name, "ResourceName": resource, "DeviceIDs": {"0": idents}}
            for key, pod in self.pods.items()
            for name, given in pod.items()
            for resource, idents in given
        ]
        text = json.dumps({"Data": {"PodDeviceEntries": rows, "RegisteredDevices": {}}, "Checksum": 1})
        (self.plugins_folder / "kubelet_internal_checkpoint").write_text(text)


@contextmanager
def running(part: Any) -> Iterator[Any]:
    """A part of the agent, started and stopped."""
    part.start()
    try:
        yield part
    finally:
        part.stop()
