from __future__ import annotations

from importlib.resources import files

import pytest

from conf.errors import ConfigError
from conf.qos import Qos, profile, profile_names
from tests.conf.documents import fabric


@pytest.mark.parametrize("name", profile_names())
def test_a_shipped_profile_is_complete(name: str) -> None:
    assert set(profile(name)) == set(Qos.model_fields) - {"profile"}
    written = Qos.model_validate({"profile": name}).model_dump(mode="json", exclude={"profile"})
    assert written == profile(name)


def test_the_default_profile_is_the_common_recipe() -> None:
    qos = fabric().qos
    assert (qos.lossless.priority, qos.lossless.dscp) == (3, 26)
    assert (qos.cnp.priority, qos.cnp.dscp, qos.cnp.scheduling) == (6, 48, "strict")
    assert (qos.trust, qos.mtu) == ("dscp", 9000)


def test_what_is_written_stands_in_place_of_the_profile_field_by_field() -> None:
    qos = fabric(qos={"lossless": {"dscp": 24}, "ecn": {"kmin": "400KB"}, "mtu": 4200}).qos
    assert (qos.lossless.dscp, qos.lossless.priority) == (24, 3)
    assert (qos.ecn.kmin, qos.ecn.kmax) == (400_000, 2 << 20)
    assert qos.mtu == 4200


def test_ecn_can_be_off_by_intent() -> None:
    assert fabric(qos={"ecn": {"enabled": False}}).qos.ecn.enabled is False


def test_an_unknown_profile_lists_the_profiles() -> None:
    with pytest.raises(ValueError, match=r"there is no profile \.\./x; there is ecn-off, ecn-only, lossless-dscp"):
        profile("../x")


def test_sonic_s_default_has_two_lossless_classes() -> None:
    qos = fabric(qos={"profile": "sonic-default"}).qos
    assert (qos.lossless.priority, qos.lossless.dscp) == (3, 3)
    assert [(each.priority, each.dscp) for each in qos.also] == [(4, 4)]


def test_ecn_alone_has_no_pfc_and_pfc_alone_no_ecn() -> None:
    only, off = (fabric(qos={"profile": name}).qos for name in ("ecn-only", "ecn-off"))
    assert (only.lossless.pfc, only.ecn.enabled) == (False, True)
    assert (off.lossless.pfc, off.ecn.enabled) == (True, False)


@pytest.mark.parametrize("also", [{"priority": 3, "dscp": 4}, {"priority": 4, "dscp": 26}, {"priority": 6, "dscp": 4}])
def test_classes_share_neither_priority_nor_dscp(also: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="is another class's"):
        fabric(qos={"also": [also]})


@pytest.mark.parametrize("name", profile_names())
def test_a_shipped_profile_names_its_source(name: str) -> None:
    text = (files("conf") / "profiles" / f"{name}.yaml").read_text()
    comment = "\n".join(line for line in text.splitlines() if line.startswith("#"))
    assert len(comment) > 200
    assert any(source in comment for source in ("https://", "sonic-buildimage", "SIGCOMM"))
