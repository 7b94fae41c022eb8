"""The page that looks shapes up."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from streamlit.testing.v1 import AppTest


def said(test: AppTest) -> str:
    kinds = (test.text, test.caption, test.info, test.code)
    return "\n".join(str(item.value) for kind in kinds for item in kind)


def test_any_shape_can_be_looked_up(show: Callable[..., AppTest]) -> None:
    test = show("topologies", None, {"generation": "v5p", "topology": "4x4x8"})
    assert not test.exception
    text = said(test)
    assert "v5p 4x4x8: 128 chips on 32 hosts." in text
    assert "cloud.google.com/gke-tpu-topology: 4x4x8" in text
    assert 'slice_placement_group(topology="4x4x8", accelerator_version="v5p")' in text
    assert "python -m slicewatch topology v5p 4x4x8" in text


def test_without_a_question_there_is_an_example(show: Callable[..., AppTest]) -> None:
    test = show("topologies", None)
    assert not test.exception
    assert "v6e 4x4: 16 chips on 4 hosts." in said(test)


def test_2x4_asks_how_many_chips_a_host_has(show: Callable[..., AppTest]) -> None:
    test = show("topologies", None, {"generation": "v6e", "topology": "2x4"})
    assert "8 chips on 1 host." in said(test)
    test.radio[0].set_value(4).run()
    assert not test.exception
    assert "8 chips on 2 hosts." in said(test)
    assert "chips_per_vm=4" in said(test)


@pytest.mark.parametrize("name", ["4x4x4", "999x999", "<script>", "0x0", "x" * 500, "\x00"])
def test_what_is_no_shape_says_why(show: Callable[..., AppTest], name: str) -> None:
    test = show("topologies", None, {"generation": "v6e", "topology": name})
    assert not test.exception
    assert "No slice has this shape." in said(test)


def test_sub_slices_and_3d(show: Callable[..., AppTest]) -> None:
    test = show("topologies", None, {"generation": "v5p", "topology": "2x4x4"})
    test.selectbox[2].set_value("2x2x2").run()
    assert not test.exception
