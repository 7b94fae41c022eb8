"""What the webhook, KubeRay and the hardware write, and where they disagree."""

from __future__ import annotations

from tests.scenarios.independent.payloads import HOUR, MINUTE, NOW, World, hexid, ts
from tests.scenarios.independent.registry import (
    bare,
    env_of,
    fleet,
    pending,
    scene,
    set_env,
    silent,
)

S0, S1 = "ml/train/v6e-group-0", "ml/train/v6e-group-1"
REFUSED = (
    "admission webhook call failed: Internal error occurred: failed calling webhook "
    '"kuberay-tpu-webhook.ray-system.svc": failed to call webhook: Post '
    '"https://kuberay-tpu-webhook.ray-system.svc:443/mutate?timeout=10s": '
)


# --- SliceSpansNodePools ------------------------------------------------------------------------


@scene(
    ("SliceSpansNodePools", None, "v6e-group-0"),
    statuses={S0: "broken", S1: "idle"},
    exit=1,
    each=["kuberay", "legacy"],
)
def spans_two_pools(regime: str) -> World:
    world, _, slices = fleet(regime=regime)
    for host in slices[0].hosts[2:]:
        host.node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] = "another-pool"
    return world


@scene(("SliceSpansNodePools", None, "v6e-group-0"), statuses={S0: "broken"}, exit=1)
def spans_two_pools_under_a_gang() -> World:
    world, cluster, slices = fleet()
    slices[0].hosts[3].node["metadata"]["labels"]["cloud.google.com/gke-nodepool"] = "other"
    cluster.gang("train", slices[0])
    return world


@scene(("SliceSpansNodePools", None, "v7x-group-0"), exit=1)
def spans_two_dynamic_slices() -> World:
    world, _, slices = fleet("v7x", "2x2x4", replicas=1)
    for index, host in enumerate(slices[0].hosts):
        host.node["metadata"]["labels"]["cloud.google.com/gke-tpu-slice"] = f"dyn-{index // 2}"
    return world


@silent()
def one_dynamic_slice_over_two_pools() -> World:
    """With dynamic slicing a pool is a sub-block: a slice of several pools is what it is for."""
    world, _, slices = fleet("v7x", "4x4x8", replicas=1)
    for index, host in enumerate(slices[0].hosts):
        labels = host.node["metadata"]["labels"]
        labels["cloud.google.com/gke-tpu-slice"] = "dyn-0"
        labels["cloud.google.com/gke-nodepool"] = f"sub-block-{index // 16}"
    return world


@silent(each=["pods", "spare-hosts"])
def single_hosts_over_many_pools(_: str) -> World:
    world, _, _ = fleet("v6e", "2x2", replicas=4)
    return world


# --- DuplicateWorkerId --------------------------------------------------------------------------


@scene(
    ("DuplicateWorkerId", None, "v6e-group-0"),
    may="HeadResourceMissing",
    statuses={S0: "broken"},
    exit=1,
    each=["both", "kubernetes", "hostname", "legacy", "zero"],
)
def duplicate_worker_id(where: str) -> World:
    world, _cluster, slices = fleet(regime="legacy" if where == "legacy" else "kuberay")
    victim, twin = slices[0].hosts[3], slices[0].hosts[2]
    if where == "zero":
        twin = slices[0].hosts[0]
    if where != "hostname":
        set_env(victim.pod, "TPU_WORKER_ID", str(twin.worker))
    if where in ("both", "hostname", "legacy", "zero"):
        victim.pod["spec"]["hostname"] = twin.pod["spec"]["hostname"]
    if where in ("both", "legacy", "zero"):
        victim.ray["labels"]["ray.io/tpu-worker-id"] = str(twin.worker)
    if where == "zero":
        victim.ray["resources_total"]["TPU-v6e-16-head"] = 1.0
    return world


@scene(
    ("DuplicateWorkerId", None, "v6e-group-0"), exit=1, statuses={"-/default/v6e-group-0": "broken"}
)
def duplicate_worker_id_in_ray_alone() -> World:
    world, _, slices = bare()
    slices[0].hosts[1].ray["labels"]["ray.io/tpu-worker-id"] = "2"
    return world


@silent(statuses={S0: "idle"})
def same_worker_ids_in_two_slices() -> World:
    world, _, _ = fleet()
    return world


@silent(statuses={S0: "idle"})
def a_dead_twin_is_history() -> World:
    """Two rows of one worker id, one of them dead: the same host come back."""
    world, cluster, slices = fleet()
    old = dict(
        slices[0].hosts[1].ray,
        node_id=hexid("old"),
        state="DEAD",
        end_time_ms=int((NOW - 5 * HOUR) * 1000),
    )
    cluster.nodes.append(old)
    return world


# --- MissingSliceIdentity -----------------------------------------------------------------------


def bypass(pod: dict) -> None:  # type: ignore[type-arg]
    for name in ("TPU_WORKER_ID", "TPU_NAME", "TPU_WORKER_HOSTNAMES"):
        set_env(pod, name, None)
    for key in ("hostname", "subdomain", "affinity"):
        pod["spec"].pop(key, None)


@scene(
    ("MissingSliceIdentity", None, "v6e-group"),
    may="HeadResourceMissing HostnamesUnresolvable",
    exit=1,
    each=["label", "no-label", "legacy", "two-slices"],
)
def webhook_bypassed(how: str) -> World:
    world, _cluster, slices = fleet(
        regime="legacy" if how == "legacy" else "kuberay", replicas=2 if how == "two-slices" else 1
    )
    for one in slices:
        for host in one.hosts:
            bypass(host.pod)
            if how == "label":
                host.pod["metadata"]["labels"]["app.kubernetes.io/name"] = "mine"
            if how == "legacy":
                host.pod["metadata"]["labels"].pop("replicaIndex")
            host.ray["resources_total"].pop(one.name)
            host.ray["resources_total"].pop("TPU-v6e-16-head", None)
            for key in ("ray.io/tpu-slice-name", "ray.io/tpu-worker-id"):
                host.ray["labels"].pop(key)
    return world


@scene(("MissingSliceIdentity", None, None), may="SliceIncomplete HeadResourceMissing", exit=1)
def webhook_missed_one_pod() -> World:
    world, _cluster, slices = fleet()
    host = slices[0].hosts[2]
    bypass(host.pod)
    host.ray["resources_total"].pop("v6e-group-0")
    for key in ("ray.io/tpu-slice-name", "ray.io/tpu-worker-id"):
        host.ray["labels"].pop(key)
    return world


@scene(
    ("MissingSliceIdentity", None, None),
    may="SliceIncomplete HeadResourceMissing",
    exit=1,
    each=["TPU_WORKER_ID", "TPU_WORKER_HOSTNAMES", "TPU_NAME"],
)
def one_variable_missing_on_all(name: str) -> World:
    world, _, slices = fleet(replicas=1)
    for host in slices[0].hosts:
        set_env(host.pod, name, None)
        if name != "TPU_WORKER_HOSTNAMES":
            host.ray["labels"].pop("ray.io/tpu-slice-name")
            host.ray["labels"].pop("ray.io/tpu-worker-id")
            host.ray["resources_total"].pop("TPU-v6e-16-head", None)
    return world


@scene(("MissingSliceIdentity", None, None), exit=1, may="SliceIncomplete HeadResourceMissing")
def identity_missing_without_kubernetes() -> World:
    world, _, slices = bare(replicas=1)
    for host in slices[0].hosts:
        host.ray["resources_total"].pop("v6e-group-0")
        host.ray["resources_total"].pop("TPU-v6e-16-head", None)
        for key in ("ray.io/tpu-slice-name", "ray.io/tpu-worker-id"):
            host.ray["labels"].pop(key)
    return world


@silent()
def single_host_without_identity() -> World:
    world, _cluster, slices = fleet("v6e", "2x2", replicas=2)
    for one in slices:
        for host in one.hosts:
            bypass(host.pod)
            for key in ("ray.io/tpu-slice-name", "ray.io/tpu-worker-id"):
                host.ray["labels"].pop(key)
            host.ray["resources_total"].pop(one.name)
            host.ray["resources_total"].pop("TPU-v6e-4-head")
    return world


# --- HostnamesUnresolvable ----------------------------------------------------------------------


@scene(
    ("HostnamesUnresolvable", None, "v6e-group"),
    exit=1,
    each=["gone", "old-suffix", "other-namespace"],
)
def no_service_of_the_subdomain(how: str) -> World:
    world, _, _ = fleet()
    service = world.services[0]
    if how == "gone":
        world.services.remove(service)
    elif how == "old-suffix":
        service["metadata"]["name"] = "train-headless-worker-svc"
    else:
        service["metadata"]["namespace"] = "other"
    return world


@scene(("HostnamesUnresolvable", None, "v6e-group"), exit=1)
def truncated_subdomain_of_a_long_name() -> World:
    """R4: the webhook cuts the service's name to its last 50 characters, KubeRay does not."""
    world = World()
    cluster = world.cluster(name="a-very-long-training-cluster-name-of-47-letters")
    slices = world.tpus(cluster, replicas=1)
    for host in slices[0].hosts:
        full = host.pod["spec"]["subdomain"]
        host.pod["spec"]["subdomain"] = full[-50:]
        hosts = next(e["value"] for e in env_of(host.pod) if e["name"] == "TPU_WORKER_HOSTNAMES")
        set_env(host.pod, "TPU_WORKER_HOSTNAMES", hosts.replace(full, full[-50:]))
    return world


@scene(("HostnamesUnresolvable", None, "v6e-group"), exit=1)
def hostnames_of_another_domain() -> World:
    """R3: the names in TPU_WORKER_HOSTNAMES end in a domain that is not the pods' subdomain."""
    world, _, slices = fleet(replicas=1)
    for host in slices[0].hosts:
        names = ",".join(f"v6e-group-0-{i}.train-headless-worker-svc" for i in range(4))
        set_env(host.pod, "TPU_WORKER_HOSTNAMES", names)
    return world


@silent()
def services_not_asked() -> World:
    world, _, _ = fleet()
    world.services = None
    return world


@silent()
def hostnames_in_full() -> World:
    world, _, slices = fleet(replicas=1)
    for host in slices[0].hosts:
        names = ",".join(f"v6e-group-0-{i}.train-headless.ml.svc.cluster.local" for i in range(4))
        set_env(host.pod, "TPU_WORKER_HOSTNAMES", names)
    return world


# --- AffinityDeadlock ---------------------------------------------------------------------------


def blocked(world: World, cluster, slices, message: str) -> None:  # type: ignore[no-untyped-def]
    for one in slices:
        for host in one.hosts:
            pending(host.pod, message)
            cluster.forget(host)


@scene(
    ("AffinityDeadlock", None, "v6e-group"),
    may="SliceIncomplete PlacementPending",
    exit=1,
    each=["one-slice", "all", "no-message"],
)
def affinity_on_a_label_that_is_not_there(many: str) -> World:
    """R6: the webhook asks for replicaIndex, KubeRay's own labels are on the pods."""
    world, cluster, slices = fleet()
    hit = slices[1:] if many == "one-slice" else slices
    message = "0/9 nodes are available: 9 node(s) didn't match pod affinity rules."
    blocked(world, cluster, hit, "0/9 nodes are available." if many == "no-message" else message)
    for one in hit:
        for host in one.hosts:
            term = host.pod["spec"]["affinity"]["podAffinity"][
                "requiredDuringSchedulingIgnoredDuringExecution"
            ][0]
            term["labelSelector"]["matchExpressions"][0] |= {
                "key": "replicaIndex",
                "values": [one.name],
            }
    return world


@scene(("AffinityDeadlock", None, "v6e-group"), may="SliceIncomplete", exit=1)
def affinity_by_match_labels() -> World:
    world, cluster, slices = fleet(replicas=1)
    blocked(world, cluster, slices, "0/9 nodes are available: 9 node(s) didn't match pod affinity")
    for host in slices[0].hosts:
        host.pod["spec"]["affinity"] = {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {"replicaIndex": "v6e-group-0"}},
                        "topologyKey": "cloud.google.com/gke-nodepool",
                    }
                ]
            }
        }
    return world


@scene(("SliceIncomplete", "PodUnschedulable", "v6e-group-1"), exit=0, never="AffinityDeadlock")
def affinity_that_holds_and_no_capacity() -> World:
    world, cluster, slices = fleet()
    blocked(
        world,
        cluster,
        slices[1:],
        "0/9 nodes are available: 5 node(s) didn't match pod "
        "anti-affinity rules, 4 Insufficient google.com/tpu.",
    )
    return world


# --- HostCountMismatch --------------------------------------------------------------------------


@scene(
    ("HostCountMismatch", None, "v6e-group"),
    may="SliceIncomplete ReplicaDrift HeadResourceMissing",
    exit=1,
    each=["two-of-four", "eight-of-four", "zero"],
)
def num_of_hosts_is_wrong(how: str) -> World:
    world, cluster, slices = fleet(replicas=1)
    spec = cluster.raycluster["spec"]["workerGroupSpecs"][0]
    if how == "two-of-four":
        spec["numOfHosts"] = 2
        for host in slices[0].hosts[2:]:
            world.pods.remove(host.pod)
            cluster.forget(host)
    elif how == "eight-of-four":
        spec["numOfHosts"] = 8
    else:
        spec["numOfHosts"] = 0
        for host in slices[0].hosts:
            world.pods.remove(host.pod)
            cluster.forget(host)
    return world


@scene(("HostCountMismatch", None, "v6e-group"), may="SliceIncomplete ReplicaDrift", exit=1)
def num_of_hosts_is_missing() -> World:
    """Left out, KubeRay takes one host a replica; the topology needs four."""
    world, cluster, slices = fleet(replicas=1)
    cluster.raycluster["spec"]["workerGroupSpecs"][0].pop("numOfHosts")
    for host in slices[0].hosts[1:]:
        world.pods.remove(host.pod)
        cluster.forget(host)
    return world


@scene(("HostCountMismatch", None, "v6e-group"), exit=1, each=[["one"], ["a", "b", "c", "d", "e"]])
def hostnames_count_is_wrong(names: list[str]) -> World:
    world, _, slices = fleet(replicas=1)
    text = ",".join(f"{name}.train-headless" for name in names)
    for host in slices[0].hosts:
        set_env(host.pod, "TPU_WORKER_HOSTNAMES", text)
    return world


@silent(each=[("v6e", "2x4", 8), ("v6e", "2x4", 4), ("v5e", "2x4", 8), ("v6e", "1x1", 1)])
def host_counts_that_agree(shape: tuple[str, str, int]) -> World:
    kind, topology, chips = shape
    world, _, _ = fleet(kind, topology, chips=chips)
    return world


# --- WebhookDown --------------------------------------------------------------------------------


def no_pods(world: World, cluster, slices, *, head: bool) -> None:  # type: ignore[no-untyped-def]
    for one in slices:
        for host in one.hosts:
            world.pods.remove(host.pod)
            cluster.forget(host)
    if not head:
        world.pods.remove(cluster.head_pod)
        cluster.ray_up = False


@scene(
    ("WebhookDown", None, "train"),
    may="ReplicaDrift SourceDown",
    exit=1,
    each={
        "condition-endpoints": ("condition", 'no endpoints available for service "kuberay-tpu"'),
        "condition-x509": ("condition", "x509: certificate signed by unknown authority"),
        "event-refused": ("event", "dial tcp 10.96.1.1:443: connect: connection refused"),
        "event-deadline": ("event", "context deadline exceeded"),
        "head-too": ("head", "no endpoints available for service"),
        "head-too-event": ("head-event", "no endpoints available for service"),
    },
)
def webhook_down(how: tuple[str, str]) -> World:
    where, words = how
    world, cluster, slices = fleet()
    no_pods(world, cluster, slices, head=not where.startswith("head"))
    if where in ("condition", "head"):
        reason = "FailedCreateHeadPod" if where == "head" else "FailedCreateWorkerPod"
        cluster.raycluster["status"]["conditions"].append(
            {
                "type": "ReplicaFailure",
                "status": "True",
                "reason": reason,
                "message": REFUSED + words,
                "lastTransitionTime": ts(30 * MINUTE),
            }
        )
    else:
        reason = "FailedToCreateHeadPod" if where == "head-event" else "FailedToCreateWorkerPod"
        world.event(
            reason, "Failed to create worker Pod ml/train, " + REFUSED + words, cluster.raycluster
        )
    return world


@silent(statuses={S0: "idle"})
def webhook_was_down_an_hour_ago() -> World:
    world, cluster, _ = fleet()
    world.event(
        "FailedToCreateWorkerPod", REFUSED + "no endpoints available", cluster.raycluster, ago=HOUR
    )
    cluster.raycluster["status"]["conditions"].append(
        {
            "type": "ReplicaFailure",
            "status": "False",
            "reason": "",
            "message": "",
            "lastTransitionTime": ts(50 * MINUTE),
        }
    )
    return world


# --- ReplicaDrift -------------------------------------------------------------------------------


@scene(("ReplicaDrift", None, "v6e-group"), exit=0, each=[1, 3, 8])
def replicas_and_pods_differ(replicas: int) -> World:
    world, cluster, _ = fleet()
    cluster.raycluster["spec"]["workerGroupSpecs"][0]["replicas"] = replicas
    cluster.raycluster["spec"]["enableInTreeAutoscaling"] = False
    return world


@scene(
    ("ReplicaDrift", None, "v6e-group"),
    may="SliceIncomplete HeadResourceMissing DuplicateWorkerId MissingSliceIdentity",
    each=["bare", "replicaIndex"],
)
def left_over_of_an_older_labelling(old: str) -> World:
    """R7: KubeRay was upgraded: pods without a replica name stay beside a whole new set."""
    world, cluster, slices = fleet()
    cluster.raycluster["spec"]["workerGroupSpecs"][0]["replicas"] = 1
    for host in slices[1].hosts:
        labels = host.pod["metadata"]["labels"]
        for key in (
            "ray.io/worker-group-replica-name",
            "ray.io/worker-group-replica-index",
            "ray.io/replica-host-index",
        ):
            labels.pop(key)
        if old == "replicaIndex":
            labels["replicaIndex"] = "v6e-group-1"
    return world


@silent(each=["null", "scale-up-three-minutes-ago", "clamped", "group-suspended"])
def replicas_that_do_agree(how: str) -> World:
    world, cluster, slices = fleet(ages=[6 * HOUR, 3 * MINUTE] if "minutes" in how else None)
    spec = cluster.raycluster["spec"]["workerGroupSpecs"][0]
    if how == "null":
        spec["replicas"] = None
        spec["minReplicas"] = 2
    elif how == "scale-up-three-minutes-ago":
        for host in slices[1].hosts[2:]:
            world.pods.remove(host.pod)
            cluster.forget(host)
    elif how == "clamped":
        spec |= {"replicas": 9, "maxReplicas": 2}
    else:
        spec["suspend"] = True
        for one in slices:
            for host in one.hosts:
                world.pods.remove(host.pod)
                cluster.die(host, ago=HOUR)
    return world


# --- HeadResourceMissing, ChipCountMismatch, PhantomTpu -----------------------------------------


@scene(("HeadResourceMissing", None, "v6e-group-0"), statuses={S1: "idle"}, exit=0)
def no_host_offers_the_head() -> World:
    world, _, slices = fleet()
    slices[0].hosts[0].ray["resources_total"].pop("TPU-v6e-16-head")
    return world


@scene(("HeadResourceMissing", None, "v6e-group-0"), exit=0)
def no_host_offers_the_head_without_kubernetes() -> World:
    world, _, slices = bare()
    slices[0].hosts[0].ray["resources_total"].pop("TPU-v6e-16-head")
    return world


@scene(("HeadResourceMissing", None, "v6e-group-0"), exit=0)
def head_of_another_type() -> World:
    world, _, slices = fleet()
    total = slices[0].hosts[0].ray["resources_total"]
    total["TPU-v6e-8-head"] = total.pop("TPU-v6e-16-head")
    return world


@scene(("HeadResourceMissing", None, None), exit=0)
def single_host_with_a_worker_id_that_is_not_zero() -> World:
    """R2."""
    world, _, slices = fleet("v6e", "2x2", replicas=2)
    host = slices[1].hosts[0]
    set_env(host.pod, "TPU_WORKER_ID", "3")
    host.ray["labels"]["ray.io/tpu-worker-id"] = "3"
    host.ray["resources_total"].pop("TPU-v6e-4-head")
    return world


@scene(
    ("ChipCountMismatch", None, None),
    may="SliceIncomplete HeadResourceMissing",
    exit=0,
    each=["ray", "ray-more", "allocatable", "label", "pod"],
)
def chip_counts_differ(where: str) -> World:
    world, _, slices = fleet()
    host = slices[0].hosts[2]
    if where == "ray":
        host.ray["resources_total"]["TPU"] = 3.0
    elif where == "ray-more":
        host.ray["resources_total"]["TPU"] = 8.0
    elif where == "allocatable":
        host.node["status"]["allocatable"]["google.com/tpu"] = "3"
    elif where == "label":
        host.node["metadata"]["labels"]["cloud.google.com/gke-accelerator-count"] = "8"
    else:
        for side in host.pod["spec"]["containers"][0]["resources"].values():
            side["google.com/tpu"] = "2"
    return world


@scene(("ChipCountMismatch", None, None), may="SliceIncomplete", exit=0)
def ironwood_counts_its_logical_devices() -> World:
    """R22: Ray counts eight devices where the host has four chips."""
    world, _, slices = fleet("v7x", "2x2x2", replicas=1)
    for host in slices[0].hosts:
        host.ray["resources_total"]["TPU"] = 8.0
    return world


@silent()
def node_so_young_that_its_plugin_has_not_registered() -> World:
    world, cluster, slices = fleet(ages=[6 * HOUR, 40])
    for host in slices[1].hosts:
        host.node["status"]["allocatable"]["google.com/tpu"] = "0"
        host.node["status"]["capacity"]["google.com/tpu"] = "0"
        pending(host.pod, ago=200)
        cluster.forget(host)
    return world


@scene(("PhantomTpu", None, None), exit=0, each=["gpu-worker", "head", "cpu-worker"])
def ray_sees_a_tpu_where_none_is(where: str) -> World:
    world, cluster, _ = fleet(replicas=1)
    if where == "head":
        cluster.nodes[0]["resources_total"]["TPU"] = 4.0
        return world
    node = world.node("other-node", f"{where}-pool")
    if where == "gpu-worker":
        node["metadata"]["labels"]["cloud.google.com/gke-accelerator"] = "nvidia-l4"
        node["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    ip = "10.8.7.7"
    world.pod(cluster, f"train-{where}-abcde", where, node, ip, 6 * HOUR)
    cluster.raycluster["spec"]["workerGroupSpecs"].append(
        {
            "groupName": where,
            "replicas": 1,
            "minReplicas": 0,
            "maxReplicas": 3,
            "numOfHosts": 1,
            "template": {"spec": {"containers": [{"name": "ray-worker"}]}},
        }
    )
    cluster.nodes.append(
        dict(
            cluster.nodes[0],
            node_id=hexid("gpu"),
            is_head_node=False,
            node_ip=ip,
            node_name=ip,
            labels={"ray.io/node-id": hexid("gpu")},
            resources_total={"CPU": 8.0, "GPU": 1.0, "TPU": 1.0},
        )
    )
    return world
