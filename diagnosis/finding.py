"""Findings, rule outcomes and the report that every page, metric and script shows."""

from __future__ import annotations

from typing import Literal

import msgspec

from fleet.model import Fleet, SliceStatusName

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""Worst first."""

SubjectKind = Literal[
    "slice", "placement_group", "pod", "node", "worker_group", "ray_cluster", "source"
]


class _Frozen(msgspec.Struct, frozen=True):
    pass


class Subject(_Frozen, kw_only=True):
    """What a finding is about. ``namespace`` and ``cluster`` are empty where they make no sense."""

    kind: SubjectKind
    id: str
    name: str
    namespace: str = ""
    cluster: str = ""


class Evidence(_Frozen, kw_only=True):
    """One thing that was read: in which source, of which object, which field, what it said."""

    source: str
    object: str
    field: str
    value: str


class Action(_Frozen, kw_only=True):
    """A next step. ``command`` is ready to paste (names quoted), or ``None`` for plain advice.

    ``kind``: ``look`` only reads; ``fix`` changes something, and ``text`` says what that costs.
    """

    text: str
    command: str | None = None
    kind: Literal["look", "fix"] = "look"


class Finding(_Frozen, kw_only=True):
    """One fault: its one dominant cause, what was read, what to do.

    ``since`` (epoch seconds) comes from the sources' own timestamps where they have one, else from
    the first look that showed it. ``affects`` lists who else suffers, in words.
    """

    code: str
    severity: Severity
    cause: str | None = None
    subject: Subject
    summary: str
    evidence: tuple[Evidence, ...] = ()
    actions: tuple[Action, ...] = ()
    since: float | None = None
    affects: tuple[str, ...] = ()
    runbook: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.code, self.subject.kind, self.subject.id)


class Unknown(_Frozen, kw_only=True):
    """A rule could not judge something for want of data, and why."""

    code: str
    subject: Subject | None
    reason: str


class Report(_Frozen, kw_only=True):
    """The fleet, what is wrong with it, and each slice's status.

    ``findings`` are ordered worst first, then newest first. ``unconfirmed`` were seen in this look
    only and wait for a second one. ``status_since``: when each slice got its status, as far as the
    looks go back.
    """

    fleet: Fleet
    findings: tuple[Finding, ...] = ()
    unconfirmed: tuple[Finding, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    statuses: dict[str, SliceStatusName] = {}
    status_since: dict[str, float] = {}

    def findings_of(self, kind: str, subject_id: str) -> tuple[Finding, ...]:
        return tuple(
            item
            for item in self.findings
            if item.subject.kind == kind and item.subject.id == subject_id
        )
