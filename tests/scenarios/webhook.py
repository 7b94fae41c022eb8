"""What the TPU webhook and KubeRay should have done: identity, names, counts, replicas."""

from __future__ import annotations

from tests.scenarios.scene import scene
from tests.scenarios.world import HOUR, World

G = "v6e-16-group"
S0 = f"{G}-0"
CALL = (
    'Internal error occurred: failed calling webhook "kuberay-tpu-webhook.ray-system.svc": failed to '
    'call webhook: Post "https://kuberay-tpu-webhook.ray-system.svc:443/mutate": no endpoints '
    'available for service "kuberay-tpu-webhook"'
)


def strip(world: World, name: str, index: int, *, ray: bool = True) -> None:
    pod = world.pod_of(name, index)
    for variable in ("TPU_NAME", "TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES"):
        world.env(pod, variable, None)
    for field in ("hostname", "subdomain", "affinity"):
        pod["spec"].pop(field, None)
    if ray:
        for label in ("ray.io/tpu-slice-name", "ray.io/tpu-worker-id"):
            world.host(name, index)["labels"].pop(label, None)
        world.host(name, index)["resources_total"].pop("TPU-v6e-16-head", None)


@scene(("MissingSliceIdentity", None, G))
def webhook_bypassed() -> World:
    world = World()
    name = world.add()
    for index in range(4):
        strip(world, name, index)
        world.pod_of(name, index)["metadata"]["labels"]["app.kubernetes.io/name"] = "my-app"
    return world


@scene(("MissingSliceIdentity", None, G))
def webhook_not_installed_and_no_kuberay_indices() -> World:
    world = World()
    name = world.add(regime="none")
    world.add("v6e-8")
    for index in range(4):
        strip(world, name, index)
    world.head_group(None, age=900)
    return world


@scene(("MissingSliceIdentity", None, f"{S0}-pod-2"), statuses={f"ml/train/{S0}": ("broken",)})
def one_pod_slipped_past_the_webhook() -> World:
    world = World()
    name = world.add()
    strip(world, name, 2)
    return world


@scene(("MissingSliceIdentity", None, "v6e-16"))
def bare_ray_hosts_without_slice_names() -> World:
    world = World(kubernetes=False)
    world.add(regime="none")
    return world


@scene()
def single_hosts_need_no_identity() -> World:
    world = World()
    name = world.add("v5e-8")
    world.env(world.pod_of(name, 0), "TPU_NAME", None)
    world.env(world.pod_of(name, 0), "TPU_WORKER_ID", None)
    return world


@scene()
def identity_by_other_means() -> World:
    world = World()
    name = world.add()
    for index in range(4):
        strip(world, name, index, ray=False)
    return world


@scene(("HostnamesUnresolvable", None, G), statuses={f"ml/train/{S0}": ("broken",)})
def the_service_has_another_name() -> World:
    world = World()
    world.add()
    world.services[0]["metadata"]["name"] = "train-headless-worker-svc"
    return world


@scene(("HostnamesUnresolvable", None, "long"))
def a_long_cluster_name_that_the_webhook_cuts() -> World:
    long = "train-with-a-very-long-name-that-goes-on-and-on"
    world = World(cluster=long)
    name = world.add()
    cut = f"{long}-headless"[-50:]
    for index in range(4):
        pod = world.pod_of(name, index)
        pod["spec"]["subdomain"] = cut
        world.env(
            pod, "TPU_WORKER_HOSTNAMES", ",".join(f"{name}-{host}.{cut}" for host in range(4))
        )
    return world


@scene(("SourceDown", None, "services"), unknown=("HostnamesUnresolvable",))
def services_cannot_be_listed() -> World:
    world = World()
    world.add()
    world.services.clear()
    world.drop.add("kubernetes:services")
    return world


@scene(("AffinityDeadlock", None, G))
def affinity_to_a_label_nobody_carries() -> World:
    world = World()
    name = world.add(age=2 * HOUR)
    for index in range(4):
        world.pending(f"{name}-pod-{index}", "0/9 nodes are available: 9 didn't match pod affinity")
        world.without_ray_node(f"ray-{name}-{index}")
        world.pod_of(name, index)["spec"]["affinity"] = world.affinity("replicaIndex", f"{G}-0")
    world.head_group(None, age=900)
    return world


@scene(("SliceIncomplete", "PodUnschedulable", S0))
def affinity_that_the_pods_fulfil_themselves() -> World:
    world = World()
    name = world.add(age=2 * HOUR)
    for index in range(4):
        world.pending(
            f"{name}-pod-{index}", "0/9 nodes are available: 9 Insufficient google.com/tpu"
        )
        world.without_ray_node(f"ray-{name}-{index}")
    return world


@scene(("HostCountMismatch", None, G))
def num_of_hosts_too_small() -> World:
    world = World()
    name = world.add()
    world.spec(G)["numOfHosts"] = 2
    for index in (2, 3):
        world.without_pod(f"{name}-pod-{index}")
        world.without_ray_node(f"ray-{name}-{index}")
    return world


@scene(("HostCountMismatch", None, G))
def num_of_hosts_lost_by_an_old_crd() -> World:
    world = World()
    world.add()
    world.spec(G)["numOfHosts"] = 0
    return world


@scene(("HostCountMismatch", None, "TPU_WORKER_HOSTNAMES"))
def hostnames_of_one_host_only() -> World:
    world = World()
    name = world.add()
    for index in range(4):
        world.env(world.pod_of(name, index), "TPU_WORKER_HOSTNAMES", f"{name}-0.train-headless")
    return world


@scene()
def two_chips_layouts_of_one_topology() -> World:
    world = World()
    world.add("v6e-8")
    world.add("v6e-8-two-hosts")
    return world


@scene(("WebhookDown", None, "train"))
def webhook_down() -> World:
    world = World()
    name = world.add()
    world.spec(G)["replicas"] = 2
    world.without_pod(f"{name}-pod-3")
    world.die(f"ray-{name}-3", ago=1200)
    world.event("RayCluster", "train", "FailedToCreateWorkerPod", CALL, ago=20, first=1100)
    return world


@scene(("WebhookDown", None, "train"))
def webhook_down_by_condition() -> World:
    world = World()
    world.groups_spec.append({"groupName": G, "replicas": 1, "numOfHosts": 4})
    world.status["conditions"] = [
        {
            "type": "ReplicaFailure",
            "status": "True",
            "reason": "FailedCreateHeadPod",
            "message": CALL,
        }
    ]
    return world


@scene()
def webhook_was_down_and_is_back() -> World:
    world = World()
    world.add()
    world.event("RayCluster", "train", "FailedToCreateWorkerPod", CALL, ago=1800)
    world.event("RayCluster", "train", "CreatedWorkerPod", "Created worker pod", ago=1700)
    return world


@scene(("ReplicaDrift", None, G))
def pods_from_before_an_upgrade_are_left() -> World:
    world = World()
    world.add(name=f"{G}-0", regime="legacy", age=9 * HOUR)
    world.spec(G)["replicas"] = 0
    world.add(name=f"{G}-0", suffix="-new", age=5 * HOUR, replica="v6e-16-group-zzzzz")
    return world


@scene(("ReplicaDrift", None, G))
def more_slices_than_replicas() -> World:
    world = World()
    world.add()
    world.add()
    world.spec(G)["replicas"] = 1
    return world


@scene(("ReplicaDrift", None, "quota"))
def pods_refused_by_a_quota() -> World:
    world = World()
    world.add()
    world.spec(G)["replicas"] = 2
    world.event(
        "RayCluster", "train", "FailedToCreateWorkerPod", "exceeded quota: tpu-quota", ago=30
    )
    return world


@scene()
def a_slice_is_being_added() -> World:
    world = World()
    world.add()
    world.add(age=60)
    world.without_pod(f"{G}-1-pod-3")
    world.without_ray_node(f"ray-{G}-1-3")
    return world


@scene(("SliceIncomplete", "PodMissing", S0))
def a_missing_pod_is_no_second_finding() -> World:
    world = World()
    name = world.add()
    world.without_pod(f"{name}-pod-3")
    world.die(f"ray-{name}-3", ago=4000)
    return world


@scene(("ScaleUpFailed", None, "GCE out of resources"))
def scale_up_failed_within_the_grace() -> World:
    world = World()
    name = world.add(age=300)
    for index in range(4):
        world.pending(f"{name}-pod-{index}")
        world.without_ray_node(f"ray-{name}-{index}")
    world.event("Pod", f"{name}-pod-0", "FailedScaleUp", "GCE out of resources", ago=60)
    return world


@scene(("MultisliceMismatch", None, "MEGASCALE_NUM_SLICES"))
def stale_number_of_slices() -> World:
    world = World()
    names = [world.add(), world.add()]
    for index, name in enumerate(names):
        for host in range(4):
            world.env(world.pod_of(name, host), "MEGASCALE_NUM_SLICES", "4")
            world.env(world.pod_of(name, host), "MEGASCALE_SLICE_ID", str(index))
    world.gang("two", *names)
    return world


@scene(("MultisliceMismatch", None, "MEGASCALE_SLICE_ID"))
def one_slice_id_twice() -> World:
    world = World()
    names = [world.add(), world.add()]
    for name in names:
        for host in range(4):
            world.env(world.pod_of(name, host), "MEGASCALE_NUM_SLICES", "2")
            world.env(world.pod_of(name, host), "MEGASCALE_SLICE_ID", "0")
    return world


@scene(("MultisliceMismatch", None, "ml/train"))
def replaced_pods_were_told_another_number() -> World:
    world = World()
    names = [world.add(), world.add()]
    for index, name in enumerate(names):
        for host in range(4):
            world.env(world.pod_of(name, host), "MEGASCALE_NUM_SLICES", "2" if host else "3")
            world.env(world.pod_of(name, host), "MEGASCALE_SLICE_ID", str(index))
    return world


def _remade(times: int) -> list[World]:
    looks = []
    for number in range(times + 1):
        world = World()
        world.now += number * 90
        world.add(age=60.0, suffix=f"-{number}")
        world.without_pod(f"{S0}-pod-3-{number}")
        world.without_ray_node(f"ray-{S0}-3-{number}")
        looks.append(world)
    return looks


@scene(("ReplicaDrift", None, "never settles"))
def a_replica_is_made_and_deleted_again_and_again() -> list[World]:
    return _remade(5)


@scene()
def a_replica_is_made_anew_once() -> list[World]:
    return _remade(1)


@scene(("ReplicaDrift", None, "never settles"))
def kuberay_cleans_up_incomplete_groups() -> World:
    world = World()
    world.add(age=60.0)
    for number in range(16):
        world.event(
            "RayCluster",
            "train",
            "DeletedWorkerPod",
            f"Deleted worker pod ml/train-{G}-worker-{number}: cleanup of incomplete multi-host group",
            ago=30 + number * 20,
        )
    return world
