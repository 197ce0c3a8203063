"""``python -m conf.schema``: the JSON Schema of ``fabric.yaml``, for editors."""

from __future__ import annotations

import json
import sys
from typing import Any

from conf.fabric import Fabric

__all__ = ["fabric_schema", "main"]

ID = "urn:roceway:v1:fabric"


def fabric_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of what can be told of each field by itself."""
    schema = Fabric.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": ID} | schema | {"title": "fabric.yaml"}


def main() -> int:
    """Prints the schema."""
    json.dump(fabric_schema(), sys.stdout, indent=2, ensure_ascii=False)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
