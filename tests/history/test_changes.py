"""Two reports in, changes out: what is news, and what must not look like any."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from diagnosis.finding import Report
from history.change import CHANGE_KINDS
from history.changes import changes, compare
from history.picture import FORGET_AFTER, picture_of
from tests import factories
from tests.history.watching import Watch, kinds, training
from tests.scenarios.world import World

BUSY = "v6e-16-group-0"
IDLE = "v6e-16-group-1"

Alter = Callable[[World], None]


def lose(world: World) -> None:
    world.lose_host(BUSY, 1, ago=3)


def heal(world: World) -> None:
    """The host that was lost comes back as a new Ray node, and the group is whole again."""
    node = world.host(BUSY, 1)
    new = {**node, "node_id": "ray-new", "state": "ALIVE", "end_time_ms": 0}
    new["start_time_ms"] = (world.now - 5) * 1000
    world.ray_nodes.append(new)
    for group in world.groups:
        if group["state"] == "RESCHEDULING":
            group["state"] = "CREATED"
            for bundle in group["bundles"]:
                bundle["node_id"] = bundle["node_id"] or "ray-new"


def new_group(world: World) -> None:
    world.gang("eval", IDLE, age=2)


def waiting_group(world: World) -> None:
    world.waiting("queued", age=1)


def end_gang(world: World) -> None:
    for group in world.groups:
        group["state"] = "REMOVED"
    for actor in world.actors:
        world.kill(actor, ago=1, cause="RAY_KILL")


def move_gang(world: World) -> None:
    """As after a preemption: the same group, all its bundles on the other slice."""
    for group in world.groups:
        for bundle in group["bundles"]:
            bundle["node_id"] = bundle["node_id"].replace(BUSY, IDLE)
            bundle["label_selector"] = {}


def scale_up(world: World) -> None:
    world.add(age=30)


def scale_down(world: World) -> None:
    for index in range(4):
        world.without_pod(f"{IDLE}-pod-{index}")
        world.die(f"ray-{IDLE}-{index}", ago=1)
    world.spec("v6e-16-group")["replicas"] = 1


def restart_head(world: World) -> None:
    world.ray_node("ray-head")["start_time_ms"] = (world.now - 45) * 1000


def ray_down(world: World) -> None:
    world.ray = False


def suspend(world: World) -> None:
    world.pods, world.ray = [], False
    world.groups, world.actors, world.tasks = [], [], []
    world.ray_clusters[0]["spec"]["suspend"] = True
    world.ray_source["status"] = "suspended"


def delete_cluster(world: World) -> None:
    world.pods, world.ray_nodes, world.groups, world.actors = [], [], [], []
    world.tasks, world.ray_clusters = [], []


TABLE: list[tuple[str, Alter, set[str], set[str]]] = [
    # what happens, how, what must be told, what must not
    ("nothing", lambda world: None, set(), set(CHANGE_KINDS)),
    ("a host is lost", lose, {"slice_status", "hosts_changed", "group_state"}, {"slice_gone"}),
    ("a gang begins", new_group, {"group_created", "slice_status"}, {"group_state"}),
    ("a group queues", waiting_group, {"group_created"}, {"slice_status"}),
    ("a gang ends", end_gang, {"group_removed", "slice_status"}, {"slice_gone", "group_state"}),
    ("a gang moves", move_gang, {"group_moved"}, {"group_created", "group_removed"}),
    ("a slice comes", scale_up, {"slice_appeared"}, {"hosts_changed", "cluster_appeared"}),
    ("a slice goes", scale_down, {"slice_gone"}, {"group_removed"}),
    ("the head restarts", restart_head, {"head_restarted"}, {"slice_gone", "group_removed"}),
    (
        "Ray goes down",
        ray_down,
        {"source_state", "sight_lost"},
        {"group_removed", "slice_gone", "slice_status", "hosts_changed", "finding_closed"},
    ),
    ("it is suspended", suspend, {"source_state", "slice_gone", "group_removed"}, {"sight_lost"}),
]


@pytest.mark.parametrize(
    ("alter", "must", "must_not"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_what_is_told(alter: Alter, must: set[str], must_not: set[str]) -> None:
    watch = Watch()
    training(watch)
    watch.report()
    before = watch.report()
    alter(watch.world)
    after = watch.report()
    told = kinds(changes(before, after))
    assert must <= set(told), told
    assert not must_not & set(told), told


@pytest.mark.parametrize(
    "part", ["ray:nodes", "ray:placement_groups", "ray:actors", "kubernetes:pods"]
)
def test_a_part_that_is_not_answered_takes_nothing_away(part: str) -> None:
    watch = Watch()
    training(watch)
    watch.report()
    seen = picture_of(watch.report())
    watch.world.drop = {part}
    hidden = picture_of(watch.report(), seen)
    told = kinds(compare(seen, hidden))
    gone = {"group_removed", "slice_gone", "cluster_gone", "hosts_changed", "slice_status"}
    assert not gone & set(told), told
    watch.world.drop = set()
    watch.report()
    back = kinds(compare(hidden, picture_of(watch.report(), hidden)))
    assert set(back) <= {"sight_back", "source_state", "finding_closed", "finding_opened"}, back


def test_both_sides_down_and_back_tell_of_the_sources_alone() -> None:
    watch = Watch()
    training(watch)
    watch.report()
    seen = picture_of(watch.report())
    world = watch.world
    world.drop = {
        "kubernetes:pods", "kubernetes:nodes", "kubernetes:events", "kubernetes:ray_clusters"
    }  # fmt: skip
    world.ray = False
    dark = picture_of(watch.report(), seen)
    assert set(kinds(compare(seen, dark))) <= {"source_state", "sight_lost", "finding_opened"}
    assert seen.slices.keys() == dark.slices.keys()
    world.drop, world.ray = set(), True
    light = picture_of(watch.report(), dark)
    assert set(kinds(compare(dark, light))) <= {"source_state", "sight_back", "finding_closed"}


def test_what_happened_while_nobody_could_see_is_told_afterwards() -> None:
    watch = Watch()
    training(watch)
    watch.report()
    seen = picture_of(watch.report())
    watch.world.ray = False
    dark = picture_of(watch.report(), seen)
    end_gang(watch.world)
    watch.world.ray = True
    told = kinds(compare(dark, picture_of(watch.report(), dark)))
    assert "group_removed" in told
    assert "group_created" not in told


def test_a_head_that_lost_its_groups_tells_so_once_it_has_settled() -> None:
    watch = Watch()
    training(watch)
    watch.report()
    seen = picture_of(watch.report())
    watch.world.ray_node("ray-head")["start_time_ms"] = (watch.world.now + 5) * 1000
    end_gang(watch.world)
    young = picture_of(watch.report(), seen)
    told = kinds(compare(seen, young))
    assert told.count("head_restarted") == 1
    assert "group_removed" not in told
    settled = picture_of(watch.report(60), young)
    told = kinds(compare(young, settled))
    assert told.count("group_removed") == 2
    assert "head_restarted" not in told


def test_two_heads_for_a_while_are_one_restart() -> None:
    watch = Watch()
    training(watch)
    before = picture_of(watch.report())
    old = watch.world.ray_node("ray-head")
    new = {**old, "node_id": "ray-head-2", "start_time_ms": (watch.world.now + 2) * 1000}
    watch.world.ray_nodes.append(new)
    both = picture_of(watch.report(), before)
    watch.world.without_ray_node("ray-head")
    one = picture_of(watch.report(), both)
    watch.world.ray_nodes.append(old)  # and the old one shows up again for a poll
    again = picture_of(watch.report(), one)
    told = [*compare(before, both), *compare(both, one), *compare(one, again)]
    assert kinds(told).count("head_restarted") == 1


def test_a_deleted_cluster_is_gone_with_all_that_it_had() -> None:
    watch = Watch()
    training(watch)
    watch.report()
    before = watch.report()
    delete_cluster(watch.world)
    observation = watch.world.observation()
    after = watch.snapshot(msgspec.structs.replace(observation, ray=())).report
    told = kinds(changes(before, after))
    assert told.count("cluster_gone") == 1
    assert told.count("slice_gone") == 2
    assert told.count("group_removed") == 2


def test_a_cluster_that_comes_is_one_line() -> None:
    watch = Watch()
    training(watch)
    whole = watch.report()
    watch = Watch(world=watch.world)
    observation = watch.world.observation()
    assert observation.kubernetes is not None
    empty = msgspec.structs.replace(observation.kubernetes, pods=(), ray_clusters=())
    nothing = watch.snapshot(
        msgspec.structs.replace(observation, kubernetes=empty, ray=(), now=observation.now - 20)
    ).report
    assert kinds(changes(nothing, whole)) == ["cluster_appeared"]


def test_what_stays_hidden_for_a_day_is_forgotten_without_a_word() -> None:
    watch = Watch()
    training(watch)
    picture = picture_of(watch.report())
    watch.world.drop = {"ray:placement_groups"}
    told: list[str] = []
    for _ in range(4):
        later = picture_of(watch.report(FORGET_AFTER / 3), picture)
        told += kinds(compare(picture, later))
        picture = later
    assert not picture.groups
    assert "group_removed" not in told


def test_after_a_long_stop_what_is_gone_is_told_as_gone() -> None:
    watch = Watch()
    training(watch)
    before = picture_of(watch.report())
    end_gang(watch.world)
    told = kinds(compare(before, picture_of(watch.report(3 * FORGET_AFTER), before)))
    assert told.count("group_removed") == 2
    assert told.count("watch_resumed") == 1


def test_the_first_look_calls_nothing_new() -> None:
    watch = Watch()
    training(watch)
    lose(watch.world)
    report = watch.report()
    assert report.findings
    told = changes(None, report)
    assert kinds(told) == ["watch_began"] + ["finding_opened"] * len(report.findings)


def test_a_lost_host_from_beginning_to_end() -> None:
    watch = Watch()
    name = training(watch)
    watch.report()
    picture = picture_of(watch.report())
    told = []
    for alter in (lose, None, None, heal, None, None):
        if alter is not None:
            alter(watch.world)
        later = picture_of(watch.report(), picture)
        told += compare(picture, later)
        picture = later
    by_kind = {change.kind: change for change in told}
    opened, closed = (change for change in told if change.code == "SliceIncomplete")
    assert (opened.kind, closed.kind) == ("finding_opened", "finding_closed")
    assert (opened.subject.name, opened.severity) == (name, "critical")
    assert opened.happened_at is not None
    assert opened.happened_at < opened.at < closed.at
    moved = by_kind["group_moved"]
    assert f"{name} worker 1" in moved.text
    assert moved.related
    hosts = [change.text for change in told if change.kind == "hosts_changed"]
    assert len(hosts) == 2
    assert "worker 1 went from ready to not_ready (RayletDead)" in hosts[0]
    states = [(change.before, change.after) for change in told if change.kind == "group_state"]
    assert states == [("CREATED", "RESCHEDULING"), ("RESCHEDULING", "CREATED")]
    assert len({change.key for change in told}) == len(told)


def test_a_finding_that_becomes_worse_is_a_change() -> None:
    before = factories.broken().report
    worse = [
        msgspec.structs.replace(item, severity="critical", cause="Squatter")
        if item.code == "PlacementPending"
        else item
        for item in before.findings
    ]
    after = msgspec.structs.replace(before, findings=tuple(worse))
    (change,) = changes(before, after)
    assert change.kind == "finding_changed"
    assert (change.before, change.after) == ("warning/AllSlicesBusy", "critical/Squatter")


def test_a_finding_whose_rule_is_blind_stays_open() -> None:
    """After a start without memory the engine does not know of it; the picture does."""
    before = factories.broken().report
    after = msgspec.structs.replace(
        before,
        findings=(),
        unknowns=tuple(
            factories.Unknown(code=item.code, subject=item.subject, reason="cannot be seen")
            for item in before.findings
        ),
    )
    assert "finding_closed" not in kinds(changes(before, after))
    closed = changes(before, msgspec.structs.replace(after, unknowns=()))
    assert kinds(closed) == ["finding_closed"] * len(before.findings)


@pytest.mark.parametrize("make", [factories.healthy, factories.broken, factories.hostile])
def test_any_report_compares_with_any_other(make: Callable[[], factories.Snapshot]) -> None:
    report: Report = make().report
    assert changes(report, report) == ()
    for other in (factories.healthy(), factories.empty(), factories.hostile()):
        for change in (*changes(report, other.report), *changes(other.report, report)):
            assert change.kind in CHANGE_KINDS
            assert change.text
            assert len(change.key) == 32


def test_the_same_change_has_the_same_key_whoever_writes_it() -> None:
    watch = Watch()
    training(watch)
    watch.report()
    before = watch.report()
    new_group(watch.world)
    first = [c for c in changes(before, watch.report()) if c.kind == "group_created"]
    later = [c for c in changes(before, watch.report(3)) if c.kind == "group_created"]
    assert [c.key for c in first] == [c.key for c in later]
