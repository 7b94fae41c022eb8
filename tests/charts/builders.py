"""Slices of any shape with anything wrong with them, for figures, benchmarks and screenshots."""

from __future__ import annotations

import random

import numpy as np
import plotly.graph_objects as go

from fleet.model import (
    Bundle,
    Fleet,
    Host,
    HostProblem,
    HostState,
    PlacementGroup,
    Slice,
    SliceStatusName,
    TpuUse,
    Worker,
)
from fleet.topology import host_coordinates, parse_topology

NOW = 1_796_040_000.0

Made = tuple[Slice, tuple[PlacementGroup, ...], dict[str, TpuUse]]


def made(
    generation: str,
    topology: str,
    name: str = "v6e-group-0",
    *,
    missing: tuple[int, ...] = (),
    dead: tuple[int, ...] = (),
    groups: int = 1,
    only: tuple[int, ...] | None = None,
    workers: bool = True,
    forming: bool = False,
    blind: tuple[str, ...] = (),
    group_name: str = "train",
    hold: bool = True,
) -> Made:
    """A slice, the groups on it (``groups`` equal parts, or one on the hosts ``only``), and what
    its chips do."""
    shape = parse_topology(generation, topology)
    ident = f"ml/train/{name}"
    hosts = []
    for worker in range(shape.hosts):
        state: HostState = "ready"
        problem: HostProblem | None = None
        if worker in missing:
            state, problem = "missing", "PodMissing"
        elif worker in dead:
            state, problem = "not_ready", "RayletDead"
        there = state != "missing"
        hosts.append(
            Host(
                key=f"{name}-worker-{worker:04d}-x7k2p",
                worker_id=worker,
                state=state,
                problem=problem,
                pod_name=f"{name}-worker-{worker:04d}-x7k2p" if there else None,
                node_name=f"gke-prod-tpu-{name}-{worker:04d}-abcd" if there else None,
                node_pool=f"pool-{name}",
                ray_node_id=f"{worker:056x}" if there else None,
                chips=shape.chips_per_host,
                coordinates=host_coordinates(shape, worker),
                age_since=NOW - 3600.0 * (1 + worker % 40),
                offers_head=worker == 0,
            )
        )
    held = []
    busy = []
    for part in range(groups if hold else 0):
        ours = only or [w for w in range(shape.hosts) if w * groups // shape.hosts == part]
        key = f"ml/train/{name}-{part}"
        job = f"{part + 1:08d}"
        held.append(
            PlacementGroup(
                key=key,
                id=f"{part:02x}" * 18,
                name=f"{group_name}-{part}",
                namespace="ml",
                cluster="train",
                state="CREATED",
                role="slice",
                job_id=job,
                slices=(ident,),
                bundles=tuple(
                    Bundle(index=i, chips=4.0, slice_id=ident, host_key=hosts[w].key)
                    for i, w in enumerate(ours)
                ),
            )
        )
        busy += [
            Worker(
                kind="actor",
                id=f"{name}-{w}",
                name="Trainer",
                state="ALIVE",
                alive=True,
                slice_id=ident,
                host_key=hosts[w].key,
                group_id=key,
                job_id=job,
            )
            for w in ours
            if workers and hosts[w].state == "ready"
        ]
    slice_ = Slice(
        id=ident,
        namespace="ml",
        cluster="train",
        name=name,
        generation=shape.generation,
        topology_name=shape.name,
        topology=shape,
        pod_type=shape.pod_type,
        hosts_expected=shape.hosts,
        chips_expected=shape.chips,
        hosts=tuple(hosts),
        node_pools=(f"pool-{name}",),
        holding="whole" if hold else "free",
        held_by=tuple(group.key for group in held),
        workers=tuple(busy),
        forming=forming,
        blind=blind,
    )
    use = {
        f"ml/train/{host.ray_node_id}": TpuUse(
            duty_cycle=(at % 11) / 10, memory_used_bytes=12e9, memory_total_bytes=32e9
        )
        for at, host in enumerate(hosts)
        if host.state == "ready" and at % 7 != 6
    }
    return slice_, tuple(held), use


def fleet_of(*parts: Made) -> Fleet:
    use: dict[str, TpuUse] = {}
    for _, _, own in parts:
        use.update(own)
    return Fleet(
        now=NOW,
        slices=tuple(part[0] for part in parts),
        placement_groups=tuple(group for part in parts for group in part[1]),
        tpu_use=use,
    )


SHAPES = (
    ("v6e", "4x4", 6),
    ("v6e", "8x8", 2),
    ("v5p", "4x4x4", 2),
    ("v5e", "2x4", 1),
    ("v7x", "4x4x8", 1),
    ("v6e", "2x2", 1),
)


def many(count: int, seed: int = 1) -> tuple[Fleet, dict[str, SliceStatusName]]:
    """A fleet of ``count`` slices, some of each kind wrong, and their statuses."""
    dice = random.Random(seed)
    parts: list[Made] = []
    statuses: dict[str, SliceStatusName] = {}
    for at in range(count):
        generation, topology, _ = dice.choices(SHAPES, [weight for *_, weight in SHAPES])[0]
        hosts = parse_topology(generation, topology).hosts
        name, one = f"{generation}-group-{at}", (dice.randrange(hosts),)
        luck = dice.random()
        status: SliceStatusName
        if luck < 0.03:
            part, status = made(generation, topology, name, missing=one), "incomplete"
        elif luck < 0.05:
            part, status = made(generation, topology, name, dead=one), "broken"
        elif luck < 0.07:
            part, status = made(generation, topology, name, blind=("ray:ml/train",)), "unknown"
        elif luck < 0.3:
            part, status = made(generation, topology, name, hold=False), "idle"
        elif luck < 0.4:
            part, status = made(generation, topology, name, workers=False), "reserved"
        elif luck < 0.43:
            part, status = made(generation, topology, name, only=(0,)), "shared"
        else:
            part, status = made(generation, topology, name), "running"
        parts.append(part)
        statuses[part[0].id] = status
    return fleet_of(*parts), statuses


def bare(points: int) -> go.Figure:
    """The cheapest thing that could be drawn instead: squares with a number each."""
    side = int(points**0.5) + 1
    at = np.arange(points)
    return go.Figure(
        go.Scattergl(
            x=(at % side).astype(np.int16),
            y=(at // side).astype(np.int16),
            customdata=at.astype(np.int32),
            mode="markers",
            marker={"symbol": "square", "size": 5},
        )
    )
