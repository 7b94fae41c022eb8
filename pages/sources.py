"""What each source said, when, how completely, and which checks that left undone."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import streamlit as st

from diagnosis.snapshot import Snapshot
from exporter.words import completeness, source_sentence
from history.status import HistoryState
from pages import _parts, _state
from pages._parts import ago, cell


def body(current: Snapshot) -> None:
    """Sources, their polls, and the checks that could not be made."""
    fleet = current.report.fleet
    _parts.sentence(_headline(current), "headline")
    _parts.table(
        [
            {
                "source": cell(item.name),
                "status": item.status,
                "complete": "yes" if item.complete else "no",
                "last good answer": _answer(current, item.fetched_at),
                "what it said": cell(source_sentence(item)),
                "missing": cell(", ".join(item.missing)),
                "cut": cell(
                    ", ".join(f"{part.part} {part.rows}/{part.total}" for part in item.truncated)
                ),
            }
            for item in fleet.sources
        ],
        "sources",
        empty="No source is known. Point Slicewatch at a kubeconfig, or give --ray-address URL.",
        alt="Sources with status, completeness and age",
    )
    _clusters(current)
    _polls(current)
    _unknowns(current)
    _history()


def _history() -> None:
    """How history fares; the live view does not depend on it."""
    past = _state.serving().past
    if past is None or not isinstance(past, Stated):
        return
    st.subheader("History")
    state = past.state()
    words = {
        "ok": "It is kept.",
        "starting": "It is being opened.",
        "standby": "Another replica writes it; this one shows it.",
        "failing": "Looks are being lost; it is tried again.",
        "off": "It is off.",
    }
    _parts.sentence(" ".join(part for part in (words[state.status], state.problem) if part))
    if state.note:
        _parts.sentence(state.note)
    written = _parts.when(state.last_written_at) if state.last_written_at else "never"
    st.caption(
        f"{state.looks:,} looks and {state.changes:,} changes, {state.used_bytes / 2**20:,.1f} MiB "
        f"in {_parts.escaped(state.where or 'no place')}; last written {written}. Since the start: "
        f"{state.written:,} written, {state.failed:,} failed, {state.dropped:,} dropped."
    )


@runtime_checkable
class Stated(Protocol):
    """A history that says how it fares; a bundle's frames do not."""

    def state(self) -> HistoryState: ...


def _headline(current: Snapshot) -> str:
    text = completeness(current.report.fleet.sources)
    return f"{text[0].upper()}{text[1:]}."


def _answer(current: Snapshot, fetched_at: float | None) -> str:
    return "never" if fetched_at is None else f"{ago(current, fetched_at)} ago"


def _clusters(current: Snapshot) -> None:
    clusters = current.report.fleet.clusters
    if not clusters:
        return
    st.subheader("Ray clusters")
    _parts.table(
        [
            {
                "cluster": cell(item.id),
                "Ray": cell(item.version),
                "state": "suspended" if item.suspended else cell(item.source.status),
                "heads alive": item.heads_alive,
                "parts answered in full": cell(", ".join(sorted(item.ray_parts))),
            }
            for item in clusters
        ],
        "clusters",
        empty="",
        alt="Ray clusters with version and state",
    )


def _polls(current: Snapshot) -> None:
    if not current.stats:
        return
    st.subheader("Polls since the start")
    _parts.table(
        [
            {
                "source": cell(item.source),
                "polls": item.polls,
                "mean seconds": round(item.sum_seconds / item.polls, 3) if item.polls else None,
                "failed": sum(item.errors.values()),
                "why": cell(
                    ", ".join(f"{reason} {count}" for reason, count in sorted(item.errors.items()))
                ),
            }
            for item in current.stats
        ],
        "polls",
        empty="",
        alt="Polls a source with their duration and failures",
    )


def _unknowns(current: Snapshot) -> None:
    unknowns = current.report.unknowns
    st.subheader("Checks that could not be made")
    _parts.table(
        [
            {
                "code": cell(item.code),
                "about": cell(item.subject.name if item.subject is not None else "everything"),
                "why not": cell(item.reason),
            }
            for item in unknowns
        ],
        "unknowns",
        empty="None: every rule had the data that it needs.",
        alt="Rules that could not judge, and why",
    )


_parts.page(body, here="sources")
