"""What is wrong now, worst first, in words; then the fleet as tiles, one a slice."""

from __future__ import annotations

import streamlit as st

from diagnosis.snapshot import Snapshot
from exporter.words import headline, ordered
from pages import _cards, _parts, _pictures, _slices

CARDS = 4
FEW = 16
"""Slices whose table is open from the start: it fits the screen beside the picture."""
"""Findings shown as cards; more than a screenful reads better as a table."""


def body(current: Snapshot) -> None:
    """The sentence, the findings, the wall of slices, the same as a table."""
    report = current.report
    _parts.sentence(headline(report), "headline")
    for number, finding in enumerate(report.findings[:CARDS]):
        _cards.finding_card(current, finding, f"{number}")
    rest = report.findings[CARDS:]
    if rest:
        with st.expander(f"{len(rest):,} more findings"):
            _cards.findings_table(current, rest, "more")
    if not report.fleet.slices:
        _nothing()
        return
    _pictures.wall(current)
    with st.expander("All slices as a table", expanded=len(report.fleet.slices) <= FEW):
        _slices.slices_table(current, ordered(report, report.fleet.slices), "slices")
    if report.unknowns:
        with st.container(horizontal=True, vertical_alignment="center"):
            st.caption(
                f"{len(report.unknowns):,} checks could not be made for want of data.",
                width="content",
            )
            _parts.link("sources", "Which, and why")


def _nothing() -> None:
    st.info(
        "No TPU slice was found. A slice appears as soon as a pod of a RayCluster asks for "
        "`google.com/tpu`, or a Ray node carries the label `ray.io/tpu-slice-name`."
    )
    _parts.link("sources", "What each source said")


_parts.page(body)
