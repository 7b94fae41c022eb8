"""The frame around all pages: Streamlit runs this script for each visitor."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages import _parts, _place, _state

HERE = Path(__file__).parent
HIDDEN = frozenset({"gang"})
"""Pages that are about one thing and reached from it: they stay out of the navigation."""

# Static rules only; no text from a cluster ever comes in here.
STYLE = """
<style>
[data-testid="stMainBlockContainer"] { padding-top: 4rem; padding-bottom: 3rem; }
[class*="st-key-lead-"] [data-testid="stText"] { font-weight: 600; overflow-wrap: anywhere; }
[class*="st-key-lead-headline"] [data-testid="stText"] { font-size: 1.3rem; line-height: 1.4; }
[data-testid="stText"] { font-family: inherit; white-space: pre-wrap; overflow-wrap: anywhere; }
.st-key-moment [data-testid="stSlider"] { padding-inline: 2.5rem; }
[data-testid="stPlotlyChart"] { overflow-x: auto; }
[data-testid="stPageLink"] p, [data-testid="stMarkdown"] p { overflow-wrap: anywhere; }
</style>
"""


def register() -> list[st.Page]:
    """The pages of this mode; each knows its address, so that links survive."""
    listed = {
        "overview": ("Overview", ":material/grid_view:"),
        "finding": ("Findings", ":material/report:"),
        "slice": ("Slices", ":material/view_in_ar:"),
        "scheduling": ("Scheduling", ":material/hourglass_top:"),
        "placement": ("Placement", ":material/low_priority:"),
        "gang": ("Gang", ":material/apps:"),
        "history": ("History", ":material/history:"),
        "bundle": ("Open a bundle", ":material/folder_open:"),
        "sources": ("Sources", ":material/lan:"),
        "topologies": ("Topologies", ":material/polyline:"),
    }
    if _state.serving().demo is not None:
        listed["break_something"] = ("Break something", ":material/bolt:")
    pages = {
        name: st.Page(
            HERE / f"{name}.py",
            title=title,
            icon=icon,
            url_path=name,
            default=name == "overview",
            visibility="hidden" if name in HIDDEN else "visible",
        )
        for name, (title, icon) in listed.items()
        if (HERE / f"{name}.py").exists()
    }
    _parts.set_pages(pages)
    return list(pages.values())


def main() -> None:
    st.set_page_config(page_title="Slicewatch", page_icon=str(HERE / "icon.svg"), layout="wide")
    _place.settle()
    chosen = st.navigation(register(), position="top")
    st.html(STYLE)
    chosen.run()


main()
