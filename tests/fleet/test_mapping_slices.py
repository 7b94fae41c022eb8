"""Which hosts make a slice, and of which shape: every regime, generation and naming."""

from __future__ import annotations

import pytest

from tests.fleet.scene import Scene


@pytest.mark.parametrize(
    ("topology", "accelerator", "pod_type", "hosts", "chips", "generation"),
    [
        ("4x4", "tpu-v6e-slice", "v6e-16", 4, 4, "v6e"),
        ("2x4", "tpu-v6e-slice", "v6e-8", 2, 4, "v6e"),
        ("2x4", "tpu-v6e-slice", "v6e-8", 1, 8, "v6e"),
        ("4x8", "tpu-v5-lite-podslice", "v5litepod-32", 8, 4, "v5e"),
        ("2x2x2", "tpu-v5p-slice", "v5p-16", 2, 4, "v5p"),
        ("2x2x4", "tpu-v4-podslice", "v4-32", 4, 4, "v4"),
        ("2x2x2", "tpu7x", "v7x-16", 2, 4, "v7x"),
        ("2x2x1", "tpu7x", "v7x-8", 1, 4, "v7x"),
        ("4x4", "tpu-v3-slice", "v3-32", 4, 4, "v3"),
        ("2x2", "tpu-v6e-slice", "v6e-4", 1, 4, "v6e"),
        ("1x1", "tpu-v6e-slice", "v6e-1", 1, 1, "v6e"),
    ],
)
@pytest.mark.parametrize("sides", ["both", "kubernetes", "ray"])
def test_expected_hosts_and_chips_of_every_generation(
    topology: str,
    accelerator: str,
    pod_type: str,
    hosts: int,
    chips: int,
    generation: str,
    sides: str,
) -> None:
    scene = Scene(kubernetes=sides != "ray", ray=sides != "kubernetes")
    scene.slice(
        "group-0",
        hosts=hosts,
        chips=chips,
        topology=topology,
        accelerator=accelerator,
        pod_type=pod_type,
    )
    (item,) = scene.fleet().slices
    assert (item.generation, item.topology_name) == (generation, topology)
    assert (item.hosts_expected, item.chips_expected) == (hosts, hosts * chips)
    assert item.hosts_alive == hosts
    assert item.whole


def test_logical_devices_are_not_chips() -> None:
    """Ray may count two devices a v7x chip (``RAY_TPU_RESOURCE_PER_CHIP``)."""
    scene = Scene(kubernetes=False)
    scene.slice("g-0", hosts=2, topology="2x2x2", pod_type="v7x-16", tpu=8.0)
    scene.group("train", ["ray-g-0-0", "ray-g-0-1"], chips=8.0)
    fleet = scene.fleet()
    assert (fleet.slices[0].hosts_expected, fleet.slices[0].chips_expected) == (2, 8)
    assert fleet.slices[0].whole
    assert fleet.slices[0].holding == "whole"
    assert fleet.placement_groups[0].role == "slice"


def test_single_host_slices_that_share_a_name_stay_apart() -> None:
    scene = Scene()
    for index in range(3):
        scene.slice(
            "small-0", hosts=1, topology="2x2", pod_type="v6e-4", suffix=f"-{index}", pool="pool"
        )
    fleet = scene.fleet()
    assert len(fleet.slices) == 3
    assert len({item.id for item in fleet.slices}) == 3
    assert all(item.hosts_expected == 1 and item.whole for item in fleet.slices)
    assert not any(host.duplicate for item in fleet.slices for host in item.hosts)


def test_single_host_nodes_without_a_slice_name_are_slices_by_node() -> None:
    scene = Scene(kubernetes=False)
    scene.slice("a-0", hosts=1, topology="2x2", pod_type="v6e-4", regime="none")
    (item,) = scene.fleet().slices
    assert item.name == "ray-a-0-0"
    assert item.whole


def test_without_the_webhook_kuberay_labels_still_make_a_slice() -> None:
    scene = Scene()
    scene.slice()
    for pod in scene.pods:
        pod["spec"].pop("hostname")
        pod["spec"]["containers"][0]["env"] = []
        pod["metadata"]["labels"].pop("ray.io/replica-host-index")
    for node in scene.ray_nodes:
        del node["labels"]["ray.io/tpu-slice-name"], node["labels"]["ray.io/tpu-worker-id"]
    (item,) = scene.fleet().slices
    assert item.name == "v6e-group-0"
    assert item.hosts_alive == 4
    assert all(host.worker_id is None for host in item.hosts)


def test_without_any_mark_the_node_pool_is_the_slice() -> None:
    scene = Scene()
    scene.slice(regime="none", pool="pool-a")
    (item,) = scene.fleet().slices
    assert item.name == "pool-a"
    assert item.hosts_alive == 4


def test_unmarked_pods_that_are_not_bound_belong_to_no_slice() -> None:
    scene = Scene()
    scene.slice(regime="none")
    scene.ray_nodes.clear()
    for pod in scene.pods:
        scene.pending(pod["metadata"]["name"])
    fleet = scene.fleet()
    assert fleet.slices == ()
    assert len(fleet.stray_pods) == 4


def test_equal_names_in_two_namespaces_are_two_slices() -> None:
    from fleet.mapping import build_fleet
    from fleet.observation import KubernetesObservation, Observation

    one, two = Scene(namespace="a"), Scene(namespace="b")
    for scene in (one, two):
        scene.slice()
    first, second = one.observation(), two.observation()
    assert first.kubernetes is not None
    assert second.kubernetes is not None
    fleet = build_fleet(
        Observation(
            now=one.now,
            kubernetes=KubernetesObservation(
                source=first.kubernetes.source,
                pods=(first.kubernetes.pods or ()) + (second.kubernetes.pods or ()),
                nodes=first.kubernetes.nodes,
                services=(),
                events=(),
                ray_clusters=(),
                slices=(),
            ),
            ray=first.ray + second.ray,
        )
    )
    assert [item.id for item in fleet.slices] == ["a/train/v6e-group-0", "b/train/v6e-group-0"]
    assert all(item.whole and len(item.hosts) == 4 for item in fleet.slices)


def test_one_ip_for_all_joins_by_slice_name_and_worker_id() -> None:
    """All raylets of a local cluster share one IP; the pods that mirror them do not."""
    scene = Scene()
    scene.slice()
    for node in scene.ray_nodes:
        node["node_ip"] = "127.0.0.1"
    (item,) = scene.fleet().slices
    assert item.whole
    assert [host.ray_node_id for host in item.hosts] == [f"ray-v6e-group-0-{n}" for n in range(4)]


def test_a_wrong_ip_never_joins_where_it_is_ambiguous() -> None:
    scene = Scene()
    scene.slice()
    for pod in scene.pods:
        pod["status"]["podIP"] = "127.0.0.1"
    scene.ray_nodes = scene.ray_nodes[:1]
    scene.ray_nodes[0]["node_ip"] = "127.0.0.1"
    (item,) = scene.fleet().slices
    joined = [host.worker_id for host in item.hosts if host.ray_node_id]
    assert joined == [0]


def test_the_instance_id_is_trusted_above_all() -> None:
    scene = Scene()
    scene.slice()
    for index, node in enumerate(scene.ray_nodes):
        node["instance_id"] = f"v6e-group-0-pod-{index}"
        node["node_ip"] = f"10.0.0.{4 - index}"
    (item,) = scene.fleet().slices
    assert [host.ray_node_id for host in item.hosts] == [f"ray-v6e-group-0-{n}" for n in range(4)]


def test_measured_places_win_over_worker_ids() -> None:
    scene = Scene()
    scene.slice()
    for node, place in zip(scene.ray_nodes, (3, 2, 1, 0), strict=True):
        node["labels"]["ray.io/tpu-subslice-2x2"] = str(place)
    (item,) = scene.fleet().slices
    assert {host.layout for host in item.hosts} == {"measured"}
    assert item.hosts[0].coordinates == (1, 1, 0)
    assert item.hosts[3].coordinates == (0, 0, 0)


def test_a_cpu_head_on_kubernetes_is_no_tpu_host() -> None:
    scene = Scene()
    scene.slice()
    scene.ray_nodes.append(
        {
            "node_id": "head",
            "node_ip": "10.9.0.1",
            "is_head_node": True,
            "state": "ALIVE",
            "resources_total": {"CPU": 8.0},
            "start_time_ms": 1,
        }
    )
    fleet = scene.fleet()
    assert len(fleet.slices) == 1
    assert fleet.stray_ray_nodes == ()
    assert fleet.clusters[0].heads_alive == 1
