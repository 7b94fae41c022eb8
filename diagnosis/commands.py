"""Commands that a finding offers, ready to paste: every name that came from a cluster is quoted.

The forms are those of facts/gke_tpu.md section 6. Commands for Ray run on the head pod where Ray
is on Kubernetes, else in a shell on the head host.
"""

from __future__ import annotations

import shlex

from diagnosis.view import View
from fleet.model import ClusterView, Slice, WorkerGroup
from fleet.pods import (
    CLUSTER_LABEL,
    GROUP_LABEL,
    LEGACY_REPLICA_LABEL,
    NODE_TYPE_LABEL,
    REPLICA_NAME_LABEL,
    labels_of,
)

POD_COLUMNS = (
    "ray.io/group,replicaIndex,ray.io/worker-group-replica-name,"
    "ray.io/worker-group-replica-index,ray.io/replica-host-index"
)
NODE_COLUMNS = (
    "cloud.google.com/gke-nodepool,cloud.google.com/gke-tpu-accelerator,"
    "cloud.google.com/gke-tpu-topology,cloud.google.com/gke-accelerator-count,"
    "cloud.google.com/scheduled-maintenance-time,cloud.google.com/active-node-maintenance"
)
WEBHOOK_NAMESPACE = "ray-system"
WEBHOOK = "kuberay-tpu-webhook"

REMOVE_GROUP = (
    "import sys, ray; "
    "from ray._raylet import PlacementGroupID; "
    "from ray.util.placement_group import PlacementGroup, remove_placement_group; "
    'ray.init(address="auto", log_to_driver=False); '
    "remove_placement_group(PlacementGroup(PlacementGroupID(bytes.fromhex(sys.argv[1]))))"
)
"""Ray has no command for this; an unnamed group can only be removed by its id."""


def kubectl(view: View, *args: str, namespace: str | None = None) -> str:
    """``kubectl`` with the observed context and a namespace, every argument quoted."""
    words = ["kubectl"]
    if view.fleet.context:
        words += ["--context", view.fleet.context]
    if namespace:
        words += ["-n", namespace]
    return shlex.join([*words, *args])


def head_service(view: View, cluster: ClusterView) -> str:
    """The head's Service: KubeRay's own name, or whichever one selects the head."""
    usual = f"{cluster.cluster}-head-svc"
    found = None
    for service in view.fleet.services:
        meta = service.metadata
        if meta is None or meta.namespace != cluster.namespace or not meta.name:
            continue
        if meta.name == usual:
            return usual
        selector = (service.spec.selector if service.spec else None) or {}
        if (
            selector.get(CLUSTER_LABEL) == cluster.cluster
            and selector.get(NODE_TYPE_LABEL) == "head"
        ):
            found = min(found, meta.name) if found else meta.name
    return found or usual


def on_head(view: View, cluster: ClusterView, *args: str) -> str:
    """A command to run where the Ray head runs."""
    if not cluster.has_kubernetes:
        return shlex.join(args)
    target = f"svc/{head_service(view, cluster)}"
    return kubectl(view, "exec", target, "--", *args, namespace=cluster.namespace)


def ray_list(view: View, cluster: ClusterView, what: str, *filters: str) -> str:
    """``ray list`` with all columns and without the default limit of 100 rows."""
    chosen = [word for item in filters for word in ("--filter", item)]
    # A bare Ray cluster is asked from where the reader sits, if its dashboard's address is known.
    where = ["--address", cluster.address] if cluster.address and not cluster.has_kubernetes else []
    return on_head(
        view, cluster, "ray", "list", what, *where, "--detail", "--limit", "10000", *chosen
    )


def ray_status(view: View, cluster: ClusterView) -> str:
    """What is used, asked for and pending, as Ray says."""
    return on_head(view, cluster, "ray", "status", "-v")


def remove_group(view: View, cluster: ClusterView, group_id: str) -> str:
    """Remove one placement group by its id."""
    return on_head(view, cluster, "python", "-c", REMOVE_GROUP, group_id)


def stop_job(view: View, cluster: ClusterView, job_id: str) -> str:
    """Stop a job that was submitted through Ray's job API."""
    return on_head(view, cluster, "ray", "job", "stop", job_id)


def list_pods(view: View, cluster: ClusterView) -> str:
    """Pods of a Ray cluster with where they run and which replica they are of."""
    return kubectl(
        view,
        "get",
        "pods",
        "-l",
        f"{CLUSTER_LABEL}={cluster.cluster}",
        "-o",
        "wide",
        "-L",
        POD_COLUMNS,
        namespace=cluster.namespace,
    )


def list_nodes(view: View) -> str:
    """Nodes with pool, accelerator, topology, chips and planned maintenance."""
    return kubectl(view, "get", "nodes", "-L", NODE_COLUMNS)


def describe_pod(view: View, namespace: str, name: str) -> str:
    """A pod's spec, conditions and events."""
    return kubectl(view, "describe", "pod", name, namespace=namespace)


def describe_node(view: View, name: str) -> str:
    """A node's conditions, taints and what it offers."""
    return kubectl(view, "describe", "node", name)


def describe_cluster(view: View, cluster: ClusterView) -> str:
    """A RayCluster's conditions and events."""
    return kubectl(view, "describe", "raycluster", cluster.cluster, namespace=cluster.namespace)


def cluster_yaml(view: View, cluster: ClusterView) -> str:
    """A RayCluster as it is stored."""
    return kubectl(
        view, "get", "raycluster", cluster.cluster, "-o", "yaml", namespace=cluster.namespace
    )


def logs(view: View, namespace: str, name: str, *, previous: bool = False) -> str:
    """The last lines of a pod's log; ``previous``: of the container's run before."""
    more = ("--previous",) if previous else ()
    return kubectl(view, "logs", name, "--tail", "100", *more, namespace=namespace)


def events_of(view: View, namespace: str, reason: str) -> str:
    """Kubernetes events of one reason, as facts/gke_tpu.md section 6 lists them."""
    return kubectl(
        view, "get", "events", "--field-selector", f"reason={reason}", namespace=namespace
    )


def services(view: View, cluster: ClusterView) -> str:
    """Headless Services that KubeRay made for a cluster."""
    return kubectl(
        view,
        "get",
        "svc",
        "-l",
        f"ray.io/headless-worker-svc={cluster.cluster}",
        namespace=cluster.namespace,
    )


def pod_env(view: View, namespace: str, name: str) -> str:
    """TPU and MEGASCALE variables of a running pod."""
    script = "env | grep -E 'TPU_|MEGASCALE' | sort"
    return kubectl(view, "exec", name, "--", "sh", "-c", script, namespace=namespace)


def tpu_info(view: View, namespace: str, name: str) -> str:
    """What the chips of a pod do, by libtpu."""
    return kubectl(view, "exec", name, "--", "tpu-info", namespace=namespace)


def webhook_state(view: View) -> str:
    """Whether the TPU webhook runs and has endpoints."""
    return kubectl(view, "get", "deploy,ep", WEBHOOK, namespace=WEBHOOK_NAMESPACE)


def webhook_logs(view: View) -> str:
    """The last lines of the TPU webhook's log."""
    return kubectl(view, "logs", f"deploy/{WEBHOOK}", "--tail", "100", namespace=WEBHOOK_NAMESPACE)


def restart_webhook(view: View) -> str:
    """Start the TPU webhook again."""
    return kubectl(view, "rollout", "restart", f"deploy/{WEBHOOK}", namespace=WEBHOOK_NAMESPACE)


def replica_selector(item: Slice) -> str | None:
    """The labels that all pods of one slice share, as a selector; ``None`` when it has none."""
    for host in item.hosts:
        labels = labels_of(host.pod) if host.pod is not None else {}
        for key in (REPLICA_NAME_LABEL, LEGACY_REPLICA_LABEL):
            if labels.get(key):
                return f"{CLUSTER_LABEL}={item.cluster},{key}={labels[key]}"
    return None


def delete_slice_pods(view: View, item: Slice) -> str | None:
    """Delete every pod of one slice so that KubeRay makes it anew as a whole."""
    selector = replica_selector(item)
    if selector is not None:
        return kubectl(view, "delete", "pod", "-l", selector, namespace=item.namespace)
    pods = [host.pod_name for host in item.hosts if host.pod_name]
    return kubectl(view, "delete", "pod", *pods, namespace=item.namespace) if pods else None


def delete_group_pods(view: View, group: WorkerGroup) -> str:
    """Delete every pod of a worker group; KubeRay makes them anew."""
    selector = f"{CLUSTER_LABEL}={group.cluster},{GROUP_LABEL}={group.name}"
    return kubectl(view, "delete", "pod", "-l", selector, namespace=group.namespace)


def delete_pods(view: View, namespace: str, names: list[str]) -> str:
    """Delete pods by name."""
    return kubectl(view, "delete", "pod", *names, namespace=namespace)


def edit_cluster(view: View, cluster: ClusterView) -> str:
    """Open a RayCluster's spec in an editor."""
    return kubectl(view, "edit", "raycluster", cluster.cluster, namespace=cluster.namespace)
