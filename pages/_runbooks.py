"""The runbook of a code, readable in the page."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import streamlit as st

from diagnosis.finding import Finding

FOLDER = Path(__file__).parent.parent / "docs" / "runbooks"
_CODE = re.compile(r"[A-Za-z]{1,64}")
_LINK = re.compile(r"\[([^\]\n]+)\]\((?!https?://)[^)\n]*\)")


def runbook(finding: Finding) -> None:
    """The runbook in a fold; where it is, when it is not installed with the program."""
    text = text_of(finding.code)
    if text is None:
        if finding.runbook:
            st.caption("Runbook")
            st.code(finding.runbook, language=None)
        return
    with st.expander(f"Runbook: {finding.code}", icon=":material/menu_book:"):
        st.markdown(text)
        st.caption(f"docs/runbooks/{finding.code}.md")


@lru_cache(maxsize=64)
def text_of(code: str) -> str | None:
    """The runbook's Markdown, links to other files turned into their words; ``None`` without."""
    if not _CODE.fullmatch(code):
        return None
    try:
        text = (FOLDER / f"{code}.md").read_text(encoding="utf-8")
    except OSError:
        return None
    lines, fenced = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            # The page has its own title: headings of the file come below it.
            line = _LINK.sub(r"\1", f"##{line}" if line.startswith("#") else line)
        lines.append(line)
    return "\n".join(lines)
