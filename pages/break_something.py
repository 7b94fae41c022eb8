"""Demo only: make a real fault on the demo's own Ray cluster, watch it found, mend it again."""

from __future__ import annotations

import streamlit as st

from diagnosis.snapshot import Snapshot
from pages import _cards, _parts, _state


def body(current: Snapshot) -> None:
    """A row a fault, with one button; below it what Slicewatch says about it by now."""
    demo = _state.serving().demo
    if demo is None:
        st.info("This page works in the demo only: `slicewatch demo`.")
        return
    _parts.sentence("Break something, and see what Slicewatch makes of it.", "headline")
    st.caption(
        "Nothing tells Slicewatch what was done: it finds each fault with its next look, within "
        "seconds, through the same APIs as on a real cluster."
    )
    for fault in demo.faults():
        with st.container(border=True, horizontal=True, vertical_alignment="center"):
            with st.container(width="stretch", gap="xxsmall"):
                st.markdown(f"**{_parts.escaped(fault.label)}**")
                st.caption(_parts.escaped(fault.text))
            if fault.busy:
                st.button("Working …", key=f"busy-{fault.key}", disabled=True)
            elif fault.active:
                st.button("Mend", key=f"mend-{fault.key}", on_click=demo.mend, args=(fault.key,))
            else:
                st.button(
                    "Break",
                    key=f"break-{fault.key}",
                    on_click=demo.inject,
                    args=(fault.key,),
                    type="primary",
                )
    st.subheader("What Slicewatch says now")
    _cards.findings_section(current, current.report.findings[:4], "demo", here=False)


_parts.page(body)
