"""Sources that are down, cut short or old; frames with blips; several faults at once."""

from __future__ import annotations

import json

from tests.scenarios.independent.payloads import HOUR, MINUTE, NOW, World, hexid, ts
from tests.scenarios.independent.registry import (
    bare,
    crash,
    fleet,
    node_down,
    pending,
    scene,
    silent,
)
from tests.scenarios.independent.scenes_placement import NAME, hold, wants

S0, S1 = "ml/train/v6e-group-0", "ml/train/v6e-group-1"


# --- SourceDown ---------------------------------------------------------------------------------


@scene(("SourceDown", None, "train"), statuses={S0: "unknown", S1: "unknown"}, exit=0)
def ray_folder_missing() -> World:
    world, cluster, _ = fleet()
    cluster.ray_up = False
    return world


@scene(("SourceDown", None, "kubernetes"), exit=0)
def kubernetes_folder_missing() -> World:
    world, _cluster, _slices = fleet()
    world.kubernetes = False
    return world


@scene(
    ("SourceDown", None, "train"),
    may="SourceTruncated",
    exit=0,
    statuses={S0: "unknown"},
    each=["html", "empty", "cut", "401", "500"],
)
def ray_answers_nonsense(how: str) -> World:
    world, cluster, _ = fleet()
    cluster.ray_up = False
    text = {
        "html": "<html><body>502 Bad Gateway</body></html>",
        "empty": "",
        "cut": '{"result": true, "data": {"result": {"total": 9, "result": [{"node_id": "a',
        "401": '{"error": "Unauthorized: missing token"}',
        "500": json.dumps({"result": False, "msg": "GCS is down", "data": {}}),
    }[how]
    for name in ("nodes", "placement_groups", "actors", "tasks", "jobs"):
        world.raw[f"ray/ml__train/{name}.json"] = text
    return world


@scene(("SourceDown", None, "batch"), statuses={S0: "idle"}, exit=0)
def one_of_two_clusters_is_down() -> World:
    world = World()
    first, second = world.cluster("ml"), world.cluster("batch", "serve")
    world.tpus(first, replicas=2)
    world.tpus(second, replicas=1)
    second.ray_up = False
    # The finding names the source; the healthy cluster is judged as ever.
    world.rayclusters[1]["metadata"]["namespace"] = "batch"
    return world


@scene(("SourceDown", None, None), may="SourceTruncated", statuses={S0: "unknown"}, exit=0)
def ray_nodes_missing() -> World:
    world, _, _ = fleet()
    world.raw["ray/ml__train/nodes.json"] = None
    return world


@scene(("SourceDown", None, None), may="SourceTruncated", statuses={S0: "unknown"}, exit=0)
def placement_groups_missing() -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    world.raw["ray/ml__train/placement_groups.json"] = None
    return world


# --- SourceTruncated ----------------------------------------------------------------------------


@scene(
    ("SourceTruncated", None, "train"),
    exit=0,
    may="SliceIncomplete",
    each=["nodes", "placement_groups", "actors", "tasks"],
)
def truncated(part: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    rows = getattr(cluster, "groups" if part == "placement_groups" else part)
    cluster.envelope[part] = {"total": len(rows) + 200, "num_after_truncation": len(rows)}
    return world


@scene(("SourceTruncated", None, None), exit=0, statuses={S0: "unknown"}, never="SliceIncomplete")
def truncated_nodes_lack_hosts() -> World:
    """The missing rows may be the missing hosts: no judgement on them."""
    world, cluster, slices = fleet()
    for host in slices[0].hosts[2:]:
        cluster.nodes.remove(host.ray)
    cluster.envelope["nodes"] = {"total": 9, "num_after_truncation": 7}
    return world


@scene(("SourceTruncated", None, "kubernetes"), exit=0)
def kubernetes_first_page_only() -> World:
    world, _, _ = fleet()
    world.raw["kubernetes/pods.json"] = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "List",
            "metadata": {"continue": "abc", "remainingItemCount": 40},
            "items": world.pods,
        }
    )
    return world


@scene(("SourceTruncated", None, None), exit=0)
def partial_failure_warning() -> World:
    world, cluster, _ = fleet()
    cluster.envelope["tasks"] = {
        "partial_failure_warning": "Failed to query data from 1 raylet. The result is partial."
    }
    return world


# --- silent sources -----------------------------------------------------------------------------


@silent(each=["manifest", "events", "services", "slices", "cluster_status", "jobs"])
def optional_file_missing(name: str) -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    if name == "manifest":
        world.manifest = None
    elif name == "events":
        world.events = None
    elif name == "services":
        world.services = None
    elif name == "slices":
        world.slice_objects = []
    return world


@silent()
def head_restart_two_heads_alive() -> World:
    """The head came back ten seconds ago: two heads ALIVE, hosts still registering."""
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    new = dict(
        cluster.nodes[0],
        node_id=hexid("new-head"),
        node_ip="10.8.9.9",
        node_name="10.8.9.9",
        start_time_ms=int((NOW - 10) * 1000),
    )
    cluster.nodes.append(new)
    for host in slices[1].hosts[2:]:
        cluster.die(host, ago=5)
    return world


@silent(statuses={S0: "running"})
def head_restarted_an_hour_ago() -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    old = dict(
        cluster.nodes[0],
        node_id=hexid("old-head"),
        state="DEAD",
        end_time_ms=int((NOW - HOUR) * 1000),
    )
    cluster.nodes.append(old)
    cluster.nodes[0]["start_time_ms"] = int((NOW - HOUR) * 1000)
    return world


# --- frames -------------------------------------------------------------------------------------


def frames(*worlds: World, step: float = 15.0) -> list[World]:
    for index, world in enumerate(worlds):
        world.now = NOW - (len(worlds) - 1 - index) * step
    return list(worlds)


def with_dead_raylet(ago: float = 20 * MINUTE) -> World:
    world, cluster, slices = fleet()
    cluster.die(slices[0].hosts[1], ago=ago)
    return world


def healthy() -> World:
    return fleet()[0]


@silent(statuses={S0: "idle"})
def blip_in_the_middle_frame() -> list[World]:
    return frames(healthy(), healthy(), with_dead_raylet(20), healthy(), healthy())


@silent(never="SliceIncomplete")
def blip_in_the_last_frame() -> list[World]:
    return frames(healthy(), healthy(), healthy(), with_dead_raylet(3))


@scene(("SliceIncomplete", "RayletDead", "v6e-group-0"), statuses={S0: "incomplete"}, exit=0)
def persists_over_frames() -> list[World]:
    return frames(healthy(), with_dead_raylet(40), with_dead_raylet(40), with_dead_raylet(40))


@scene(("SliceIncomplete", "RayletDead", "v6e-group-0"), exit=0)
def a_good_blip_does_not_close_it() -> list[World]:
    return frames(with_dead_raylet(), with_dead_raylet(), healthy(), with_dead_raylet())


@silent(statuses={S0: "idle"})
def recovery_over_frames() -> list[World]:
    return frames(with_dead_raylet(), with_dead_raylet(), healthy(), healthy(), healthy())


@silent(may="SourceDown SourceStale", each=["middle", "last"])
def source_blip(where: str) -> list[World]:
    def down() -> World:
        world, cluster, _ = fleet()
        cluster.ray_up = False
        return world

    if where == "middle":
        return frames(healthy(), down(), healthy(), healthy())
    return frames(healthy(), healthy(), healthy(), down())


@scene(("SourceDown", None, "train"), may="SourceStale", exit=0, statuses={S0: "unknown"})
def source_down_for_frames() -> list[World]:
    def down() -> World:
        world, cluster, _ = fleet()
        cluster.ray_up = False
        return world

    return frames(healthy(), down(), down(), down(), down(), step=60.0)


@scene(("SourceDown", None, "kubernetes"), may="SourceStale", exit=0)
def kubernetes_down_for_frames() -> list[World]:
    def down() -> World:
        world, _, _ = fleet()
        world.kubernetes = False
        return world

    return frames(healthy(), down(), down(), down(), down(), step=60.0)


@scene(("GangStalled", None, "train"), exit=1)
def stalled_over_frames() -> list[World]:
    def idle() -> World:
        world, cluster, slices = fleet()
        cluster.gang("train", slices[0], duty=0.0)
        return world

    return frames(idle(), idle(), idle(), idle(), step=300.0)


@silent()
def stalled_for_one_frame_only() -> list[World]:
    def look(duty: float) -> World:
        world, cluster, slices = fleet()
        cluster.gang("train", slices[0], duty=duty)
        return world

    return frames(look(97.0), look(96.0), look(0.0), look(97.0), step=60.0)


@silent(may="GangStalled")
def stalled_since_two_minutes() -> list[World]:
    def look(duty: float) -> World:
        world, cluster, slices = fleet()
        cluster.gang("train", slices[0], duty=duty)
        return world

    return frames(look(97.0), look(96.0), look(0.0), look(0.0), look(0.0), step=60.0)


@scene(
    ("SchedulerLivelock", None, None),
    ("SliceIncomplete", None, "v6e-group-0"),
    may="PlacementPending PlacementHostLost GangMemberDead",
    exit=1,
)
def livelock_over_frames() -> list[World]:
    def look(lost: bool) -> World:
        world, cluster, slices = fleet()
        group = cluster.gang("train", slices[0])
        if lost:
            cluster.die(slices[0].hosts[2], ago=300)
            cluster.lose(group, slices[0].hosts[2].ray_id, livelock=True)
        return world

    return frames(look(False), look(True), look(True), look(True), step=60.0)


# --- several faults -----------------------------------------------------------------------------


@scene(
    ("SliceIncomplete", "PodCrashLooping", "v6e-group-0"),
    ("SliceSpansNodePools", None, "v6e-group-1"),
    exit=1,
    statuses={S0: "incomplete", S1: "broken"},
)
def crash_and_span() -> World:
    world, cluster, slices = fleet()
    crash(slices[0].hosts[1].pod)
    cluster.die(slices[0].hosts[1])
    for host in slices[1].hosts[2:]:
        host.node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] = "other"
    return world


@scene(
    ("PlacementSplit", None, "naive"),
    ("HeadReservationLeaked", None, "v6e-group-2"),
    may="PlacementSubset",
    exit=1,
)
def split_and_leak() -> World:
    world, cluster, slices = fleet(replicas=3)
    hold(cluster, "naive", slices[0].hosts[:2] + slices[1].hosts[:2])
    cluster.head_group(slices[2], age=HOUR)
    return world


@scene(
    ("SliceIncomplete", "NodeNotReady", "v6e-group-0"),
    ("GangIncomplete", None, "second"),
    may="GangMemberDead PlacementHostLost",
    exit=1,
)
def node_down_and_gang_incomplete() -> World:
    world, cluster, slices = fleet()
    group = cluster.gang("train", slices[0])
    node_down(slices[0].hosts[1])
    cluster.die(slices[0].hosts[1])
    cluster.lose(group, slices[0].hosts[1].ray_id)
    cluster.gang("second", slices[1], workers=2)
    return world


@scene(
    ("DuplicateWorkerId", None, "v6e-group-0"),
    ("HostMaintenance", None, "v6e-group-1"),
    may="HeadResourceMissing",
    exit=1,
)
def duplicate_and_maintenance() -> World:
    world, _, slices = fleet()
    host = slices[0].hosts[3]
    for item in host.pod["spec"]["containers"][0]["env"]:
        if item["name"] == "TPU_WORKER_ID":
            item["value"] = "1"
    host.ray["labels"]["ray.io/tpu-worker-id"] = "1"
    labels = slices[1].hosts[0].node["metadata"]["labels"]
    labels["cloud.google.com/active-node-maintenance"] = "ONGOING"
    return world


@scene(
    ("SliceIncomplete", "ScaleUpFailed", "v6e-group-1"),
    ("GangMemberDead", None, "train"),
    may="ScaleUpFailed GangIncomplete",
    exit=1,
)
def stockout_and_dead_member() -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    cluster.kill(cluster.actors[2])
    for host in slices[1].hosts:
        pending(host.pod)
        cluster.forget(host)
        world.event("FailedScaleUp", "Node scale up failed: GCE out of resources", host.pod)
    return world


@scene(
    ("PlacementPending", "Squatter", "wants"),
    ("ChipCountMismatch", None, None),
    may="PlacementSubset",
    exit=1,
)
def squatter_and_chip_count() -> World:
    world, cluster, slices = fleet()
    hold(cluster, "squat", slices[1].hosts[:2])
    cluster.head_group(slices[1], age=30 * MINUTE)
    wants(cluster, "wants", 4, selector={NAME: "v6e-group-1"})
    slices[0].hosts[2].node["status"]["allocatable"]["google.com/tpu"] = "3"
    return world


@scene(("SourceTruncated", None, "train"), ("SliceSpansNodePools", None, "v6e-group-0"), exit=1)
def truncated_tasks_and_span() -> World:
    world, cluster, slices = fleet()
    cluster.envelope["tasks"] = {"total": 12000, "num_after_truncation": 10000}
    for host in slices[0].hosts[2:]:
        host.node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] = "other"
    return world


@scene(
    ("RuntimeFault", "MegascaleHangDetected", "v6e-group-0"),
    ("SliceIncomplete", "RayletDead", "v6e-group-1"),
    exit=1,
)
def hang_and_dead_raylet() -> World:
    world, cluster, slices = fleet()
    cluster.gang("train", slices[0])
    slices[0].hosts[0].node["status"]["conditions"].append(
        {"type": "MegascaleHangDetected", "status": "True", "lastHeartbeatTime": ts(4)}
    )
    cluster.die(slices[1].hosts[2])
    return world


@scene(
    ("SourceDown", None, "other"), ("PlacementSplit", None, "naive"), may="PlacementSubset", exit=1
)
def one_cluster_down_other_split() -> World:
    world = World()
    first, second = world.cluster("ml"), world.cluster("ml", "other")
    slices = world.tpus(first)
    world.tpus(second, replicas=1)
    second.ray_up = False
    hold(first, "naive", slices[0].hosts[:2] + slices[1].hosts[:2])
    return world


@scene(("SliceIncomplete", "RayletDead", None), exit=0)
def kubernetes_whole_and_bare_shape() -> World:
    world, cluster, slices = bare("v5p", "2x2x4")
    cluster.die(slices[0].hosts[3])
    return world
