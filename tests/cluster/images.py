"""Images for the cluster, made of files: no registry, no builder. The format is ``docker save``'s."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["image", "layer"]


def layer(folder: Path, target: Path) -> Path:
    """A folder as a layer, owned by root."""
    words = ["tar", "-C", str(folder), "--owner=0", "--group=0", "--numeric-owner", "-cf", str(target), "."]
    subprocess.run(words, check=True)
    return target


def image(target: Path, name: str, layers: Sequence[Path], config: Mapping[str, object]) -> None:
    """Write ``name`` into the archive ``target``. ``config``: Entrypoint, Env and so on."""
    digests = [_digest(path) for path in layers]
    document = {
        "architecture": "amd64", "os": "linux", "config": dict(config),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
        "history": [{"created_by": "tests.cluster"} for _ in layers],
    }  # fmt: skip
    text = json.dumps(document).encode()
    own = f"{hashlib.sha256(text).hexdigest()}.json"
    names = [f"{digest}.tar" for digest in digests]
    manifest = json.dumps([{"Config": own, "RepoTags": [name], "Layers": names}]).encode()
    fresh = target.with_suffix(".new")
    with tarfile.open(fresh, "w") as archive:
        for member, data in ((own, text), ("manifest.json", manifest)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for member, path in dict(zip(names, layers, strict=True)).items():
            archive.add(path, member)
    fresh.rename(target)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
