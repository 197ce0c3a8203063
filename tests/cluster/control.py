"""The control plane's programs and their options, and the files that they read. All of it on the first node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.cluster.keys import Keys

__all__ = ["API", "DNS", "SERVICES", "programs", "write_files"]

API = "10.96.0.1"
"""The service ``kubernetes``: the API server listens at its address itself, so that no kube-proxy is needed."""
DNS = "10.96.0.10"
SERVICES = "10.96.0.0/16"
_ETCD = "http://127.0.0.1:2379"
_ISSUER = "https://kubernetes.default.svc"
_COREFILE = """\
.:53 {{
    bind {dns}
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {{
        kubeconfig {kubeconfig}
        pods insecure
    }}
}}
"""


def write_files(folder: Path, users: Mapping[str, str]) -> None:
    """Tokens of ``users`` (name to group), and what is audited: every request of roceway's service accounts."""
    lines = [f'token-{user},{user},{user},"{group}"' for user, group in users.items()]
    tokens = folder / "tokens.csv"
    tokens.write_text("\n".join(lines) + "\n")
    tokens.chmod(0o600)
    groups = ["system:serviceaccounts:roceway-system"]
    rules = [{"level": "Metadata", "omitStages": ["RequestReceived"], "userGroups": groups}, {"level": "None"}]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    (folder / "audit.yaml").write_text(yaml.safe_dump(policy))


def programs(folder: Path, keys: Keys, kubeconfig: Path, address: str) -> dict[str, list[str]]:
    """Program to its options, in the order in which they are started."""
    (folder / "Corefile").write_text(_COREFILE.format(dns=DNS, kubeconfig=kubeconfig))
    return {
        "etcd": [
            f"--data-dir={folder / 'etcd'}",
            f"--listen-client-urls={_ETCD}",
            f"--advertise-client-urls={_ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            "--unsafe-no-fsync",
        ],
        "kube-apiserver": [
            f"--etcd-servers={_ETCD}",
            f"--bind-address={API}",
            "--secure-port=443",
            f"--advertise-address={address}",
            f"--service-cluster-ip-range={SERVICES}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            f"--token-auth-file={folder / 'tokens.csv'}",
            f"--tls-cert-file={keys.server}",
            f"--tls-private-key-file={keys.server_key}",
            f"--client-ca-file={keys.ca}",
            f"--kubelet-client-certificate={keys.client}",
            f"--kubelet-client-key={keys.client_key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={keys.accounts}",
            f"--service-account-signing-key-file={keys.accounts}",
            f"--service-account-issuer={_ISSUER}",
            f"--audit-policy-file={folder / 'audit.yaml'}",
            f"--audit-log-path={folder / 'audit.log'}",
        ],
        "kube-controller-manager": [
            f"--kubeconfig={kubeconfig}",
            f"--root-ca-file={keys.ca}",
            f"--service-account-private-key-file={keys.accounts}",
            "--use-service-account-credentials",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
            "--node-monitor-grace-period=12s",
            "--node-monitor-period=2s",
        ],
        "kube-scheduler": [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--bind-address=127.0.0.1"],
        "dns": ["-conf", str(folder / "Corefile")],
    }
