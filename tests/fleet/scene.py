"""A scene of one Ray cluster for tests of the mapping: small, explicit, changed field by field."""

from __future__ import annotations

from typing import Any

import msgspec

from fleet.mapping import build_fleet
from fleet.model import Fleet
from fleet.observation import (
    Event,
    KubernetesObservation,
    Node,
    Observation,
    Pod,
    RayActor,
    RayCluster,
    RayNode,
    RayObservation,
    RayPlacementGroup,
    RayTask,
    Service,
    SourceStatus,
)
from fleet.times import format_time

NOW = 1_800_000_000.0
HOUR = 3600.0


def _rows(rows: list[dict[str, Any]], kind: Any) -> tuple[Any, ...]:
    return msgspec.convert(rows, tuple[kind, ...])


class Scene:
    """One cluster ``ml/train``; ``kubernetes``/``ray`` switch a side off."""

    def __init__(self, *, kubernetes: bool = True, ray: bool = True, namespace: str = "ml") -> None:
        self.now = NOW
        self.kubernetes = kubernetes
        self.ray = ray
        self.namespace = namespace if kubernetes else "-"
        self.cluster = "train" if kubernetes else "default"
        self.pods: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.ray_clusters: list[dict[str, Any]] = []
        self.ray_nodes: list[dict[str, Any]] = []
        self.groups: list[dict[str, Any]] = []
        self.actors: list[dict[str, Any]] = []
        self.tasks: list[dict[str, Any]] = []
        self.kubernetes_source: dict[str, Any] = {}
        self.ray_source: dict[str, Any] = {}

    def slice(
        self,
        name: str = "v6e-group-0",
        *,
        hosts: int = 4,
        chips: int = 4,
        topology: str = "4x4",
        accelerator: str = "tpu-v6e-slice",
        pod_type: str = "v6e-16",
        age: float = 6 * HOUR,
        regime: str = "kuberay",
        pool: str | None = None,
        tpu: float | None = None,
        replica: str | None = None,
        suffix: str = "",
    ) -> None:
        """A whole slice on both sides. ``regime``: ``kuberay``, ``legacy``, ``none`` (no marks)."""
        group = name.rpartition("-")[0]
        pool = pool or f"pool-{name}"
        for index in range(hosts):
            pod = f"{name}-pod-{index}{suffix}"
            address = f"10.0.{len(self.ray_nodes) // 200}.{len(self.ray_nodes) % 200 + 1}"
            labels = {"ray.io/cluster": self.cluster, "ray.io/group": group}
            if regime == "kuberay":
                labels |= {
                    "ray.io/worker-group-replica-name": replica or f"{name}-abcde",
                    "ray.io/worker-group-replica-index": name.rpartition("-")[2],
                    "ray.io/replica-host-index": str(index),
                }
            elif regime == "legacy":
                labels["replicaIndex"] = name
            marked = regime != "none"
            env = {"RAY_CLOUD_INSTANCE_ID": pod}
            if marked:
                env |= {"TPU_NAME": name, "TPU_WORKER_ID": str(index)}
                if hosts > 1:
                    env["TPU_WORKER_HOSTNAMES"] = ",".join(
                        f"{name}-{n}.{self.cluster}-headless" for n in range(hosts)
                    )
            self.pods.append(
                {
                    "metadata": {
                        "name": pod,
                        "namespace": self.namespace,
                        "labels": labels,
                        "creationTimestamp": format_time(self.now - age),
                    },
                    "spec": {
                        "nodeName": f"node-{pod}",
                        "nodeSelector": {
                            "cloud.google.com/gke-tpu-accelerator": accelerator,
                            "cloud.google.com/gke-tpu-topology": topology,
                        },
                        "containers": [
                            {
                                "name": "ray-worker",
                                "env": [{"name": k, "value": v} for k, v in env.items()],
                                "resources": {"limits": {"google.com/tpu": str(chips)}},
                            }
                        ],
                    },
                    "status": {
                        "phase": "Running",
                        "podIP": address,
                        "conditions": [{"type": "Ready", "status": "True"}],
                        "containerStatuses": [{"name": "ray-worker", "ready": True}],
                    },
                }
            )
            if marked and hosts > 1:
                self.pods[-1]["spec"] |= {
                    "hostname": f"{name}-{index}",
                    "subdomain": f"{self.cluster}-headless",
                }
            self.nodes.append(
                {
                    "metadata": {
                        "name": f"node-{pod}",
                        "labels": {
                            "cloud.google.com/gke-nodepool": pool,
                            "cloud.google.com/gke-accelerator-count": str(chips),
                        },
                    },
                    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
                }
            )
            ray_labels = {"ray.io/tpu-topology": topology, "ray.io/tpu-pod-type": pod_type}
            if marked:
                ray_labels |= {
                    "ray.io/tpu-slice-name": name,
                    "ray.io/tpu-worker-id": str(index),
                }
            self.ray_nodes.append(
                {
                    "node_id": f"ray-{name}-{index}{suffix}",
                    "node_ip": address,
                    "state": "ALIVE",
                    "labels": ray_labels,
                    "resources_total": {"TPU": tpu or float(chips)}
                    | ({f"TPU-{pod_type}-head": 1.0} if index == 0 and marked else {}),
                    "start_time_ms": (self.now - age + 30) * 1000,
                    "end_time_ms": 0,
                }
            )

    def pod(self, name: str) -> dict[str, Any]:
        return next(pod for pod in self.pods if pod["metadata"]["name"] == name)

    def node(self, name: str) -> dict[str, Any]:
        return next(node for node in self.nodes if node["metadata"]["name"] == name)

    def ray_node(self, node_id: str) -> dict[str, Any]:
        return next(node for node in self.ray_nodes if node["node_id"] == node_id)

    def die(self, node_id: str, *, ago: float) -> None:
        self.ray_node(node_id).update(
            state="DEAD", end_time_ms=(self.now - ago) * 1000, state_message="heartbeats missed"
        )

    def not_ready(self, name: str, *, ago: float = 60.0) -> None:
        self.pod(name)["status"]["conditions"] = [
            {
                "type": "Ready",
                "status": "False",
                "lastTransitionTime": format_time(self.now - ago),
            }
        ]

    def pending(self, name: str, message: str = "0/3 nodes are available") -> None:
        pod = self.pod(name)
        pod["spec"].pop("nodeName")
        pod["status"] = {
            "phase": "Pending",
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": message,
                }
            ],
        }

    def without_ray_node(self, node_id: str) -> None:
        self.ray_nodes = [node for node in self.ray_nodes if node["node_id"] != node_id]

    def without_pod(self, name: str) -> None:
        self.pods = [pod for pod in self.pods if pod["metadata"]["name"] != name]

    def group(
        self,
        name: str,
        node_ids: list[str | None],
        *,
        state: str = "CREATED",
        chips: float = 4.0,
        selector: dict[str, str] | None = None,
        age: float = HOUR,
        group_id: str | None = None,
        resources: dict[str, float] | None = None,
        attempts: int = 1,
    ) -> str:
        identity = group_id or f"{len(self.groups) + 10:04x}" * 4
        self.groups.append(
            {
                "placement_group_id": identity,
                "name": name,
                "creator_job_id": "01000000",
                "state": state,
                "stats": {
                    "creation_request_received_ns": str(int((self.now - age) * 1e9)),
                    "end_to_end_creation_latency_us": "5000",
                    "scheduling_attempt": attempts,
                    "scheduling_state": "FINISHED" if state == "CREATED" else "NO_RESOURCES",
                },
                "bundles": [
                    {
                        "bundle_id": {"placement_group_id": identity, "bundle_index": index},
                        "unit_resources": resources or {"TPU": chips},
                        "node_id": node_id or "",
                        "label_selector": selector or {},
                    }
                    for index, node_id in enumerate(node_ids)
                ],
            }
        )
        return identity

    def actor(
        self, node_id: str | None, group_id: str | None, *, index: int = 0, state: str = "ALIVE"
    ) -> dict[str, Any]:
        suffix = f"_group_{index}_{group_id}" if group_id else ""
        self.actors.append(
            {
                "actor_id": f"actor-{len(self.actors)}",
                "class_name": "TrainWorker",
                "state": state,
                "job_id": "01000000",
                "node_id": node_id,
                "placement_group_id": group_id,
                "required_resources": {f"TPU{suffix}": 4.0},
            }
        )
        return self.actors[-1]

    def observation(self) -> Observation:
        kubernetes = None
        if self.kubernetes:
            kubernetes = KubernetesObservation(
                source=SourceStatus(
                    **{"name": "kubernetes", "status": "ok", **self.kubernetes_source}
                ),
                pods=_rows(self.pods, Pod),
                nodes=_rows(self.nodes, Node),
                services=_rows(
                    [
                        {
                            "metadata": {
                                "name": f"{self.cluster}-headless",
                                "namespace": self.namespace,
                            },
                            "spec": {"clusterIP": "None"},
                        }
                    ],
                    Service,
                ),
                events=_rows(self.events, Event),
                ray_clusters=_rows(self.ray_clusters, RayCluster),
                slices=(),
            )
        source = SourceStatus(
            **{"name": f"ray:{self.namespace}/{self.cluster}", "status": "ok", **self.ray_source}
        )
        ray = RayObservation(source=source, namespace=self.namespace, cluster=self.cluster)
        if self.ray:
            ray = msgspec.structs.replace(
                ray,
                nodes=_rows(self.ray_nodes, RayNode),
                placement_groups=_rows(self.groups, RayPlacementGroup),
                actors=_rows(self.actors, RayActor),
                tasks=_rows(self.tasks, RayTask),
                jobs=(),
            )
        else:
            ray = msgspec.structs.replace(
                ray, source=msgspec.structs.replace(source, status="down", complete=False)
            )
        return Observation(now=self.now, kubernetes=kubernetes, ray=(ray,))

    def fleet(self) -> Fleet:
        return build_fleet(self.observation())
