"""pydantic's errors as findings: the path as the file spells it, one plain sentence each."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import cache
from itertools import islice
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from conf.errors import Finding
from conf.paths import Path, show

__all__ = ["did_you_mean", "translate"]


def translate(error: ErrorDetails, document: object, model: type[BaseModel]) -> Finding:
    """One of pydantic's errors about ``document`` as a finding."""
    path = _written(error["loc"], document)
    if error["type"] == "extra_forbidden":
        return Finding(show(path), _unknown_field(path, model))
    return Finding(show(path), _sentence(error))


def did_you_mean(name: str, known: Iterable[str], most: int = 1000) -> str:
    """``"; did you mean X?"`` for the nearest of the first ``most`` known names, else what there is."""
    names = list(islice(known, most))
    near = get_close_matches(name[:100], names, n=1, cutoff=0.75)
    if near:
        return f"; did you mean {near[0]}?"
    listed = ", ".join(names[:12]) + (", …" if len(names) > 12 else "")
    return f"; there is {listed}" if names else ""


def _written(loc: tuple[int | str, ...], document: object) -> Path:
    """The part of pydantic's location that is a place in the document.

    Left out are the tags of union members (``<…>``), the ``[key]`` of a bad mapping key, and fields inside a value
    that is written in its short form.
    """
    path: list[str | int] = []
    here: Any = document
    for step in loc:
        if isinstance(step, str) and (step == "[key]" or (step.startswith("<") and step.endswith(">"))):
            continue
        if not isinstance(here, dict | list | type(None)):
            break
        path.append(step)
        here = _inside(here, step)
    return tuple(path)


def _inside(value: Any, step: str | int) -> Any:
    try:
        return value[step]
    except (KeyError, IndexError, TypeError):
        return None


def _unknown_field(path: Path, model: type[BaseModel]) -> str:
    return "unknown field" + did_you_mean(str(path[-1]), _fields_at(path[:-1], _schema(model)))


@cache
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _fields_at(path: Path, root: Any) -> list[str]:
    """The fields that the JSON Schema allows at a path."""
    heads = [root]
    for step in path:
        heads = [below for head in heads for below in _below(_expand(head, root), step)]
    return [name for head in heads for part in _expand(head, root) for name in part.get("properties", {})]


def _expand(schema: Any, root: Any) -> list[Any]:
    """A schema with its reference followed and its alternatives taken apart."""
    if "$ref" in schema:
        return _expand(root["$defs"][schema["$ref"].rpartition("/")[2]], root)
    parts = [part for key in ("anyOf", "oneOf", "allOf") for part in schema.get(key, ()) if set(part) != {"required"}]
    return [schema, *(found for part in parts for found in _expand(part, root))]


def _below(parts: list[Any], step: str | int) -> list[Any]:
    if isinstance(step, int):
        return [part["items"] for part in parts if "items" in part]
    named = [part["properties"][step] for part in parts if step in part.get("properties", {})]
    if named:
        return named
    others = [part["additionalProperties"] for part in parts if part.get("additionalProperties")]
    return others + [value for part in parts for value in part.get("patternProperties", {}).values()]


def _sentence(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    if error["type"] == "value_error":
        return str(context["error"])
    if error["type"] == "literal_error" and context["expected"] == "False":
        return "leave it out, or write false"
    sentence = _SENTENCES.get(error["type"])
    if sentence is None:
        return error["msg"][:1].lower() + error["msg"][1:]
    if "expected" in context:
        context = context | {"expected": _lower(context["expected"])}
    return sentence.format(given=_shown(error["input"]), **context)


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _lower(expected: str) -> str:
    """pydantic's list of literals in YAML's spelling."""
    return expected.replace("'", "").replace("False", "false").replace("True", "true")


_SENTENCES = {
    "missing": "is missing",
    "int_type": "a whole number is wanted here, not {given}",
    "bool_type": "true or false is wanted here, not {given}",
    "string_type": "text is wanted here, not {given}",
    "tuple_type": "a list is wanted here, not {given}",
    "mapping_type": "a mapping is wanted here, not {given}",
    "dict_type": "a mapping is wanted here, not {given}",
    "model_type": "a mapping is wanted here, not {given}",
    "literal_error": "{given} is not {expected}",
    "greater_than_equal": "{given} is too small; the least is {ge}",
    "less_than_equal": "{given} is too large; the most is {le}",
    "string_too_short": "may not be empty",
    "string_too_long": "{given} is longer than {max_length} characters",
    "too_short": "at least {min_length} is wanted here",
    "too_long": "at most {max_length} are allowed here",
}
