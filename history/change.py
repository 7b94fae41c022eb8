"""One thing that changed, and the words for it. Pure."""

from __future__ import annotations

import hashlib
from typing import Literal, get_args

import msgspec

from diagnosis.finding import Subject

ChangeKind = Literal[
    "watch_began",
    "watch_resumed",
    "finding_opened",
    "finding_changed",
    "finding_closed",
    "slice_appeared",
    "slice_status",
    "slice_gone",
    "hosts_changed",
    "group_created",
    "group_state",
    "group_moved",
    "group_removed",
    "head_restarted",
    "cluster_appeared",
    "cluster_gone",
    "source_state",
    "sight_lost",
    "sight_back",
]
CHANGE_KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)

ONCE: frozenset[str] = frozenset({"group_created", "group_removed", "head_restarted"})
"""Happen once in the life of what they name, whoever sees it and when: their keys hold no time."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that changed.

    ``at`` (epoch seconds) is the look that first showed it, so the look at that moment shows it
    too; ``happened_at`` is the source's own time of it, where it has one. ``before`` and ``after``
    are words of the model (a status, a state, a severity), ``text`` is a sentence for people with
    names as the cluster wrote them: hostile until escaped. ``related``: ids of others that it
    touches (the slices of a group), which a query by subject finds too.
    """

    at: float
    kind: ChangeKind
    subject: Subject
    text: str
    before: str | None = None
    after: str | None = None
    code: str | None = None
    severity: str | None = None
    cause: str | None = None
    happened_at: float | None = None
    related: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The same for the same change, so that writing it twice is writing it once."""
        parts = [
            self.kind,
            self.subject.kind,
            self.subject.id,
            self.code or "",
            self.before or "",
            self.after or "",
            "" if self.kind in ONCE else f"{self.at:.3f}",
        ]
        text = "\x1f".join(parts).encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=16).hexdigest()


MOST_TOLD = 4
"""Hosts or bundles that a sentence names; the rest are counted."""


def count_of(number: int, noun: str) -> str:
    """``1 slice``, ``2 slices``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def some_of(told: list[str]) -> str:
    """The first few of several facts, and how many more there are."""
    shown = "; ".join(told[:MOST_TOLD])
    return f"{shown}; and {len(told) - MOST_TOLD} more" if len(told) > MOST_TOLD else shown
