"""Names from a cluster, made harmless for Plotly, which reads HTML tags, entities and TeX."""

from __future__ import annotations

import hashlib
import unicodedata

_ENTITIES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "$": "&#36;"}
)


def escape(text: object, limit: int = 80) -> str:
    """``text`` as plain characters on a figure: one line, at most ``limit`` long, no markup.

    Control characters and those that turn the direction of writing are dropped: a name must not
    be able to hide what stands beside it.
    """
    flat = " ".join(str(text)[: 8 * limit].split())
    seen = "".join(char for char in flat if unicodedata.category(char)[0] != "C")
    return (seen if len(seen) <= limit else seen[: limit - 1] + "…").translate(_ENTITIES)


def point_id(name: str) -> int:
    """A number for ``name`` that stays the same from one picture to the next (48 bits).

    Figures carry it as a marker's ``customdata``: a click on a picture of a moment ago still finds
    what it meant, whatever has been added to or taken from the fleet since.
    """
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "big")
