"""Pods of a Ray cluster on TPUs, in each state that a pod can be in.

What KubeRay writes, what the TPU webhook adds, and what the kubelet reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from simulator.kube_objects import IMAGE, ClusterFacts, Object, condition_of, stamp, suffix, uid
from simulator.shapes import Shape

PodState = Literal[
    "running", "starting", "unschedulable", "crash_loop", "terminated", "not_ready", "failed"
]


@dataclass(frozen=True)
class HostFacts:
    """A host of a slice as Kubernetes sees it. Times are epoch seconds.

    ``since`` is when the pod's present state began. ``megascale_slices`` is the number of slices of
    a multislice job, if it is part of one, and ``megascale_id`` its number there.
    """

    group: str
    replica: int
    index: int
    shape: Shape
    pod_name: str
    node_name: str
    pod_ip: str
    host_ip: str
    created: float
    since: float
    state: PodState = "running"
    restarts: int = 0
    ray_ready: bool = True
    megascale_slices: int | None = None
    megascale_id: int = 0
    message: str = ""

    @property
    def slice_name(self) -> str:
        return f"{self.group}-{self.replica}"

    @property
    def pool(self) -> str:
        return f"{self.group}-{self.shape.topology}-pool-{self.replica}"


def _labels(cluster: ClusterFacts, node_type: str, group: str) -> Object:
    return {
        "app.kubernetes.io/created-by": "kuberay-operator",
        "app.kubernetes.io/name": "kuberay",
        "ray.io/cluster": cluster.name,
        "ray.io/group": group,
        "ray.io/identifier": f"{cluster.name}-{node_type}",
        "ray.io/is-ray-node": "yes",
        "ray.io/node-type": node_type,
    }


def worker_pod(cluster: ClusterFacts, host: HostFacts) -> Object:
    """The pod of a TPU host."""
    shape, hosts = host.shape, host.shape.hosts
    labels = _labels(cluster, "worker", host.group)
    replica_name = f"{host.group}-{suffix(cluster.uid, host.group, host.replica)}"
    key, value = "replicaIndex", host.slice_name
    if cluster.marks == "indexed":
        labels["ray.io/worker-group-replica-index"] = str(host.replica)
        if hosts > 1:
            key, value = "ray.io/worker-group-replica-name", replica_name
            labels[key] = value
            labels["ray.io/replica-host-index"] = str(host.index)
    elif cluster.marks == "legacy":
        labels["replicaIndex"] = host.slice_name
    env = [
        {"name": "RAY_CLUSTER_NAME", "value": cluster.name},
        {"name": "RAY_CLUSTER_NAMESPACE", "value": cluster.namespace},
        {"name": "RAY_CLOUD_INSTANCE_ID", "value": host.pod_name},
        {"name": "RAY_NODE_TYPE_NAME", "value": host.group},
    ]
    tpu = str(shape.chips_per_host)
    amounts = {"cpu": "8", "memory": "64Gi", "google.com/tpu": tpu}
    spec: Object = {
        "nodeSelector": {
            "cloud.google.com/gke-tpu-accelerator": shape.generation.accelerator,
            "cloud.google.com/gke-tpu-topology": shape.topology,
        },
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "tolerations": [{"key": "google.com/tpu", "operator": "Exists", "effect": "NoSchedule"}],
        "containers": [
            {
                "name": "ray-worker",
                "image": IMAGE,
                "env": env,
                "resources": {"limits": dict(amounts), "requests": dict(amounts)},
            }
        ],
    }
    if cluster.marks != "none":
        env += [{"name": "TPU_NAME", "value": host.slice_name}]
        if hosts > 1:
            env += _multi_host_env(cluster, host)
            spec["hostname"] = f"{host.slice_name}-{host.index}"
            spec["subdomain"] = cluster.headless_service
            spec["affinity"] = _affinity(cluster, key, value)
        else:
            env += [{"name": "TPU_WORKER_ID", "value": "0"}]
    if host.state != "unschedulable":
        spec["nodeName"] = host.node_name
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": host.pod_name,
            "namespace": cluster.namespace,
            "uid": uid("pod", cluster.namespace, host.pod_name),
            "creationTimestamp": stamp(host.created),
            "labels": labels,
            "ownerReferences": cluster.owner(),
        },
        "spec": spec,
        "status": _pod_status(host, "ray-worker"),
    }


def _multi_host_env(cluster: ClusterFacts, host: HostFacts) -> list[Object]:
    service = cluster.headless_service
    names = ",".join(f"{host.slice_name}-{n}.{service}" for n in range(host.shape.hosts))
    env = [
        {"name": "TPU_WORKER_ID", "value": str(host.index)},
        {"name": "TPU_WORKER_HOSTNAMES", "value": names},
    ]
    if host.megascale_slices is not None:
        env += [
            {"name": "MEGASCALE_NUM_SLICES", "value": str(host.megascale_slices)},
            {"name": "MEGASCALE_SLICE_ID", "value": str(host.megascale_id)},
            {"name": "MEGASCALE_COORDINATOR_ADDRESS", "value": f"{host.group}-0-0.{service}"},
        ]
    return env


def _affinity(cluster: ClusterFacts, key: str, value: str) -> Object:
    same = [
        {"key": key, "operator": "In", "values": [value]},
        {"key": "ray.io/cluster", "operator": "In", "values": [cluster.name]},
    ]
    others = [
        {"key": key, "operator": "NotIn", "values": [value]},
        {"key": "ray.io/cluster", "operator": "In", "values": [cluster.name]},
    ]
    rule = "requiredDuringSchedulingIgnoredDuringExecution"
    pool = "cloud.google.com/gke-nodepool"
    return {
        "podAffinity": {rule: [{"labelSelector": {"matchExpressions": same}, "topologyKey": pool}]},
        "podAntiAffinity": {
            rule: [{"labelSelector": {"matchExpressions": others}, "topologyKey": pool}]
        },
    }


def _pod_status(host: HostFacts, container: str) -> Object:
    """``status`` of a pod in a state, down to the container."""
    created, since, state = host.created, host.since, host.state
    if state == "unschedulable":
        message = host.message or (
            "0/12 nodes are available: 12 Insufficient google.com/tpu. preemption: 0/12 nodes are "
            "available: 12 No preemption victims found for incoming pod."
        )
        return {
            "phase": "Pending",
            "conditions": [condition_of("PodScheduled", False, created, "Unschedulable", message)],
        }
    ready = state == "running" and host.ray_ready
    reason = "" if ready else "ContainersNotReady"
    message = "" if ready else f"containers with unready status: [{container}]"
    conditions = [
        condition_of("Initialized", True, created),
        condition_of("Ready", ready, since, reason, message),
        condition_of("ContainersReady", ready, since, reason, message),
        condition_of("PodScheduled", True, created),
    ]
    status: Object = {
        "phase": "Pending" if state == "starting" else "Failed" if state == "failed" else "Running",
        "hostIP": host.host_ip,
        "startTime": stamp(created),
        "conditions": conditions,
        "qosClass": "Guaranteed",
        "containerStatuses": [
            {
                "name": container,
                "image": IMAGE,
                "imageID": "",
                "ready": ready,
                "started": state in ("running", "not_ready"),
                "restartCount": host.restarts,
                **_container_state(host),
            }
        ],
    }
    if state not in ("starting", "failed"):
        status["podIP"] = host.pod_ip
        status["podIPs"] = [{"ip": host.pod_ip}]
    if state == "failed":
        status["reason"] = "Evicted"
        status["message"] = host.message or "The node was low on resource: memory."
    if state == "not_ready":
        conditions[1]["reason"] = "NodeNotReady"
        conditions[1].pop("message", None)
    return status


def _container_state(host: HostFacts) -> Object:
    ended = {
        "exitCode": 137 if host.state in ("terminated", "failed") else 1,
        "reason": "Error",
        "message": host.message,
        "startedAt": stamp(host.created),
        "finishedAt": stamp(host.since),
    }
    if host.state == "starting":
        return {"state": {"waiting": {"reason": "ContainerCreating"}}}
    if host.state in ("terminated", "failed"):
        return {"state": {"terminated": ended}}
    if host.state == "crash_loop":
        message = f"back-off 5m0s restarting failed container=ray-worker pod={host.pod_name}"
        return {
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": message}},
            "lastState": {"terminated": ended},
        }
    return {"state": {"running": {"startedAt": stamp(host.since)}}}


def head_pod(cluster: ClusterFacts, *, name: str, node: str, ip: str, host_ip: str) -> Object:
    """The head's pod, running."""
    amounts = {"cpu": "8", "memory": "32Gi"}
    at = stamp(cluster.created)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": cluster.namespace,
            "uid": uid("pod", cluster.namespace, name),
            "creationTimestamp": at,
            "labels": _labels(cluster, "head", "headgroup"),
            "ownerReferences": cluster.owner(),
        },
        "spec": {
            "nodeName": node,
            "restartPolicy": "Always",
            "serviceAccountName": "default",
            "containers": [
                {
                    "name": "ray-head",
                    "image": IMAGE,
                    "env": [
                        {"name": "RAY_CLUSTER_NAME", "value": cluster.name},
                        {"name": "RAY_CLUSTER_NAMESPACE", "value": cluster.namespace},
                        {"name": "RAY_CLOUD_INSTANCE_ID", "value": name},
                        {"name": "RAY_NODE_TYPE_NAME", "value": "headgroup"},
                    ],
                    "ports": [{"name": "dashboard", "containerPort": 8265, "protocol": "TCP"}],
                    "resources": {"limits": amounts, "requests": dict(amounts)},
                }
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": ip,
            "podIPs": [{"ip": ip}],
            "hostIP": host_ip,
            "startTime": at,
            "qosClass": "Guaranteed",
            "conditions": [
                condition_of(kind, True, cluster.created)
                for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
            ],
            "containerStatuses": [
                {
                    "name": "ray-head",
                    "image": IMAGE,
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": at}},
                }
            ],
        },
    }
