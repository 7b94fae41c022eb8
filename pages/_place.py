"""Which moment of what is shown: from the address, kept while somebody goes from page to page."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from fleet.times import number
from history.errors import HistoryError
from pages import _state
from pages._state import Place

KEYS = ("bundle", "at")
LATEST = 4_000_000_000.0
STOPS = 60
"""Looks before and after the one shown that the slider offers."""
AROUND = 6 * 3600.0


def here() -> Place:
    """The place that the address names; nonsense in it counts as not said."""
    token = st.query_params.get("bundle") or None
    at = number(st.query_params.get("at") or "")
    return Place(
        bundle=token[:64] if token else None,
        at=at if at is not None and 0 < at < LATEST else None,
    )


def settle() -> None:
    """Carry the place over a click on the navigation, which clears the address.

    The address wins where it names one; the button "Back to now" is what leaves the past.
    """
    place = here()
    if place != Place():
        st.session_state["place"] = place
        return
    kept = st.session_state.get("place")
    if isinstance(kept, Place) and kept != Place():
        _write(kept)


def params() -> dict[str, str]:
    """What a link has to carry to stay at this place."""
    place = here()
    found = {"bundle": place.bundle} if place.bundle else {}
    if place.at is not None:
        found["at"] = moment_text(place.at)
    return found


def moment_text(at: float) -> str:
    """A moment for an address: whole seconds where it is one, milliseconds else."""
    return f"{at:.0f}" if at == int(at) else f"{at:.3f}"


def go_to(place: Place) -> None:
    """Show another moment of the same page from the next run on. For callbacks."""
    st.session_state["place"] = place
    _write(place)


def _write(place: Place) -> None:
    texts = {
        "bundle": place.bundle,
        "at": moment_text(place.at) if place.at is not None else None,
    }
    for name, text in texts.items():
        if text is not None:
            st.query_params[name] = text
        elif name in st.query_params:
            del st.query_params[name]


def stops(place: Place, at: float) -> list[float]:
    """The looks around a moment, oldest first, for a slider."""
    past = _state.past(place)
    if past is None:
        return []
    try:
        found: Sequence[float] = past.moments(at - AROUND, at + AROUND)
        span = past.span()
    except HistoryError:
        return []
    before = [moment for moment in found if moment <= at][-STOPS:]
    after = [moment for moment in found if moment > at][:STOPS]
    stops = [*before, *after]
    if span is not None and len(stops) < 2:
        stops = sorted({*stops, *span})
    return stops
