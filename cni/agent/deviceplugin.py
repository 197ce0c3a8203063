"""The device plugin ``roceway.io/rail`` (v1beta1): rails as a resource that a pod asks for beside its GPUs.

Kubernetes documentation, "Device Plugins"; pkg/kubelet/cm/devicemanager. A kubelet that starts removes every socket in
its folder and knows no plugin: so this one looks, twice a second, whether the kubelet's socket is another one, whether
its own is still there and whether the kubelet still listens to it, and begins anew when not. It serves before it
registers, under a name that no earlier one of its own had: what is left of that cannot be taken for it.
"""

from __future__ import annotations

import itertools
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import grpc

from cni import rundir
from cni.agent.api import deviceplugin_pb2 as api
from cni.agent.nodeview import RailView
from cni.agent.preference import newcomer, preferred
from cni.agent.railunits import Unit, char_devices, offers, rdma_of
from cni.poddevices import RAIL
from cni.selection import parse_device_id
from host.errors import HostError

__all__ = ["DevicePlugin", "Node"]

_VERSION = "v1beta1"
_FOLDER = "device-plugins"
_KUBELET = "kubelet.sock"
_PREFIX = "roceway-rail-"
_LOOK = 0.5  # seconds
_REGISTER_WAIT = 5.0
_BACK_OFF_MAX = 10.0
_LISTENING_WAIT = 10.0
"""Seconds that the kubelet has to dial back and listen; else it has lost us without a trace on disk."""
_SETTLE = 5.0
_STREAMS = 8
_GRACE = 0.5

_log = logging.getLogger("roceway-agent")
_serial = itertools.count()

Mark = tuple[int, int, int]


class Node:
    """What the plugin must know of the node. Each is a question, asked when the answer is needed."""

    def __init__(
        self,
        *,
        view: Callable[[], Sequence[RailView]],
        units: Callable[[], Sequence[Unit]],
        waiting: Callable[[], dict[str, Collection[str]]],
        taken: Callable[[], Collection[str]],
        run_dir: Callable[[], str],
        root: str = "/",
    ) -> None:
        self.view = view
        """The rails, as last seen."""
        self.units = units
        """The devices with their health, as last seen."""
        self.waiting = waiting
        """Containers that have GPUs and no rails, as ``namespace/pod/container``, and these GPUs' PCI addresses, now.
        An exception: nobody can tell."""
        self.taken = taken
        """PCI addresses of GPUs that any pod has, as of the last ``waiting``."""
        self.run_dir = run_dir
        self.root = root


class DevicePlugin:
    """The plugin's life with one kubelet after the other."""

    def __init__(self, folder: str, node: Node, every: float = _LOOK) -> None:
        self._folder = os.path.join(folder, _FOLDER)
        self._kubelet = os.path.join(self._folder, _KUBELET)
        self._node = node
        self._every = every
        self._changed = threading.Condition()
        self._sent = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._account = "is not registered yet"
        self._listeners = 0
        self._seen: set[str] = set()
        self._candidates: set[str] = set()
        self._settled = 0.0
        self._generation = 0

    def start(self) -> None:
        """Begin, in threads."""
        self._thread = threading.Thread(target=self._live, name="device-plugin", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Take the socket away: the kubelet marks the resource as gone, pods keep what they have."""
        self._stopping.set()
        self.changed()
        if self._thread is not None:
            self._thread.join(2.0)

    def changed(self) -> None:
        """Health or number of the devices may have changed: tell the kubelet."""
        with self._changed:
            self._sent += 1
            self._changed.notify_all()

    def problem(self) -> str:
        """Why the kubelet cannot give rails now; empty while it can."""
        return self._account

    def settle(self) -> None:
        """Containers that had GPUs and no rails at the last two looks are not being admitted: they asked for none."""
        with suppress(HostError):
            waiting = set(self._node.waiting())
            self._seen = self._candidates & waiting
            self._candidates = waiting

    # one kubelet after the other

    def _live(self) -> None:
        delay = self._every
        while not self._stopping.is_set():
            mark = _mark(self._kubelet)
            if mark is None:
                self._account = f"no kubelet at {self._kubelet}"
                self._stopping.wait(self._every)
                continue
            lasted = self._with_kubelet(mark)
            delay = self._every if lasted else min(2 * delay, _BACK_OFF_MAX)
            self._stopping.wait(0 if lasted else delay)

    def _with_kubelet(self, mark: Mark) -> bool:
        """Serve, register and stay until it is another kubelet; whether that began at all."""
        self._generation += 1
        generation = self._generation
        endpoint = f"{_PREFIX}{os.getpid()}-{next(_serial)}.sock"
        path = os.path.join(self._folder, endpoint)
        server = grpc.server(ThreadPoolExecutor(_STREAMS), options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((self._handlers(generation),))
        try:
            server.add_insecure_port(f"unix:{path}")
            server.start()
            _sweep(self._folder, endpoint)
            self._register(endpoint)
            _log.info("registered %s with the kubelet", RAIL)
            self._account = ""
            self._stay(mark, path)
            return True
        except (grpc.RpcError, RuntimeError, OSError) as error:
            reason = error.details() if isinstance(error, grpc.RpcError) else str(error)
            self._account = f"the kubelet at {self._kubelet} did not take the registration: {reason}"
            _log.warning("%s", self._account)
            return False
        finally:
            self._generation += 1  # streams of this one end
            self.changed()
            server.stop(_GRACE)
            with suppress(OSError):
                os.unlink(path)

    def _stay(self, mark: Mark, path: str) -> None:
        heard = time.monotonic()
        while not self._stopping.wait(self._every):
            now = time.monotonic()
            if self._listeners:
                heard = now
            if now - self._settled > _SETTLE:
                self._settled = now
                self.settle()
            if _mark(self._kubelet) != mark:
                self._account = "the kubelet was restarted"
            elif not os.path.exists(path):
                self._account = "the kubelet removed the plugin's socket"
            elif now - heard > _LISTENING_WAIT:
                self._account = "the kubelet no longer listens to the plugin"
            else:
                continue
            _log.info("%s; registering anew", self._account)
            return

    def _register(self, endpoint: str) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(f"unix:{self._kubelet}", options=options) as channel:
            call: Any = channel.unary_unary(
                "/v1beta1.Registration/Register",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=api.Empty.FromString,
            )
            request = api.RegisterRequest(
                version=_VERSION, endpoint=endpoint, resource_name=RAIL, options=self._options(None, None)
            )
            call(request, timeout=_REGISTER_WAIT)

    # the service

    def _handlers(self, generation: int) -> grpc.GenericRpcHandler:
        def answer(message: Any) -> bytes:
            data: bytes = message.SerializeToString()
            return data

        def unary(method: Callable[[Any, Any], Any], request: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(
                method, request_deserializer=request.FromString, response_serializer=answer
            )

        watch = grpc.unary_stream_rpc_method_handler(
            lambda _, context: self._watch(context, generation),
            request_deserializer=api.Empty.FromString,
            response_serializer=answer,
        )
        methods = {
            "GetDevicePluginOptions": unary(self._options, api.Empty),
            "ListAndWatch": watch,
            "GetPreferredAllocation": unary(self._prefer, api.PreferredAllocationRequest),
            "Allocate": unary(self._allocate, api.AllocateRequest),
            "PreStartContainer": unary(lambda *_: api.PreStartContainerResponse(), api.PreStartContainerRequest),
        }
        handler: grpc.GenericRpcHandler = grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", methods)
        return handler

    def _options(self, _request: Any, _context: Any) -> api.DevicePluginOptions:
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    def _watch(self, context: Any, generation: int) -> Iterator[api.ListAndWatchResponse]:
        """The devices, and again whenever one changes, until kubelet or plugin goes."""
        context.add_callback(self.changed)
        last: tuple[Unit, ...] | None = None
        with self._changed:
            self._listeners += 1
        try:
            while context.is_active() and generation == self._generation and not self._stopping.is_set():
                with self._changed:
                    sent = self._sent
                now = tuple(self._node.units())
                if now != last:
                    last = now
                    yield api.ListAndWatchResponse(devices=[_device(unit) for unit in now])
                with self._changed:
                    if self._sent == sent:
                        self._changed.wait(5.0)
        finally:
            with self._changed:
                self._listeners -= 1

    def _prefer(self, request: api.PreferredAllocationRequest, _context: Any) -> api.PreferredAllocationResponse:
        """Never fails: the kubelet would refuse the pod for good, and any choice is better than that."""
        answers = []
        for each in request.container_requests:
            available, must = list(each.available_deviceIDs), list(each.must_include_deviceIDs)
            try:
                chosen = self._choose(available, must, each.allocation_size)
            except Exception:  # noqa: BLE001 - see above
                _log.exception("no preference among %s", ", ".join(available))
                chosen = [*must, *(ident for ident in sorted(available) if ident not in must)][: each.allocation_size]
            answers.append(api.ContainerPreferredAllocationResponse(deviceIDs=chosen))
        return api.PreferredAllocationResponse(container_responses=answers)

    def _choose(self, available: Sequence[str], must: Sequence[str], size: int) -> list[str]:
        try:
            waiting = self._node.waiting()
        except Exception as error:  # noqa: BLE001 - whatever it was, there is a choice without knowing
            _log.warning("which GPUs the container has is not known: %s", error)
            waiting = {}
        gpus = newcomer(waiting, self._seen, size)
        return preferred(available, must, size, offers(self._node.view()), gpus, self._node.taken())

    def _allocate(self, request: api.AllocateRequest, context: Any) -> api.AllocateResponse:
        known = {unit.ident for unit in self._node.units()}
        asked = {ident for each in request.container_requests for ident in each.devices_ids}
        if asked - known:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"no such rail here: {', '.join(sorted(asked - known))}")
        answers = [self._handed(list(each.devices_ids)) for each in request.container_requests]
        return api.AllocateResponse(container_responses=answers)

    def _handed(self, idents: Sequence[str]) -> api.ContainerAllocateResponse:
        """Devices, run directory and environment of one container."""
        folder = rundir.folder_of(self._node.run_dir(), idents)
        try:
            rundir.make(folder)
        except HostError as error:  # ADD makes it too; refusing here would fail the pod for good
            _log.error("run directory of %s: %s", ", ".join(idents), error)
        rails = self._node.view()
        paths = char_devices((rdma_of(ident, rails, self._node.root) for ident in idents), self._node.root)
        names = [parse_device_id(ident)[0] for ident in sorted(idents)]
        return api.ContainerAllocateResponse(
            envs={"NCCL_CONF_FILE": f"{rundir.INSIDE}/nccl.conf", "ROCEWAY_RAILS": ",".join(names)},
            mounts=[api.Mount(container_path=rundir.INSIDE, host_path=folder, read_only=True)],
            devices=[api.DeviceSpec(container_path=path, host_path=path, permissions="rwm") for path in paths],
        )


def _device(unit: Unit) -> api.Device:
    device = api.Device(ID=unit.ident, health="Healthy" if unit.healthy else "Unhealthy")
    if unit.numa_node >= 0:
        device.topology.nodes.add(ID=unit.numa_node)
    return device


def _mark(path: str) -> Mark | None:
    """What tells one socket from the next of the same name: inode numbers are used again."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns


def _sweep(folder: str, keep: str) -> None:
    """Remove what an agent that was killed has left: sockets of ours at which nobody listens."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(_PREFIX) and name != keep and _is_dead(path):
            with suppress(OSError):
                os.unlink(path)


def _is_dead(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(path)
        except ConnectionRefusedError:
            return True
        except OSError:
            pass
        return False
