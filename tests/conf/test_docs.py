"""docs/fabric.md says what is so."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import conf
from conf.errors import ConfigError
from conf.fabric import parse
from conf.schema import fabric_schema

TEXT = (Path(conf.__file__).parent.parent / "docs" / "fabric.md").read_text()


def block(language: str) -> str:
    (found,) = re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)
    return str(found)


def test_the_example_of_mistakes_prints_what_is_shown() -> None:
    with pytest.raises(ConfigError) as caught:
        parse(block("yaml"))
    assert f"{caught.value}\n" == block("text")


def test_every_field_is_in_the_reference() -> None:
    def names(part: Any) -> set[str]:
        inner = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        own = set(part.get("properties", {})) if isinstance(part, dict) else set()
        return own.union(*map(names, inner))

    fields = names(fabric_schema())
    assert len(fields) > 70
    assert sorted(field for field in fields if not re.search(rf"\b{field}\b", TEXT)) == []
