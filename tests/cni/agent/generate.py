"""``python -m tests.cni.agent.generate``: the messages of the kubelet's APIs, from the .proto files beside them."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.world import ROOT

API = Path("cni/agent/api")


def generate(folder: Path) -> int:
    """Write ``*_pb2.py`` and ``*_pb2.pyi`` of every .proto below ``folder``; protoc's exit code."""
    from grpc_tools import protoc  # type: ignore[import-untyped]  # a development dependency, without types

    sources = sorted(str(path.relative_to(ROOT)) for path in (ROOT / API).glob("*.proto"))
    return int(protoc.main(["protoc", f"-I{ROOT}", f"--python_out={folder}", f"--pyi_out={folder}", *sources]))


if __name__ == "__main__":
    sys.exit(generate(ROOT))
