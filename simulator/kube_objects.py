"""Kubernetes objects of a Ray cluster on TPUs, as GKE, KubeRay and the TPU webhook write them.

Plain functions from facts to JSON. The mirror of the local Ray cluster and the invented fleets both
use them, so that the demo and the tests see the same clusters.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from simulator.shapes import Shape

Object = dict[str, Any]

Marks = Literal["indexed", "legacy", "none"]
"""How pods say which slice they are of: KubeRay 1.6's ``ray.io/worker-group-replica-*`` labels,
the older webhook's ``replicaIndex`` label, or not at all (the webhook did not see them)."""

PodState = Literal[
    "running", "starting", "unschedulable", "crash_loop", "terminated", "not_ready", "failed"
]

RAY_VERSION = "2.60.0"
IMAGE = f"rayproject/ray:{RAY_VERSION}-py311-tpu"
NAMES = uuid.UUID("6f1e8a2c-7c2a-4f0e-9d0b-6a0c2f1d9b11")


def stamp(seconds: float) -> str:
    """Epoch seconds as the API writes times."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def uid(*parts: object) -> str:
    """A uid that is always the same for the same thing."""
    return str(uuid.uuid5(NAMES, "/".join(str(part) for part in parts)))


def suffix(*parts: object, length: int = 5) -> str:
    """A short name ending, such as Kubernetes makes up, always the same for the same thing."""
    digest = hashlib.sha256("/".join(str(part) for part in parts).encode()).digest()
    return "".join("bcdfghjklmnpqrstvwxz2456789"[byte % 27] for byte in digest[:length])


@dataclass(frozen=True)
class ClusterFacts:
    """A RayCluster: its name and namespace, and since when it exists (epoch seconds)."""

    namespace: str
    name: str
    created: float
    marks: Marks = "indexed"

    @property
    def uid(self) -> str:
        return uid("raycluster", self.namespace, self.name)

    @property
    def head_service(self) -> str:
        return f"{self.name}-head-svc"

    @property
    def headless_service(self) -> str:
        return f"{self.name}-headless"

    def owner(self) -> list[Object]:
        """The ``ownerReferences`` of what belongs to it."""
        return [
            {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "name": self.name,
                "uid": self.uid,
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]


@dataclass(frozen=True)
class HostFacts:
    """A host of a slice as Kubernetes sees it. Times are epoch seconds.

    ``since`` is when the pod's present state began. ``megascale_slices`` is the number of slices of
    a multislice job, if it is part of one.
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
            {"name": "MEGASCALE_SLICE_ID", "value": str(host.replica)},
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


def _condition(kind: str, ok: bool, since: float, reason: str = "", message: str = "") -> Object:
    found: Object = {
        "type": kind,
        "status": "True" if ok else "False",
        "lastTransitionTime": stamp(since),
    }
    if reason:
        found["reason"] = reason
    if message:
        found["message"] = message
    return found


def _pod_status(host: HostFacts, container: str) -> Object:
    """``status`` of a pod in a state, down to the container."""
    created, since, state = host.created, host.since, host.state
    if state == "unschedulable":
        message = host.message or (
            f"0/12 nodes are available: 12 Insufficient google.com/tpu. preemption: 0/12 nodes are "
            f"available: 12 No preemption victims found for incoming pod."
        )
        return {
            "phase": "Pending",
            "conditions": [_condition("PodScheduled", False, created, "Unschedulable", message)],
        }
    ready = state == "running" and host.ray_ready
    reason = "" if ready else "ContainersNotReady"
    message = "" if ready else f"containers with unready status: [{container}]"
    conditions = [
        _condition("Initialized", True, created),
        _condition("Ready", ready, since, reason, message),
        _condition("ContainersReady", ready, since, reason, message),
        _condition("PodScheduled", True, created),
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
                _condition(kind, True, cluster.created)
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


def node(
    *,
    name: str,
    pool: str,
    created: float,
    ip: str,
    shape: Shape | None = None,
    ready: bool = True,
    since: float | None = None,
) -> Object:
    """A GKE node; with a shape, of a TPU pool. ``since``: when its readiness last changed."""
    labels = {
        "cloud.google.com/gke-nodepool": pool,
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "us-east5",
        "topology.kubernetes.io/zone": "us-east5-b",
        "node.kubernetes.io/instance-type": shape.machine_type if shape else "n2-standard-16",
    }
    amounts = {"cpu": "180" if shape else "16", "memory": "708Gi" if shape else "64Gi"}
    amounts["pods"] = "110"
    spec: Object = {"providerID": f"gce://demo/us-east5-b/{name}"}
    if shape is not None:
        labels |= {
            "cloud.google.com/gke-accelerator-count": str(shape.chips_per_host),
            "cloud.google.com/gke-tpu-accelerator": shape.generation.accelerator,
            "cloud.google.com/gke-tpu-topology": shape.topology,
        }
        amounts["google.com/tpu"] = str(shape.chips_per_host)
        spec["taints"] = [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]
    if not ready:
        spec["taints"] = [
            *spec.get("taints", ()),
            {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
        ]
    since = created if since is None else since
    condition: Object = {
        "type": "Ready",
        "status": "True" if ready else "Unknown",
        "reason": "KubeletReady" if ready else "NodeStatusUnknown",
        "message": "kubelet is posting ready status"
        if ready
        else "Kubelet stopped posting node status.",
        "lastTransitionTime": stamp(since),
        "lastHeartbeatTime": stamp(since),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid("node", name),
            "creationTimestamp": stamp(created),
            "labels": labels,
        },
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": dict(amounts),
            "conditions": [condition],
            "addresses": [
                {"type": "InternalIP", "address": ip},
                {"type": "Hostname", "address": name},
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.34.2-gke.1100000",
                "osImage": "Container-Optimized OS from Google",
                "kernelVersion": "6.12.46+",
                "containerRuntimeVersion": "containerd://2.1.4",
                "architecture": "amd64",
                "operatingSystem": "linux",
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kubeProxyVersion": "",
            },
        },
    }


def services(cluster: ClusterFacts, *, multi_host: bool) -> list[Object]:
    """The head service, and the headless one where some group has several hosts a slice."""
    ports = [("gcs", 6379), ("dashboard", 8265), ("client", 10001), ("metrics", 8080)]
    head = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": cluster.head_service,
            "namespace": cluster.namespace,
            "uid": uid("service", cluster.namespace, cluster.head_service),
            "creationTimestamp": stamp(cluster.created),
            "labels": {"ray.io/cluster": cluster.name, "ray.io/node-type": "head"},
            "ownerReferences": cluster.owner(),
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": {"ray.io/cluster": cluster.name, "ray.io/node-type": "head"},
            "ports": [
                {"name": name, "port": port, "protocol": "TCP", "targetPort": port}
                for name, port in ports
            ],
        },
    }
    if not multi_host:
        return [head]
    headless = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": cluster.headless_service,
            "namespace": cluster.namespace,
            "uid": uid("service", cluster.namespace, cluster.headless_service),
            "creationTimestamp": stamp(cluster.created),
            "labels": {"ray.io/headless-worker-svc": cluster.name},
            "ownerReferences": cluster.owner(),
        },
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {"ray.io/cluster": cluster.name, "ray.io/node-type": "worker"},
            "ports": [],
        },
    }
    return [head, headless]


@dataclass(frozen=True)
class GroupFacts:
    """A worker group of a RayCluster. ``ready`` and ``available`` count pods."""

    name: str
    shape: Shape
    replicas: int
    ready: int
    available: int


def ray_cluster(
    cluster: ClusterFacts, groups: list[GroupFacts], *, head_pod_name: str, head_ip: str
) -> Object:
    """The RayCluster object with its status."""
    desired = sum(group.replicas * group.shape.hosts for group in groups)
    chips = sum(group.replicas * group.shape.hosts * group.shape.chips_per_host for group in groups)
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {
            "name": cluster.name,
            "namespace": cluster.namespace,
            "uid": cluster.uid,
            "creationTimestamp": stamp(cluster.created),
            "generation": 1,
        },
        "spec": {
            "rayVersion": RAY_VERSION,
            "enableInTreeAutoscaling": False,
            "headGroupSpec": {
                "rayStartParams": {"dashboard-host": "0.0.0.0"},  # noqa: S104 - what KubeRay writes
                "template": {"spec": {"containers": [{"name": "ray-head", "image": IMAGE}]}},
            },
            "workerGroupSpecs": [_worker_group(group) for group in groups],
        },
        "status": {
            "state": "ready",
            "observedGeneration": 1,
            "desiredWorkerReplicas": desired,
            "availableWorkerReplicas": sum(group.available for group in groups),
            "readyWorkerReplicas": sum(group.ready for group in groups),
            "minWorkerReplicas": desired,
            "maxWorkerReplicas": desired,
            "desiredCPU": str(8 + 8 * desired),
            "desiredGPU": "0",
            "desiredMemory": f"{32 + 64 * desired}Gi",
            "desiredTPU": str(chips),
            "lastUpdateTime": stamp(cluster.created),
            "head": {
                "podIP": head_ip,
                "podName": head_pod_name,
                "serviceIP": head_ip,
                "serviceName": cluster.head_service,
            },
            "conditions": [
                _condition("HeadPodReady", True, cluster.created, "HeadPodRunningAndReady"),
                _condition(
                    "RayClusterProvisioned", True, cluster.created, "AllPodRunningAndReadyFirstTime"
                ),
            ],
        },
    }


def _worker_group(group: GroupFacts) -> Object:
    amounts = {"google.com/tpu": str(group.shape.chips_per_host)}
    return {
        "groupName": group.name,
        "replicas": group.replicas,
        "minReplicas": group.replicas,
        "maxReplicas": group.replicas,
        "numOfHosts": group.shape.hosts,
        "rayStartParams": {},
        "template": {
            "spec": {
                "nodeSelector": {
                    "cloud.google.com/gke-tpu-accelerator": group.shape.generation.accelerator,
                    "cloud.google.com/gke-tpu-topology": group.shape.topology,
                },
                "containers": [
                    {
                        "name": "ray-worker",
                        "image": IMAGE,
                        "resources": {"limits": amounts, "requests": dict(amounts)},
                    }
                ],
            }
        },
    }


def namespace(name: str, created: float) -> Object:
    """A namespace."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": name,
            "uid": uid("namespace", name),
            "creationTimestamp": stamp(created),
            "labels": {"kubernetes.io/metadata.name": name},
        },
        "status": {"phase": "Active"},
    }


def event(
    about: Object,
    reason: str,
    message: str,
    *,
    at: float,
    first: float | None = None,
    count: int = 1,
    warning: bool = True,
    component: str = "kubelet",
) -> Object:
    """A core/v1 event about an object; the same object and reason keep one event that counts."""
    meta = about["metadata"]
    space = meta.get("namespace") or "default"
    name = f"{meta['name']}.{suffix(about['kind'], meta['uid'], reason, length=12)}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": name,
            "namespace": space,
            "uid": uid("event", space, name),
            "creationTimestamp": stamp(at if first is None else first),
        },
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "message": message,
        "count": count,
        "firstTimestamp": stamp(at if first is None else first),
        "lastTimestamp": stamp(at),
        "reportingComponent": component,
        "reportingInstance": "",
        "source": {"component": component},
        "involvedObject": {
            "apiVersion": about["apiVersion"],
            "kind": about["kind"],
            "name": meta["name"],
            **({"namespace": meta["namespace"]} if meta.get("namespace") else {}),
            "uid": meta["uid"],
        },
    }
