"""JSON as it comes from anywhere: other encodings, cut off, NaN, nested a million deep.

Nothing here knows what the JSON is about. What cannot be read raises :class:`Unreadable` with a
reason word; what can be read only after a repair is noted.
"""

from __future__ import annotations

import codecs
import json
import math
from typing import Any

import msgspec
from msgspec import Raw

from collectors.salvage import Notes

PYTHON_JSON_LIMIT = 64 * 1024 * 1024
"""Python's own parser (NaN, odd escapes) takes ten times the size in memory: not beyond this."""

DETAIL_LENGTH = 300
"""A sentence for people; a server's error page can be megabytes."""


class Unreadable(Exception):  # noqa: N818 - carries a reason, no caller outside sees it
    """Nothing of it can be read: one reason word and a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def shorten(text: str, length: int = DETAIL_LENGTH) -> str:
    """One line of at most ``length`` characters: what a server says can be anything."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text[: length * 4]).split())
    return line if len(line) <= length else line[: length - 1] + "…"


def as_utf8(data: bytes) -> bytes:
    """UTF-8 without a mark. PowerShell's ``>`` writes UTF-16, some editors a byte order mark."""
    if data.startswith(codecs.BOM_UTF8):
        data = data[3:]
    elif data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        data = data.decode("utf-16", "replace").encode("utf-8", "replace")
    head = data[:64].lstrip()
    if not head and not data.strip():
        raise Unreadable("not_json", "empty")
    if head.startswith(b"<"):
        raise Unreadable("not_json", "a web page, not JSON (a login page or a proxy?)")
    return data


def peel(value: Any) -> Any:
    """One layer of raw JSON: an object of raw values, a list of raw values, or the scalar."""
    if not isinstance(value, Raw):
        return value
    first = bytes(memoryview(value)[:64]).lstrip()[:1] or bytes(value).lstrip()[:1]
    if first == b"{":
        return msgspec.json.decode(value, type=dict[str, Raw])
    if first == b"[":
        return msgspec.json.decode(value, type=list[Raw])
    return msgspec.json.decode(value)


def python_json(data: bytes, place: str, notes: Notes, error: Exception) -> Any:
    """Python's parser takes what msgspec refuses: NaN, 1e400, broken UTF-8, half surrogates."""
    if isinstance(error, RecursionError):
        raise Unreadable("malformed", "nested too deeply") from None
    if "trailing characters" in str(error):
        raise Unreadable("not_json", f"more than one JSON document ({error})") from None
    if len(data) > PYTHON_JSON_LIMIT:
        cut = "was truncated" in str(error) and data.lstrip()[:1] in (b"{", b"[")
        raise Unreadable("truncated" if cut else "not_json", str(error)) from None
    odd: list[str] = []

    def constant(name: str) -> None:
        odd.append(f"{name} is no JSON number")

    def to_float(text: str) -> float | None:
        value = float(text)
        if math.isfinite(value):
            return value
        odd.append("a number is out of range")
        return None

    def to_int(text: str) -> int | None:
        if len(text) <= 40:
            return int(text)
        odd.append("a number is out of range")
        return None

    text = data.decode("utf-8", "replace")
    if "\ufffd" in text and b"\xef\xbf\xbd" not in data:
        odd.append("some text is not UTF-8")
    try:
        value = json.loads(text, parse_constant=constant, parse_float=to_float, parse_int=to_int)
    except RecursionError:
        raise Unreadable("malformed", "nested too deeply") from None
    except ValueError as problem:
        raise Unreadable(*_json_failure(data, problem, error)) from None
    for each in dict.fromkeys(odd):
        notes.add(place, each)
    if b"\\u" in data:
        value = _without_half_surrogates(value, place, notes)
    return value


def _json_failure(data: bytes, problem: ValueError, first: Exception) -> tuple[str, str]:
    position = getattr(problem, "pos", 0)
    at_end = position >= len(data.rstrip()) - 1 or "was truncated" in str(first)
    if at_end and data.lstrip()[:1] in (b"{", b"["):
        return "truncated", f"cut off after {len(data)} bytes, in the middle of the JSON"
    return "not_json", f"not JSON ({problem})"


def _without_half_surrogates(value: Any, place: str, notes: Notes) -> Any:
    """Half a surrogate pair cannot be encoded again by whatever shows it."""
    if isinstance(value, str):
        if value.isascii():
            return value
        clean = value.encode("utf-8", "replace").decode()
        if clean != value:
            notes.add(place, "half a surrogate pair in a text")
        return clean
    if isinstance(value, list):
        return [_without_half_surrogates(each, place, notes) for each in value]
    if isinstance(value, dict):
        return {
            _without_half_surrogates(key, place, notes): _without_half_surrogates(
                each, place, notes
            )
            for key, each in value.items()
        }
    return value


def text_of(value: Any) -> str | None:
    """The string in one raw or parsed value; ``None`` when it is none."""
    try:
        peeled = peel(value)
    except msgspec.MsgspecError:
        return None
    return peeled if isinstance(peeled, str) else None


def deep(value: Any) -> Any:
    """A raw value parsed to the bottom."""
    return msgspec.json.decode(value) if isinstance(value, Raw) else value
