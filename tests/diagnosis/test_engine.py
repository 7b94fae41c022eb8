"""How findings open, stay and close over several looks; hold-off; folding; statuses' times."""

from __future__ import annotations

import msgspec
import pytest

from diagnosis.engine import judge, raw_hits, replay
from diagnosis.finding import Report
from diagnosis.folding import CAUSED_BY, fold
from diagnosis.memory import Memory
from diagnosis.rules.base import Links, hit, slice_subject
from diagnosis.thresholds import Thresholds
from fleet.mapping import build_fleet
from fleet.model import Fleet
from tests.scenarios.world import HOUR, World


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


class Looks:
    """A live service: looks ten seconds apart, with a memory."""

    def __init__(self) -> None:
        self.memory = Memory()
        self.now = World().now
        self.report: Report | None = None

    def see(self, world: World, seconds: float = 10.0) -> Report:
        self.now += seconds
        shift = self.now - world.now
        fleet = world.fleet()
        fleet = msgspec.structs.replace(fleet, now=fleet.now + shift)
        self.report, self.memory = judge(fleet, self.memory)
        return self.report


def healthy() -> World:
    world = World()
    world.gang("train", world.add())
    return world


def without_a_row() -> World:
    """A host of which Ray gives no row: nothing dates it."""
    world = World()
    name = world.add()
    world.without_ray_node(f"ray-{name}-2")
    return world


def idle() -> World:
    world = World()
    world.add()
    return world


class TestOpeningAndClosing:
    def test_the_first_look_ever_opens_at_once(self) -> None:
        assert codes(Looks().see(without_a_row())) == {"SliceIncomplete"}

    def test_two_looks_in_a_row_open(self) -> None:
        looks = Looks()
        looks.see(idle())
        first = looks.see(without_a_row())
        assert not first.findings
        assert [item.code for item in first.unconfirmed] == ["SliceIncomplete"]
        second = looks.see(without_a_row())
        assert codes(second) == {"SliceIncomplete"}
        assert not second.unconfirmed

    def test_a_blip_opens_nothing_and_closes_nothing(self) -> None:
        looks = Looks()
        looks.see(idle())
        looks.see(without_a_row())
        assert not looks.see(idle()).findings
        assert not looks.see(without_a_row()).findings
        opened = looks.see(without_a_row())
        assert codes(opened) == {"SliceIncomplete"}
        assert codes(looks.see(idle())) == {"SliceIncomplete"}
        assert codes(looks.see(without_a_row())) == {"SliceIncomplete"}

    def test_two_looks_without_it_close(self) -> None:
        looks = Looks()
        looks.see(without_a_row())
        assert codes(looks.see(idle())) == {"SliceIncomplete"}
        assert not looks.see(idle()).findings

    def test_what_the_apis_date_opens_at_once(self) -> None:
        looks = Looks()
        looks.see(idle())
        world = idle()
        world.die("ray-v6e-16-group-0-1", ago=60)
        assert codes(looks.see(world)) == {"SliceIncomplete"}

    def test_a_death_younger_than_a_blip_waits_for_a_second_look(self) -> None:
        looks = Looks()
        looks.see(idle())
        world = idle()
        world.die("ray-v6e-16-group-0-1", ago=-20)
        assert not looks.see(world).findings
        assert codes(looks.see(world)) == {"SliceIncomplete"}

    def test_since_is_the_first_look_where_nothing_dates_it(self) -> None:
        looks = Looks()
        looks.see(idle())
        world = idle()
        world.host("v6e-16-group-0", 0)["resources_total"].pop("TPU-v6e-16-head")
        first = looks.see(world).unconfirmed[0]
        assert first.code == "HeadResourceMissing"
        later = looks.see(world).findings[0]
        assert later.since == first.since

    def test_a_finding_ends_when_its_cluster_goes_away(self) -> None:
        looks = Looks()
        looks.see(without_a_row())
        gone = Fleet(now=looks.now + 10)
        for _ in range(2):
            report, looks.memory = judge(gone, looks.memory)
        assert not report.findings


class TestBlindness:
    def test_an_open_finding_stays_while_its_source_is_down_and_says_so(self) -> None:
        looks = Looks()
        world = healthy()
        world.kill(world.actors[1], ago=300, cause="WORKER_DIED")
        assert codes(looks.see(world)) == {"GangMemberDead"}
        down = World(ray=False)
        down.add()
        for _ in range(5):
            report = looks.see(down)
        assert codes(report) == {"GangMemberDead", "SourceDown"}
        kept = next(item for item in report.findings if item.code == "GangMemberDead")
        assert kept.evidence[0].field == "last seen"
        assert "cannot be judged" in kept.evidence[0].value
        assert sum(item.field == "last seen" for item in kept.evidence) == 1
        looks.see(healthy())
        assert not looks.see(healthy()).findings

    def test_nothing_new_opens_on_rays_side_after_a_head_restart(self) -> None:
        world = healthy()
        world.kill(world.actors[1], ago=300, cause="WORKER_DIED")
        world.ray_nodes[0]["start_time_ms"] = (world.now - 5) * 1000
        report, _ = judge(world.fleet())
        assert not report.findings
        assert "GangMemberDead" in {item.code for item in report.unknowns}

    def test_kubernetes_side_is_judged_all_the_same(self) -> None:
        world = World()
        name = world.add()
        world.ray_nodes[0]["start_time_ms"] = (world.now - 5) * 1000
        world.nodes.remove(world.node_of(name, 1))
        world.not_ready(f"{name}-pod-1")
        assert codes(judge(world.fleet())[0]) == {"SliceIncomplete"}

    def test_two_heads_hold_off_for_two_minutes_at_most(self) -> None:
        def two_heads(age: float) -> World:
            world = healthy()
            world.kill(world.actors[1], ago=300, cause="WORKER_DIED")
            world.ray_nodes.append(
                {
                    **world.ray_nodes[0],
                    "node_id": "head-2",
                    "start_time_ms": (world.now - age) * 1000,
                }
            )
            return world

        assert not judge(two_heads(60).fleet())[0].findings
        assert codes(judge(two_heads(600).fleet())[0]) == {"GangMemberDead"}

    @pytest.mark.parametrize("part", ["nodes", "placement_groups", "actors", "tasks"])
    def test_no_slice_is_free_or_running_on_missing_data(self, part: str) -> None:
        world = World()
        world.add()
        world.drop.add(f"ray:{part}")
        report, _ = judge(world.fleet())
        assert set(report.statuses.values()) <= {"unknown"}


class TestLivelockOverLooks:
    def spinning(self, attempts: int) -> World:
        world = World()
        world.add()
        world.waiting("spins", selector={"ray.io/tpu-slice-name": "v6e-16-group-0"}, age=800)
        world.groups[-1]["stats"]["scheduling_attempt"] = attempts
        return world

    def test_a_counter_that_crawls_is_no_livelock(self) -> None:
        looks = Looks()
        assert "SchedulerLivelock" in codes(looks.see(self.spinning(5_000_000)))
        looks.see(self.spinning(5_000_010))
        assert "SchedulerLivelock" not in codes(looks.see(self.spinning(5_000_020)))

    def test_the_same_snapshot_twice_ends_no_livelock(self) -> None:
        looks = Looks()
        for _ in range(3):
            assert "SchedulerLivelock" in codes(looks.see(self.spinning(5_000_000)))

    def test_a_counter_that_races_is_one_however_long_the_wait(self) -> None:
        looks = Looks()
        looks.see(idle())
        report = looks.see(self.spinning(2_000))
        assert "SchedulerLivelock" not in codes(report)
        looks.see(self.spinning(900_000))
        assert "SchedulerLivelock" in codes(looks.see(self.spinning(1_800_000)))


class TestTwoClusters:
    def test_equal_names_in_two_clusters_stay_apart(self) -> None:
        first, second = World(), World(cluster="other")
        for world in (first, second):
            world.add()
        second.services = []
        second.die("ray-v6e-16-group-0-1", ago=300)
        one, two = first.observation(), second.observation()
        assert one.kubernetes is not None
        assert two.kubernetes is not None
        for pod, ray in zip(second.pods, second.ray_nodes[1:], strict=True):
            pod["metadata"]["name"] = "other-" + pod["metadata"]["name"]
            pod["spec"]["containers"][0]["env"][0]["value"] = pod["metadata"]["name"]
            ray["node_id"] = "other-" + ray["node_id"]
        two = second.observation()
        assert two.kubernetes is not None
        both = msgspec.structs.replace(
            one,
            kubernetes=msgspec.structs.replace(
                one.kubernetes,
                pods=(one.kubernetes.pods or ()) + (two.kubernetes.pods or ()),
                nodes=one.kubernetes.nodes,
                ray_clusters=(one.kubernetes.ray_clusters or ())
                + (two.kubernetes.ray_clusters or ()),
                services=(one.kubernetes.services or ())
                + tuple(
                    msgspec.structs.replace(
                        item,
                        metadata=msgspec.structs.replace(
                            item.metadata, name=(item.metadata.name or "").replace("train", "other")
                        ),
                    )
                    for item in one.kubernetes.services or ()
                    if item.metadata is not None
                ),
            ),
            ray=(*one.ray, *two.ray),
        )
        report, _ = judge(build_fleet(both))
        found = [finding for finding in report.findings if finding.code == "SliceIncomplete"]
        assert [finding.subject.id for finding in found] == ["ml/other/v6e-16-group-0"]
        assert report.statuses["ml/train/v6e-16-group-0"] == "idle"


class TestFolding:
    def test_no_chain_of_causes_is_a_circle_that_swallows_itself(self) -> None:
        world = World()
        name = world.add()
        item = world.fleet().slices[0]
        hits = [
            hit(
                code,
                slice_subject(item),
                code,
                severity="warning",
                links=Links(
                    cluster="ml/train",
                    slices=(item.id,),
                    groups=("g",),
                    worker_groups=("w",),
                    hosts=("h",),
                ),
            )
            for code in sorted(CAUSED_BY)
        ]
        assert name
        assert fold(hits)
        assert fold(list(reversed(hits)))

    def test_the_worst_severity_survives(self) -> None:
        world = World(kubernetes=False)
        first = world.add()
        world.group("loose", [f"ray-{first}-0", f"ray-{first}-1"], age=HOUR)
        world.lose_host(first, 1, ago=120)
        report, _ = judge(world.fleet())
        assert [(item.code, item.severity) for item in report.findings] == [
            ("SliceIncomplete", "critical")
        ]

    def test_what_touches_something_else_stays(self) -> None:
        world = World()
        hurt, fine = world.add(), world.add()
        world.gang("a", hurt)
        identity = world.gang("b", fine)
        world.lose_host(hurt, 1)
        world.kill(world.actors_of(identity)[0], ago=400, cause="WORKER_DIED")
        report, _ = judge(world.fleet())
        assert sorted(item.code for item in report.findings) == [
            "GangMemberDead",
            "SliceIncomplete",
        ]


class TestReport:
    def test_worst_first_then_newest(self) -> None:
        world = World()
        names = [world.add() for _ in range(3)]
        world.die(f"ray-{names[0]}-1", ago=4000)
        world.die(f"ray-{names[1]}-1", ago=400)
        world.gang("train", names[2])
        world.kill(world.actors[0], ago=3000, cause="WORKER_DIED")
        report, _ = judge(world.fleet())
        order = [(item.severity, item.subject.name) for item in report.findings]
        assert order == [("critical", "train"), ("warning", names[1]), ("warning", names[0])]

    def test_status_since_is_kept_while_the_status_lasts(self) -> None:
        looks = Looks()
        first = looks.see(idle()).status_since["ml/train/v6e-16-group-0"]
        again = looks.see(idle()).status_since["ml/train/v6e-16-group-0"]
        assert first == again
        running = looks.see(healthy())
        assert running.status_since["ml/train/v6e-16-group-0"] == looks.now

    def test_replay_of_no_frames_is_an_error(self) -> None:
        with pytest.raises(ValueError, match="no frames"):
            replay([])

    def test_a_blip_in_the_first_of_several_frames_does_not_open(self) -> None:
        worlds = [without_a_row(), idle()]
        fleets = []
        for place, world in enumerate(worlds):
            fleet = world.fleet()
            fleets.append(msgspec.structs.replace(fleet, now=fleet.now + 10 * place))
        assert not replay(fleets).findings

    def test_thresholds_are_settings(self) -> None:
        world = World()
        world.add()
        world.head_group(None, age=90)
        world.gang("train", "v6e-16-group-0")
        assert not judge(world.fleet())[0].findings
        soon = Thresholds(placement_pending=60.0)
        assert codes(judge(world.fleet(), None, soon)[0]) == {"PlacementPending"}

    def test_raw_hits_are_what_is_there_before_folding(self) -> None:
        world = World()
        name = world.add()
        world.gang("train", name)
        world.lose_host(name, 1)
        assert {item.code for item in raw_hits(world.fleet())} == {
            "SliceIncomplete",
            "PlacementHostLost",
            "GangMemberDead",
        }
