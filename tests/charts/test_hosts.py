"""What a tile says about its host."""

from __future__ import annotations

import msgspec
import pytest

from charts.hosts import Holders, hover, plan, state_of
from fleet.model import Fleet, Slice
from fleet.observation import Node, ObjectMeta, RayNode
from tests.charts.builders import fleet_of, made
from tests.factories import HOSTILE


def test_states_of_hosts() -> None:
    part = made("v6e", "4x4", missing=(1,), dead=(2,))
    tiles = plan(part[0], "incomplete", fleet=fleet_of(part)).tiles
    assert [tile.state for tile in tiles] == ["running", "incomplete", "broken", "running"]
    idle = made("v6e", "4x4", hold=False)
    assert {tile.state for tile in plan(idle[0], "idle", fleet=fleet_of(idle)).tiles} == {"idle"}
    held = made("v6e", "4x4", workers=False)
    assert {t.state for t in plan(held[0], "reserved", fleet=fleet_of(held)).tiles} == {"reserved"}
    young = made("v6e", "4x4", missing=(1,), forming=True)
    assert plan(young[0], "forming", fleet=fleet_of(young)).tiles[1].state == "forming"


def test_nothing_is_well_that_cannot_be_seen() -> None:
    part = made("v6e", "4x4", blind=("ray:ml/train",), missing=(3,))
    tiles = plan(part[0], "unknown", fleet=fleet_of(part)).tiles
    assert {tile.state for tile in tiles} == {"unknown"}
    free = msgspec.structs.replace(made("v6e", "4x4", hold=False)[0], holding="unknown")
    assert state_of(free.hosts[0], free, "shared", False, 0) == "unknown"


def test_two_groups_on_one_host_are_shared() -> None:
    part = made("v6e", "4x4", only=(0,), groups=2)
    view = plan(part[0], "shared", fleet=fleet_of(part)).tiles[0]
    assert view.state == "shared"
    assert len(view.groups) == 2
    assert view.rank == 0


def test_a_head_reservation_holds_no_host() -> None:
    _, groups, _ = made("v6e", "4x4", only=(0,))
    bundle = msgspec.structs.replace(
        groups[0].bundles[0], chips=0.0, head_resource="TPU-v6e-16-head"
    )
    head = msgspec.structs.replace(groups[0], bundles=(bundle,))
    assert not Holders.of(Fleet(now=0.0, placement_groups=(head,))).groups


def test_hosts_without_a_place_are_kept_apart() -> None:
    slice_, _, _ = made("v6e", "4x4")
    twin = msgspec.structs.replace(slice_.hosts[0], key="twin", duplicate=True)
    lost = msgspec.structs.replace(slice_.hosts[0], key="lost", worker_id=None, coordinates=None)
    far = msgspec.structs.replace(slice_.hosts[0], key="far", coordinates=(9, 9, 9))
    crowd = msgspec.structs.replace(slice_, hosts=(*slice_.hosts, twin, lost, far))
    layout = plan(crowd, "broken")
    assert [view.host.key for view in layout.spare if view.host] == ["twin", "lost", "far"]
    assert [view.index for view in layout.tiles] == [0, 1, 2, 3]


def test_places_without_a_host_are_shown_as_missing() -> None:
    slice_, _, _ = made("v6e", "4x4")
    half = msgspec.structs.replace(slice_, hosts=slice_.hosts[:2])
    assert [view.state for view in plan(half, "incomplete").tiles[2:]] == ["incomplete"] * 2
    assert [view.state for view in plan(half, "unknown").tiles[2:]] == ["unknown"] * 2


@pytest.mark.parametrize("count", [0, 1, 3, 7])
def test_without_a_topology_hosts_stand_in_order(count: int) -> None:
    slice_, _, _ = made("v6e", "8x8")
    bare = msgspec.structs.replace(slice_, topology=None, hosts=slice_.hosts[:count])
    layout = plan(bare, "unknown")
    assert len({view.place for view in layout.tiles}) == len(layout.tiles) == count
    assert "not known" in layout.words


def words(slice_: Slice) -> str:
    return plan(slice_, "running").words


def test_the_layout_is_said_in_words() -> None:
    slice_, _, _ = made("v6e", "8x8")
    assert "assumed" in words(slice_)
    some = [
        msgspec.structs.replace(host, layout="measured" if at < 3 else "assumed")
        for at, host in enumerate(slice_.hosts)
    ]
    assert "3 of 16 places" in words(msgspec.structs.replace(slice_, hosts=tuple(some)))
    every = tuple(msgspec.structs.replace(host, layout="measured") for host in slice_.hosts)
    assert "Layout measured" in words(msgspec.structs.replace(slice_, hosts=every))


def test_block_ids_confirm_or_contradict_the_assumed_layout() -> None:
    slice_, _, _ = made("v6e", "8x8")
    key = "cloud.google.com/gke-tpu-slice-4x4-id"

    def with_blocks(near: bool) -> Slice:
        hosts = []
        for at, host in enumerate(slice_.hosts):
            x, y, _ = host.coordinates or (0, 0, 0)
            block = f"{x // 2}-{y // 2}" if near else f"{at % 4}"
            node = Node(metadata=ObjectMeta(name=host.node_name, labels={key: block}))
            ray = RayNode(labels={"ray.io/tpu-worker-id": str(at)})
            hosts.append(msgspec.structs.replace(host, node=node, ray_node=ray))
        return msgspec.structs.replace(slice_, hosts=tuple(hosts))

    assert "do not contradict" in words(with_blocks(near=True))
    assert "assumed from worker ids, and wrong" in words(with_blocks(near=False))


def test_hover_knows_everything_and_escapes_it() -> None:
    slice_, groups, use = made("v6e", "4x4", dead=(1,), group_name=HOSTILE)
    bad = msgspec.structs.replace(
        slice_.hosts[1], pod_name=HOSTILE, node_name=HOSTILE, problem_detail=HOSTILE, gone_since=0.0
    )
    slice_ = msgspec.structs.replace(slice_, hosts=(slice_.hosts[0], bad, *slice_.hosts[2:]))
    fleet = fleet_of((slice_, groups, use))
    layout = plan(slice_, "incomplete", fleet=fleet)
    text = hover(layout.tiles[0], layout, fleet)
    told = "worker 0|at work|assumed|pod v6e-group-0|node gke-|pool-v6e|chips 4|bundle 0"
    told += "|Trainer ALIVE|duty cycle 0 %|GiB|1 h 00 min"
    for part in told.split("|"):
        assert part in text
    text = hover(layout.tiles[1], layout, fleet)
    assert "RayletDead" in text
    assert "<script" not in text
    assert "$" not in text
    assert not set("\x1b\x00‮") & set(text)
