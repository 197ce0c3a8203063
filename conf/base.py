"""What every block of ``fabric.yaml`` has in common: frozen, closed, camelCase in the file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, GetJsonSchemaHandler, Strict
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

__all__ = ["Block", "Flag", "Whole", "merge"]

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

    @classmethod
    def __get_pydantic_json_schema__(cls, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Defaults as the file would spell them (``8GiB``, not a number); no titles, which only repeat the key."""
        schema = handler.resolve_ref_schema(handler(core))
        defaults = cls.model_construct().model_dump(mode="json", warnings=False)
        for name, field in schema.get("properties", {}).items():
            field.pop("title", None)
            if field.pop("default", None) is not None:
                field["default"] = defaults[name]
        return schema


def merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """``base`` with every field of ``over`` put in its place, block by block."""
    both = {
        key: merge(base[key], over[key])
        for key in base
        if isinstance(base[key], dict) and isinstance(over.get(key), dict)
    }
    return base | over | both
