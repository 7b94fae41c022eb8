"""Hosts of a slice: which work, which do not and why, which are missing; forming or lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fleet.model import Host, Slice
from tests.fleet.scene import HOUR, NOW, Scene


def only_slice(scene: Scene) -> Slice:
    slices = scene.fleet().slices
    assert len(slices) == 1, [item.id for item in slices]
    return slices[0]


def host(item: Slice, worker_id: int) -> Host:
    return next(entry for entry in item.hosts if entry.worker_id == worker_id)


@pytest.mark.parametrize("regime", ["kuberay", "legacy"])
def test_a_whole_slice_is_joined_from_both_sides(regime: str) -> None:
    scene = Scene()
    scene.slice(regime=regime)
    item = only_slice(scene)
    assert item.id == "ml/train/v6e-group-0"
    assert (item.generation, item.topology_name) == ("v6e", "4x4")
    assert (item.hosts_expected, item.chips_expected, item.hosts_alive) == (4, 16, 4)
    assert item.whole
    assert not item.forming
    assert item.blind == ()
    assert item.seen_by == ("kubernetes", "ray")
    assert item.node_pools == ("pool-v6e-group-0",)
    assert [entry.worker_id for entry in item.hosts] == [0, 1, 2, 3]
    assert [entry.coordinates for entry in item.hosts] == [
        (0, 0, 0),
        (1, 0, 0),
        (0, 1, 0),
        (1, 1, 0),
    ]
    assert all(entry.layout == "assumed" for entry in item.hosts)
    assert [entry.ray_node_id for entry in item.hosts] == [f"ray-v6e-group-0-{n}" for n in range(4)]
    assert [entry.offers_head for entry in item.hosts] == [True, False, False, False]


def test_either_side_alone_gives_the_slice() -> None:
    both = Scene()
    both.slice()
    ray_only = Scene(kubernetes=False)
    ray_only.slice()
    item = only_slice(ray_only)
    assert item.id == "-/default/v6e-group-0"
    assert item.whole
    assert item.blind == ()
    assert item.seen_by == ("ray",)
    kubernetes_only = Scene(ray=False)
    kubernetes_only.slice()
    item = only_slice(kubernetes_only)
    assert item.id == "ml/train/v6e-group-0"
    assert item.hosts_alive == 4
    assert item.blind, "nobody can say who holds it"


def _pending(scene: Scene) -> None:
    scene.pending("v6e-group-0-pod-2")
    scene.without_ray_node("ray-v6e-group-0-2")


def _stockout(scene: Scene) -> None:
    _pending(scene)
    scene.events.append(
        {
            "reason": "FailedScaleUp",
            "message": "GCE out of resources",
            "lastTimestamp": "2027-01-15T07:50:00Z",
            "involvedObject": {"kind": "Pod", "name": "v6e-group-0-pod-2", "namespace": "ml"},
        }
    )


def _stockout_over(scene: Scene) -> None:
    _stockout(scene)
    scene.events.append(
        {
            "reason": "TriggeredScaleUp",
            "message": "pod triggered scale-up",
            "lastTimestamp": "2027-01-15T07:59:00Z",
            "involvedObject": {"kind": "Pod", "name": "v6e-group-0-pod-2", "namespace": "ml"},
        }
    )


def _crash_loop(scene: Scene) -> None:
    scene.not_ready("v6e-group-0-pod-2")
    scene.pod("v6e-group-0-pod-2")["status"]["containerStatuses"] = [
        {
            "name": "ray-worker",
            "ready": False,
            "restartCount": 7,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
        }
    ]
    scene.without_ray_node("ray-v6e-group-0-2")


def _image(scene: Scene) -> None:
    scene.not_ready("v6e-group-0-pod-2")
    pod = scene.pod("v6e-group-0-pod-2")
    pod["status"]["phase"] = "Pending"
    pod["status"]["containerStatuses"] = [
        {"name": "ray-worker", "ready": False, "state": {"waiting": {"reason": "ErrImagePull"}}}
    ]
    scene.without_ray_node("ray-v6e-group-0-2")


def _failed(scene: Scene) -> None:
    scene.pod("v6e-group-0-pod-2")["status"] = {
        "phase": "Failed",
        "reason": "UnexpectedAdmissionError",
        "message": "invalid TPU chip count request",
    }
    scene.without_ray_node("ray-v6e-group-0-2")


def _not_ready(scene: Scene) -> None:
    scene.not_ready("v6e-group-0-pod-2")


def _node_not_ready(scene: Scene) -> None:
    scene.not_ready("v6e-group-0-pod-2")
    scene.node("node-v6e-group-0-pod-2")["status"]["conditions"][0].update(
        status="Unknown", reason="NodeStatusUnknown"
    )


def _node_gone(scene: Scene) -> None:
    scene.nodes = [n for n in scene.nodes if n["metadata"]["name"] != "node-v6e-group-0-pod-2"]


def _raylet_dead(scene: Scene) -> None:
    scene.die("ray-v6e-group-0-2", ago=120)


def _raylet_dead_by_oom(scene: Scene) -> None:
    _raylet_dead(scene)
    scene.not_ready("v6e-group-0-pod-2")
    scene.pod("v6e-group-0-pod-2")["status"]["containerStatuses"] = [
        {
            "name": "ray-worker",
            "ready": False,
            "state": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
        }
    ]


def _never_joined(scene: Scene) -> None:
    scene.without_ray_node("ray-v6e-group-0-2")


def _no_pod(scene: Scene) -> None:
    scene.without_pod("v6e-group-0-pod-2")
    scene.without_ray_node("ray-v6e-group-0-2")


def _pod_deleted_ray_not_told(scene: Scene) -> None:
    scene.without_pod("v6e-group-0-pod-2")


def _being_deleted(scene: Scene) -> None:
    scene.pod("v6e-group-0-pod-2")["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:00Z"


@pytest.mark.parametrize(
    ("breaks", "problem", "state", "says"),
    [
        (_pending, "PodUnschedulable", "not_ready", "0/3 nodes"),
        (_stockout, "ScaleUpFailed", "not_ready", "GCE out of resources"),
        (_stockout_over, "PodUnschedulable", "not_ready", "0/3 nodes"),
        (_crash_loop, "PodCrashLooping", "not_ready", "7 restarts"),
        (_image, "PodNotReady", "not_ready", "ErrImagePull"),
        (_failed, "PodFailed", "not_ready", "UnexpectedAdmissionError"),
        (_not_ready, "PodNotReady", "not_ready", "not Ready"),
        (_node_not_ready, "NodeNotReady", "not_ready", "NodeStatusUnknown"),
        (_node_gone, "NodeGone", "not_ready", "does not exist any more"),
        (_raylet_dead, "RayletDead", "not_ready", "heartbeats missed"),
        (_raylet_dead_by_oom, "RayletDead", "not_ready", "OOMKilled"),
        (_never_joined, "RayNodeNeverJoined", "not_ready", "ever joined"),
        (_no_pod, "PodMissing", "missing", "no pod"),
        (_pod_deleted_ray_not_told, "PodMissing", "not_ready", "Ray still lists"),
        (_being_deleted, "PodMissing", "not_ready", "being deleted"),
    ],
)
def test_each_way_to_lose_a_host_has_its_name(
    breaks: Callable[[Scene], None], problem: str, state: str, says: str
) -> None:
    scene = Scene()
    scene.slice()
    breaks(scene)
    item = only_slice(scene)
    lost = host(item, 2)
    assert (lost.problem, lost.state) == (problem, state)
    assert says in lost.problem_detail
    assert item.hosts_alive == 3
    assert not item.whole
    assert not item.forming, "the slice is six hours old"
    assert all(host(item, n).state == "ready" for n in (0, 1, 3))


def test_a_young_slice_is_forming_until_the_grace_is_over() -> None:
    for age, forming in ((300.0, True), (601.0, False)):
        scene = Scene()
        scene.slice(age=age)
        scene.not_ready("v6e-group-0-pod-3")
        scene.without_ray_node("ray-v6e-group-0-3")
        assert only_slice(scene).forming is forming


def test_a_host_that_was_there_and_is_gone_gets_no_grace() -> None:
    scene = Scene()
    scene.slice(age=300)
    scene.die("ray-v6e-group-0-3", ago=20)
    item = only_slice(scene)
    assert not item.forming
    assert host(item, 3).was_there
    assert host(item, 3).gone_since == pytest.approx(NOW - 20)


def test_one_host_recreated_beside_old_peers_counts_as_lost_until_it_joins() -> None:
    scene = Scene()
    scene.slice()
    scene.die("ray-v6e-group-0-3", ago=100)
    pod = scene.pod("v6e-group-0-pod-3")
    pod["metadata"]["creationTimestamp"] = "2027-01-15T07:59:00Z"
    scene.pending("v6e-group-0-pod-3")
    item = only_slice(scene)
    assert host(item, 3).problem == "PodUnschedulable"
    assert host(item, 3).was_there
    assert not item.forming


def test_a_replaced_replica_is_forming_and_its_dead_hosts_are_history() -> None:
    """KubeRay deletes a broken replica whole and makes it anew under the same slice name."""
    scene = Scene()
    scene.slice(suffix="-old")
    for index in range(4):
        scene.die(f"ray-v6e-group-0-{index}-old", ago=400)
    scene.pods.clear()
    scene.slice(age=120)
    for index in (1, 2, 3):
        scene.without_ray_node(f"ray-v6e-group-0-{index}")
        scene.not_ready(f"v6e-group-0-pod-{index}")
    item = only_slice(scene)
    assert item.forming
    assert item.hosts_alive == 1
    assert len(item.history) == 4
    assert not any(entry.was_there for entry in item.hosts)


def test_a_slice_of_dead_hosts_only_is_no_slice() -> None:
    scene = Scene(kubernetes=False)
    scene.slice()
    for index in range(4):
        scene.die(f"ray-v6e-group-0-{index}", ago=400)
    assert scene.fleet().slices == ()


def test_scaling_a_slice_away_is_no_news_unless_somebody_works_on_it() -> None:
    scene = Scene()
    scene.slice()
    for pod in scene.pods:
        pod["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:30Z"
    assert scene.fleet().slices == ()
    scene.group("train-a", [f"ray-v6e-group-0-{n}" for n in range(4)])
    item = only_slice(scene)
    assert item.leaving
    assert item.hosts_alive == 0


def test_pods_held_back_by_kueue_are_forming_however_long_it_takes() -> None:
    scene = Scene()
    scene.slice(age=5 * HOUR)
    scene.ray_nodes.clear()
    for pod in scene.pods:
        scene.pending(pod["metadata"]["name"])
        pod["spec"]["schedulingGates"] = [{"name": "kueue.x-k8s.io/admission"}]
    item = only_slice(scene)
    assert item.gated
    assert item.forming


def test_two_hosts_with_one_worker_id_are_marked() -> None:
    scene = Scene()
    scene.slice(regime="legacy")
    env = scene.pod("v6e-group-0-pod-3")["spec"]["containers"][0]["env"]
    next(item for item in env if item["name"] == "TPU_WORKER_ID")["value"] = "2"
    scene.ray_node("ray-v6e-group-0-3")["labels"]["ray.io/tpu-worker-id"] = "2"
    item = only_slice(scene)
    assert [entry.worker_id for entry in item.hosts if entry.duplicate] == [2, 2]
    assert item.hosts_alive == 4
    places = [entry.coordinates for entry in item.hosts]
    assert len(set(places)) == 4, "two hosts never share a place"


@pytest.mark.parametrize(("age", "marked"), [(10.0, False), (60.0, True)])
def test_a_successor_beside_a_dead_host_that_ray_still_lists_is_no_duplicate_yet(
    age: float, marked: bool
) -> None:
    scene = Scene(kubernetes=False)
    scene.slice()
    twin = dict(
        scene.ray_node("ray-v6e-group-0-2"), node_id="ray-new", start_time_ms=(NOW - age) * 1e3
    )
    scene.ray_nodes.append(twin)
    assert any(entry.duplicate for entry in only_slice(scene).hosts) is marked


def test_a_terminating_pod_gives_way_to_its_successor() -> None:
    scene = Scene()
    scene.slice()
    old = scene.pod("v6e-group-0-pod-1")
    old["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:00Z"
    new = {**old, "metadata": {**old["metadata"], "name": "successor", "deletionTimestamp": None}}
    new["status"] = {**old["status"], "podIP": "10.9.9.9"}
    scene.pods.append(new)
    scene.ray_node("ray-v6e-group-0-1")["node_ip"] = "10.9.9.9"
    item = only_slice(scene)
    assert len(item.hosts) == 4
    assert item.whole
    assert host(item, 1).pod_name == "successor"


def test_hosts_that_ray_did_not_list_are_not_called_lost() -> None:
    scene = Scene()
    scene.slice()
    scene.without_ray_node("ray-v6e-group-0-2")
    scene.ray_source = {
        "status": "degraded",
        "complete": False,
    }

    from fleet.observation import Truncation

    scene.ray_source["truncated"] = (Truncation(part="nodes", total=4, rows=3),)
    item = only_slice(scene)
    assert host(item, 2).problem is None
    assert item.blind, "whether it is whole cannot be seen"


def test_a_ray_head_that_is_worker_zero_is_a_host() -> None:
    scene = Scene(kubernetes=False)
    scene.slice()
    scene.ray_node("ray-v6e-group-0-0")["is_head_node"] = True
    assert only_slice(scene).whole
