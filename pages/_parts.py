"""The pieces that all pages are made of: frame, banner, links, sentences, tables.

Text from a cluster goes through ``st.text``, ``st.code`` or ``st.dataframe``, which read no
markup, or through :func:`pages._text.plain` where a label reads Markdown.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import streamlit as st

from diagnosis.finding import Report
from diagnosis.snapshot import Snapshot
from exporter.words import completeness
from fleet.times import format_duration
from pages import _state
from pages._text import plain, printable

log = logging.getLogger("slicewatch.pages")
MAX_SENTENCE = 1000
"""Characters of a sentence on a page; a name of 5,000 would push the rest out of sight."""

_pages: Mapping[str, Any] = {}


def set_pages(pages: Mapping[str, Any]) -> None:
    """Make the registered ``st.Page`` objects known by name, as ``pages/shell.py`` does."""
    global _pages
    _pages = pages


def page(body: Callable[[Snapshot], None], *, here: str = "") -> None:
    """Draw a page: banner, then ``body``, drawn anew every few seconds from the last look.

    ``here``: the page's name, where the banner would otherwise link to it.
    """

    @st.fragment(run_every=_state.serving().refresh_seconds)
    def live() -> None:
        current = _state.snapshot()
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
    sources = completeness(report.fleet.sources)
    if serving.bundle is not None:
        looks = f", {serving.frames} looks" if serving.frames > 1 else ""
        text = f"Bundle {plain(serving.bundle)}{looks} · captured {_when(report.fleet.now)}"
    else:
        age = format_duration(serving.clock() - current.published_at)
        text = f"Live · looked {age} ago"
    text = f"{text} · {sources}"
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
    else:
        st.caption(text)


def _incomplete(report: Report) -> bool:
    return not report.fleet.sources or any(
        source.status == "down" or not source.complete
        for source in report.fleet.sources
        if source.status != "suspended"
    )


def _when(moment: float | None) -> str:
    """A moment in the reader's own zone, or UTC where the browser names none."""
    if moment is None:
        return "at an unknown time"
    zone: Any = UTC
    try:
        name = st.context.timezone
        zone = ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        zone = UTC
    try:
        return datetime.fromtimestamp(moment, zone).strftime("%Y-%m-%d %H:%M:%S %Z")
    except (OverflowError, ValueError, OSError):
        return "at an unknown time"


def when(moment: float | None) -> str:
    """See :func:`_when`; for help texts, which show the absolute time of a relative one."""
    return _when(moment)


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
    st.page_link(target, label=plain(label), query_params=params or None)


def go(name: str, **params: str) -> None:
    """Open one of our pages from a click on a picture or a row."""
    target = _pages.get(name)
    if target is not None:
        st.switch_page(target, query_params=params)


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
    most: int = 1000,
) -> None:
    """Rows as a table; ``empty`` says what it means that there are none."""
    if not rows:
        st.caption(empty)
        return
    if len(rows) > most:
        st.caption(f"The first {most:,} of {len(rows):,}.")
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
    name: str,
    *,
    empty: str,
    config: Mapping[str, Any] | None = None,
    alt: str = "",
    most: int = 1000,
) -> None:
    """Rows as a table; choosing a row opens the page ``name`` with that row's ``params``."""
    if not rows:
        st.caption(empty)
        return
    more = f" The first {most:,} of {len(rows):,}." if len(rows) > most else ""
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
        go(name, **params[picked[0]])


def cell(text: object, longest: int = 300) -> str:
    """Cluster text for a table's cell; ``–`` when it is not known."""
    return "–" if text is None or text == "" else printable(text, longest)


def shown(text: object, longest: int = 300) -> str:
    """Cluster text for ``st.text`` or ``st.code``: printable and not endless."""
    return printable(text, longest)


def escaped(text: object) -> str:
    """Cluster text for ``st.caption`` and ``st.markdown``; see :func:`pages._text.plain`."""
    return plain(text, 1000)
