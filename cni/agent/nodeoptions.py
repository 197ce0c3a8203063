"""The options of ``roceway-agent run`` that say how the node is looked after. Light: the main process parses them."""

from __future__ import annotations

import argparse

__all__ = ["ACCOUNT", "METRICS", "arguments", "parse_address"]

METRICS = "127.0.0.1:9477"
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
"""Where the kubelet mounts a service account."""
_PORT_MAX = 65535


def arguments(parser: argparse.ArgumentParser) -> None:
    """Added to the command's own."""
    node = parser.add_argument_group("the node")
    node.add_argument(
        "--conf-dir",
        default="/etc/cni/net.d",
        metavar="DIR",
        help="where `roceway-cni install` put the configuration, which says what this node's rails are (%(default)s); "
        "without one there, fabric.yaml (-f) says it",
    )
    node.add_argument(
        "--kubelet-dir", metavar="DIR", help="the kubelet's --root-dir (default: as configured, else /var/lib/kubelet)"
    )
    node.add_argument(
        "--cri-socket", metavar="PATH", help="the container runtime's (default: containerd's or CRI-O's, if there)"
    )
    node.add_argument("--no-device-plugin", action="store_true", help="do not offer roceway.io/rail to the kubelet")
    node.add_argument("--no-repair", action="store_true", help="only say what drifted, put nothing back")
    node.add_argument(
        "--no-events",
        action="store_true",
        help="tell Kubernetes nothing of what happens to pods' rails",
    )
    node.add_argument(
        "--service-account",
        default=ACCOUNT,
        metavar="DIR",
        help="with `token` and `ca.crt`, for Kubernetes events; without them, or without KUBERNETES_SERVICE_HOST, "
        "there are none (%(default)s)",
    )
    node.add_argument(
        "--metrics",
        default=METRICS,
        type=_address,
        metavar="ADDRESS",
        help="where Prometheus may scrape, or `off` (%(default)s; reachable from other hosts only if you say so)",
    )


def _address(text: str) -> str:
    if text != "off":
        try:
            parse_address(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return text


def parse_address(text: str) -> tuple[str, int]:
    """``127.0.0.1:9477`` or ``[::1]:9477``. ValueError for anything else."""
    host, colon, port = text.rpartition(":")
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > _PORT_MAX:
        raise ValueError(f"{text!r} is no address such as {METRICS}")
    return host.strip("[]"), int(port)
