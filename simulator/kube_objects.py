"""Kubernetes objects of a Ray cluster on TPUs, as GKE, KubeRay and the TPU webhook write them.

Plain functions from facts to JSON; pods have a module of their own. The mirror of the local Ray
cluster and the invented fleets both use them, so that demo and tests see the same clusters.
"""

from __future__ import annotations

import hashlib
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Literal

from simulator.shapes import Shape

Object = dict[str, Any]

Marks = Literal["indexed", "legacy", "none"]
"""How pods say which slice they are of: KubeRay 1.6's ``ray.io/worker-group-replica-*`` labels,
the older webhook's ``replicaIndex`` label, or not at all (the webhook did not see them)."""

RAY_VERSION = "2.60.0"
IMAGE = f"rayproject/ray:{RAY_VERSION}-py311-tpu"
NAMES = uuid.UUID("6f1e8a2c-7c2a-4f0e-9d0b-6a0c2f1d9b11")


@lru_cache(maxsize=1 << 14)
def stamp(seconds: float) -> str:
    """Epoch seconds as the API writes times."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@lru_cache(maxsize=1 << 17)
def uid(*parts: object) -> str:
    """A uid that is always the same for the same thing."""
    return str(uuid.uuid5(NAMES, "/".join(str(part) for part in parts)))


@lru_cache(maxsize=1 << 17)
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


def condition_of(kind: str, ok: bool, since: float, reason: str = "", message: str = "") -> Object:
    """An entry of ``status.conditions``."""
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
                "rayStartParams": {"dashboard-host": "0.0.0.0"},
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
                condition_of("HeadPodReady", True, cluster.created, "HeadPodRunningAndReady"),
                condition_of(
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
