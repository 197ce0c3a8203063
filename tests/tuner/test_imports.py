"""What a command does not need it does not import: a node's shell and a boot are slow enough."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.world import ROOT

HEAVY = {"pydantic", "pyroute2", "scapy", "rich", "jinja2", "kubernetes", "redis", "httpx", "asyncssh"}


def imported(*words: str) -> set[str]:
    """Of the heavy ones, after a command."""
    code = (
        "import contextlib, sys\nfrom tuner.__main__ import main\n"
        "with contextlib.suppress(SystemExit): main()\n"
        f"print(','.join(sorted({HEAVY!r} & set(sys.modules))), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, cwd=ROOT, timeout=60, check=True
    )
    return set(done.stderr.splitlines()[-1].split(",")) - {""}


@pytest.mark.parametrize("command", ["show", "plan", "apply", "verify", "rollback", "watch"])
def test_help_of_a_host_s_command_imports_nothing_heavy(command: str) -> None:
    assert imported(command, "--help") == set()


def test_showing_a_host_imports_nothing_heavy() -> None:
    assert imported("show") == set()


def test_fabric_yaml_takes_its_model_alone() -> None:
    assert imported("verify", "-f", "conf/examples/minimum-2-hosts.yaml", "--node", "nobody") == {"pydantic"}


def test_lint_of_a_file_takes_neither_sockets_nor_html() -> None:
    assert imported("lint", "-f", "conf/examples/h100-8x400g.yaml") <= {"pydantic", "rich"}
