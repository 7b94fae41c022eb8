"""What is wrong now, worst first, in words; capacity; then the fleet as tiles, one a slice."""

from __future__ import annotations

import msgspec
import streamlit as st

from diagnosis.snapshot import Snapshot
from exporter.choosing import narrowed
from exporter.words import headline
from fleet.choosing import Choice
from pages import _capacity, _cards, _filters, _memo, _parts, _pictures, _slices

CARDS = 4
"""Findings shown as cards; more than a screenful reads better as a table."""
FEW = 16
"""Slices whose table is open from the start: it fits the screen beside the picture."""


def body(current: Snapshot) -> None:
    """The sentence, the findings, what there is, the wall of slices, the same as a table."""
    choice = _filters.from_address()
    shown = _narrowed(current, choice)
    report = shown.report
    said = headline(report)
    if not choice.all and not report.fleet.slices:
        said = "No slice fits the filter."
    _parts.sentence(said if choice.all else f"Of what the filter leaves: {said}", "headline")
    for number, finding in enumerate(report.findings[:CARDS]):
        _cards.finding_card(shown, finding, f"{number}", folded=number > 0)
    rest = report.findings[CARDS:]
    if rest:
        with _parts.lazily(f"{len(rest):,} more findings", "more") as unfolded:
            if unfolded:
                _cards.findings_table(shown, rest, "more")
    if not current.report.fleet.slices:
        _nothing()
        return
    if len(current.report.fleet.slices) > 1 or not choice.all:
        _filters.ask(current.report)
    if report.fleet.slices:
        _pictures.wall(shown)
        _capacity.capacity(shown)
        few = len(report.fleet.slices) <= FEW
        with _parts.lazily("All slices as a table", "slices", expanded=few) as unfolded:
            if unfolded:
                _slices.slices_table(shown, "slices")
    if report.unknowns:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                f"{len(report.unknowns):,} checks could not be made for want of data.",
                width="content",
            )
            _parts.link("sources", "Which, and why")


def _narrowed(current: Snapshot, choice: Choice) -> Snapshot:
    if choice.all:
        return current
    return _memo.once(
        current,
        ("narrowed", choice),
        lambda: msgspec.structs.replace(current, report=narrowed(current.report, choice)),
    )


def _nothing() -> None:
    st.info(
        "No TPU slice was found. A slice appears as soon as a pod of a RayCluster asks for "
        "`google.com/tpu`, or a Ray node carries the label `ray.io/tpu-slice-name`."
    )
    _parts.link("sources", "What each source said")


_parts.page(body)
