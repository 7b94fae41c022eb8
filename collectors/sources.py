"""How a source answered, in one status, from how each of its parts did.

The same for a live poll and for a bundle: whatever is missing, cut or unreadable makes the source
``degraded``, and ``down`` when no part of it was answered. Nothing here can make one healthier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from collectors.decoding import Decoded, shorten
from fleet.observation import SourceState, SourceStatus, Truncation

KUBERNETES_NEEDED = ("pods", "nodes", "services", "events", "ray_clusters")
"""Slice objects exist only where dynamic slicing does, so their absence says nothing."""

RAY_NEEDED = ("nodes", "placement_groups", "actors", "tasks")
"""No rule is blind without jobs, the autoscaler's text or TPU gauges: those that use them say so
by themselves."""

MALFORMED_KEPT = 40
"""Some of each part, as the part is what the rules look at."""

DETAIL_LENGTH = 400


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a source: what was decoded, or in one word and a sentence why not.

    ``retry_after``: seconds that the server asked to wait, where it did.
    """

    decoded: Decoded | None = None
    reason: str | None = None
    detail: str = ""
    retry_after: float | None = None

    @property
    def answered(self) -> bool:
        """Whether there are rows, complete or not."""
        return self.decoded is not None and self.decoded.rows is not None

    @property
    def problem(self) -> tuple[str, str] | None:
        """The reason and the sentence, when not all is well."""
        if self.decoded is not None and self.decoded.reason:
            return self.decoded.reason, self.decoded.detail
        return (self.reason, self.detail) if self.reason else None


def summarise(
    name: str,
    parts: Mapping[str, Part],
    *,
    needed: Iterable[str],
    fetched_at: float | None,
    poll_interval: float = 10.0,
    remarks: Iterable[str] = (),
) -> SourceStatus:
    """One :class:`~fleet.observation.SourceStatus` for all parts of a source.

    Args:
        parts: each part that was asked for; a needed one that is not here counts as missing.
        needed: parts without which some rule is blind.
        fetched_at: when the answers came (epoch seconds); kept only when some part was answered,
            the caller carries the last good time over for a source that is down.
        remarks: sentences that are worth showing but cost nothing.
    """
    needed = tuple(needed)
    failures: dict[tuple[str, str], list[str]] = {}
    missing: list[str] = []
    truncated: list[Truncation] = []
    malformed: list[str] = []
    for part_name in dict.fromkeys((*needed, *parts)):
        part = parts.get(part_name, Part(reason="missing", detail="not there"))
        if part.decoded is not None:
            malformed.extend(part.decoded.malformed)
            if part.decoded.truncation is not None:
                truncated.append(part.decoded.truncation)
        if part.problem is None:
            continue
        if not part.answered:
            if part.reason == "missing" and part_name not in needed:
                continue
            missing.append(part_name)
        failures.setdefault(part.problem, []).append(part_name)
    answered = any(part.answered for part in parts.values())
    status: SourceState = "ok"
    reason = None
    if failures:
        status = "degraded" if answered else "down"
        reason = worst_reason(reason for reason, _ in failures)
    return SourceStatus(
        name=name,
        status=status,
        detail=_sentence(failures, remarks),
        reason=reason,
        fetched_at=fetched_at if answered else None,
        complete=not failures,
        missing=tuple(missing),
        truncated=tuple(truncated),
        malformed=tuple(malformed[:MALFORMED_KEPT]),
        poll_interval_seconds=poll_interval,
    )


_WORST_FIRST = (
    "unauthorized",
    "forbidden",
    "refused",
    "unreachable",
    "timed_out",
    "rate_limited",
    "server_error",
    "not_found",
    "unsupported_version",
    "too_large",
    "not_json",
    "missing",
    "malformed",
    "truncated",
)


def worst_reason(reasons: Iterable[str]) -> str:
    """The one of several reasons to name: what has to be mended first."""
    known = list(reasons)
    return min(known, key=lambda word: _WORST_FIRST.index(word) if word in _WORST_FIRST else 99)


def _sentence(failures: Mapping[tuple[str, str], list[str]], remarks: Iterable[str]) -> str:
    texts = []
    for (_, detail), names in failures.items():
        label = ", ".join(names)
        starts = len(names) == 1 and detail.startswith(f"{label}:")
        texts.append(detail if starts else f"{label}: {detail}")
    return shorten("; ".join([*texts, *remarks]), DETAIL_LENGTH)
