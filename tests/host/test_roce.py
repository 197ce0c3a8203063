"""Where RoCE settings are, per driver, on file trees laid out as the drivers lay them out."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from host import roce
from host.errors import HostError

PCI = "0000:18:00.0"


def put(root: Path, files: dict[str, str]) -> roce.Place:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return roce.Place("eth2", PCI, "mlx5_0", str(root))


def test_in_tree_mlx5(tmp_path: Path) -> None:
    folder = f"sys/kernel/debug/mlx5/{PCI}/cc_params"
    place = put(
        tmp_path, {f"{folder}/np_cnp_dscp": "48\n", f"{folder}/np_cnp_prio": "6\n", f"{folder}/rp_ai_rate": "5\n"}
    )
    assert roce.names(place) == ("cnp_dscp", "cnp_prio", "param.np_cnp_dscp", "param.np_cnp_prio", "param.rp_ai_rate")
    assert roce.read(place, "cnp_dscp") == "48"
    roce.write(place, "param.rp_ai_rate", "10")
    assert roce.read(place, "param.rp_ai_rate") == "10"


def test_ofed_comes_before_debugfs_and_has_ecn_by_priority(tmp_path: Path) -> None:
    ecn = "sys/class/net/eth2/ecn"
    files = {f"{ecn}/roce_{point}/enable/{prio}": "1\n" for point in ("np", "rp") for prio in range(8)}
    files |= {f"{ecn}/roce_np/cnp_dscp": "46\n", f"sys/kernel/debug/mlx5/{PCI}/cc_params/np_cnp_dscp": "48\n"}
    files |= {"sys/class/net/eth2/qos/trust": "dscp\n"}
    place = put(tmp_path, files)
    assert roce.read(place, "cnp_dscp") == "46"
    assert roce.read(place, "trust") == "dscp"
    assert [name for name in roce.names(place) if name.startswith("np.")] == [f"np.{prio}" for prio in range(8)]
    roce.write(place, "np.3", "0")
    assert (tmp_path / ecn / "roce_np/enable/3").read_text().startswith("0")


@pytest.mark.parametrize(
    ("text", "value"), [("Global tclass=106\n", "106"), ("", None), ("Global tclass=-1\n", None), ("tclass=0\n", "0")]
)
def test_traffic_class_is_its_number(tmp_path: Path, text: str, value: str | None) -> None:
    place = put(tmp_path, {"sys/class/infiniband/mlx5_0/tc/1/traffic_class": text})
    assert roce.read(place, "traffic_class") == value


def test_bnxt_re_counts_only_once_applied(tmp_path: Path) -> None:
    folder = roce.BNXT_CC.format(rdma="mlx5_0")
    place = put(tmp_path, {f"{folder}/ecn_enable": "0x0\n", f"{folder}/cnp_dscp": "0x30\n", f"{folder}/apply": "0\n"})
    roce.write(place, "ecn", "1")
    assert (tmp_path / folder / "apply").read_text().startswith("0x1")
    assert "param.apply" not in roce.names(place)


def test_rdma_cm_s_folder_is_made_on_request_alone(tmp_path: Path) -> None:
    place = put(tmp_path, {"sys/kernel/config/rdma_cm/x": ""})
    assert roce.read(place, "tos") is None
    assert not (tmp_path / "sys/kernel/config/rdma_cm/mlx5_0").exists()
    with pytest.raises(HostError, match="this NIC has no such setting"):
        roce.write(place, "tos", "106")  # a plain folder does not fill itself as configfs does
    assert (tmp_path / "sys/kernel/config/rdma_cm/mlx5_0").is_dir()


def test_without_configfs_the_error_says_what_to_look_for(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="is configfs mounted and the module rdma_cm loaded"):
        roce.write(roce.Place("eth2", PCI, "mlx5_0", str(tmp_path)), "tos", "106")


def test_a_nic_without_an_rdma_device_has_no_rdma_settings(tmp_path: Path) -> None:
    put(tmp_path, {"sys/class/infiniband/mlx5_0/tc/1/traffic_class": "Global tclass=106\n"})
    assert roce.names(roce.Place("eth2", PCI, "", str(tmp_path))) == ()


@pytest.mark.parametrize("name", ["", "../x", "param.../x", "np.x", "whatever"])
def test_only_known_names_become_paths(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="is no setting of a RoCE NIC"):
        roce.find(roce.Place("eth2", PCI, "mlx5_0", str(tmp_path)), name)


def test_a_hostile_device_name_is_no_path(tmp_path: Path) -> None:
    place = roce.Place("../../etc", PCI, "..", str(tmp_path))
    assert roce.names(place) == ()


def test_what_a_driver_shows_on_request_alone_is_asked_for(tmp_path: Path) -> None:
    for group in ("rdma_cm", "irdma"):
        (tmp_path / "sys/kernel/config" / group).mkdir(parents=True)
    roce.reveal(roce.Place("eth2", PCI, "rocep24s0", str(tmp_path)))
    made = sorted(str(path.relative_to(tmp_path / "sys/kernel/config")) for path in tmp_path.rglob("rocep24s0"))
    assert made == ["irdma/rocep24s0", "rdma_cm/rocep24s0"]
    roce.reveal(roce.Place("eth2", PCI, "", str(tmp_path)))


def test_ofed_s_dcqcn_parameters_have_the_in_tree_names(tmp_path: Path) -> None:
    ecn = "sys/class/net/eth2/ecn"
    files = {f"{ecn}/roce_rp/rpg_ai_rate": "5\n", f"{ecn}/roce_rp/dce_tcp_g": "1019\n"}
    files |= {f"{ecn}/roce_np/min_time_between_cnps": "4\n"}
    files |= {f"sys/kernel/debug/mlx5/{PCI}/cc_params/rp_ai_rate": "7\n"}
    place = put(tmp_path, files)
    assert roce.names(place) == ("param.np_min_time_between_cnps", "param.rp_ai_rate", "param.rp_dce_tcp_g")
    assert roce.read(place, "param.rp_ai_rate") == "5"
    roce.write(place, "param.rp_dce_tcp_g", "1000")
    assert (tmp_path / ecn / "roce_rp/dce_tcp_g").read_text() == "1000\n"


def test_bnxt_re_is_written_in_hexadecimal_which_all_its_releases_read_alike(tmp_path: Path) -> None:
    folder = roce.BNXT_CC.format(rdma="mlx5_0")
    place = put(tmp_path, {f"{folder}/cnp_dscp": "", f"{folder}/g": "", f"{folder}/apply": ""})
    roce.write(place, "cnp_dscp", "48")
    roce.write(place, "param.g", "10")
    assert [(tmp_path / folder / name).read_text() for name in ("cnp_dscp", "g", "apply")] == ["0x30", "0xa", "0x1"]


def test_a_file_that_cannot_seek_is_written_as_debugfs_needs_it(tmp_path: Path) -> None:
    folder = tmp_path / f"sys/kernel/debug/mlx5/{PCI}/cc_params"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "rp_ai_rate")
    reader = os.open(folder / "rp_ai_rate", os.O_RDONLY | os.O_NONBLOCK)
    try:
        roce._write(str(folder / "rp_ai_rate"), "10")
        assert os.read(reader, 64) == b"10"
    finally:
        os.close(reader)
