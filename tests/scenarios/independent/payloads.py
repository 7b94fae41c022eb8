"""Raw JSON payloads of Kubernetes and Ray, as ``kubectl get -o json`` and ``curl`` write them.

Nothing here knows the product: a world is lists of dictionaries that are written to disk as a
bundle. Scenes change the dictionaries and say what the right answer is.
"""

from __future__ import annotations

import copy
import hashlib
import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

Json = dict[str, Any]

NOW = 1796032800.0  # 2026-11-30T10:00:00Z
MINUTE = 60.0
HOUR = 3600.0


def ts(ago: float, now: float = NOW) -> str:
    """The RFC 3339 time ``ago`` seconds before now."""
    return datetime.fromtimestamp(now - ago, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def hexid(text: str, length: int = 56) -> str:
    return (hashlib.sha256(text.encode()).hexdigest() * 2)[:length]


@dataclass
class Kind:
    """A TPU generation as GKE and Ray name it."""

    accelerator: str
    pod_prefix: str
    ray_type: str
    cores: int
    machine: str


KINDS = {
    "v6e": Kind("tpu-v6e-slice", "v6e", "TPU-V6E", 1, "ct6e-standard-{}t"),
    "v5e": Kind("tpu-v5-lite-podslice", "v5litepod", "TPU-V5LITEPOD", 1, "ct5lp-hightpu-{}t"),
    "v5p": Kind("tpu-v5p-slice", "v5p", "TPU-V5P", 2, "ct5p-hightpu-{}t"),
    "v4": Kind("tpu-v4-podslice", "v4", "TPU-V4", 2, "ct4p-hightpu-{}t"),
    "v7x": Kind("tpu7x", "v7x", "TPU-V7X", 2, "tpu7x-standard-{}t"),
}


@dataclass
class Host:
    """One TPU host in all its forms; a form that is not there is ``None``."""

    pod: Json | None
    node: Json | None
    ray: Json | None
    worker: int

    @property
    def ray_id(self) -> str:
        assert self.ray is not None
        return str(self.ray["node_id"])


@dataclass
class SliceOf:
    name: str
    cluster: Cluster
    pod_type: str
    chips: int
    hosts: list[Host]
    pool: str

    @property
    def id(self) -> str:
        return f"{self.cluster.key}/{self.name}"


@dataclass
class Cluster:
    """One Ray cluster: its RayCluster object and what its state API answers."""

    world: World
    namespace: str
    name: str
    raycluster: Json | None
    nodes: list[Json] = field(default_factory=list)
    groups: list[Json] = field(default_factory=list)
    actors: list[Json] = field(default_factory=list)
    tasks: list[Json] = field(default_factory=list)
    jobs: list[Json] = field(default_factory=list)
    prom: list[str] = field(default_factory=list)
    ray_up: bool = True
    envelope: dict[str, Json] = field(default_factory=dict)
    head_pod: Json | None = None
    pids: Any = field(default_factory=lambda: count(4000))

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def folder(self) -> str:
        return "default" if self.namespace == "-" else f"{self.namespace}__{self.name}"

    # --- Ray ------------------------------------------------------------------------------------

    def group(
        self,
        name: str,
        bundles: list[tuple[Json, str, Json]],
        *,
        state: str = "CREATED",
        age: float = 2 * HOUR,
        attempts: int = 1,
        scheduling: str | None = None,
    ) -> Json:
        """A placement group; a bundle is (resources, node id or "", label selector)."""
        key = hexid(f"{self.key}{name}{len(self.groups)}", 36)
        scheduling = scheduling or {
            "CREATED": "FINISHED",
            "PENDING": "NO_RESOURCES",
            "REMOVED": "REMOVED",
            "RESCHEDULING": "FAILED_TO_COMMIT_RESOURCES",
        }.get(state, "QUEUED")
        group = {
            "placement_group_id": key,
            "name": name,
            "creator_job_id": "01000000",
            "state": state,
            "bundles": [
                {
                    "bundle_id": {"placement_group_id": key, "bundle_index": index},
                    "unit_resources": resources,
                    "node_id": node,
                    "label_selector": selector,
                }
                for index, (resources, node, selector) in enumerate(bundles)
            ],
            "is_detached": False,
            "stats": {
                "creation_request_received_ns": str(int((NOW - age) * 1e9)),
                "scheduling_started_time_ns": str(int((NOW - 1) * 1e9)),
                "scheduling_latency_us": "4742" if state == "CREATED" else "0",
                "end_to_end_creation_latency_us": "4891" if state == "CREATED" else "0",
                "scheduling_attempt": attempts,
                "scheduling_state": scheduling,
                "highest_retry_delay_ms": 1000.0 if state == "PENDING" else 0.0,
            },
            "topology_strategy": {},
            "topology_assignments": {},
        }
        self.groups.append(group)
        return group

    def head_group(
        self, over: SliceOf | None, *, pod_type: str = "", age: float = 2 * HOUR, **more: Any
    ) -> Json:
        pod_type = pod_type or (over.pod_type if over else "")
        node = next((h.ray_id for h in over.hosts if h.worker == 0), "") if over else ""
        selector = {"ray.io/tpu-worker-id": "0", "ray.io/tpu-pod-type": pod_type}
        more.setdefault("state", "CREATED" if over else "PENDING")
        return self.group("", [({f"TPU-{pod_type}-head": 1.0}, node, selector)], age=age, **more)

    def gang(
        self,
        name: str,
        *slices: SliceOf,
        age: float = 2 * HOUR,
        heads: bool = True,
        workers: int | None = None,
        duty: float | None = None,
        work: str = "actor",
        selector: bool = True,
    ) -> Json:
        """A group over whole slices, with a worker on each host (or on the first ``workers``)."""
        if heads:
            for one in slices:
                self.head_group(one, age=age)
        places = []
        for one in slices:
            hosts = [one.hosts[(index + 2) % len(one.hosts)] for index in range(len(one.hosts))]
            for host in hosts:
                chips = (host.ray or {})["resources_total"].get("TPU", 4.0)
                where = {"ray.io/tpu-slice-name": one.name} if selector else {}
                places.append(({"TPU": chips, "CPU": 1.0}, host.ray_id, where))
        group = self.group(name, places, age=age)
        many = len(places) if workers is None else workers
        for index in range(many):
            if work == "actor":
                self.actor(group, index, age=age)
            else:
                self.task(group, index, age=age)
        if duty is not None:
            for one in slices:
                for host in one.hosts:
                    self.duty(host, duty)
        return group

    def actor(
        self,
        group: Json | None,
        index: int,
        *,
        age: float = 2 * HOUR,
        state: str = "ALIVE",
        node: str | None = None,
        death: Json | None = None,
        with_task: bool = True,
        job: str = "01000000",
    ) -> Json:
        pid = next(self.pids)
        key = hexid(f"{self.key}actor{pid}", 32)
        resources: Json = {"TPU": 4.0, "CPU": 1.0}
        if group is not None:
            bundle = group["bundles"][index]
            node = bundle["node_id"] if node is None else node
            chips = bundle["unit_resources"].get("TPU", 4.0)
            pg = group["placement_group_id"]
            resources = {
                f"TPU_group_{pg}": chips,
                f"TPU_group_{index}_{pg}": chips,
                f"bundle_group_{pg}": 0.001,
            }
        actor = {
            "actor_id": key,
            "class_name": "TrainWorker",
            "state": state,
            "job_id": job,
            "name": f"worker-{index}",
            "node_id": node if state not in ("PENDING_CREATION",) else None,
            "pid": pid,
            "ray_namespace": "default",
            "serialized_runtime_env": "{}",
            "required_resources": resources,
            "placement_group_id": group["placement_group_id"] if group else None,
            "is_detached": False,
            "repr_name": "",
            "num_restarts": "0",
            "call_site": None,
            "label_selector": {},
            "death_cause": death,
        }
        self.actors.append(actor)
        if with_task and state in ("ALIVE", "DEAD"):
            alive = state == "ALIVE"
            self.tasks.append(
                {
                    "task_id": hexid(f"{self.key}task{pid}", 48),
                    "attempt_number": 0,
                    "name": "TrainWorker.run",
                    "state": "RUNNING" if alive else "FAILED",
                    "job_id": job,
                    "actor_id": key,
                    "type": "ACTOR_TASK",
                    "func_or_class_name": "TrainWorker.run",
                    "parent_task_id": None,
                    "node_id": node,
                    "worker_id": hexid(f"worker{pid}"),
                    "worker_pid": pid,
                    "error_type": None if alive else "ACTOR_DIED",
                    "error_message": None if alive else "The actor died",
                    "placement_group_id": None,
                    "required_resources": {},
                    "creation_time_ms": int((NOW - age) * 1000),
                    "start_time_ms": int((NOW - age) * 1000),
                    "end_time_ms": None if alive else int((NOW - 20 * MINUTE) * 1000),
                }
            )
        return actor

    def task(
        self,
        group: Json | None,
        index: int,
        *,
        age: float = 2 * HOUR,
        state: str = "RUNNING",
        node: str | None = None,
    ) -> Json:
        pid = next(self.pids)
        resources: Json = {"TPU": 4.0}
        if group is not None:
            bundle = group["bundles"][index]
            node = bundle["node_id"] if node is None else node
            resources = {f"TPU_group_{index}_{group['placement_group_id']}": 4.0}
        done = state in ("FINISHED", "FAILED")
        task = {
            "task_id": hexid(f"{self.key}task{pid}", 48),
            "attempt_number": 0,
            "name": "train_step",
            "state": state,
            "job_id": "01000000",
            "actor_id": None,
            "type": "NORMAL_TASK",
            "func_or_class_name": "train_step",
            "parent_task_id": None,
            "node_id": node,
            "worker_id": hexid(f"worker{pid}"),
            "worker_pid": pid,
            "error_type": "WORKER_DIED" if state == "FAILED" else None,
            "error_message": None,
            "placement_group_id": group["placement_group_id"] if group else None,
            "required_resources": resources,
            "creation_time_ms": int((NOW - age) * 1000),
            "start_time_ms": int((NOW - age) * 1000),
            "end_time_ms": int((NOW - 20 * MINUTE) * 1000) if done else None,
        }
        self.tasks.append(task)
        return task

    def duty(self, host: Host, value: float, tensorcore: float | None = None) -> None:
        """Four chips of one host in the agent's gauges, percent."""
        assert host.ray is not None
        for chip in range(int(host.ray["resources_total"].get("TPU", 4))):
            labels = (
                f'NodeAddress="{host.ray["node_ip"]}",RayNodeId="{host.ray_id}",'
                f'TpuIndex="{chip}",TpuDeviceName="{chip}",TpuType="tpu-v6e-slice",'
                'TpuTopology="4x4"'
            )
            core = value if tensorcore is None else tensorcore
            self.prom.append(f"ray_tpu_duty_cycle{{{labels}}} {value}")
            self.prom.append(f"ray_tpu_tensorcore_utilization{{{labels}}} {core}")

    def job(self, status: str = "SUCCEEDED") -> None:
        """Set the state of the one job."""
        self.jobs[0]["status"] = status

    # --- shapes of failure ----------------------------------------------------------------------

    def die(self, host: Host, ago: float = 20 * MINUTE) -> None:
        """The raylet is dead; the row stays."""
        assert host.ray is not None
        host.ray["state"] = "DEAD"
        host.ray["state_message"] = (
            "Unexpected termination: health check failed due to missing too many heartbeats"
        )
        host.ray["end_time_ms"] = int((NOW - ago) * 1000)

    def forget(self, host: Host) -> None:
        """Ray has no row of the host at all."""
        self.nodes.remove(host.ray)  # type: ignore[arg-type]
        host.ray = None

    def lose(self, group: Json, host_id: str, *, livelock: bool = False, ago: float = 1200) -> None:
        """The group's bundle on a dead host goes unplaced, its actor dies."""
        group["state"] = "RESCHEDULING"
        group["stats"]["scheduling_state"] = "FAILED_TO_COMMIT_RESOURCES"
        if livelock:
            group["stats"]["scheduling_attempt"] = 239073180
        for bundle in group["bundles"]:
            if bundle["node_id"] == host_id:
                bundle["node_id"] = ""
        for actor in self.actors:
            if actor["node_id"] == host_id and actor["state"] == "ALIVE":
                self.kill(actor, "NODE_DIED", "The actor died because its node has died.", ago)

    def kill(
        self, actor: Json, reason: str = "WORKER_DIED", message: str = "", ago: float = 1200
    ) -> None:
        actor["state"] = "DEAD"
        actor["death_cause"] = {
            "actor_died_error_context": {
                "error_message": message or "The actor died unexpectedly before finishing",
                "reason": reason,
                "never_started": False,
            }
        }
        for task in self.tasks:
            if task["actor_id"] == actor["actor_id"]:
                task["state"], task["error_type"] = "FAILED", "ACTOR_DIED"
                task["end_time_ms"] = int((NOW - ago) * 1000)

    def end(self, group: Json, *, status: str = "SUCCEEDED", removed: bool = True) -> None:
        """The job ended: actors gone out of scope, tasks finished, the group removed."""
        self.job(status)
        for actor in self.actors:
            if actor["placement_group_id"] != group["placement_group_id"]:
                continue
            actor["state"] = "DEAD"
            actor["death_cause"] = {
                "actor_died_error_context": {
                    "error_message": "The actor is dead because its owner has died.",
                    "reason": "OWNER_DIED",
                    "never_started": False,
                }
            }
            for task in self.tasks:
                if task["actor_id"] == actor["actor_id"]:
                    task["state"] = "FINISHED"
                    task["end_time_ms"] = int((NOW - 10 * MINUTE) * 1000)
        if removed:
            for one in self.groups:
                if one["state"] in ("CREATED", "RESCHEDULING", "PENDING"):
                    one["state"] = "REMOVED"
                    one["stats"]["scheduling_state"] = "REMOVED"


class World:
    """Everything that a bundle holds; ``None`` for a file that is not there."""

    def __init__(self, *, kubernetes: bool = True) -> None:
        self.kubernetes = kubernetes
        self.now = NOW
        self.pods: list[Json] | None = []
        self.nodes: list[Json] | None = []
        self.services: list[Json] | None = []
        self.events: list[Json] | None = []
        self.rayclusters: list[Json] | None = []
        self.slice_objects: list[Json] | None = None
        self.clusters: list[Cluster] = []
        self.raw: dict[str, str | None] = {}
        self.manifest: Json | None = {"format": 1}
        self.ips = count(12)

    # --- building -------------------------------------------------------------------------------

    def cluster(
        self, namespace: str = "ml", name: str = "train", *, age: float = 6 * HOUR
    ) -> Cluster:
        """A Ray cluster with its head, services and RayCluster object."""
        bare = not self.kubernetes
        raycluster = None
        if not bare:
            raycluster = {
                "apiVersion": "ray.io/v1",
                "kind": "RayCluster",
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "uid": hexid(namespace + name, 32),
                    "creationTimestamp": ts(age),
                },
                "spec": {
                    "rayVersion": "2.60.0",
                    "enableInTreeAutoscaling": True,
                    "headGroupSpec": {"rayStartParams": {}},
                    "workerGroupSpecs": [],
                },
                "status": {
                    "state": "ready",
                    "head": {"serviceName": f"{name}-head-svc"},
                    "conditions": [
                        {
                            "type": "RayClusterProvisioned",
                            "status": "True",
                            "reason": "AllPodRunningAndReadyFirstTime",
                            "message": "",
                            "lastTransitionTime": ts(age),
                        }
                    ],
                },
            }
            assert self.rayclusters is not None
            assert self.services is not None
            self.rayclusters.append(raycluster)
            for service, port in ((f"{name}-headless", None), (f"{name}-head-svc", 8265)):
                self.services.append(
                    {
                        "apiVersion": "v1",
                        "kind": "Service",
                        "metadata": {
                            "name": service,
                            "namespace": namespace,
                            "labels": {"ray.io/cluster": name},
                        },
                        "spec": {
                            "clusterIP": "10.96.0.9" if port else "None",
                            "selector": {"ray.io/cluster": name},
                            "ports": [{"name": "dashboard", "port": port}] if port else [],
                        },
                    }
                )
        cluster = Cluster(self, "-" if bare else namespace, "default" if bare else name, raycluster)
        self.clusters.append(cluster)
        ip = f"10.8.0.{next(self.ips)}"
        if not bare:
            node = self.node(f"cpu-pool-node-{len(self.clusters) - 1}", "cpu-pool", age=age)
            cluster.head_pod = self.pod(cluster, f"{name}-head-x1abc", "headgroup", node, ip, age)
        cluster.nodes.append(
            {
                "node_id": hexid(f"{cluster.key}head"),
                "node_ip": ip,
                "is_head_node": True,
                "state": "ALIVE",
                "state_message": None,
                "node_name": ip,
                "resources_total": {"CPU": 8.0, "node:__internal_head__": 1.0, f"node:{ip}": 1.0},
                "labels": {"ray.io/node-id": hexid(f"{cluster.key}head")},
                "start_time_ms": int((NOW - age + 60) * 1000),
                "end_time_ms": 0,
            }
        )
        cluster.jobs.append(
            {
                "job_id": "01000000",
                "submission_id": None,
                "type": "DRIVER",
                "status": "RUNNING",
                "entrypoint": "python train.py",
                "message": None,
                "error_type": None,
                "driver_info": {"id": "01000000", "node_ip_address": ip, "pid": "100"},
            }
        )
        return cluster

    def node(
        self,
        name: str,
        pool: str,
        *,
        kind: Kind | None = None,
        topology: str = "",
        chips: int = 4,
        age: float = 6 * HOUR,
    ) -> Json:
        labels = {"cloud.google.com/gke-nodepool": pool, "kubernetes.io/hostname": name}
        resources: Json = {"cpu": "180"}
        taints = []
        if kind is not None:
            labels |= {
                "cloud.google.com/gke-tpu-accelerator": kind.accelerator,
                "cloud.google.com/gke-tpu-topology": topology,
                "cloud.google.com/gke-accelerator-count": str(chips),
                "node.kubernetes.io/instance-type": kind.machine.format(chips),
            }
            resources["google.com/tpu"] = str(chips)
            taints = [{"key": "google.com/tpu", "value": "present", "effect": "NoSchedule"}]
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": name,
                "uid": hexid(name, 32),
                "labels": labels,
                "creationTimestamp": ts(age),
            },
            "spec": {"providerID": f"gce://p/z/{name}", "taints": taints},
            "status": {
                "capacity": dict(resources),
                "allocatable": resources | {"cpu": "179"},
                "conditions": [
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "lastTransitionTime": ts(age),
                        "lastHeartbeatTime": ts(0),
                    }
                ],
            },
        }
        assert self.nodes is not None
        self.nodes.append(node)
        return node

    def pod(
        self,
        cluster: Cluster,
        name: str,
        group: str,
        node: Json | None,
        ip: str,
        age: float,
        **more: Any,
    ) -> Json:
        """A Running and Ready pod of the cluster."""
        head = group == "headgroup"
        container = {
            "name": "ray-head" if head else "ray-worker",
            "image": "rayproject/ray:2.60.0",
            "env": [{"name": "RAY_CLOUD_INSTANCE_ID", "value": name}],
            "resources": {"limits": {"cpu": "8"}, "requests": {"cpu": "8"}},
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": name,
                "namespace": cluster.namespace,
                "uid": hexid(cluster.namespace + name, 32),
                "creationTimestamp": ts(age),
                "labels": {
                    "ray.io/cluster": cluster.name,
                    "ray.io/node-type": "head" if head else "worker",
                    "ray.io/group": group,
                    "ray.io/is-ray-node": "yes",
                    "ray.io/identifier": f"{cluster.name}-{'head' if head else 'worker'}",
                    "app.kubernetes.io/name": "kuberay",
                    "app.kubernetes.io/created-by": "kuberay-operator",
                },
                "ownerReferences": [
                    {
                        "apiVersion": "ray.io/v1",
                        "kind": "RayCluster",
                        "name": cluster.name,
                        "uid": hexid(cluster.namespace + cluster.name, 32),
                        "controller": True,
                    }
                ],
            },
            "spec": {
                "nodeName": node["metadata"]["name"] if node else None,
                "nodeSelector": {},
                "restartPolicy": "Always",
                "containers": [container],
            },
            "status": {
                "phase": "Running",
                "podIP": ip,
                "hostIP": ip.replace("10.8", "10.128"),
                "startTime": ts(age),
                "conditions": [
                    {"type": kind, "status": "True", "lastTransitionTime": ts(age - 40)}
                    for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
                ],
                "containerStatuses": [
                    {
                        "name": container["name"],
                        "ready": True,
                        "restartCount": 0,
                        "started": True,
                        "state": {"running": {"startedAt": ts(age - 40)}},
                    }
                ],
            },
        }
        assert self.pods is not None
        self.pods.append(pod)
        return pod

    def tpus(
        self,
        cluster: Cluster,
        kind: str = "v6e",
        topology: str = "4x4",
        *,
        replicas: int = 2,
        chips: int = 4,
        group: str = "",
        regime: str = "kuberay",
        ages: list[float] | None = None,
        joined: bool = True,
    ) -> list[SliceOf]:
        """A worker group of whole slices, idle: pods, nodes and Ray nodes."""
        form = KINDS[kind]
        group = group or f"{kind}-group"
        total = 1
        for side in topology.split("x"):
            total *= int(side)
        hosts = max(total // chips, 1)
        pod_type = f"{form.pod_prefix}-{total * form.cores}"
        selector = {
            "cloud.google.com/gke-tpu-accelerator": form.accelerator,
            "cloud.google.com/gke-tpu-topology": topology,
        }
        limits = {"limits": {"google.com/tpu": str(chips)}}
        if cluster.raycluster is not None:
            cluster.raycluster["spec"]["workerGroupSpecs"].append(
                {
                    "groupName": group,
                    "replicas": replicas,
                    "minReplicas": 0,
                    "maxReplicas": 8,
                    "numOfHosts": hosts,
                    "rayStartParams": {},
                    "template": {
                        "spec": {
                            "nodeSelector": dict(selector),
                            "containers": [
                                {
                                    "name": "ray-worker",
                                    "image": "rayproject/ray:2.60.0",
                                    "resources": limits | {"requests": limits["limits"]},
                                }
                            ],
                        }
                    },
                }
            )
        made = []
        for replica in range(replicas):
            age = ages[replica] if ages else 6 * HOUR
            name = f"{group}-{replica}"
            pool = f"{kind}-{topology}-{group}-pool-{replica}"
            pool += "" if len(self.clusters) == 1 else f"-{cluster.namespace}-{cluster.name}"
            one = SliceOf(name, cluster, pod_type, total, [], pool)
            names = ",".join(f"{name}-{host}.{cluster.name}-headless" for host in range(hosts))
            for host in range(hosts):
                ip = f"10.8.0.{next(self.ips)}"
                node = pod = ray = None
                if self.kubernetes:
                    key = hexid(f"{cluster.key}{name}{host}", 5)
                    node = self.node(
                        f"gke-{pool}-{key[:4]}",
                        pool,
                        kind=form,
                        topology=topology,
                        chips=chips,
                        age=age,
                    )
                    pod_name = f"{cluster.name}-{group}-worker-{key}"
                    pod = self.pod(cluster, pod_name, group, node, ip, age)
                    self.mark(pod, cluster, group, replica, host, hosts, names, regime)
                    pod["spec"]["nodeSelector"] = dict(selector)
                    resources = pod["spec"]["containers"][0]["resources"]
                    for side in resources.values():
                        side["google.com/tpu"] = str(chips)
                if joined:
                    ray = self.ray_node(cluster, one, host, chips, ip, age, form, topology, pod)
                one.hosts.append(Host(pod, node, ray, host))
            made.append(one)
        return made

    def mark(
        self,
        pod: Json,
        cluster: Cluster,
        group: str,
        replica: int,
        host: int,
        hosts: int,
        names: str,
        regime: str,
    ) -> None:
        """What KubeRay and the webhook write onto a TPU pod."""
        labels = pod["metadata"]["labels"]
        name = f"{group}-{replica}"
        if regime == "kuberay":
            value = f"{group}-{hexid(cluster.key + name, 5)}"
            key = "ray.io/worker-group-replica-name"
            labels["ray.io/worker-group-replica-index"] = str(replica)
            if hosts > 1:
                labels[key] = value
                labels["ray.io/replica-host-index"] = str(host)
        else:
            key, value = "replicaIndex", name
            labels[key] = value
        env = pod["spec"]["containers"][0]["env"]
        env[:0] = [
            {"name": "TPU_WORKER_ID", "value": str(host)},
            {"name": "TPU_NAME", "value": name},
        ]
        if hosts > 1:
            env.insert(2, {"name": "TPU_WORKER_HOSTNAMES", "value": names})
            pod["spec"]["hostname"] = f"{name}-{host}"
            pod["spec"]["subdomain"] = f"{cluster.name}-headless"
            pod["spec"]["affinity"] = {
                "podAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "labelSelector": {
                                "matchExpressions": [
                                    {"key": key, "operator": "In", "values": [value]},
                                    {
                                        "key": "ray.io/cluster",
                                        "operator": "In",
                                        "values": [cluster.name],
                                    },
                                ]
                            },
                            "topologyKey": "cloud.google.com/gke-nodepool",
                        }
                    ]
                }
            }

    def ray_node(
        self,
        cluster: Cluster,
        one: SliceOf,
        host: int,
        chips: int,
        ip: str,
        age: float,
        form: Kind,
        topology: str,
        pod: Json | None,
    ) -> Json:
        key = hexid(f"{cluster.key}{one.name}{host}{age}")
        resources: Json = {
            "memory": 4e11,
            f"node:{ip}": 1.0,
            "CPU": 180.0,
            "TPU": float(chips),
            one.name: 1.0,
        }
        if host == 0:
            resources[f"TPU-{one.pod_type}-head"] = 1.0
        ray = {
            "node_id": key,
            "node_ip": ip,
            "is_head_node": False,
            "state": "ALIVE",
            "state_message": None,
            "node_name": ip,
            "resources_total": resources,
            "labels": {
                "ray.io/node-id": key,
                "ray.io/tpu-slice-name": one.name,
                "ray.io/tpu-worker-id": str(host),
                "ray.io/tpu-topology": topology,
                "ray.io/tpu-pod-type": one.pod_type,
                "ray.io/accelerator-type": form.ray_type,
            },
            "start_time_ms": int((NOW - age + 60) * 1000),
            "end_time_ms": 0,
        }
        cluster.nodes.append(ray)
        return ray

    def event(
        self,
        reason: str,
        message: str,
        about: Json,
        *,
        ago: float = 2 * MINUTE,
        kind: str = "Warning",
        bare: bool = False,
    ) -> Json:
        meta = about["metadata"]
        event: Json = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name']}.{hexid(message, 8)}",
                "namespace": meta.get("namespace", "default"),
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "involvedObject": {
                "kind": about.get("kind", "Pod"),
                "name": meta["name"],
                "namespace": meta.get("namespace", "default"),
            },
        }
        if bare:  # the newer events API
            event["eventTime"] = ts(ago).replace("Z", ".123456Z")
        else:
            event |= {"count": 3, "firstTimestamp": ts(ago + 300), "lastTimestamp": ts(ago)}
            event["source"] = {"component": "test"}
        assert self.events is not None
        self.events.append(event)
        return event

    def copy(self) -> World:
        return copy.deepcopy(self)

    # --- writing --------------------------------------------------------------------------------

    def files(self) -> dict[str, str]:
        out: dict[str, str | None] = {}
        if self.manifest is not None:
            out["manifest.json"] = json.dumps({**self.manifest, "captured_at": ts(0, self.now)})
        if self.kubernetes:
            for name, items in (
                ("pods", self.pods),
                ("nodes", self.nodes),
                ("services", self.services),
                ("events", self.events),
                ("rayclusters", self.rayclusters),
                ("slices", self.slice_objects),
            ):
                if items is not None:
                    out[f"kubernetes/{name}.json"] = json.dumps(
                        {"apiVersion": "v1", "kind": "List", "items": items}
                    )
        for cluster in self.clusters:
            if not cluster.ray_up:
                continue
            for name, rows in (
                ("nodes", cluster.nodes),
                ("placement_groups", cluster.groups),
                ("actors", cluster.actors),
                ("tasks", cluster.tasks),
                ("jobs", cluster.jobs),
            ):
                result = {
                    "total": len(rows),
                    "num_after_truncation": len(rows),
                    "num_filtered": len(rows),
                    "result": rows,
                    "partial_failure_warning": "",
                    "warnings": None,
                } | cluster.envelope.get(name, {})
                body = {"result": True, "msg": "", "data": {"result": result}}
                out[f"ray/{cluster.folder}/{name}.json"] = json.dumps(body)
            if cluster.prom:
                text = "\n".join(cluster.prom) + "\n"
                out[f"ray/{cluster.folder}/tpu_metrics.prom"] = text
        out.update(self.raw)
        return {name: text for name, text in out.items() if text is not None}


def write(folder: Path, *frames: World) -> Path:
    """A bundle on disk: one look, or several under ``frames/``."""
    for number, world in enumerate(frames, start=1):
        base = folder if len(frames) == 1 else folder / "frames" / f"{number:04d}"
        for name, text in world.files().items():
            path = base / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder
