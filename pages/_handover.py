"""What leaves the page: a text for a chat or a ticket, a bundle, links to other tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import streamlit as st

from diagnosis.snapshot import Snapshot
from exporter.links import expand
from pages import _parts, _place, _state
from pages._text import printable


def bar(
    current: Snapshot,
    text: Callable[[str | None], str],
    key: str,
    *,
    values: Mapping[str, str | None] | None = None,
    subject: str | None = None,
) -> None:
    """A row of: copy as text, download a bundle, what was, links out.

    Args:
        current: the look.
        text: makes the Markdown, given this page's address.
        key: tells the row from others on the page.
        values: what templates of links may name; without, there are no links out.
        subject: the id whose history is linked.
    """
    with st.container(horizontal=True, gap="small", key=f"bar-{key}", vertical_alignment="center"):
        with st.popover("Copy as text", icon=":material/content_copy:"):
            st.caption("Markdown for a chat or a ticket.")
            st.code(printable_lines(text(address())), language="markdown", wrap_lines=True)
        pack = _state.serving().pack
        if pack is not None:
            st.download_button(
                "Bundle of this look",
                data=lambda: pack(current.observation),
                file_name=file_name(current.report.fleet.now),
                mime="application/gzip",
                key=f"bundle-{key}",
                on_click="ignore",
                icon=":material/download:",
                help="What all APIs answered at this moment, without secrets: "
                "`slicewatch diagnose --bundle` reads it.",
            )
        if subject is not None:
            _parts.link("history", "Its history", subject=subject)
        for label, template in _state.serving().links.items() if values is not None else ():
            url = expand(template, values or {})
            if url is not None:
                st.link_button(label, url, icon=":material/open_in_new:")


def address() -> str | None:
    """This page's address as the browser has it, with the moment that is shown."""
    from urllib.parse import urlencode, urlsplit

    try:
        parts = urlsplit(st.context.url or "")
    except (ValueError, AttributeError):
        return None
    if parts.scheme not in ("http", "https"):
        return None
    query = {**{key: st.query_params[key] for key in st.query_params}, **_place.params()}
    tail = f"?{urlencode(query)}" if query else ""
    return f"{parts.scheme}://{parts.netloc}{parts.path}{tail}"


def file_name(now: float) -> str:
    """``slicewatch-20261130T120000Z.tar.gz``."""
    try:
        stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    except (OverflowError, ValueError, OSError):
        stamp = "bundle"
    return f"slicewatch-{stamp}.tar.gz"


def printable_lines(text: str) -> str:
    """Text of several lines without control characters."""
    return "\n".join(printable(line) for line in text.splitlines())
