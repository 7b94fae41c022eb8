from __future__ import annotations

import json

import msgspec
import pytest

from fleet.observation import Pod, RayNode, RayPlacementGroup
from simulator.fleet import SHAPES, FleetBuilder, frames
from simulator.fleet_faults import FAULTS
from simulator.fleet_kube import kubernetes_objects
from simulator.shapes import GENERATIONS, shape


def small() -> FleetBuilder:
    return (
        FleetBuilder()
        .cluster("ml", "train")
        .slices("v6e", "4x4", 3)
        .slices("v5p", "2x2x2")
        .slices("v6e", "2x2")
        .gang("train-a", "v6e-4x4-0")
    )


@pytest.mark.parametrize("hosts", [1, 3, 10, 257])
def test_a_fleet_has_as_many_hosts_as_asked_for(hosts: int) -> None:
    fleet = FleetBuilder(7).fill(hosts).build()
    assert len(fleet.hosts) == hosts
    addresses = {host.pod_ip for host in fleet.hosts}
    assert len(addresses) == hosts
    assert len({host.node_id for host in fleet.hosts}) == hosts


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert FleetBuilder(3).fill(60).payloads() == FleetBuilder(3).fill(60).payloads()
    assert FleetBuilder(3).fill(60).payloads() != FleetBuilder(4).fill(60).payloads()


def test_a_bundle_has_the_files_of_the_contract() -> None:
    files = small().payloads()
    assert set(files) == {
        "manifest.json",
        *(f"kubernetes/{k}.json" for k in ("pods", "nodes", "services", "events", "rayclusters")),
        *(
            f"ray/ml__train/{part}"
            for part in (
                "nodes.json",
                "placement_groups.json",
                "actors.json",
                "tasks.json",
                "jobs.json",
                "cluster_status.json",
                "tpu_metrics.prom",
            )
        ),
    }
    assert json.loads(files["manifest.json"])["captured_at"] == "2026-11-30T10:00:00Z"
    pods = json.loads(files["kubernetes/pods.json"])["items"]
    assert len(msgspec.convert(pods, list[Pod])) == 3 * 4 + 2 + 1 + 1
    rows = json.loads(files["ray/ml__train/nodes.json"])["data"]["result"]["result"]
    assert len(msgspec.convert(rows, list[RayNode])) == 3 * 4 + 2 + 1 + 1
    groups = json.loads(files["ray/ml__train/placement_groups.json"])["data"]["result"]["result"]
    assert {g.name for g in msgspec.convert(groups, list[RayPlacementGroup])} == {"", "train-a"}


def test_several_looks_make_frames() -> None:
    files = frames(
        [small().build(), small().fault("raylet_dead", slice_name="v6e-4x4-1", worker=1).build()]
    )
    assert {path.split("/")[1] for path in files} == {"0001", "0002"}


def test_a_bare_ray_cluster_has_no_kubernetes() -> None:
    files = FleetBuilder().cluster(kubernetes=False).slices("v4", "2x2x2").payloads()
    assert {path.split("/")[0] for path in files} == {"manifest.json", "ray"}
    assert "ray/default/nodes.json" in files


@pytest.mark.parametrize("marks", ["indexed", "legacy", "none"])
def test_how_pods_say_which_slice_they_are_of(marks) -> None:
    fleet = FleetBuilder().cluster(marks=marks).slices("v6e", "4x4").slices("v6e", "2x2").build()
    workers = [
        pod
        for pod in kubernetes_objects(fleet)["pods"]
        if pod["metadata"]["labels"]["ray.io/node-type"] == "worker"
    ]
    labels = [set(pod["metadata"]["labels"]) for pod in workers]
    multi, single = labels[0], labels[-1]
    assert ("ray.io/worker-group-replica-name" in multi) is (marks == "indexed")
    assert "ray.io/worker-group-replica-name" not in single
    assert ("replicaIndex" in multi) is (marks == "legacy")
    names = {item["name"] for item in workers[0]["spec"]["containers"][0]["env"]}
    assert ("TPU_WORKER_HOSTNAMES" in names) is (marks != "none")


@pytest.mark.parametrize(("generation", "topology"), [item[:2] for item in SHAPES])
def test_every_shape_has_one_head_and_all_its_chips(generation: str, topology: str) -> None:
    found = shape(generation, topology)
    fleet = FleetBuilder().slices(generation, topology).build()
    files = FleetBuilder().slices(generation, topology).payloads()
    rows = json.loads(files["ray/ml__train/nodes.json"])["data"]["result"]["result"]
    assert sum(row["resources_total"].get("TPU", 0) for row in rows) == found.chips
    assert sum(found.head_resource in row["resources_total"] for row in rows) == 1
    assert len(fleet.hosts) == found.hosts


def test_pod_types_are_rays() -> None:
    from ray._private.accelerators.tpu import infer_tpu_pod_type_from_topology

    for generation, topology, _ in SHAPES:
        mine = shape(generation, topology)
        assert mine.pod_type == infer_tpu_pod_type_from_topology(
            topology, f"TPU-{GENERATIONS[generation].pod_prefix.upper()}"
        )


WHERE = {
    "slice_name": "v6e-4x4-1",
    "worker": 1,
    "group": "train-a",
    "slices": ("v6e-4x4-1", "v6e-4x4-2"),
}


@pytest.mark.parametrize("kind", sorted(FAULTS))
def test_every_fault_changes_what_the_apis_say(kind: str) -> None:
    before = small().payloads()
    where = {name: WHERE[name] for name in FAULTS[kind].needs}
    after = small().fault(kind, **where).payloads()
    assert after != before
    assert FAULTS[kind].text.endswith(".")


def test_a_lost_host_of_a_held_slice_livelocks_its_group() -> None:
    fleet = small().fault("raylet_dead", age=60, slice_name="v6e-4x4-0", worker=1).build()
    group = fleet.cluster("ml/train").group("train-a")
    assert (group.state, group.scheduling) == ("RESCHEDULING", "FAILED_TO_COMMIT_RESOURCES")
    assert group.attempts > 1_000_000
    assert [worker.state for worker in group.workers].count("DEAD") == 1
    assert sum(bundle.host is None for bundle in group.bundles) == 1


def test_faults_that_are_none_are_refused() -> None:
    with pytest.raises(KeyError):
        small().fault("no_such_fault")
    with pytest.raises(KeyError):
        small().fault("unschedulable", slice_name="v6e-4x4-9")
