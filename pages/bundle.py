"""Open a colleague's capture: the same pages on it, its frames as time."""

from __future__ import annotations

import streamlit as st

from diagnosis.snapshot import Snapshot
from exporter.words import headline
from history.errors import HistoryError
from pages import _parts, _place, _state
from pages._state import Place
from pages._text import printable


def body() -> None:
    """The upload, and what to know about it."""
    serving = _state.serving()
    _parts.sentence("Look at a bundle with the same pages.", "headline")
    st.caption(
        "A bundle is what `slicewatch capture PATH` writes: a .tar.gz or .zip of what the APIs "
        "answered. It stays in the memory of this server, for whoever has its address, until a few "
        "others were opened; nothing of it is written to a disk for longer than the reading."
    )
    if serving.open_bundle is None:
        st.info("This server opens no bundles. Serve one: `slicewatch serve --bundle PATH`.")
        return
    data = st.file_uploader("Bundle (.tar.gz, .tgz, .zip)", type=["gz", "tgz", "zip"], key="bundle")
    if data is not None:
        _open(data.name, data.getvalue())
    elif _place.here().bundle:
        _opened(_place.here())


def _open(name: str, content: bytes) -> None:
    open_bundle = _state.serving().open_bundle
    assert open_bundle is not None
    known = st.session_state.get("opened")
    if known is not None and known[0] == (name, len(content)) and _state.opened(known[1]):
        _opened(Place(known[1]))
        return
    try:
        with st.spinner("Reading it and judging its looks …"):
            found = open_bundle(name, content)
    except HistoryError as error:
        st.error(printable(error))
        return
    except Exception:  # noqa: BLE001  # whatever a stranger's file does, the server goes on
        _parts.log.exception("a bundle could not be opened")
        st.error("This file could not be opened as a bundle. The log of the server says more.")
        return
    token = _state.keep(found)
    st.session_state["opened"] = ((name, len(content)), token)
    _place.go_to(Place(token))
    _opened(Place(token))


def _opened(place: Place) -> None:
    try:
        current = _state.snapshot(place)
    except _state.MissingError as error:
        st.warning(printable(error))
        return
    if current is None:
        return
    _parts.banner(current)
    _summary(current)


def _summary(current: Snapshot) -> None:
    _parts.sentence(headline(current.report), "bundle")
    with st.container(horizontal=True, gap="medium"):
        _parts.link("overview", "Overview of it")
        _parts.link("finding", "Findings in it")
        _parts.link("history", "What changed over its looks")


body()
