"""The frame around all pages: Streamlit runs this script for each visitor."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from pages import _parts, _state

HERE = Path(__file__).parent

# Static rules only; no text from a cluster ever comes in here.
STYLE = """
<style>
[data-testid="stMainBlockContainer"] { padding-top: 4rem; padding-bottom: 3rem; }
[class*="st-key-lead-"] [data-testid="stText"] { font-weight: 600; overflow-wrap: anywhere; }
[class*="st-key-lead-headline"] [data-testid="stText"] { font-size: 1.3rem; line-height: 1.4; }
[data-testid="stText"] { font-family: inherit; white-space: pre-wrap; overflow-wrap: anywhere; }
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
        "placement": ("Placement", ":material/low_priority:"),
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
        )
        for name, (title, icon) in listed.items()
        if (HERE / f"{name}.py").exists()
    }
    _parts.set_pages(pages)
    return list(pages.values())


def main() -> None:
    st.set_page_config(page_title="Slicewatch", page_icon=str(HERE / "icon.svg"), layout="wide")
    chosen = st.navigation(register(), position="top")
    st.html(STYLE)
    chosen.run()


main()
