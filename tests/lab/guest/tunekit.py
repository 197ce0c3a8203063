"""What the tuner's lab tests share: a fabric of simulated NICs, the tuner called as the command calls it, the world."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.lab.guest.kit import ROCE, attempt, sh
from tuner.__main__ import TUNE
from tuner.cli import run
from tuner.gather import Doors, gather
from tuner.nic import HostQos

SIMS = {
    like: [f"sim{number}" for number, seat in enumerate(ROCE) if seat.like == like]
    for like in ("mlx5", "bnxt", "lenient", "liar")
}
MLX5, BNXT, LENIENT, LIAR = (SIMS[like][0] for like in ("mlx5", "bnxt", "lenient", "liar"))
CONFIGFS = Path("/sys/kernel/config")


class Answer(NamedTuple):
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """stdout, decoded."""
        return json.loads(self.out)


class Bench:
    """A folder with a fabric.yaml for some NICs of this host, and the tuner's state."""

    def __init__(self, folder: Path, nics: Sequence[str], /, **qos: Any) -> None:
        self.nics = tuple(nics)
        folder.mkdir(exist_ok=True)
        self.fabric = folder / "fabric.yaml"
        self.state = folder / "state"
        rails = {f"rail{number}": nic for number, nic in enumerate(nics)}
        self.fabric.write_text(
            json.dumps(
                {
                    "apiVersion": "roceway/v1",
                    "kind": "Fabric",
                    "metadata": {"name": "lab"},
                    "rails": [
                        {"name": rail, "subnet": f"10.2{n}.0.0/16", "nodeBlock": 27} for n, rail in enumerate(rails)
                    ],
                    "qos": {"mtu": 9000, **qos},
                    "nodeTypes": {"lab": {"speed": "400G", "mode": "host-device", "cable": "3m", "rails": rails}},
                    "nodes": [{"match": "lab", "type": "lab"}],
                }
            )
        )

    def tune(self, command: str, *words: str) -> Answer:
        """``roceway-tune COMMAND …`` with this fabric and state, in this process."""
        own = [] if command in ("rollback", "headroom") else ["-f", str(self.fabric), "--node", "lab"]
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run(TUNE, [command, *own, "--state-dir", str(self.state), *words])
        return Answer(code, out.getvalue(), err.getvalue())


def seen(nics: Sequence[str]) -> HostQos:
    """The NICs as our own doors see them."""
    with Doors() as doors:
        return gather(doors, list(nics))


def world(nics: Sequence[str]) -> str:
    """The settings of NICs as ``dcb``, ``ethtool`` and ``ip`` show them: witnesses that share no code with us."""
    shows = [f"{words} show dev {nic}" for nic in nics for words in ("ets", "pfc", "buffer", "maxrate", "dcbx")]
    shows += [f"{words} show dev {nic}" for nic in nics for words in ("apptrust", "rewr", "app")]
    lines = sh("dcb", "-N", "-b", "-", stdin="\n".join(shows)).splitlines()
    for nic in nics:
        lines += [f"{nic} {line}" for line in sh("ethtool", "-a", nic).splitlines()]
        lines.append(f"{nic} mtu {Path(f'/sys/class/net/{nic}/mtu').read_text().strip()}")
        lines += _tos(f"simib{nic[3:]}")
    return "\n".join(lines)


def _tos(device: str) -> list[str]:
    path = CONFIGFS / "rdma_cm" / device / "ports/1/default_roce_tos"
    return [f"{device} tos {path.read_text().strip()}"]


@contextlib.contextmanager
def configfs() -> Iterator[None]:
    """rdma_cm's settings are in reach."""
    sh("modprobe", "rdma_cm")
    if not (CONFIGFS / "rdma_cm").is_dir():
        attempt("mount", "-t", "configfs", "configfs", str(CONFIGFS))
    assert (CONFIGFS / "rdma_cm").is_dir()
    for names in SIMS.values():
        for name in names:
            (CONFIGFS / "rdma_cm" / f"simib{name[3:]}").mkdir(exist_ok=True)
    yield
    for names in SIMS.values():
        for name in names:
            (CONFIGFS / "rdma_cm" / f"simib{name[3:]}").rmdir()
