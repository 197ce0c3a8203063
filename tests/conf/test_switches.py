"""Sources of switches: each operating system can be read in some ways and not in others."""

from __future__ import annotations

import pytest

from conf.switches import SOURCES, Source, Switch
from tests.conf.documents import fabric, findings

PLACES = {
    "file": "leaf0.json",
    "redis": "leaf0:6379",
    "ssh": "admin@leaf0",
    "rest": "https://leaf0",
}


@pytest.mark.parametrize("platform", SOURCES)
@pytest.mark.parametrize("kind", PLACES)
def test_a_source_fits_its_platform_or_is_refused_with_those_that_do(platform: str, kind: str) -> None:
    switch = {"name": "leaf0", "platform": platform, "role": "leaf", "source": {kind: PLACES[kind]}}
    if kind in SOURCES[platform]:  # type: ignore[index] # a platform's name
        assert fabric(switches=[switch], links=None).switches[0].source == Source.model_validate({kind: PLACES[kind]})
    else:
        message = findings(switches=[switch], links=None)["switches[0]"]
        assert f"cannot be read by {kind}" in message
        assert ", ".join(SOURCES[platform]) in message  # type: ignore[index] # as above


def test_a_switch_without_a_source_is_only_cabling() -> None:
    assert Switch.model_validate({"name": "a", "platform": "eos", "role": "leaf"}).source is None
