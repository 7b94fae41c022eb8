"""What changed when, and the way to any moment of it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from charts.palette import SLICE_SIGNS
from charts.timeline import Bar, Mark, Weight, timeline_figure
from diagnosis.snapshot import Snapshot
from exporter.words import count
from fleet.times import format_duration, number
from history.change import CHANGE_KINDS, Change, ChangeKind
from history.errors import HistoryError
from history.spans import FindingSpan, StatusSpan
from pages import _parts, _pictures, _place, _state
from pages._parts import cell, moment, time_column
from pages._state import Past, Place
from pages._text import printable

WINDOWS = {"1h": 3600.0, "6h": 6 * 3600.0, "24h": 86400.0, "7d": 7 * 86400.0, "all": 0.0}
MOST = 500
"""Changes in the table; the picture marks as many."""

FAMILIES: dict[str, tuple[ChangeKind, ...]] = {
    "findings": ("finding_opened", "finding_changed", "finding_closed"),
    "slices": ("slice_appeared", "slice_status", "slice_gone", "hosts_changed"),
    "groups": ("group_created", "group_state", "group_moved", "group_removed"),
    "clusters": ("head_restarted", "cluster_appeared", "cluster_gone"),
    "sources": ("source_state", "sight_lost", "sight_back", "watch_began", "watch_resumed"),
}
FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}
SYMBOLS: dict[str, str] = {
    "slice_gone": "x", "group_removed": "x", "cluster_gone": "x", "sight_lost": "x",
    "slice_appeared": "circle", "group_created": "circle", "cluster_appeared": "circle",
    "sight_back": "circle", "watch_began": "circle", "head_restarted": "triangle-up",
    "watch_resumed": "triangle-up", "group_moved": "star",
}  # fmt: skip
WEIGHTS: tuple[Weight, ...] = ("critical", "warning", "info")


def body(current: Snapshot) -> None:
    """The window, the picture, the slider, the table."""
    place = _place.here()
    past = _state.past(place)
    if past is None:
        _parts.sentence("No history is kept.", "headline")
        st.caption(
            "It is switched off (SLICEWATCH_HISTORY=off). Set it to on, and what changes from then "
            "on is kept in a file; see docs/history.md."
        )
        return
    try:
        span = past.span()
        if span is None:
            _parts.sentence("History has no look yet.", "headline")
            st.caption("The first one is kept within a poll; this page fills by itself.")
            return
        _show(current, past, place, span)
    except HistoryError as error:
        _parts.sentence("History cannot be read.", "headline")
        st.warning(printable(error))
        st.caption("The live view does not depend on it. Sources says how history fares.")
        _parts.link("sources", "Sources")


def _show(current: Snapshot, past: Past, place: Place, span: tuple[float, float]) -> None:
    now = current.report.fleet.now
    # The sentence comes first on the page, and is known last.
    head = st.container(gap="xsmall")
    start, end = _window(span, now)
    subject = st.query_params.get("subject", "")
    families = _families()
    kinds = [kind for kind in CHANGE_KINDS if FAMILY_OF.get(kind) in families]
    found = past.changes(start, end, kinds=kinds, subject=subject or None, limit=MOST + 1)
    with head:
        _parts.sentence(_headline(found, start, end, subject), "headline")
        st.caption(
            f"Kept from {_parts.when(span[0])} to {_parts.when(span[1])}. Drag across the picture "
            "to zoom, double-click to see all of it; choose a row to see that moment."
        )
    if subject and st.button("Everything, not this alone", key="all-subjects"):
        st.query_params.pop("subject", None)
        st.rerun(scope="fragment")
    spans = [
        item
        for item in past.findings(start, end)
        if "findings" in families and (not subject or item.subject.id == subject)
    ]
    statuses = past.statuses(subject, start, end) if subject.count("/") >= 2 else []
    figure = timeline_figure(
        [*_status_bars(statuses), *_finding_bars(spans, end)],
        _marks(found[:MOST]),
        past.gaps(start, end),
        start,
        end,
        now=place.at,
        zone=_parts.zone(),
        dark=_pictures.dark(),
        width=_pictures.room(),
    )
    st.plotly_chart(
        figure,
        width="content",
        theme=None,
        key="timeline",
        config={**_pictures.CONFIG, "displayModeBar": True, "modeBarButtonsToRemove": REMOVED},
        alt="Timeline of findings and changes; the table below has the same",
    )
    _travel(past, place, start, end, now)
    _table(found)


REMOVED = ["select2d", "lasso2d", "toImage", "autoScale2d"]


def _window(span: tuple[float, float], now: float) -> tuple[float, float]:
    """The times shown: an end in the address (``until``), else the newest look."""
    asked = st.query_params.get("window", "24h")
    until = number(st.query_params.get("until") or "")
    end = until if until is not None and span[0] < until <= span[1] else max(span[1], now)
    end = max(end, span[0] + 1.0)
    st.session_state["window"] = asked if asked in WINDOWS else "24h"
    st.segmented_control(
        "Window", list(WINDOWS), key="window", on_change=_window_changed, required=True
    )
    seconds = WINDOWS[st.session_state["window"] or "24h"]
    start = span[0] if not seconds else max(span[0], end - seconds)
    if end - start < 60:
        start = end - 60
    return start, end


def _window_changed() -> None:
    st.query_params["window"] = st.session_state["window"] or "24h"


def _families() -> list[str]:
    chosen = [name for name in st.query_params.get_all("kind") if name in FAMILIES]
    st.session_state["kinds"] = chosen or list(FAMILIES)
    st.segmented_control(
        "Show", list(FAMILIES), selection_mode="multi", key="kinds", on_change=_kinds_changed
    )
    return chosen or list(FAMILIES)


def _kinds_changed() -> None:
    chosen = st.session_state["kinds"]
    st.query_params.pop("kind", None)
    if chosen and len(chosen) < len(FAMILIES):
        st.query_params["kind"] = chosen


def _headline(found: Sequence[Change], start: float, end: float, subject: str) -> str:
    about = f" of {subject}" if subject else ""
    many = f"more than {MOST:,} changes" if len(found) > MOST else count(len(found), "change")
    opened = sum(item.kind == "finding_opened" for item in found[:MOST])
    closed = sum(item.kind == "finding_closed" for item in found[:MOST])
    told = f": {count(opened, 'finding')} opened, {closed:,} closed" if opened or closed else ""
    text = f"{many}{about} in {format_duration(end - start)}{told}."
    return text[0].upper() + text[1:]


def _finding_bars(spans: Sequence[FindingSpan], end: float) -> list[Bar]:
    def weight(span: FindingSpan) -> Weight:
        return next((word for word in WEIGHTS if word == span.severity), "info")

    ordered = sorted(spans, key=lambda span: (WEIGHTS.index(weight(span)), -span.opened))
    return [
        Bar(
            row=f"{span.code} {span.subject.name}",
            start=span.opened,
            end=span.closed if span.closed is not None else end,
            text=_span_words(span),
            weight=weight(span),
            still=span.closed is None,
        )
        for span in ordered
    ]


def _span_words(span: FindingSpan) -> str:
    cause = f" ({span.cause})" if span.cause else ""
    until = "still open" if span.closed is None else f"closed {_parts.when(span.closed)}"
    return f"{span.code}{cause}, opened {_parts.when(span.opened)}, {until}: {span.text}"


def _status_bars(spans: Sequence[StatusSpan]) -> list[Bar]:
    return [
        Bar(
            row="status",
            start=span.start,
            end=span.end,
            text=f"{span.status} from {_parts.when(span.start)} to {_parts.when(span.end)}",
            color=next((s.color for k, s in SLICE_SIGNS.items() if k == span.status), "#8B9096"),
            letter=next((s.letter for k, s in SLICE_SIGNS.items() if k == span.status), "–"),
        )
        for span in spans
    ]


def _marks(found: Sequence[Change]) -> list[Mark]:
    marks = [
        Mark(
            lane=FAMILY_OF.get(change.kind, "sources"),
            at=change.at,
            text=f"{_parts.when(change.at)}: {change.text}",
            key=number,
            symbol=SYMBOLS.get(change.kind, "diamond"),
        )
        for number, change in enumerate(found)
        if not change.kind.startswith("finding_")
    ]
    order = list(FAMILIES)
    return sorted(marks, key=lambda mark: order.index(mark.lane))


def _travel(past: Past, place: Place, start: float, end: float, now: float) -> None:
    """The slider over all looks of the window: every page follows it."""
    moments = past.moments(start, end)
    told = place.at is not None or place.bundle is not None or _state.serving().bundle is not None
    if told or len(moments) < 2:
        return  # the banner has the slider already, or there is nowhere to go
    step = max(1, len(moments) // 300)
    options = [*moments[::step], moments[-1]]
    options = sorted(set(options))
    shown = min(options, key=lambda stop: abs(stop - now))
    st.session_state["travel"] = shown
    st.select_slider(
        "Go to a moment: every page then shows what was known at it",
        options=options,
        key="travel",
        format_func=_parts.clock_time,
        on_change=_travelled,
    )


def _travelled() -> None:
    _place.go_to(Place(_place.here().bundle, st.session_state["travel"]))


PAGES = {"slice": "slice", "placement_group": "placement", "source": "sources"}


def _table(found: Sequence[Change]) -> None:
    _parts.pick(
        [
            {
                "when": moment(change.at),
                "what": cell(change.kind.replace("_", " ")),
                "about": cell(change.subject.name),
                "told": cell(change.text, 500),
                "severity": cell(change.severity),
                "began": moment(change.happened_at),
            }
            for change in found[:MOST]
        ],
        [_address(change) for change in found[:MOST]],
        "changes",
        lambda number: PAGES.get(found[number].subject.kind, "overview"),
        empty="Nothing changed in this time.",
        config={"when": time_column("when"), "began": time_column("began")},
        alt="Changes, newest first",
    )
    if len(found) > MOST:
        st.caption(f"The newest {MOST:,} changes: choose a shorter window for the rest.")


def _address(change: Change) -> dict[str, str]:
    """The page of what changed, as it was at that moment."""
    at = {"at": _place.moment_text(change.at)}
    if change.subject.kind in ("slice", "placement_group"):
        return {**at, "id": change.subject.id}
    return at


_parts.page(body)
