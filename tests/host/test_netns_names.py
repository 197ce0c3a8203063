"""/var/run and /run are one folder on a host; in a container's image they need not be."""

from __future__ import annotations

from pathlib import Path

import pytest

from host import netns


def test_a_name_below_var_run_is_found_where_that_link_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.path.exists", lambda _: False)  # as in an image without the link
    assert netns.found("/var/run/netns/cni-1") == "/run/netns/cni-1"
    assert netns.found("/run/netns/cni-1") == "/run/netns/cni-1"
    assert netns.found("/proc/7/ns/net") == "/proc/7/ns/net"


def test_a_name_that_leads_somewhere_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "there").touch()
    assert netns.found(str(tmp_path / "there")) == str(tmp_path / "there")
    assert netns.identity(str(tmp_path / "there")) is not None
    assert netns.identity(str(tmp_path / "gone")) is None
