"""Cluster text made harmless for the places that read Markdown: labels of links and expanders.

Whole sentences are shown with ``st.text`` instead, which reads no markup at all.
"""

from __future__ import annotations

import re

LONGEST = 120
"""Characters of a name in a label; the whole name is in the table or the code block beside it."""

_PUNCTUATION = re.compile(r"([!#$&()*+\-.:<=>@\[\\\]^_`{|}~])")
# Streamlit turns these into emoji, icons, arrows and links after the Markdown was read, when a
# backslash no longer helps: a word joiner (no width, no break) inside them does.
_LATER = re.compile(r":(?=[a-zA-Z0-9+_/\-])|(?<=[<\-~>])(?=[\-=>])|(?<=www)(?=\.)|(?<=@)(?=\w)")
_JOINER = "\N{WORD JOINER}"


def printable(text: object, longest: int = 5000) -> str:
    """``text`` without control characters and direction overrides, cut at ``longest``."""
    value = "".join(
        char if char.isprintable() else " " if char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in str(text)[: longest + 1]
    )
    return value if len(value) <= longest else value[: longest - 1] + "…"


def plain(text: object, longest: int = LONGEST) -> str:
    """``text`` for a place that reads Markdown, so that it looks exactly as it is written."""
    joined = _LATER.sub(lambda found: found.group() + _JOINER, printable(text, longest))
    return _PUNCTUATION.sub(r"\\\1", joined)
