from __future__ import annotations

import pytest

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
    with pytest.raises(ValueError, match=r"there is no profile \.\./x; there is lossless-dscp"):
        profile("../x")
