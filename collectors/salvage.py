"""What can be kept of a row of which some field has the wrong type: all but that field.

The fast path decodes a whole answer at once and stops at the first wrong type. One bad row must
not cost the ten thousand good ones, so here a bad value is replaced by its field's default and
noted. Notes name the place and the types, never the value: values can be secrets.
"""

from __future__ import annotations

import types
import typing
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)

MAX_NOTES = 5
"""Enough to see the pattern; a list of ten thousand would hide it."""

MAX_PATH = 160
"""Keys come from the cluster, so a place can be named at any length."""


class Notes:
    """What was wrong, bounded. ``count`` counts all of it; ``texts`` keeps the first few."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.count = 0

    def add(self, place: str, problem: str) -> None:
        """Note one problem at one place."""
        self.count += 1
        if len(self.texts) < MAX_NOTES:
            self.texts.append(f"{_shorten(place)}: {problem}")

    def summary(self) -> tuple[str, ...]:
        """The kept notes, and how many more there were."""
        more = self.count - len(self.texts)
        return (*self.texts, f"and {more} more") if more else tuple(self.texts)


def _shorten(place: str) -> str:
    clean = "".join(char if char.isprintable() else "?" for char in place)
    return clean if len(clean) <= MAX_PATH else clean[: MAX_PATH - 1] + "…"


def json_type(value: object) -> str:
    """The JSON name of a value's type, with an article: ``a string``, ``null``."""
    if value is None:
        return "null"
    for kind, name in (
        (bool, "a boolean"),
        (int | float, "a number"),
        (str, "a string"),
        (list | tuple, "a list"),
        (dict, "an object"),
    ):
        if isinstance(value, kind):
            return name
    return type(value).__name__


def expected(annotation: Any) -> str:
    """What a field's type asks for, in JSON's words."""
    names = []
    for option in _options(annotation):
        origin = typing.get_origin(option) or option
        if origin is tuple:
            names.append("a list")
        elif origin is dict or (isinstance(origin, type) and issubclass(origin, msgspec.Struct)):
            names.append("an object")
        elif origin is not types.NoneType:
            known = {str: "a string", bool: "a boolean", int: "a number", float: "a number"}
            names.append(known.get(origin, getattr(origin, "__name__", str(origin))))
    return " or ".join(dict.fromkeys(names))


@lru_cache(maxsize=256)
def _fields(kind: type[msgspec.Struct]) -> tuple[msgspec.structs.FieldInfo, ...]:
    return msgspec.structs.fields(kind)


def _options(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return typing.get_args(annotation)
    return (annotation,)


_DROPPED: Any = object()
"""Stands for a value of which nothing could be kept."""


def salvage_struct(kind: type[T], value: object, place: str, notes: Notes) -> T | None:
    """``value`` as ``kind``, with each unreadable field at its default and noted.

    ``None`` when nothing could be kept (``value`` is no JSON object).
    """
    kept = _salvage(kind, value, place, notes)
    return None if kept is _DROPPED else kept


def _salvage(annotation: Any, value: object, place: str, notes: Notes) -> Any:
    """``value`` as one of the annotation's types, in whole or in part, else ``_DROPPED``."""
    try:
        return msgspec.convert(value, annotation)
    except (msgspec.ValidationError, RecursionError, OverflowError):
        pass
    for option in _options(annotation):
        origin = typing.get_origin(option) or option
        if origin is tuple and isinstance(value, list | tuple):
            return _salvage_list(typing.get_args(option)[0], value, place, notes)
        if origin is dict and isinstance(value, dict):
            return _salvage_dict(typing.get_args(option)[1], value, place, notes)
        if (
            isinstance(origin, type)
            and issubclass(origin, msgspec.Struct)
            and isinstance(value, dict)
        ):
            return _salvage_fields(origin, value, place, notes)
    notes.add(place, f"expected {expected(annotation)}, got {json_type(value)}")
    return _DROPPED


def _salvage_list(item: Any, value: typing.Sequence[object], place: str, notes: Notes) -> Any:
    kept = (_salvage(item, each, f"{place}[{index}]", notes) for index, each in enumerate(value))
    return tuple(each for each in kept if each is not _DROPPED)


def _salvage_dict(item: Any, value: dict[Any, object], place: str, notes: Notes) -> Any:
    kept = {}
    for key, each in value.items():
        result = _salvage(item, each, f"{place}[{key!r}]", notes)
        if result is not _DROPPED:
            kept[str(key)] = result
    return kept


def _salvage_fields(
    kind: type[msgspec.Struct], value: dict[Any, object], place: str, notes: Notes
) -> Any:
    arguments = {}
    for field in _fields(kind):
        if field.encode_name in value:
            where = f"{place}.{field.encode_name}"
            result = _salvage(field.type, value[field.encode_name], where, notes)
            if result is not _DROPPED:
                arguments[field.name] = result
    return kind(**arguments)
