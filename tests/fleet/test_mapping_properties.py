"""Whatever a source leaves out, doubles or shuffles: the mapping never fails and never invents."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.mapping import build_fleet
from fleet.model import Fleet
from fleet.observation import Observation
from tests.fleet.scene import Scene

SHAPES = [
    ("4x4", "tpu-v6e-slice", "v6e-16", 4, 4),
    ("2x4", "tpu-v6e-slice", "v6e-8", 2, 4),
    ("2x2x2", "tpu-v5p-slice", "v5p-16", 2, 4),
    ("2x2x4", "tpu-v4-podslice", "v4-32", 4, 4),
    ("2x2", "tpu-v6e-slice", "v6e-4", 1, 4),
    ("2x2x1", "tpu7x", "v7x-8", 1, 4),
]


@st.composite
def healthy(draw: st.DrawFn) -> Scene:
    """A healthy cluster of some slices, some of them held by a gang as a whole."""
    scene = Scene(kubernetes=draw(st.booleans()))
    regime = draw(st.sampled_from(["kuberay", "legacy"]))
    for number in range(draw(st.integers(1, 4))):
        topology, accelerator, pod_type, hosts, chips = draw(st.sampled_from(SHAPES))
        name = f"group-{number}"
        scene.slice(
            name,
            hosts=hosts,
            chips=chips,
            topology=topology,
            accelerator=accelerator,
            pod_type=pod_type,
            regime=regime,
        )
        if draw(st.booleans()):
            nodes = [f"ray-{name}-{index}" for index in range(hosts)]
            group = scene.group(f"train-{number}", list(nodes), chips=float(chips))
            for index, node in enumerate(nodes):
                scene.actor(node, group, index=index)
    return scene


def paths(value: Any, prefix: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a nest of dicts and lists."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list | tuple):
        items = list(enumerate(value))
    found = [(*prefix, key) for key, _ in items]
    for key, inner in items:
        found += paths(inner, (*prefix, key))
    return found


def mutated(observation: Observation, seed: int, count: int) -> Observation:
    """The same observation with some fields nulled, rows doubled and lists shuffled."""
    rng = random.Random(seed)
    nest = msgspec.json.decode(msgspec.json.encode(observation))
    for _ in range(count):
        places = [
            path
            for path in paths(nest)
            if len(path) > 3 and "source" not in path and path[-1] not in ("namespace", "cluster")
        ]
        if not places:
            break
        path = rng.choice(places)
        holder = nest
        for key in path[:-1]:
            holder = holder[key]
        current = holder[path[-1]]
        kind = rng.randrange(3)
        if isinstance(current, list) and kind and current:
            rng.shuffle(current)
            if kind == 2:
                current.append(rng.choice(current))
        elif isinstance(holder, list):
            holder.pop(path[-1])
        else:
            holder[path[-1]] = None
    return msgspec.convert(nest, Observation)


@settings(max_examples=400, deadline=None)
@given(scene=healthy(), seed=st.integers(0, 2**32), count=st.integers(1, 12))
def test_no_damage_to_the_rows_makes_it_fail(scene: Scene, seed: int, count: int) -> None:
    fleet = build_fleet(mutated(scene.observation(), seed, count))
    for item in fleet.slices:
        assert item.hosts_alive <= len(item.hosts)
        places = [host.coordinates for host in item.hosts if host.coordinates is not None]
        assert len(places) == len(set(places)), "two hosts never share a place"
        if item.whole:
            assert item.hosts_expected is not None


@settings(max_examples=60, deadline=None)
@given(scene=healthy(), seed=st.integers(0, 2**32))
def test_the_order_of_rows_changes_nothing(scene: Scene, seed: int) -> None:
    def key(fleet: Fleet) -> bytes:
        lean = msgspec.structs.replace(fleet, clusters=(), nodes={})
        return msgspec.json.encode(
            [lean.slices, lean.placement_groups, lean.worker_groups, lean.stray_pods]
        )

    before = key(scene.fleet())
    rng = random.Random(seed)
    for rows in (scene.pods, scene.nodes, scene.ray_nodes, scene.groups, scene.actors):
        rng.shuffle(rows)
    assert key(scene.fleet()) == before


@settings(max_examples=60, deadline=None)
@given(scene=healthy())
def test_a_healthy_fleet_is_seen_whole(scene: Scene) -> None:
    fleet = scene.fleet()
    held = {slice_id for group in fleet.placement_groups for slice_id in group.slices}
    for item in fleet.slices:
        assert item.whole
        assert item.blind == ()
        assert item.holding == ("whole" if item.id in held else "free")
        assert not any(host.problem for host in item.hosts)
    assert all(group.role == "slice" for group in fleet.placement_groups)
    assert fleet.stray_pods == ()


@settings(max_examples=60, deadline=None)
@given(scene=healthy(), seed=st.integers(0, 2**32))
def test_every_live_ray_tpu_node_is_on_exactly_one_host(scene: Scene, seed: int) -> None:
    rng = random.Random(seed)
    for node in scene.ray_nodes:
        if rng.random() < 0.3:
            scene.die(node["node_id"], ago=rng.uniform(1, 900))
    fleet = scene.fleet()
    seen = [host.ray_node_id for item in fleet.slices for host in item.hosts if host.ray_node_id]
    alive = {node["node_id"] for node in scene.ray_nodes if node["state"] == "ALIVE"}
    assert len(seen) == len(set(seen))
    assert set(seen) == alive
