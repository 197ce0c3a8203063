"""The door to the Kubernetes API server: marks on nodes. The only module that imports ``kubernetes``.

Every change is the wanted state written again, so repeating one after a crash is harmless. Nothing but our own
condition, label and taint is touched; taints are a list that a patch replaces whole, so they are changed under the
node's resourceVersion and tried again when somebody else was quicker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import urllib3
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException

from host.errors import HostError

__all__ = ["CONDITION", "LABEL", "TAINT", "Cluster"]

CONDITION = "RocewayFabricDegraded"
LABEL = "roceway/degraded"
TAINT = "roceway/degraded"
_TIMEOUT = (5.0, 15.0)  # seconds to connect, to answer
_TRIES = 5
_CONFLICT = 409
_NOT_FOUND = 404
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"


class Cluster:
    """Nodes of one cluster."""

    def __init__(self, api: client.CoreV1Api) -> None:
        self._api = api

    @classmethod
    def connect(cls, kubeconfig: Path | None = None) -> Cluster:
        """With the pod's service account, or a kubeconfig (its current context). HostError when there is neither."""
        configuration = client.Configuration()
        try:
            if kubeconfig is None and _in_a_pod():
                config.load_incluster_config(  # type: ignore[no-untyped-call] # the library has no types here
                    client_configuration=configuration
                )
            else:
                config.load_kube_config(  # type: ignore[no-untyped-call] # as above
                    config_file=str(kubeconfig) if kubeconfig else None, client_configuration=configuration
                )
        except (ConfigException, OSError) as error:
            raise HostError("use", "the Kubernetes API", 0, str(error)) from None
        configuration.retries = urllib3.Retry(total=2, backoff_factor=0.5, allowed_methods=None)
        return cls(client.CoreV1Api(client.ApiClient(configuration)))

    def set_condition(self, node: str, degraded: bool, reason: str, message: str) -> bool:
        """Write our condition into the node's status; False where there is no such node."""
        now = _now()
        condition = {
            "type": CONDITION,
            "status": "True" if degraded else "False",
            "reason": reason,
            "message": message[:1024],
            "lastHeartbeatTime": now,
        }
        with _asked("set a condition on", node) as found:
            if self._status(node) != condition["status"]:
                condition["lastTransitionTime"] = now
            body = {"status": {"conditions": [condition]}}
            self._api.patch_node_status(node, body, _content_type=_STRATEGIC, _request_timeout=_TIMEOUT)
        return found.yes

    def _status(self, node: str) -> str | None:
        status = self._api.read_node(node, _request_timeout=_TIMEOUT).status
        conditions = (status.conditions if status else None) or ()
        return next((each.status for each in conditions if each.type == CONDITION), None)

    def set_label(self, node: str, value: str | None) -> bool:
        """Set our label, or remove it (None); False where there is no such node."""
        with _asked("label", node) as found:
            body = {"metadata": {"labels": {LABEL: value}}}
            self._api.patch_node(node, body, _content_type=_MERGE, _request_timeout=_TIMEOUT)
        return found.yes

    def set_taint(self, node: str, on: bool) -> bool:
        """Set our NoSchedule taint, or remove it; other taints stay. False where there is no such node."""
        with _asked("taint", node) as found:
            for left in reversed(range(_TRIES)):
                try:
                    self._replace_taints(node, on)
                    break
                except ApiException as error:
                    if error.status != _CONFLICT or not left:
                        raise
        return found.yes

    def _replace_taints(self, node: str, on: bool) -> None:
        seen = self._api.read_node(node, _request_timeout=_TIMEOUT)
        found = (seen.spec.taints if seen.spec else None) or ()
        taints = [self._api.api_client.sanitize_for_serialization(each) for each in found]
        wanted = [each for each in taints if each["key"] != TAINT]
        wanted += [{"key": TAINT, "effect": "NoSchedule"}] if on else []
        if wanted == taints:
            return
        body = {
            "metadata": {"resourceVersion": seen.metadata.resource_version if seen.metadata else None},
            "spec": {"taints": wanted},
        }
        self._api.patch_node(node, body, _content_type=_MERGE, _request_timeout=_TIMEOUT)

    def tell(self, node: str, reason: str, message: str, *, warning: bool) -> None:
        """An event about the node, as ``kubectl describe node`` shows it."""
        now = _now()
        body: Any = {
            "metadata": {"generateName": "roceway-probe-", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": node, "uid": node, "apiVersion": "v1"},
            "reason": reason,
            "message": message[:1024],
            "type": "Warning" if warning else "Normal",
            "source": {"component": "roceway-probe"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        with _asked("tell an event about", node):
            self._api.create_namespaced_event("default", body, _request_timeout=_TIMEOUT)


class _Found:
    yes = True


@contextmanager
def _asked(operation: str, node: str) -> Iterator[_Found]:
    """The API server's refusals as errors; a node that is gone is no error."""
    found = _Found()
    try:
        yield found
    except ApiException as error:
        if error.status == _NOT_FOUND:
            found.yes = False
            return
        raise HostError(operation, f"node {node}", 0, f"the API server says {error.status} {error.reason}") from None
    except urllib3.exceptions.HTTPError as error:
        raise HostError(operation, f"node {node}", 0, f"the API server cannot be reached: {_brief(error)}") from None


def _brief(error: Exception) -> str:
    return str(error).splitlines()[0][:200]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _in_a_pod() -> bool:
    return Path("/var/run/secrets/kubernetes.io/serviceaccount/token").exists()
