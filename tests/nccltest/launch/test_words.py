"""How each launcher is called: words, environment, files."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import Any

import pytest

from conf.errors import ConfigError
from conf.fabric import load, parse
from conf.probe import Slurm
from nccltest.launch import mpirun, srun, torchrun
from nccltest.launch.job import MARK, Bench, Job, bench_of, environment_hash, job_of, launches
from nccltest.launch.remote import sweep_command
from nccltest.model import Member
from nccltest.schedule import Group
from tests.world import ROOT

H100 = ROOT / "conf" / "examples" / "h100-8x400g.yaml"
PAIR = Group((Member("gpu-001", "rail1"), Member("gpu-002", "rail1")), "pair")
WHOLE = Group(tuple(Member(f"gpu-00{number}") for number in range(1, 5)), "whole")
GIB = 1 << 30


def bench(**changes: Any) -> Bench:
    return replace(bench_of(load(H100)), **changes)


def job(group: Group = PAIR, **changes: Any) -> Job:
    return job_of(bench(**changes), group, "0123456789abcdef", (GIB, 8 * GIB, 2), 90.0)


def test_nccl_is_pinned_to_ring_rail_and_class() -> None:
    made = job(hcas={"rail1": "mlx5_3", "rail0": "mlx5_0"}, interface="eth0")
    assert made.environment["NCCL_ALGO"] == "Ring"
    assert made.environment["NCCL_IB_HCA"] == "=mlx5_3"
    assert made.environment["NCCL_CROSS_NIC"] == "0"
    assert made.environment["NCCL_SOCKET_IFNAME"] == "=eth0"
    assert int(made.environment["NCCL_IB_TC"]) >> 2 == 26
    assert made.environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert made.environment[MARK] == "0123456789abcdef"
    assert made.ranks == 2


def test_a_group_over_all_rails_has_a_rank_for_each() -> None:
    made = job(WHOLE, hcas={"rail0": "mlx5_0", "rail1": "mlx5_3"})
    assert made.ranks_per_node == 8
    assert made.environment["NCCL_IB_HCA"] == "=mlx5_0,mlx5_3"
    assert "CUDA_VISIBLE_DEVICES" not in made.environment


def test_the_operators_variables_win_but_not_over_the_mark() -> None:
    made = job(environment={"NCCL_ALGO": "Tree", MARK: "x"})
    assert made.environment["NCCL_ALGO"] == "Tree"
    assert made.environment[MARK] == "0123456789abcdef"


@pytest.mark.parametrize(
    ("sizes", "walks"),
    [
        ((GIB, 4 * GIB, 8 * GIB), ((GIB, 8 * GIB, 2),)),
        ((GIB,), ((GIB, GIB, 2),)),
        ((3, 5), ((3, 3, 2), (5, 5, 2))),
        ((8, 8, 24), ((8, 8, 2), (24, 24, 2))),
    ],
)
def test_sizes_are_walked_in_as_few_starts_as_can_be(sizes: tuple[int, ...], walks: tuple[Any, ...]) -> None:
    assert launches(sizes) == walks


def test_mpirun_gets_parameters_by_environment_under_both_releases_names() -> None:
    call = mpirun.call_of(job(interface="10.1.0.0/16"), ("ssh", "-o", "BatchMode=yes"), root=False, gpus=True)
    assert call.words[0] == "mpirun"
    assert "--allow-run-as-root" not in call.words
    assert call.files == {"hosts": "gpu-001 slots=1\ngpu-002 slots=1\n"}
    assert (
        call.environment["OMPI_MCA_plm_rsh_agent"]
        == call.environment["PRTE_MCA_plm_ssh_agent"]
        == "ssh -o BatchMode=yes"
    )
    assert call.environment["OMPI_MCA_oob_tcp_if_include"] == "10.1.0.0/16"
    assert call.environment["OMPI_MCA_btl_tcp_if_include"] == "10.1.0.0/16"
    assert call.words[-len(job().command) :] == job().command
    # No value of a variable is on the command line, only names.
    exported = [call.words[place + 1] for place, word in enumerate(call.words) if word == "-x"]
    assert exported == sorted(job(interface="10.1.0.0/16").environment)
    assert int(call.words[call.words.index("--timeout") + 1]) > 90


def test_without_gpus_mpis_own_traffic_is_bound_to_the_rail() -> None:
    call = mpirun.call_of(job(), ("ssh",), root=True, gpus=False)
    assert "--allow-run-as-root" in call.words
    assert call.environment["OMPI_MCA_btl_tcp_if_include"] == ",".join(bench().subnets["rail1"])
    assert call.environment["OMPI_MCA_coll_tuned_allreduce_algorithm"] == "4"
    assert "OMPI_MCA_btl_tcp_eager_limit" not in call.environment  # 8 GiB are too much to set aside


def test_srun_names_nodes_tasks_time_and_partition() -> None:
    call = srun.call_of(job(), Slurm(partition="gpu", account="ops", options=("--exclusive",)), gpus=True)
    text = " ".join(call.words)
    for part in (
        "--nodes 2 --nodelist gpu-001,gpu-002 --ntasks-per-node 1 --ntasks 2 --mpi pmix --gpus-per-node 1",
        "--kill-on-bad-exit=1",
        "--time 3",
        "--partition gpu --account ops --exclusive",
        "--job-name roceway-probe-0123456789abcdef",
    ):
        assert part in text
    assert call.words[-len(job().command) :] == job().command
    assert srun.cancel(job())[:3] == ("scancel", "--name", "roceway-probe-0123456789abcdef")
    plain = srun.call_of(job(), Slurm(), gpus=False)
    assert "--gpus-per-node" not in plain.words
    # The stand-in is told the same by whomever it is started.
    parts = ("btl", "pml", "coll_", "mpi_")
    told = {
        name
        for name in mpirun.call_of(job(), ("ssh",), root=True, gpus=False).environment
        if name.startswith("OMPI_MCA_")
    }
    assert {name for name in plain.environment if name.startswith("OMPI_MCA_")} == {
        name for name in told if name.removeprefix("OMPI_MCA_").startswith(parts)
    }


def test_torchrun_is_one_quoted_line_a_node() -> None:
    made = job(command=(sys.executable, "-m", "nccltest.torch_allreduce"), environment={"ODD": "it's; rm -rf /"})
    calls = torchrun.calls_of(made, ("ssh",), 29_401)
    assert [call.words[:2] for call in calls] == [("ssh", "gpu-001"), ("ssh", "gpu-002")]
    words = shlex.split(calls[1].words[2])
    assert words[:2] == ["exec", "env"]
    assert "ODD=it's; rm -rf /" in words
    assert words[words.index("--node_rank") + 1] == "1"
    assert words[words.index("--master_addr") + 1] == "gpu-001"
    assert words[words.index("--master_port") + 1] == "29401"
    assert words[words.index("--rdzv_backend") + 1] == "static", "the first holds the meeting, whatever its host name"
    assert words[-len(made.command) + 1 :] == list(made.command[1:])
    other = job(command=("all_reduce_perf",))
    assert "--no_python" in shlex.split(torchrun.calls_of(other, ("ssh",), 1)[0].words[2])


def test_a_sweep_takes_nothing_but_an_id() -> None:
    assert f"{MARK}=0123456789abcdef" in sweep_command("0123456789abcdef")
    for bad in ("", "x; rm -rf /", "0123", "0" * 40):
        with pytest.raises(ValueError, match="no id of a job"):
            sweep_command(bad)


def test_the_environments_hash_is_of_what_changes_a_measurement() -> None:
    assert environment_hash(bench()) == environment_hash(bench())
    changed = [
        bench(iterations=7),
        bench(environment={"NCCL_PROTO": "LL"}),
        bench(command=("x",)),
        bench(hcas={"rail0": "y"}),
    ]
    assert len({environment_hash(each) for each in (bench(), *changed)}) == 5


@pytest.mark.parametrize(
    "bad", ['agent: ["ssh; rm -rf /"]', 'benchmark: ["$(reboot)"]', 'interface: "eth0 -x"', "environment: {A-B: x}"]
)
def test_words_of_fabric_yaml_cannot_smuggle_a_shell(bad: str) -> None:
    text = (ROOT / "conf" / "examples" / "lab-4-hosts.yaml").read_text()
    assert "probe: {schedule" in text
    with pytest.raises(ConfigError, match=r"probe\."):
        parse(text.replace("probe: {", f"probe: {{{bad}, "))
