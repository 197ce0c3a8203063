"""``-J`` files of every version, with every trap, and rccl-tests' own formats."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nccltest.model import Half, Row
from nccltest.parse import parse_text


def half(time: object = 100.0, rate: object = 10.0, bus: object = 15.0, wrong: object = 0.0) -> dict[str, Any]:
    return {"time": time, "alg_bw": rate, "bus_bw": bus, "nwrong": wrong}


def document(version: int = 3, **changes: object) -> dict[str, Any]:
    """What 2.19.6 writes for two nodes of two GPUs."""
    gpu = {"group": 0, "pid": 7, "device_hex": "0000:1b:00", "device_info": "NVIDIA H100"}
    devices = [{**gpu, "rank": rank, "hostname": f"gpu-{rank // 2}", "device": rank % 2} for rank in range(4)]
    row = {"size": 8388608, "count": 2097152, "type": "float", "redop": "sum", "root": "    -1"}
    return {
        "version": version,
        "start_time": "2026-01-02 03:04:05",
        "args": ["/opt/nccl-tests/build/all_reduce_perf", "-b", "8M"],
        "env": ["NCCL_DEBUG=INFO", "HOME=/root", "SECRET_TOKEN=s3cr3t", "NCCL_IB_HCA=mlx5_0"],
        "nccl_version": 22807,
        "config": {
            "nthreads": 1,
            "ngpus": 1,
            "minimum_bytes": 8388608,
            "blocking_collectives": "false",
            "devices": devices,
        },
        "results": [{**row, "out_of_place": half(), "in_place": half(200.0, 5.0, 7.5), "actual_iterations": 20}],
        "out_of_bounds": {"count": 0, "okay": "true"},
        "average_bus_bandwidth": {"bandwidth": 11.25, "okay": "unchecked"},
        "errors": [""],
        "end_time": "2026-01-02 03:05:05",
        **changes,
    }


ROW = Row(8388608, 2097152, "float", "sum", -1, Half(100.0, 10.0, 15.0, 0), Half(200.0, 5.0, 7.5, 0))


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_every_version_is_read(version: int) -> None:
    (run,) = parse_text(json.dumps(document(version)), "x")
    assert run.rows == (ROW,)
    assert (run.status, run.collective, run.ranks, run.nodes, run.nccl) == ("ok", "all_reduce", 4, 2, "2.28.7")
    assert (run.version, run.average, run.hosts, run.errors) == (f"json-{version}", 11.25, ("gpu-0", "gpu-1"), ())


def test_of_the_environment_only_what_matters_is_kept() -> None:
    (run,) = parse_text(json.dumps(document()), "x")
    assert run.env == (("NCCL_DEBUG", "INFO"), ("NCCL_IB_HCA", "mlx5_0"))
    assert "s3cr3t" not in repr(run)


def test_misspelt_keys_are_read() -> None:
    changed = document(1)
    del changed["average_bus_bandwidth"]
    changed["average_bus_bandwidith"] = {"bandwidith": 9.5, "okay": "unchecked"}
    assert parse_text(json.dumps(changed), "x")[0].average == 9.5


def test_infinities_and_strange_numbers_are_no_numbers() -> None:
    text = json.dumps(document(results=[{**document()["results"][0], "out_of_place": half(0.0, "INF", "-INF", None)}]))
    for bare in ("inf", "nan", "-nan", "Infinity", "NaN", "1e999"):
        (run,) = parse_text(text.replace('"INF"', bare).replace('"-INF"', '"nan"'), "x")
        assert run.rows[0].out_of_place == Half(0.0, None, None, None)


@pytest.mark.parametrize("missing", ["out_of_place", "in_place"])
def test_a_half_that_was_not_run_is_null(missing: str) -> None:
    (run,) = parse_text(json.dumps(document(results=[{**document()["results"][0], missing: None}])), "x")
    (row,) = run.rows
    assert (row.in_place is None) == (missing == "in_place")
    assert (row.out_of_place.busbw is None) == (missing == "out_of_place")


def test_with_several_gpus_a_process_only_the_first_device_is_listed() -> None:
    config = document()["config"]
    config.update(ngpus=4, devices=[{**device, "rank": 4 * place} for place, device in enumerate(config["devices"])])
    assert parse_text(json.dumps(document(config=config)), "x")[0].ranks == 16


def test_groups_side_by_side_count_their_own_ranks() -> None:
    config = document()["config"]
    config["devices"] = [{**device, "group": place % 2} for place, device in enumerate(config["devices"])]
    assert parse_text(json.dumps(document(config=config)), "x")[0].ranks == 2


def test_every_process_is_told_apart() -> None:
    row = document()["results"][0]
    row["out_of_place_per_iter"] = {
        "cv_pct": 1.5,
        "times_us": [3, 4],
        "per_process_max_times_us": [[1, 2, 9], [4, 5, 6]],
    }
    (run,) = parse_text(json.dumps(document(results=[row])), "x")
    assert run.rows[0].out_of_place.process_us == (2.0, 5.0)
    assert run.rows[0].out_of_place.cv_pct == 1.5


def test_wrong_data_and_errors_have_their_status() -> None:
    wrong = document(out_of_bounds={"count": 3, "okay": "false"})
    assert parse_text(json.dumps(wrong), "x")[0].status == "wrong-data"
    failed = document(errors=["unhandled system error"])
    for name in ("results", "out_of_bounds", "average_bus_bandwidth", "end_time"):
        del failed[name]
    (run,) = parse_text(json.dumps(failed), "x")
    assert (run.status, run.errors) == ("failed", ("unhandled system error",))
    assert parse_text(json.dumps(document(errors=["told, but whole"])), "x")[0].status == "ok"


def test_a_file_cut_anywhere_is_incomplete_and_keeps_its_whole_rows() -> None:
    rows = [{**document()["results"][0], "size": 8 << power} for power in range(3)]
    text = json.dumps(document(results=rows))
    seen = set()
    for cut in range(text.index('"args"'), len(text) - 1):
        (run,) = parse_text(text[:cut], "x")
        assert run.status in ("incomplete", "ok")
        assert run.status == "incomplete" or '"out_of_bounds"' in text[:cut]
        seen.add(len(run.rows))
        assert [row.size for row in run.rows] == [8, 16, 32][: len(run.rows)]
    assert seen == {0, 1, 2, 3}


@pytest.mark.parametrize(
    "text",
    [
        "{" * 200_000,
        '{"results":' + "[" * 100_000,
        '{"version": ' + "9" * 100_000 + ', "results": []}',
        '{"version": 3, "results": [{"size": 1e308, "out_of_place": {"time": true, "bus_bw": []}}]}',
        '{"version": 3, "results": {"a": 1}, "config": [], "args": 7, "errors": "x", "env": [1, null]}',
        '{"version": 3, "results": [{"size": -5, "root": {}, "in_place": {"nwrong": 1e300}}]}',
        '{"' * 100_000,
        '{"args": ["' + "\\" * 100_001,
        '{"args": "' + '\\"' * 100_000,
    ],
    ids=range(9),
)
def test_hostile_files_are_read_without_harm(text: str) -> None:
    assert parse_text(text, "x")


RCCL = {"numCycle": 0, "name": "AllReduce", "nodes": 2, "ranks": 16, "ranksPerNode": 8, "gpusPerRank": 1, "size": 1024}
RCCL_HALVES = [
    {
        **RCCL,
        "type": "float",
        "redop": "sum",
        "inPlace": place,
        "time": 10.0,
        "algBw": 1.0,
        "busBw": 1.875,
        "wrong": wrong,
    }
    for place, wrong in ((0, "0"), (1, "N/A"))
]


def test_rccl_json_and_csv_are_read() -> None:
    rows = (Row(1024, 0, "float", "sum", -1, Half(10.0, 1.0, 1.875, 0), Half(10.0, 1.0, 1.875, None)),)
    csv = ",".join(RCCL_HALVES[0]) + "\n" + "".join(",".join(map(str, each.values())) + "\n" for each in RCCL_HALVES)
    for text in (json.dumps(RCCL_HALVES), csv):
        (run,) = parse_text(text, "x")
        assert run.rows == rows
        assert (run.status, run.collective, run.ranks, run.nodes) == ("ok", "all_reduce", 16, 2)
