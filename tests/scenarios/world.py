"""A Ray cluster on GKE as its APIs would show it, to be broken on purpose, field by field."""

from __future__ import annotations

from typing import Any

import msgspec

from fleet.mapping import build_fleet
from fleet.model import Fleet
from fleet.observation import (
    Observation,
    RayJob,
    Service,
    SliceObject,
    TpuSample,
    Truncation,
)
from fleet.times import format_time
from tests.fleet.scene import HOUR, NOW, Scene, _rows

__all__ = ["HOUR", "NOW", "World"]

SHAPES: dict[str, dict[str, Any]] = {
    # name: keyword arguments of Scene.slice for one slice of that shape
    "v6e-16": {},
    "v5e-16": {
        "accelerator": "tpu-v5-lite-podslice",
        "pod_type": "v5litepod-16",
        "topology": "4x4",
    },
    "v5e-8": {
        "accelerator": "tpu-v5-lite-podslice",
        "pod_type": "v5litepod-8",
        "topology": "2x4",
        "hosts": 1,
        "chips": 8,
    },
    "v5p-16": {
        "accelerator": "tpu-v5p-slice",
        "pod_type": "v5p-16",
        "topology": "2x2x2",
        "hosts": 2,
    },
    "v4-32": {
        "accelerator": "tpu-v4-podslice",
        "pod_type": "v4-32",
        "topology": "2x2x4",
    },
    "v7x-32": {
        "accelerator": "tpu7x",
        "pod_type": "v7x-32",
        "topology": "2x2x4",
    },
    "v6e-8": {"hosts": 1, "chips": 8, "topology": "2x4", "pod_type": "v6e-8"},
    "v6e-8-two-hosts": {"hosts": 2, "chips": 4, "topology": "2x4", "pod_type": "v6e-8"},
}


class World(Scene):
    """A :class:`Scene` with everything around the slices: head, services, spec, jobs, gauges."""

    def __init__(
        self, *, kubernetes: bool = True, ray: bool = True, cluster: str | None = None
    ) -> None:
        super().__init__(kubernetes=kubernetes, ray=ray)
        if cluster and kubernetes:
            self.cluster = cluster
        self.samples: list[dict[str, Any]] = []
        self.jobs: list[dict[str, Any]] = []
        self.slice_objects: list[dict[str, Any]] = []
        self.services: list[dict[str, Any]] = [
            {
                "metadata": {"name": f"{self.cluster}-{end}", "namespace": self.namespace},
                "spec": {"selector": {"ray.io/cluster": self.cluster}},
            }
            for end in ("headless", "head-svc")
        ]
        self.drop: set[str] = set()
        self.ray_nodes.append(
            {
                "node_id": "ray-head",
                "node_ip": "10.9.0.1",
                "state": "ALIVE",
                "is_head_node": True,
                "labels": {},
                "resources_total": {"CPU": 8.0, "node:__internal_head__": 1.0},
                "start_time_ms": (self.now - 7 * HOUR) * 1000,
                "end_time_ms": 0,
            }
        )
        self.jobs.append({"job_id": "01000000", "type": "DRIVER", "status": "RUNNING"})
        self.ray_clusters.append(
            {
                "metadata": {"name": self.cluster, "namespace": self.namespace},
                "spec": {"rayVersion": "2.60.0", "workerGroupSpecs": []},
                "status": {"state": "ready", "conditions": []},
            }
        )

    # --- building -----------------------------------------------------------------------

    @property
    def groups_spec(self) -> list[dict[str, Any]]:
        return self.ray_clusters[0]["spec"]["workerGroupSpecs"]

    @property
    def status(self) -> dict[str, Any]:
        return self.ray_clusters[0]["status"]

    def spec(self, name: str) -> dict[str, Any]:
        return next(item for item in self.groups_spec if item["groupName"] == name)

    def add(self, shape: str = "v6e-16", name: str | None = None, **more: Any) -> str:
        """A whole slice of one of :data:`SHAPES`, with its worker group; gives its name."""
        fields = {**SHAPES[shape], **more}
        group = f"{shape}-group"
        if name is None:
            count = sum(item["groupName"] == group for item in self.groups_spec)
            have = self.spec(group)["replicas"] if count else 0
            name = f"{group}-{have}"
        group = name.rpartition("-")[0]
        first = len(self.pods)
        self.slice(name, **fields)
        hosts = fields.get("hosts", 4)
        chips = str(fields.get("chips", 4))
        regime = fields.get("regime", "kuberay")
        domain = f"{self.cluster}-headless"
        names = ",".join(f"{name}-{index}.{domain}" for index in range(hosts))
        for place, pod in enumerate(self.pods[first:]):
            pod["metadata"]["labels"] |= {
                "ray.io/node-type": "worker",
                "app.kubernetes.io/name": "kuberay",
            }
            if hosts > 1 and regime != "none":
                pod["spec"] |= {"hostname": f"{name}-{place}", "subdomain": domain}
                pod["spec"]["containers"][0]["env"].append(
                    {"name": "TPU_WORKER_HOSTNAMES", "value": names}
                )
                key = "ray.io/worker-group-replica-name"
                if regime == "legacy":
                    key = "replicaIndex"
                pod["spec"]["affinity"] = self.affinity(key, pod["metadata"]["labels"].get(key))
        for node in self.nodes[first:]:
            node["metadata"]["labels"] |= {
                "cloud.google.com/gke-tpu-accelerator": fields.get("accelerator", "tpu-v6e-slice"),
                "cloud.google.com/gke-tpu-topology": fields.get("topology", "4x4"),
            }
            node["status"]["allocatable"] = {"google.com/tpu": chips}
            node["status"]["capacity"] = {"google.com/tpu": chips}
            node["metadata"]["creationTimestamp"] = format_time(
                self.now - fields.get("age", 6 * HOUR) - 120
            )
        known = next((item for item in self.groups_spec if item["groupName"] == group), None)
        if known is not None:
            known["replicas"] += 1
        else:
            self.groups_spec.append(
                {
                    "groupName": group,
                    "replicas": 1,
                    "minReplicas": 0,
                    "maxReplicas": 100,
                    "numOfHosts": hosts,
                    "template": {
                        "spec": {
                            "nodeSelector": {
                                "cloud.google.com/gke-tpu-accelerator": fields.get(
                                    "accelerator", "tpu-v6e-slice"
                                ),
                                "cloud.google.com/gke-tpu-topology": fields.get("topology", "4x4"),
                            },
                            "containers": [
                                {
                                    "name": "ray-worker",
                                    "resources": {"limits": {"google.com/tpu": chips}},
                                }
                            ],
                        }
                    },
                }
            )
        return name

    @staticmethod
    def affinity(key: str, value: str | None) -> dict[str, Any]:
        return {
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {
                            "matchExpressions": [
                                {"key": key, "operator": "In", "values": [value or "x"]}
                            ]
                        },
                        "topologyKey": "cloud.google.com/gke-nodepool",
                    }
                ]
            }
        }

    def host(self, name: str, index: int) -> dict[str, Any]:
        """The Ray node of a host."""
        return self.ray_node(f"ray-{name}-{index}")

    def pod_of(self, name: str, index: int) -> dict[str, Any]:
        return self.pod(f"{name}-pod-{index}")

    def node_of(self, name: str, index: int) -> dict[str, Any]:
        return self.node(f"node-{name}-pod-{index}")

    def env(self, pod: dict[str, Any], name: str, value: str | None) -> None:
        """Set (or with None remove) a variable of a pod."""
        container = pod["spec"]["containers"][0]
        container["env"] = [item for item in container["env"] if item["name"] != name]
        if value is not None:
            container["env"].append({"name": name, "value": value})

    def nodes_of_slice(self, name: str) -> list[str]:
        return [
            node["node_id"]
            for node in self.ray_nodes
            if node["labels"].get("ray.io/tpu-slice-name") == name and node["state"] == "ALIVE"
        ]

    def head_group(self, name: str | None, pod_type: str = "v6e-16", **more: Any) -> str:
        """The head reservation of a slice; waiting when ``name`` is None."""
        return self.group(
            "",
            [f"ray-{name}-0" if name else None],
            state="CREATED" if name else "PENDING",
            resources={f"TPU-{pod_type}-head": 1.0},
            selector={"ray.io/tpu-worker-id": "0", "ray.io/tpu-pod-type": pod_type},
            **more,
        )

    def gang(
        self,
        group: str,
        *slices: str,
        age: float = HOUR,
        heads: bool = True,
        actors: int | None = None,
        chips: float | None = None,
        pod_type: str = "v6e-16",
        started: float | None = None,
    ) -> str:
        """A placement group over whole slices with an actor (and its running task) on each host."""
        hosts: list[tuple[str, str]] = []
        for name in slices:
            if heads:
                self.head_group(name, pod_type=pod_type, age=age + 5)
            hosts += [(name, node_id) for node_id in reversed(self.nodes_of_slice(name))]
        per_host = chips or self.ray_node(hosts[0][1])["resources_total"]["TPU"]
        identity = self.group(group, [node_id for _, node_id in hosts], chips=per_host, age=age)
        for bundle, (name, _) in zip(self.groups[-1]["bundles"], hosts, strict=True):
            bundle["label_selector"] = {"ray.io/tpu-slice-name": name}
        count = len(hosts) if actors is None else actors
        for index, (_, node_id) in enumerate(hosts[:count]):
            self.worker(identity, index, node_id, ago=age if started is None else started)
        return identity

    def worker(
        self, identity: str, index: int, node_id: str, *, ago: float = HOUR, running: bool = True
    ) -> dict[str, Any]:
        actor = self.actor(node_id, identity, index=index)
        actor["name"] = f"rank-{index}-{identity[:4]}"
        self.tasks.append(
            {
                "task_id": f"task-{len(self.tasks)}",
                "name": "TrainWorker.run",
                "state": "RUNNING" if running else "FINISHED",
                "type": "ACTOR_TASK",
                "job_id": "01000000",
                "actor_id": actor["actor_id"],
                "node_id": node_id,
                "start_time_ms": (self.now - ago) * 1000,
                "end_time_ms": None if running else (self.now - ago + 60) * 1000,
            }
        )
        return actor

    def kill(self, actor: dict[str, Any], *, ago: float, cause: str = "NODE_DIED") -> None:
        """Let an actor die; its task fails."""
        texts = {
            "NODE_DIED": "The actor died because its node has died.",
            "WORKER_DIED": "The actor died unexpectedly before finishing this task.",
            "RAY_KILL": "The actor is dead because it was killed by `ray.kill`.",
        }
        actor["state"] = "DEAD"
        actor["death_cause"] = {
            "actor_died_error_context": {"error_message": texts[cause], "reason": cause}
        }
        for task in self.tasks:
            if task["actor_id"] == actor["actor_id"] and task["state"] == "RUNNING":
                task |= {
                    "state": "FAILED",
                    "error_type": "ACTOR_DIED",
                    "end_time_ms": (self.now - ago) * 1000,
                }

    def actors_of(self, identity: str) -> list[dict[str, Any]]:
        return [item for item in self.actors if item["placement_group_id"] == identity]

    def lose_host(self, name: str, index: int, *, ago: float = 300.0) -> None:
        """A raylet dies: its node is DEAD, its actors too, its groups RESCHEDULING."""
        node_id = f"ray-{name}-{index}"
        self.die(node_id, ago=ago)
        for actor in self.actors:
            if actor["node_id"] == node_id and actor["state"] == "ALIVE":
                self.kill(actor, ago=ago)
        for group in self.groups:
            if group["state"] != "CREATED":
                continue
            for bundle in group["bundles"]:
                if bundle["node_id"] == node_id:
                    bundle["node_id"] = ""
                    group["state"] = "RESCHEDULING"
                    group["stats"]["scheduling_state"] = "NO_RESOURCES"

    def waiting(
        self,
        name: str,
        bundles: int = 4,
        *,
        chips: float = 4.0,
        age: float = 1800.0,
        selector: dict[str, str] | None = None,
        attempts: int = 100,
        **more: Any,
    ) -> str:
        """A group that waits with Ray's own back-off."""
        identity = self.group(
            name,
            [None] * bundles,
            state="PENDING",
            chips=chips,
            age=age,
            selector=selector,
            attempts=attempts,
            **more,
        )
        if not attempts:
            self.groups[-1]["stats"]["scheduling_state"] = "QUEUED"
        return identity

    def event(
        self,
        kind: str,
        name: str,
        reason: str,
        message: str,
        *,
        ago: float = 60.0,
        first: float | None = None,
    ) -> None:
        self.events.append(
            {
                "metadata": {"name": f"{name}.{len(self.events)}", "namespace": self.namespace},
                "type": "Warning",
                "reason": reason,
                "message": message,
                "firstTimestamp": format_time(self.now - (first or ago)),
                "lastTimestamp": format_time(self.now - ago),
                "involvedObject": {"kind": kind, "name": name, "namespace": self.namespace},
            }
        )

    def condition(
        self, node: dict[str, Any], kind: str, message: str = "", ago: float = 300
    ) -> None:
        node["status"]["conditions"].append(
            {
                "type": kind,
                "status": "True",
                "message": message,
                "lastTransitionTime": format_time(self.now - ago),
            }
        )

    def duty(self, name: str, values: list[float], **others: float) -> None:
        """Gauges of a slice: one duty cycle (percent) a host, on each of its chips."""
        for index, value in enumerate(values):
            for metric, amount in {"duty_cycle": value, **others}.items():
                self.samples.append(
                    {
                        "metric": metric,
                        "value": amount,
                        "chip": "0",
                        "ray_node_id": f"ray-{name}-{index}",
                    }
                )

    # --- looking ------------------------------------------------------------------------

    def observation(self) -> Observation:
        look = super().observation()
        ray = msgspec.structs.replace(
            look.ray[0],
            jobs=_rows(self.jobs, RayJob) if self.ray else None,
            tpu_samples=_rows(self.samples, TpuSample) if self.samples and self.ray else None,
        )
        kubernetes = look.kubernetes
        if kubernetes is not None:
            kubernetes = msgspec.structs.replace(
                kubernetes,
                services=_rows(self.services, Service),
                slices=_rows(self.slice_objects, SliceObject),
            )
        for name in self.drop:
            side, _, part = name.partition(":")
            if side == "ray":
                ray = msgspec.structs.replace(
                    ray, **{part: None}, source=_missing(ray.source, part)
                )
            elif kubernetes is not None:
                kubernetes = msgspec.structs.replace(
                    kubernetes, **{part: None}, source=_missing(kubernetes.source, part)
                )
        return Observation(now=self.now, kubernetes=kubernetes, ray=(ray,))

    def fleet(self) -> Fleet:
        return build_fleet(self.observation())

    def truncate(self, part: str, total: int, rows: int) -> None:
        self.ray_source |= {
            "status": "degraded",
            "reason": "truncated",
            "complete": False,
            "truncated": (Truncation(part=part, total=total, rows=rows),),
        }


def _missing(source: Any, part: str) -> Any:
    return msgspec.structs.replace(
        source,
        status="degraded",
        reason="server_error",
        complete=False,
        missing=(*source.missing, part),
    )
