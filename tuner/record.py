"""Frozen dataclasses to JSON values and back, strictly: what is read is what the classes say, or one clear error. Pure.

Absent and null both mean "unknown" where a field may be None. Decoders are made once per class: ten thousand recorded
hosts are read in well under a minute.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["decode", "encode"]

_T = TypeVar("_T")
_Decoder = Callable[[Any, str], Any]


def encode(value: Any) -> Any:
    """A record as JSON values: dataclasses and mappings become objects, tuples become arrays."""
    if dataclasses.is_dataclass(value):
        kind: Any = type(value)
        return {name: encode(getattr(value, name)) for name in _names(kind)}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    return value


def decode(kind: type[_T], value: Any, where: str = "") -> _T:
    """The record of class ``kind`` that JSON values describe. ValueError with the path of the first wrong field."""
    key: Any = kind
    decoded: _T = _decoder(key)(value, where or kind.__name__)
    return decoded


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _wrong(where: str, wanted: str, value: Any) -> ValueError:
    return ValueError(f"{where}: {value!r:.80} is not {wanted}")


@cache
def _decoder(kind: Any) -> _Decoder:
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _optional(kind)
    if origin is tuple:
        return _tuple(get_args(kind))
    if origin is Literal:
        return _one_of(get_args(kind))
    if origin is not None:  # Mapping[str, X]
        return _mapping(_decoder(get_args(kind)[1]))
    return _record(kind) if dataclasses.is_dataclass(kind) else _plain(kind)


def _optional(kind: Any) -> _Decoder:
    (inner,) = (_decoder(each) for each in get_args(kind) if each is not types.NoneType)
    return lambda value, where: None if value is None else inner(value, where)


def _plain(kind: type) -> _Decoder:
    def decoded(value: Any, where: str) -> Any:
        if kind is float and type(value) is int:
            return float(value)
        if type(value) is not kind:  # a bool is not an int here
            raise _wrong(where, kind.__name__, value)
        return value

    return decoded


def _one_of(words: tuple[Any, ...]) -> _Decoder:
    def decoded(value: Any, where: str) -> Any:
        if not isinstance(value, str) or value not in words:
            raise _wrong(where, f"one of {', '.join(words)}", value)
        return value

    return decoded


def _tuple(kinds: tuple[Any, ...]) -> _Decoder:
    if kinds[1:] == (Ellipsis,):
        item = _decoder(kinds[0])

        def many(value: Any, where: str) -> Any:
            if not isinstance(value, list | tuple):
                raise _wrong(where, "a list", value)
            if {*map(type, value)} == {kinds[0]}:  # plain values of the right type, as counters are: nothing to decode
                return tuple(value)
            return tuple([item(each, f"{where}[]") for each in value])

        return many
    items = tuple(_decoder(each) for each in kinds)

    def fixed(value: Any, where: str) -> Any:
        if not isinstance(value, list | tuple) or len(value) != len(items):
            raise _wrong(where, f"a list of {len(items)}", value)
        return tuple(decoder(each, f"{where}[]") for decoder, each in zip(items, value, strict=True))

    return fixed


def _mapping(item: _Decoder) -> _Decoder:
    def decoded(value: Any, where: str) -> Any:
        if not isinstance(value, Mapping):
            raise _wrong(where, "an object", value)
        return {_key(key, where): item(each, f"{where}.{key}") for key, each in value.items()}

    return decoded


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise _wrong(where, "an object with words for keys", key)
    return key


def _record(kind: Any) -> _Decoder:
    hints = get_type_hints(kind)
    fields = {name: _decoder(hints[name]) for name in _names(kind)}

    def decoded(value: Any, where: str) -> Any:
        if not isinstance(value, Mapping):
            raise _wrong(where, "an object", value)
        unknown = [str(key) for key in value if key not in fields]
        if unknown:
            raise ValueError(f"{where}: unknown field {', '.join(sorted(unknown))}")
        found = {name: fields[name](each, f"{where}.{name}") for name, each in value.items()}
        try:
            return kind(**found)
        except TypeError as error:
            raise ValueError(f"{where}: {str(error).partition('() ')[2] or error}") from None

    return decoded
