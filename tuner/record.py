"""Frozen dataclasses to JSON values and back, strictly: what is read is what the classes say, or one clear error. Pure.

Absent and null both mean "unknown" where a field may be None. Decoders are made once per class. Recorded hosts come by
the thousand, nearly all of what they hold is right and most of it alike: a value whose type needs no decoding passes as
it is, small records that are equal become one object, and the place of an error is put together when there is one.
"""

from __future__ import annotations

import dataclasses
import marshal
import types
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

__all__ = ["decode", "encode"]

MOST_SHARED = 256
LARGEST_SHARED = 1024
"""Bytes."""

_AS_IT_IS = frozenset((str, int, float, bool, types.NoneType))

_T = TypeVar("_T")


class _Decoder(NamedTuple):
    """How values of one kind are decoded."""

    plain: frozenset[type]
    """Exact types whose values are decoded already: they need no call."""
    decode: Callable[[Any], Any]
    leaf: bool = False
    """No record or mapping is in it."""


class _WrongError(Exception):
    """A value is wrong; each level that it passes on its way out adds its own name."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.path: list[str] = []


def encode(value: Any) -> Any:
    """A record as JSON values: dataclasses and mappings become objects, tuples become arrays."""
    kind: Any = type(value)
    if kind in _AS_IT_IS:
        return value
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    if isinstance(value, Mapping):
        return {key: encode(item) for key, item in value.items()}
    if hasattr(kind, "__dataclass_fields__"):
        return {name: encode(getattr(value, name)) for name in _names(kind)}
    return value


def decode(kind: type[_T], value: Any, where: str = "") -> _T:
    """The record of class ``kind`` that JSON values describe. ValueError with the path of the first wrong field."""
    key: Any = kind
    try:
        decoded: _T = _decoder(key).decode(value)
    except _WrongError as error:
        raise ValueError(f"{where or kind.__name__}{''.join(reversed(error.path))}: {error}") from None
    return decoded


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def _wrong(wanted: str, value: Any) -> _WrongError:
    return _WrongError(f"{value!r:.80} is not {wanted}")


def _is(value: Any, kind: type | types.UnionType, usual: type) -> bool:
    """isinstance, quick for what JSON gives: asking an abstract class costs more than all else here."""
    return type(value) is usual or isinstance(value, kind)


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
    decode = inner.decode
    return _Decoder(inner.plain | {types.NoneType}, lambda value: None if value is None else decode(value), inner.leaf)


def _plain(kind: type) -> _Decoder:
    def decoded(value: Any) -> Any:
        if kind is float and type(value) is int:
            return _float(value)
        if type(value) is not kind:  # a bool is not an int here
            raise _wrong(kind.__name__, value)
        return value

    return _Decoder(frozenset((kind,)), decoded, leaf=True)


def _float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        raise _wrong("float", value) from None


def _one_of(words: tuple[Any, ...]) -> _Decoder:
    def decoded(value: Any) -> Any:
        if not isinstance(value, str) or value not in words:
            raise _wrong(f"one of {', '.join(words)}", value)
        return value

    return _Decoder(frozenset(), decoded, leaf=True)


def _tuple(kinds: tuple[Any, ...]) -> _Decoder:
    if kinds[1:] == (Ellipsis,):
        return _many(_decoder(kinds[0]))
    items = tuple(_decoder(each) for each in kinds)

    def fixed(value: Any) -> Any:
        if not _is(value, list | tuple, list) or len(value) != len(items):
            raise _wrong(f"a list of {len(items)}", value)
        try:
            return tuple([item.decode(each) for item, each in zip(items, value, strict=True)])
        except _WrongError as error:
            error.path.append("[]")
            raise

    return _Decoder(frozenset(), fixed, all(item.leaf for item in items))


def _many(item: _Decoder) -> _Decoder:
    plain, decode, leaf = item

    def many(value: Any) -> Any:
        if not _is(value, list | tuple, list):
            raise _wrong("a list", value)
        if plain.issuperset(map(type, value)):  # as counters are
            return tuple(value)
        try:
            return tuple([decode(each) for each in value])
        except _WrongError as error:
            error.path.append("[]")
            raise

    return _Decoder(frozenset(), many, leaf)


def _mapping(item: _Decoder) -> _Decoder:
    plain, decode, _ = item

    def decoded(value: Any) -> Any:
        if not _is(value, Mapping, dict):
            raise _wrong("an object", value)
        found = {}
        for key, each in value.items():
            if not isinstance(key, str):
                raise _wrong("an object with words for keys", key)
            try:
                found[key] = each if type(each) in plain else decode(each)
            except _WrongError as error:
                error.path.append(f".{key}")
                raise
        return found

    return _Decoder(frozenset(), decoded)


def _record(kind: Any) -> _Decoder:
    hints = get_type_hints(kind)
    fields = {name: _decoder(hints[name]) for name in _names(kind)}
    names = frozenset(fields)

    def decoded(value: Any) -> Any:
        if not _is(value, Mapping, dict):
            raise _wrong("an object", value)
        if not names.issuperset(value):
            unknown = sorted(str(key) for key in value if key not in names)
            raise _WrongError(f"unknown field {', '.join(unknown)}")
        found = {}
        for name, each in value.items():
            plain, decode, _ = fields[name]
            if type(each) in plain:
                found[name] = each
                continue
            try:
                found[name] = decode(each)
            except _WrongError as error:
                error.path.append(f".{name}")
                raise
        return _made(kind, found)

    leaf = all(field.leaf for field in fields.values())
    return _Decoder(frozenset(), _shared(decoded) if leaf else decoded)


def _made(kind: Any, fields: Mapping[str, Any]) -> Any:
    try:
        return kind(**fields)
    except TypeError as error:
        raise _WrongError(str(error).partition("() ")[2] or str(error)) from None


def _shared(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """``decode``, or what it made of the same value before: ten thousand NICs have a handful of different ETS tables.

    Marshalled bytes are the key, since they tell 1 from True and 1.0, which are equal. A kind that comes in more than
    MOST_SHARED values is none to share.
    """
    known: dict[bytes, Any] = {}

    def decoded(value: Any) -> Any:
        if len(known) >= MOST_SHARED:
            return decode(value)
        try:
            key = marshal.dumps(value, 2)  # version 2: without references, which differ for equal values
        except ValueError:
            return decode(value)
        found = known.get(key)
        if found is None:
            found = decode(value)
            if len(key) <= LARGEST_SHARED:
                known[key] = found
        return found

    return decoded
