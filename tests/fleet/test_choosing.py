"""Which slices a choice keeps."""

from __future__ import annotations

import pytest

from fleet.choosing import Choice, chosen_groups, chosen_slices, options
from fleet.model import Fleet
from tests.factories import NOW, group, host, slice_

SLICES = (
    slice_("v6e-0"),
    slice_("v6e-1", held_by=("ml/train/" + "a1" * 18,)),
    slice_("v5p-0", id="prod/big/v5p-0", namespace="prod", cluster="big", generation="v5p"),
)
HELD = group("llama", slices=("ml/train/v6e-1",))
WAITS = group("eval", id="b2" * 18, state="PENDING")
FLEET = Fleet(now=NOW, slices=SLICES, placement_groups=(HELD, WAITS))
STATUSES = {"ml/train/v6e-0": "idle", "ml/train/v6e-1": "running"}


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        (Choice(), ["v6e-0", "v6e-1", "v5p-0"]),
        (Choice(clusters=("prod/big",)), ["v5p-0"]),
        (Choice(namespaces=("ml",)), ["v6e-0", "v6e-1"]),
        (Choice(generations=("v5p", "v6e")), ["v6e-0", "v6e-1", "v5p-0"]),
        (Choice(states=("running",)), ["v6e-1"]),
        (Choice(states=("unknown",)), ["v5p-0"]),
        (Choice(text="V6E-1"), ["v6e-1"]),
        (Choice(text="llama"), ["v6e-1"]),
        (Choice(text="gke-v6e-0-n3"), ["v6e-0"]),
        (Choice(text="train v6e-0-2"), ["v6e-0"]),
        (Choice(text="nothing like it"), []),
        (Choice(namespaces=("prod",), states=("idle",)), []),
        (Choice(text=" \t "), ["v6e-0", "v6e-1", "v5p-0"]),
    ],
)
def test_kept(choice: Choice, kept: list[str]) -> None:
    found = chosen_slices(FLEET, STATUSES, choice)  # type: ignore[arg-type]
    assert [item.name for item in found] == kept


@pytest.mark.parametrize(
    ("choice", "kept"),
    [
        (Choice(), ["llama", "eval"]),
        (Choice(text="eval"), ["eval"]),
        (Choice(text="v6e-1"), ["llama"]),
        (Choice(states=("running",)), ["llama"]),
        (Choice(states=("idle",)), []),
        (Choice(clusters=("prod/big",)), []),
    ],
)
def test_groups(choice: Choice, kept: list[str]) -> None:
    slices = chosen_slices(FLEET, STATUSES, choice)  # type: ignore[arg-type]
    assert [item.name for item in chosen_groups(FLEET, slices, choice)] == kept


def test_options_are_what_is_there() -> None:
    assert options(FLEET) == {
        "clusters": ("ml/train", "prod/big"),
        "namespaces": ("ml", "prod"),
        "generations": ("v5p", "v6e"),
    }


def test_names_may_be_missing() -> None:
    odd = slice_("x", hosts=(host(0, pod_name=None, node_name=None),), topology_name=None)
    fleet = Fleet(now=NOW, slices=(odd,))
    assert chosen_slices(fleet, {}, Choice(text="None")) == ()
