"""A cluster's certificates: one authority, the API server's certificate, its client certificate for kubelets."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.world import sh

__all__ = ["Keys", "make"]


class Keys(NamedTuple):
    """Files."""

    ca: Path
    server: Path
    server_key: Path
    client: Path
    client_key: Path
    accounts: Path
    """Signs the tokens of service accounts."""


def make(folder: Path, names: list[str]) -> Keys:
    """Keys for an API server that is called by any of ``names`` (``DNS:…`` or ``IP:…``)."""
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    ca, ca_key = folder / "ca.crt", folder / "ca.key"
    _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "7",
             "-subj", "/CN=cluster", "-keyout", str(ca_key), "-out", str(ca))  # fmt: skip
    server = _signed(folder, ca, ca_key, "server", "/CN=kube-apiserver", f"subjectAltName={','.join(names)}")
    client = _signed(folder, ca, ca_key, "client", "/O=system:masters/CN=kube-apiserver", "extendedKeyUsage=clientAuth")
    accounts = folder / "accounts.key"
    _openssl("genrsa", "-out", str(accounts), "2048")
    return Keys(ca, *server, *client, accounts)


def _signed(folder: Path, ca: Path, ca_key: Path, name: str, subject: str, extension: str) -> tuple[Path, Path]:
    key, request, made, told = (folder / f"{name}.{kind}" for kind in ("key", "csr", "crt", "ext"))
    _openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", subject,
             "-keyout", str(key), "-out", str(request))  # fmt: skip
    told.write_text(f"{extension}\n")
    _openssl("x509", "-req", "-in", str(request), "-CA", str(ca), "-CAkey", str(ca_key), "-CAcreateserial",
             "-days", "7", "-extfile", str(told), "-out", str(made))  # fmt: skip
    return made, key


def _openssl(*words: str) -> None:
    sh("openssl", *words)
