"""The one scale of colours, letters and shapes. Never colour alone: each state has a letter for
tiles that can hold one and a marker shape for tiles that cannot.

Hues are Okabe and Ito's, which people with any common colour blindness can tell apart. They are
the same on light and dark grounds; only inks and lines differ.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from fleet.model import SliceStatusName

StateKey = Literal[
    "running", "idle", "reserved", "shared", "forming", "incomplete", "broken", "unknown"
]


class Sign(NamedTuple):
    """How one state, group or step of a scale is shown.

    ``ink`` is the colour of a letter on top of ``color``. ``symbol`` is Plotly's marker shape.
    ``word`` is what the legend says, ``meaning`` one sentence for a hover or a key.
    """

    word: str
    letter: str
    color: str
    ink: str
    symbol: str
    meaning: str = ""

    def legend(self, count: int) -> str:
        """What the legend says: ``R · at work: 12``."""
        return (
            f"{self.letter} · {self.word}: {count:,}" if self.letter else f"{self.word}: {count:,}"
        )


WHITE: Final = "#FFFFFF"
BLACK: Final = "#14171A"

SLICE_SIGNS: Final[dict[SliceStatusName, Sign]] = {
    "running": Sign(
        "running", "R", "#0072B2", WHITE, "square", "held whole, a worker on each host"
    ),
    "idle": Sign("idle", "I", "#009E73", WHITE, "circle", "whole and free"),
    "reserved": Sign("reserved", "V", "#56B4E9", BLACK, "diamond", "held whole, not all at work"),
    "shared": Sign("shared", "S", "#CC79A7", BLACK, "hexagon", "held in part or by several"),
    "forming": Sign("forming", "F", "#7F93A8", BLACK, "square-open", "young and not whole yet"),
    "incomplete": Sign("incomplete", "!", "#E69F00", BLACK, "triangle-up", "hosts are missing"),
    "broken": Sign("broken", "X", "#D55E00", WHITE, "x", "hosts are there but cannot work as one"),
    "unknown": Sign("unknown", "?", "#8B9096", WHITE, "hash-open", "cannot be seen"),
}

HOST_SIGNS: Final[dict[StateKey, Sign]] = {
    "running": Sign("at work", "R", "#0072B2", WHITE, "square", "ready, with a worker on it"),
    "idle": Sign("free", "I", "#009E73", WHITE, "circle", "ready, held by nobody"),
    "reserved": Sign("held", "V", "#56B4E9", BLACK, "diamond", "ready and held, no worker on it"),
    "shared": Sign("shared", "S", "#CC79A7", BLACK, "hexagon", "ready, held by several"),
    "forming": Sign("forming", "F", "#7F93A8", BLACK, "square-open", "not here yet"),
    "incomplete": Sign("missing", "!", "#E69F00", BLACK, "triangle-up", "wanted, nothing there"),
    "broken": Sign("not ready", "X", "#D55E00", WHITE, "x", "something there that cannot work"),
    "unknown": Sign("unknown", "?", "#8B9096", WHITE, "hash-open", "cannot be seen"),
}

WORST_FIRST: Final[tuple[SliceStatusName, ...]] = (
    "broken",
    "incomplete",
    "unknown",
    "forming",
    "shared",
    "reserved",
    "running",
    "idle",
)

SEQUENCE: Final[tuple[tuple[str, str], ...]] = (
    ("#0072B2", WHITE),
    ("#E69F00", BLACK),
    ("#009E73", WHITE),
    ("#CC79A7", BLACK),
    ("#56B4E9", BLACK),
    ("#D55E00", WHITE),
    ("#F0E442", BLACK),
    ("#6A4C93", WHITE),
)
"""For placement groups and jobs, with the ink that is legible on each."""

SEQUENCE_SYMBOLS: Final = (
    "square",
    "circle",
    "diamond",
    "triangle-up",
    "hexagon",
    "x",
    "star",
    "cross",
)

SCALE: Final[tuple[tuple[str, str], ...]] = (
    ("#00224E", WHITE),
    ("#3B496C", WHITE),
    ("#7B7B78", WHITE),
    ("#BCAF6F", BLACK),
    ("#FEE838", BLACK),
)
"""Five steps of cividis, dark = little; the same for readers of any colour vision."""

NOBODY: Final = Sign("nobody", "·", "#B9BEC4", BLACK, "square-open", "held by nobody")
NO_DATA: Final = Sign("no data", "?", "#8B9096", WHITE, "hash-open", "not reported")


class Inks(NamedTuple):
    """Everything on a picture that is not a state, on a light or a dark ground."""

    ground: str
    text: str
    muted: str
    line: str
    link: str
    wrap: str
    broken: str
    tile: str
    faint: str


LIGHT: Final = Inks(
    ground="#FAFAF8",
    text="#23272B",
    muted="#5F666D",
    line="#B4B9BE",
    link="#9AA1A8",
    wrap="#6A4C93",
    broken="#B5420A",
    tile="rgba(240,240,236,0.9)",
    faint="rgba(0,0,0,0)",
)
DARK: Final = Inks(
    ground="#14171A",
    text="#D9DCDF",
    muted="#9AA1A8",
    line="#4A5259",
    link="#6B747C",
    wrap="#B79CE0",
    broken="#FF8A50",
    tile="rgba(30,34,38,0.9)",
    faint="rgba(0,0,0,0)",
)


def inks(dark: bool) -> Inks:
    """The inks for a dark or a light ground."""
    return DARK if dark else LIGHT


def letters(index: int) -> str:
    """A, B, … Z, AA, AB, …: the second sign of the ``index``-th group."""
    text = ""
    index += 1
    while index:
        index, rest = divmod(index - 1, 26)
        text = chr(65 + rest) + text
    return text


def sequence_sign(index: int, word: str, meaning: str = "") -> Sign:
    """The sign of the ``index``-th group or job; colours repeat after eight, letters do not."""
    color, ink = SEQUENCE[index % len(SEQUENCE)]
    symbol = SEQUENCE_SYMBOLS[(index + index // len(SEQUENCE)) % len(SEQUENCE_SYMBOLS)]
    return Sign(word, letters(index), color, ink, symbol, meaning)
