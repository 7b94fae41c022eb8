"""For any damage to the payloads the engine stands, stays honest, and does not mind row order."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from diagnosis.engine import judge
from diagnosis.finding import Report
from diagnosis.memory import Memory
from tests.scenarios.world import HOUR, SHAPES, World

SHAPE_NAMES = sorted(SHAPES)
QUIET = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)

LISTS = ("pods", "nodes", "ray_nodes", "groups", "actors", "tasks", "jobs", "events", "services")


def busy(shapes: list[str], *, kubernetes: bool = True, seed: int = 0) -> World:
    """Healthy: some slices idle, some with a gang."""
    dice = random.Random(seed)
    world = World(kubernetes=kubernetes)
    # One version of KubeRay labels all pods alike; a mixture is a fault (``ReplicaDrift``).
    regime = dice.choice(["kuberay", "legacy"])
    for shape in shapes:
        name = world.add(shape, regime=regime)
        if dice.random() < 0.6:
            pod_type = str(SHAPES[shape].get("pod_type", "v6e-16"))
            world.gang(f"train-{name}", name, pod_type=pod_type, age=dice.uniform(1, 3) * HOUR)
    return world


@QUIET
@given(
    shapes=st.lists(st.sampled_from(SHAPE_NAMES), max_size=8),
    kubernetes=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_a_healthy_fleet_of_any_shape_is_silent(
    shapes: list[str], kubernetes: bool, seed: int
) -> None:
    report, _ = judge(busy(shapes, kubernetes=kubernetes, seed=seed).fleet())
    assert not report.findings
    assert set(report.statuses.values()) <= {"idle", "running"}


ODD = st.one_of(
    st.none(),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=True),
    st.text(max_size=12),
    st.just("\x00<script>"),
    st.just("$(reboot) '\"`"),
)


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a payload."""
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += paths(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += paths(item, (*path, index))
    return found


def damage(world: World, dice: random.Random, odd: Any, how: str) -> None:
    rows = getattr(world, dice.choice(LISTS))
    if not rows:
        return
    place = dice.randrange(len(rows))
    if how == "drop":
        rows.pop(place)
    elif how == "twice":
        rows.append(rows[place])
    else:
        target: Any = rows[place]
        path = dice.choice(paths(target))
        for step in path[:-1]:
            target = target[step]
        if how == "field":
            if isinstance(target, dict):
                target.pop(path[-1])
        else:
            target[path[-1]] = odd


def look(world: World) -> Report | None:
    """The report, or None where the decoder itself refuses the row (collectors salvage there)."""
    try:
        fleet = world.fleet()
    except msgspec.ValidationError:
        return None
    return judge(fleet)[0]


@settings(
    deadline=None, max_examples=300, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
@given(
    seed=st.integers(0, 10_000),
    odd=ODD,
    hows=st.lists(st.sampled_from(["drop", "twice", "field", "odd"]), min_size=1, max_size=6),
    kubernetes=st.booleans(),
)
def test_damaged_payloads_never_raise_and_row_order_does_not_matter(
    seed: int, odd: Any, hows: list[str], kubernetes: bool
) -> None:
    world = busy(["v6e-16", "v5p-16", "v5e-8"], seed=seed, kubernetes=kubernetes)
    dice = random.Random(seed)
    for how in hows:
        damage(world, dice, odd, how)
    report = look(world)
    if report is None:
        return
    for name in LISTS:
        rows = getattr(world, name)
        if name not in ("events",) and "twice" not in hows:
            dice.shuffle(rows)
    again = look(world)
    assert again is not None
    assert again.findings == report.findings
    assert again.statuses == report.statuses
    assert again.unknowns == report.unknowns


@QUIET
@given(
    seed=st.integers(0, 10_000),
    lost=st.sets(
        st.sampled_from(
            ["ray:nodes", "ray:placement_groups", "ray:actors", "ray:tasks", "kubernetes:pods"]
        ),
        min_size=1,
    ),
)
def test_what_is_not_seen_is_never_called_healthy(seed: int, lost: set[str]) -> None:
    world = busy(["v6e-16", "v6e-16", "v5p-16"], seed=seed)
    before = judge(world.fleet())[0].statuses
    world.drop = set(lost)
    report, _ = judge(world.fleet())
    for slice_id, status in report.statuses.items():
        if status == "idle":
            assert lost == {"kubernetes:pods"}
        if status == "running":
            assert before[slice_id] == "running"
            assert "ray:nodes" not in lost
    # Nothing is wrong but the source: what is missing must not look like a fault.
    assert {item.code for item in report.findings} <= {"SourceDown"}


@QUIET
@given(seed=st.integers(0, 10_000), steps=st.lists(st.integers(0, 3), max_size=6))
def test_any_sequence_of_looks_stands(seed: int, steps: list[int]) -> None:
    memory = Memory()
    for place, step in enumerate(steps):
        world = busy(["v6e-16", "v5p-16"], seed=seed)
        world.now += 10 * place
        dice = random.Random(step)
        for _ in range(step):
            damage(world, dice, None, "drop")
        _, memory = judge(world.fleet(), memory)
    assert memory.looks == len(steps)


@pytest.mark.parametrize("hostile", ["'; rm -rf / #", "$(reboot)", "a b\nc", "--all", "\x00", "“"])
def test_names_from_a_cluster_are_quoted_in_commands(hostile: str) -> None:
    import shlex

    world = World()
    name = world.add()
    world.gang("train", name)
    world.kill(world.actors[1], ago=300, cause="WORKER_DIED")
    world.without_pod(f"{name}-pod-3")
    pod = world.pod_of(name, 2)
    pod["metadata"]["name"] = hostile
    world.actors[1]["actor_id"] = hostile
    world.not_ready(hostile)
    world.groups[-1]["placement_group_id"] = hostile
    report, _ = judge(world.fleet())
    for finding in report.findings:
        for action in finding.actions:
            if action.command is None:
                continue
            words = shlex.split(action.command)
            assert words[0] in ("kubectl", "ray", "python")
            assert shlex.join(words) == action.command
