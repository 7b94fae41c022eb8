"""The pieces that all pages are made of: frame, banner, links, sentences, tables.

Text from a cluster goes through ``st.text``, ``st.code`` or ``st.dataframe``, which read no
markup, or through :func:`pages._text.plain` where a label reads Markdown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from diagnosis.finding import Report
from diagnosis.snapshot import Snapshot
from exporter.words import completeness
from fleet.times import format_duration
from pages import _place, _state
from pages._state import Place
from pages._text import plain, printable

log = logging.getLogger("slicewatch.pages")
MAX_SENTENCE = 1000
"""Characters of a sentence on a page; a name of 5,000 would push the rest out of sight."""

MOST_ROWS = 1000
"""Rows of a table: nobody reads more, and a browser would be slow to hold them."""

_pages: Mapping[str, Any] = {}


def set_pages(pages: Mapping[str, Any]) -> None:
    """Make the registered ``st.Page`` objects known by name, as ``pages/shell.py`` does."""
    global _pages
    _pages = pages


def page(body: Callable[[Snapshot], None], *, here: str = "") -> None:
    """Draw a page: banner, then ``body``, drawn anew every few seconds from the last look.

    ``here``: the page's name, where the banner would otherwise link to it.
    """
    still = _place.here() != Place()

    @st.fragment(run_every=None if still else _state.serving().refresh_seconds)
    def live() -> None:
        place = _place.here()
        try:
            current = _state.snapshot(place)
        except _state.MissingError as error:
            st.warning(printable(error))
            _back()
            return
        if current is None:
            _waiting()
            return
        banner(current, here)
        try:
            body(current)
        except Exception:
            # One odd look must not take the page away for good: the next one may be drawn.
            log.exception("a page could not be drawn")
            st.error(
                "Part of this page could not be drawn. That is a fault of Slicewatch, not of your "
                "cluster; its log says more. The other pages and `slicewatch diagnose` still work."
            )

    live()


def _waiting() -> None:
    st.info(
        "No look has been taken yet. The first one takes a few seconds; this page fills by itself."
    )
    st.caption(
        "If it stays like this, look at the log of the process, and try "
        "`slicewatch diagnose`, which says what it cannot reach."
    )


def banner(current: Snapshot, here: str = "") -> None:
    """Where the data come from, how old they are and whether they are complete."""
    report = current.report
    serving = _state.serving()
    place = _place.here()
    sources = completeness(report.fleet.sources)
    bundle = _bundle_words(place)
    if bundle is not None:
        text = f"Bundle {bundle} · captured {when(report.fleet.now)} · {sources}"
    elif place.at is not None:
        age = format_duration(serving.clock() - report.fleet.now)
        text = f"As of {when(report.fleet.now)}, {age} ago, not now · {sources}"
    else:
        age = format_duration(serving.clock() - current.published_at)
        text = f"Live · looked {age} ago · {sources}"
    if _state.stale(current):
        st.warning(
            f"{text}. These data are old: the collectors have stopped, so nothing below can be "
            "trusted to be so now."
        )
    elif _incomplete(report):
        with st.container(horizontal=True, vertical_alignment="center", key="banner"):
            st.markdown(f":orange-badge[incomplete] {text}")
            if here != "sources":
                link("sources", "What is missing")
    elif place.at is not None and bundle is None:
        st.markdown(f":violet-badge[the past] {text}")
    else:
        st.caption(text)
    if bundle is not None or place.at is not None:
        _slider(current, place)


def _bundle_words(place: Place) -> str | None:
    """The name of the bundle that is shown, escaped, with its looks; ``None`` where none is."""
    serving = _state.serving()
    if place.bundle is not None:
        found = _state.opened(place.bundle)
        if found is None:
            return None
        name, looks = found.name, found.frames
    elif serving.bundle is not None:
        name, looks = serving.bundle, int(getattr(serving.past, "frames", 1))
    else:
        return None
    return plain(name) + (f", {looks:,} looks" if looks > 1 else "")


def _slider(current: Snapshot, place: Place) -> None:
    """The looks around the one shown, and the way back to the newest."""
    shown = current.report.fleet.now
    stops = _place.stops(place, shown)
    with st.container(horizontal=True, vertical_alignment="center", key="moments", gap="small"):
        if len(stops) > 1:
            nearest = min(stops, key=lambda stop: abs(stop - shown))
            number = stops.index(nearest)
            for label, step in (("Earlier", -1), ("Later", 1)):
                target = stops[min(max(0, number + step), len(stops) - 1)]
                st.button(
                    label,
                    key=f"step-{label}",
                    disabled=target == nearest,
                    on_click=_place.go_to,
                    args=(Place(place.bundle, target),),
                )
            # Streamlit would keep the handle where an earlier page left it.
            st.session_state["moment"] = nearest
            st.select_slider(
                "Moment shown",
                options=stops,
                key="moment",
                format_func=clock_time,
                on_change=_moved,
                label_visibility="collapsed",
                width="stretch",
            )
        _back()


def _moved() -> None:
    _place.go_to(Place(_place.here().bundle, st.session_state["moment"]))


def _back() -> None:
    place = _place.here()
    if place.bundle is not None:
        if place.at is not None and _state.opened(place.bundle) is not None:
            st.button("Last look", on_click=_place.go_to, args=(Place(place.bundle),))
        st.button("Close the bundle", on_click=_place.go_to, args=(Place(),))
    elif place.at is not None:
        label = "Back to now" if _state.serving().bundle is None else "Last look"
        st.button(label, on_click=_place.go_to, args=(Place(),), type="primary")


def _incomplete(report: Report) -> bool:
    return not report.fleet.sources or any(
        source.status == "down" or not source.complete
        for source in report.fleet.sources
        if source.status != "suspended"
    )


def zone() -> tzinfo:
    """The reader's own time zone, or UTC where the browser names none."""
    try:
        name = st.context.timezone
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def moment(at: float | None) -> datetime | None:
    """A moment in the reader's zone; ``None`` where it is not known or beyond all calendars."""
    try:
        return datetime.fromtimestamp(at, zone()) if at is not None else None
    except (OverflowError, ValueError, OSError):
        return None


def when(at: float | None) -> str:
    """``2026-11-30 12:00:00 UTC``, in the reader's zone."""
    found = moment(at)
    return found.strftime("%Y-%m-%d %H:%M:%S %Z") if found else "at an unknown time"


def clock_time(at: float) -> str:
    """``12:00:00``, with the day where it is not that of the last look."""
    found = moment(at)
    return found.strftime("%m-%d %H:%M:%S") if found else "?"


def short_time(current: Snapshot, at: float | None) -> str:
    """``03:12`` today, ``11-28 03:12`` before; for "held since"."""
    found, today = moment(at), moment(_state.now(current))
    if found is None:
        return "?"
    same = today is not None and found.date() == today.date()
    return found.strftime("%H:%M" if same else "%m-%d %H:%M")


def time_column(label: str) -> Any:
    """The column of a table that holds :func:`moment`: absolute, in the reader's zone."""
    return st.column_config.DatetimeColumn(label, format="YYYY-MM-DD HH:mm:ss")


def ago(current: Snapshot, moment: float | None) -> str:
    """``7 min``: how long ago a moment was; ``?`` when it is not known."""
    return "?" if moment is None else format_duration(_state.now(current) - moment)


def sentence(text: str, key: str | None = None) -> None:
    """A sentence with names from a cluster in it; with ``key`` in larger type."""
    if key is None:
        st.text(printable(text, MAX_SENTENCE))
        return
    with st.container(key=f"lead-{key}"):
        st.text(printable(text, MAX_SENTENCE))


def link(name: str, label: str, **params: str) -> None:
    """A link to one of our pages; ``label`` is shown as it is written."""
    target = _pages.get(name)
    if target is None:
        st.caption(plain(label))
        return
    st.page_link(target, label=plain(label), query_params={**_place.params(), **params} or None)


def go(name: str, **params: str) -> None:
    """Open one of our pages from a click on a picture or a row."""
    target = _pages.get(name)
    if target is not None:
        st.switch_page(target, query_params={**_place.params(), **params})


def command(text: str) -> None:
    """A command to paste, with a copy button."""
    st.code(printable(text), language=None, wrap_lines=True)


def table(
    rows: Sequence[Mapping[str, object]],
    key: str,
    *,
    empty: str,
    config: Mapping[str, Any] | None = None,
    alt: str = "",
    most: int = MOST_ROWS,
    total: int | None = None,
) -> None:
    """Rows as a table; ``empty`` says what it means that there are none."""
    if not rows:
        st.caption(empty)
        return
    if (total or len(rows)) > most:
        st.caption(f"The first {most:,} of {total or len(rows):,}.")
    st.dataframe(
        [dict(row) for row in rows[:most]],
        hide_index=True,
        column_config=dict(config or {}),
        placeholder="–",
        key=f"table-{key}",
        alt=alt or None,
    )


def pick(
    rows: Sequence[Mapping[str, object]],
    params: Sequence[Mapping[str, str]],
    key: str,
    name: str | Callable[[int], str],
    *,
    empty: str,
    config: Mapping[str, Any] | None = None,
    alt: str = "",
    most: int = MOST_ROWS,
    total: int | None = None,
) -> None:
    """Rows as a table; choosing a row opens the page ``name`` with that row's ``params``.

    ``name`` may depend on the row's number; ``total``: how many rows there were before a cut.
    """
    if not rows:
        st.caption(empty)
        return
    total = total or len(rows)
    more = f" The first {most:,} of {total:,}." if total > most else ""
    st.caption(f"Choose a row to open it.{more}")
    chosen = st.dataframe(
        [dict(row) for row in rows[:most]],
        hide_index=True,
        column_config=dict(config or {}),
        placeholder="–",
        key=f"pick-{key}",
        on_select="rerun",
        selection_mode="single-row",
        alt=alt or None,
    )
    picked = chosen["selection"]["rows"]
    if picked and picked[0] < len(params):
        go(name if isinstance(name, str) else name(picked[0]), **params[picked[0]])


def cell(text: object, longest: int = 300) -> str:
    """Cluster text for a table's cell; ``–`` when it is not known."""
    return "–" if text is None or text == "" else printable(text, longest)


def shown(text: object, longest: int = 300) -> str:
    """Cluster text for ``st.text`` or ``st.code``: printable and not endless."""
    return printable(text, longest)


def escaped(text: object) -> str:
    """Cluster text for ``st.caption`` and ``st.markdown``; see :func:`pages._text.plain`."""
    return plain(text, 1000)


@contextmanager
def lazily(label: str, key: str, *, expanded: bool = False) -> Iterator[bool]:
    """Fold away what is made only while it is open: gives whether it is.

    ``label`` is shown as it is written.
    """
    fold = st.expander(plain(label), expanded=expanded, key=f"fold-{key}", on_change="rerun")
    with fold:
        yield bool(fold.open)
