from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pages._text import plain, printable
from tests.factories import HOSTILE


def test_markup_is_escaped() -> None:
    assert plain("**b** [a](x) `c` <i> $x$ # h") == (r"\*\*b\*\* \[a\]\(x\) \`c\` \<i\> \$x\$ \# h")


def test_what_streamlit_turns_into_icons_and_links_is_broken_up() -> None:
    joiner = "\N{WORD JOINER}"
    assert f"\\:{joiner}material" in plain(":material/bolt:")
    assert f"\\:{joiner}red" in plain(":red[x]")
    assert joiner in plain("a -> b")
    assert joiner in plain("https://example.com")
    assert joiner in plain("www.example.com")
    assert joiner in plain("a@example.com")


def test_control_characters_and_overrides_are_replaced() -> None:
    text = printable(HOSTILE)
    assert text.isprintable()
    assert "\x1b" not in text
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in text


def test_long_text_is_cut() -> None:
    assert printable("x" * 50, 10) == "x" * 9 + "…"


@given(st.text(max_size=300))
def test_nothing_is_lost_but_unprintables(text: str) -> None:
    back = plain(text, 400).replace("\N{WORD JOINER}", "")
    plain_back = "".join(
        char for place, char in enumerate(back) if char != "\\" or (place and _escaped(back, place))
    )
    assert plain_back == printable(text, 400).replace("\N{WORD JOINER}", "")


def _escaped(text: str, place: int) -> bool:
    """Whether the backslash here is itself escaped: an odd number of them stands before it."""
    before = len(text[:place]) - len(text[:place].rstrip("\\"))
    return before % 2 == 1
