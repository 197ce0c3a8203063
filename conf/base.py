"""What every block of ``fabric.yaml`` has in common: frozen, closed, camelCase in the file."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Strict
from pydantic.alias_generators import to_camel

__all__ = ["Block", "Flag", "Whole"]

Whole = Annotated[int, Strict()]
"""An integer; ``"3"``, ``3.0`` and ``true`` are not one."""
Flag = Annotated[bool, Strict()]


class Block(BaseModel):
    """A mapping in the file. Unknown keys are refused: a misspelt key must never pass for a default."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        use_attribute_docstrings=True,
        serialize_by_alias=True,
    )
