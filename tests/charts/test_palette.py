"""Signs that can be told apart by anybody."""

from __future__ import annotations

import itertools

import pytest

from charts.palette import (
    HOST_SIGNS,
    SCALE,
    SEQUENCE,
    SLICE_SIGNS,
    WORST_FIRST,
    letters,
    sequence_sign,
)
from fleet.model import SLICE_STATUSES


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_every_status_has_a_sign_of_its_own() -> None:
    assert set(SLICE_SIGNS) == set(SLICE_STATUSES) == set(WORST_FIRST) == set(HOST_SIGNS)
    for signs in (SLICE_SIGNS, HOST_SIGNS):
        for field in ("word", "letter", "color", "symbol"):
            assert len({getattr(sign, field) for sign in signs.values()}) == len(signs)


@pytest.mark.parametrize(
    ("color", "ink"),
    [(sign.color, sign.ink) for sign in SLICE_SIGNS.values()] + list(SEQUENCE) + list(SCALE),
)
def test_letters_are_legible_on_their_colour(color: str, ink: str) -> None:
    assert contrast(color, ink) >= 3.0


def test_groups_never_share_a_letter() -> None:
    signs = [sequence_sign(index, "x") for index in range(2000)]
    assert len({sign.letter for sign in signs}) == len(signs)
    assert [letters(n) for n in (0, 25, 26, 27, 701, 702)] == ["A", "Z", "AA", "AB", "ZZ", "AAA"]
    near = [(sign.color, sign.symbol) for sign in signs[:60]]
    assert all(a != b for a, b in itertools.combinations(near, 2))
