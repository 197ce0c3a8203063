from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import conf
from conf.schema import fabric_schema
from conf.yamltext import read
from tests.conf.documents import document

HERE = Path(conf.__file__).parent
EXAMPLES = sorted((HERE / "examples").glob("*.yaml"))


def errors(value: object) -> list[str]:
    return [error.message for error in Draft202012Validator(fabric_schema()).iter_errors(value)]


def test_the_schema_in_the_tree_is_the_models() -> None:
    """If not: make schema."""
    printed = subprocess.run([sys.executable, "-m", "conf.schema"], check=True, capture_output=True, text=True).stdout
    assert (HERE / "fabric.schema.json").read_text() == printed


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(fabric_schema())
    assert fabric_schema()["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_fits_the_schema(path: Path) -> None:
    assert errors(read(path.read_text(), path.name)[0]) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"rail": []},
        {"rails": [{"name": "rail0", "subnet": "10.0.0.0/16", "nodeBlok": 27}]},
        {"rails": [{"name": "rail0", "nodeBlock": 27}]},
        {"nodeTypes": {"gpu": {"speed": 400, "mode": "macvlan"}}},
        {"nodeTypes": {"gpu": {"speed": "400G", "mode": "bridge"}}},
        {"nodeTypes": {"gpu": {"speed": "400G", "mode": "sriov", "rails": {"rail0": {"nic": "eth2", "vlanQos": 1}}}}},
        {"qos": {"lossless": {"dscp": 64}}},
        {"cni": {"routing": True}},
        {"switches": [{"name": "a", "platform": "sonic", "role": "leaf", "source": {}}]},
    ],
)
def test_an_editor_shows_a_bad_key_or_value(changes: dict[str, Any]) -> None:
    assert errors(document()) == []
    assert errors(document(**changes)) != []


def test_an_editor_lets_the_profile_fill_in_the_class() -> None:
    assert errors(document(qos={"lossless": {"dscp": 24}})) == []


def test_every_field_is_described() -> None:
    bare: list[str] = []

    def walk(part: Any, path: str) -> None:
        if isinstance(part, dict):
            fields = part.get("properties", {})
            bare.extend(f"{path}.{name}" for name, field in fields.items() if not {"description", "$ref"} & set(field))
            for key, inner in part.items():
                walk(inner, f"{path}.{key}")

    walk(fabric_schema(), "")
    assert bare == []
    assert json.dumps(fabric_schema()).count('"description"') > 100
