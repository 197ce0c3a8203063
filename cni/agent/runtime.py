"""The container runtime's word on which sandboxes there are (Container Runtime Interface, v1). A door."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping
from typing import Any

import grpc

from cni.agent.api import cri_pb2 as api
from host.errors import HostError

__all__ = ["SOCKETS", "Runtime", "find"]

SOCKETS = (
    "/run/containerd/containerd.sock",
    "/run/crio/crio.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
)
"""Where runtimes listen; the first that is there is the one."""

_TIMEOUT = 3.0
_UCRED = struct.Struct("=iII")  # pid, uid, gid
_OPTIONS = (("grpc.max_receive_message_length", 16 << 20), ("grpc.use_local_subchannel_pool", 1))


def find(root: str = "/") -> str:
    """The runtime's socket; empty where there is none."""
    return next((path for path in SOCKETS if os.path.exists(os.path.join(root, path.lstrip("/")))), "")


class Runtime:
    """A client for one look: opened, asked, closed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._channel = grpc.insecure_channel(f"unix:{path}", options=_OPTIONS)

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def is_in_sight(self) -> bool:
        """Whether its processes and its pods' are among those that we see: not in a container without hostPID.

        The kernel tells who listens by the number that we would call it, and 0 for one that we cannot see
        (unix(7), SO_PEERCRED; pid_namespaces(7)).
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_TIMEOUT)
            try:
                connection.connect(self._path)
                pid, _, _ = _UCRED.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
            except OSError as error:
                raise HostError("connect to", self._path, error.errno or 0) from error
        return bool(pid)

    def sandboxes(self) -> Mapping[str, str]:
        """Sandbox id to its pod's UID, of every sandbox in any state. HostError when it cannot be asked."""
        try:
            found = self._call("ListPodSandbox", api.ListPodSandboxRequest(), api.ListPodSandboxResponse)
        except grpc.RpcError as error:
            raise self._refusal("ListPodSandbox", error) from error
        return {item.id: item.metadata.uid for item in found.items}

    def knows(self, sandbox: str) -> bool:
        """Whether the runtime knows this one sandbox, asked for by itself. HostError when it cannot be asked."""
        try:
            self._call(
                "PodSandboxStatus", api.PodSandboxStatusRequest(pod_sandbox_id=sandbox), api.PodSandboxStatusResponse
            )
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return False
            raise self._refusal("PodSandboxStatus", error) from error
        return True

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        call: Any = self._channel.unary_unary(
            f"/runtime.v1.RuntimeService/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=answer.FromString,
        )
        return call(request, timeout=_TIMEOUT)

    def _refusal(self, method: str, error: Any) -> HostError:
        return HostError(f"ask ({method})", self._path, 0, f"{error.code().name}: {error.details()}")
