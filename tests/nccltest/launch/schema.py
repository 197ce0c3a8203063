"""Kubernetes objects against the types of the published client: every key known, every value of its type."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from kubernetes import client

_PLAIN: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "bool": (bool,), "float": (int, float)}


def mistakes(kind: str, value: Any, path: str = "") -> Iterator[str]:
    """What of ``value`` is no ``kind`` of the client's, such as V1Job."""
    if kind == "object" or value is None:
        return
    if kind in _PLAIN:
        if not isinstance(value, _PLAIN[kind]) or (isinstance(value, bool) and kind != "bool"):
            yield f"{path}: {value!r} is no {kind}"
    elif inner := re.fullmatch(r"[lL]ist\[(.+)\]", kind):
        for place, each in enumerate(value if isinstance(value, list) else [value]):
            yield from mistakes(inner[1], each, f"{path}[{place}]")
    elif inner := re.fullmatch(r"[dD]ict[\[(]str, (.+)[\])]", kind):
        for key, each in value.items():
            yield from mistakes(inner[1], each, f"{path}.{key}")
    else:
        yield from _of_model(getattr(client, kind), value, path)


def _of_model(model: Any, value: Any, path: str) -> Iterator[str]:
    names = {camel: snake for snake, camel in model.attribute_map.items()}
    if not isinstance(value, dict):
        yield f"{path}: {value!r} is no mapping"
        return
    for key, each in value.items():
        if key not in names:
            yield f"{path}.{key}: {model.__name__} has no such field"
        else:
            yield from mistakes(model.openapi_types[names[key]], each, f"{path}.{key}")
