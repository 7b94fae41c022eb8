"""The reasoning about one object, wrong or not."""

from __future__ import annotations

import pytest

from diagnosis.engine import judge
from diagnosis.why import why
from tests.scenarios.world import World


def told(world: World, name: str) -> str:
    return "\n".join(why(judge(world.fleet())[0], name))


def test_a_free_slice() -> None:
    world = World()
    name = world.add()
    text = told(world, name)
    for words in ("idle", "whole: 4 of 4 hosts", "head free", "nothing waits", "nothing is wrong"):
        assert words in text


def test_a_broken_slice_names_its_host_and_who_waits() -> None:
    world = World()
    name = world.add()
    world.die(f"ray-{name}-2", ago=300)
    world.waiting("eager", selector={"ray.io/tpu-slice-name": name})
    text = told(world, f"ml/train/{name}")
    for words in ("not whole: 3 of 4", "worker 2: RayletDead", "eager waits", "SliceIncomplete"):
        assert words in text
    assert "also touched by SliceIncomplete" in told(world, "eager")


def test_a_group_that_runs_and_one_that_waits() -> None:
    world = World()
    world.gang("train", world.add())
    world.waiting("eager", 2)
    assert "4 of its workers run, 0 died" in told(world, "train")
    assert "AllSlicesBusy" in told(world, "eager")


def test_what_cannot_be_seen_is_said() -> None:
    world = World(ray=False)
    name = world.add()
    text = told(world, name)
    assert "Cannot be seen: Ray does not answer" in text
    assert "not judged for DuplicateWorkerId" in text


def test_a_name_that_is_none() -> None:
    world = World()
    world.add()
    with pytest.raises(LookupError, match="v6e-16-group-0"):
        told(world, "v6e-16-group-O")
