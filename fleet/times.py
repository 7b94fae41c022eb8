"""Times and numbers as clusters write them, read without raising. Times are epoch seconds, UTC."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from fleet.observation import Number


def parse_time(text: str | None) -> float | None:
    """An RFC 3339 time (``2026-11-30T10:00:00Z``) in epoch seconds; ``None`` when it is not one."""
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    try:
        return moment.timestamp()
    except (OverflowError, ValueError):
        return None


def format_time(seconds: float | None) -> str | None:
    """Epoch seconds as RFC 3339 in UTC, to the second; ``None`` stays ``None``."""
    if seconds is None:
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return None


def number(value: Number | object) -> float | None:
    """A number that may come as a string; ``None`` when it is none (null, text, NaN, infinite)."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def epoch_from_ms(value: Number) -> float | None:
    """Milliseconds since the epoch as seconds. Ray writes 0 for "never", which is ``None`` here."""
    result = number(value)
    return result / 1e3 if result is not None and result > 0 else None


def epoch_from_ns(value: Number) -> float | None:
    """Nanoseconds since the epoch as seconds; 0 is "never"."""
    result = number(value)
    return result / 1e9 if result is not None and result > 0 else None


def format_duration(seconds: float | None) -> str:
    """``42 s``, ``7 min``, ``3 h 05 min``, ``2 d 4 h``; ``?`` when unknown."""
    if seconds is None:
        return "?"
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole} s"
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if minutes < 60:
        return f"{minutes} min"
    if hours < 24:
        return f"{hours} h {minutes % 60:02d} min"
    return f"{days} d {hours % 24} h"
