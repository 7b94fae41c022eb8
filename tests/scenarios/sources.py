"""APIs that are down, cut or old."""

from __future__ import annotations

from tests.scenarios.scene import scene
from tests.scenarios.world import World

S0 = "v6e-16-group-0"


@scene(
    ("SourceTruncated", None, "ray:ml/train"),
    unknown=("HeadReservationLeaked", "PlacementSplit"),
    statuses={f"ml/train/{S0}": ("unknown",)},
)
def groups_are_cut() -> World:
    world = World()
    name = world.add()
    world.head_group(name)
    world.truncate("placement_groups", 302, 100)
    return world


@scene(("SourceTruncated", None, "nodes"), statuses={f"ml/train/{S0}": ("unknown",)})
def nodes_are_cut_and_no_host_is_called_lost() -> World:
    world = World()
    name = world.add()
    for index in (1, 2, 3):
        world.without_ray_node(f"ray-{name}-{index}")
    world.truncate("nodes", 500, 100)
    return world


@scene(("SourceStale", None, "kubernetes"))
def kubernetes_answered_long_ago() -> World:
    world = World()
    world.add()
    world.kubernetes_source = {"fetched_at": world.now - 300, "poll_interval_seconds": 10.0}
    return world


@scene()
def two_lost_answers_are_weather() -> World:
    world = World()
    world.add()
    world.kubernetes_source = {"fetched_at": world.now - 25, "poll_interval_seconds": 10.0}
    return world


@scene(("SourceDown", None, "401"), unknown=("PlacementPending",))
def token_is_wanted() -> World:
    world = World(ray=False)
    world.add()
    world.ray_source = {"reason": "unauthorized", "detail": "401: token authentication is on"}
    return world


@scene(
    ("SourceDown", None, "actors"),
    unknown=("GangMemberDead", "ReservationIdle"),
    statuses={f"ml/train/{S0}": ("unknown",)},
)
def actors_do_not_answer() -> World:
    world = World()
    world.add()
    world.drop.add("ray:actors")
    return world


@scene(statuses={f"ml/train/{S0}": ("idle",)})
def jobs_are_not_in_the_bundle() -> World:
    world = World()
    world.add()
    world.ray_source = {"status": "degraded", "reason": "missing", "missing": ("jobs",)}
    return world


@scene(("SourceStale", None, "ml/train"))
def ray_answered_long_ago() -> World:
    world = World()
    world.add()
    world.ray_source = {"fetched_at": world.now - 300, "poll_interval_seconds": 15.0}
    return world
