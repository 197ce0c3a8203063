"""Builds the compiled plugin into the wheel (hatchling calls this). Without a C compiler the wheel holds none."""

from __future__ import annotations

import importlib.util
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CustomBuildHook(BuildHookInterface):  # type: ignore[type-arg, misc]  # hatchling ships no types
    """``cni/shim/roceway-cni`` beside its source."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and say that the wheel is for this machine's architecture."""
        if version == "editable":
            return  # a source tree: tests and benchmarks build their own
        shim = _shim(Path(self.root))
        target = Path(self.root) / ".cache" / "roceway-cni"
        if not shim.build(target, self.metadata.version):
            self.app.display_warning("no C compiler: the wheel holds no compiled plugin")
            return
        build_data["force_include"][str(target)] = "cni/shim/roceway-cni"
        # A static program asks nothing of a C library: the plain linux tag holds.
        build_data["tag"] = f"py3-none-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        build_data["pure_python"] = False


def _shim(root: Path) -> Any:
    spec = importlib.util.spec_from_file_location("shim", root / "cni" / "shim" / "__init__.py")
    if spec is None or spec.loader is None:
        raise ImportError("cni/shim/__init__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
