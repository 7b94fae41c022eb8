"""What Ray says of an invented cluster: rows with ``detail=1``, as Ray 2.60 writes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simulator.fleet_model import Cluster, Group, Host, Worker, hexid

Row = dict[str, Any]

PARTS = ("nodes", "placement_groups", "actors", "tasks", "jobs")
DEATH = "Unexpected termination: health check failed due to missing too many heartbeats"


def rows(cluster: Cluster) -> dict[str, list[Row]]:
    """All rows of a cluster by part, each sorted by id as the API sorts them."""
    return {
        "nodes": sorted(_nodes(cluster), key=lambda row: str(row["node_id"])),
        "placement_groups": sorted(
            (_group(group) for group in cluster.groups),
            key=lambda row: str(row["placement_group_id"]),
        ),
        "actors": sorted(_actors(cluster), key=lambda row: str(row["actor_id"])),
        "tasks": sorted(_tasks(cluster), key=lambda row: str(row["task_id"])),
        "jobs": [_job(cluster, number) for number in range(1, len(cluster.jobs) + 1)],
    }


def answer(part_rows: list[Row], limit: int = 10_000) -> Row:
    """The body of a state API answer to a request without filters."""
    return {
        "result": True,
        "msg": "",
        "data": {
            "result": {
                "total": len(part_rows),
                "num_after_truncation": min(len(part_rows), 10_000),
                "num_filtered": min(len(part_rows), 10_000),
                "result": part_rows[:limit],
                "partial_failure_warning": "",
                "warnings": None,
            }
        },
    }


def cluster_status(cluster: Cluster) -> Row:
    """``/api/cluster_status`` of a cluster without an autoscaler."""
    alive = sum(host.ray == "alive" for part in cluster.slices for host in part.hosts) + 1
    return {
        "result": True,
        "msg": "Got cluster status.",
        "data": {
            "autoscalingStatus": f"Cluster status: {alive} nodes",
            "autoscalingError": None,
            "clusterStatus": None,
        },
    }


def tpu_metrics(cluster: Cluster) -> str:
    """The hosts' TPU gauges in text exposition, for hosts on which a worker runs."""
    lines = []
    for group in cluster.groups:
        for worker in group.workers:
            if not worker.alive or worker.host.ray != "alive":
                continue
            shape = worker.host.slice.shape
            for chip in range(shape.chips_per_host):
                labels = (
                    f'NodeAddress="{worker.host.pod_ip}",RayNodeId="{worker.host.node_id}",'
                    f'TpuIndex="{chip}",TpuDeviceName="{chip}",'
                    f'TpuType="{shape.generation.accelerator}",TpuTopology="{shape.topology}"'
                )
                value = round(100 * worker.duty_cycle, 1)
                lines.append(f"ray_tpu_duty_cycle{{{labels}}} {value}")
                lines.append(f"ray_tpu_tensorcore_utilization{{{labels}}} {value}")
    return "\n".join(lines) + "\n" if lines else ""


def _nodes(cluster: Cluster) -> Iterator[Row]:
    head = cluster.head_node_id
    address = head_ip(cluster)
    yield {
        "node_id": head,
        "node_ip": address,
        "is_head_node": True,
        "state": "ALIVE",
        "state_message": None,
        "node_name": address,
        "resources_total": {
            f"node:{address}": 1.0,
            "node:__internal_head__": 1.0,
            "CPU": 8.0,
            "memory": 32e9,
            "object_store_memory": 9e9,
        },
        "labels": {"ray.io/node-id": head},
        "start_time_ms": _ms(cluster.created + 60),
        "end_time_ms": 0,
    }
    for part in cluster.slices:
        for host in part.hosts:
            for number, (start, end) in enumerate(host.history):
                node_id = hexid("old node", cluster.key, host.key, number, length=56)
                yield _node(host, node_id, "DEAD", start, end)
            if host.ray == "alive":
                yield _node(host, host.node_id, "ALIVE", host.started, None)
            elif host.ray == "dead":
                yield _node(host, host.node_id, "DEAD", host.started, host.died)


def _node(host: Host, node_id: str, state: str, start: float, end: float | None) -> Row:
    shape, address = host.slice.shape, host.pod_ip
    labels = {"ray.io/node-id": node_id}
    resources: dict[str, float] = {
        f"node:{address}": 1.0,
        "CPU": 8.0,
        "memory": 64e9,
        "object_store_memory": 20e9,
        "TPU": float(shape.chips_per_host if host.tpus is None else host.tpus),
    }
    labels["ray.io/accelerator-type"] = shape.accelerator_type
    if host.marked and host.slice.cluster.marks != "none":
        labels |= {
            "ray.io/tpu-slice-name": host.slice.name,
            "ray.io/tpu-worker-id": str(host.claimed_id),
            "ray.io/tpu-topology": shape.topology,
            "ray.io/tpu-pod-type": shape.pod_type,
        }
        resources[host.slice.name] = 1.0
        if host.claimed_id == 0:
            resources[shape.head_resource] = 1.0
    return {
        "node_id": node_id,
        "node_ip": address,
        "is_head_node": False,
        "state": state,
        "state_message": None if state == "ALIVE" else DEATH,
        "node_name": address,
        "resources_total": resources,
        "labels": labels,
        "start_time_ms": _ms(start),
        "end_time_ms": 0 if end is None else _ms(end),
    }


def head_ip(cluster: Cluster) -> str:
    """The address of a cluster's head pod."""
    return f"10.9.{int(hexid('head ip', cluster.key, length=4), 16) % 250}.2"


def _group(group: Group) -> Row:
    waiting = group.state in ("PENDING", "PREPARED")
    return {
        "placement_group_id": group.id,
        "name": group.name,
        "creator_job_id": group.job_id,
        "state": group.state,
        "bundles": [
            {
                "bundle_id": {"placement_group_id": group.id, "bundle_index": index},
                "unit_resources": bundle.resources,
                "node_id": bundle.node_id
                or (bundle.host.node_id if bundle.host is not None else ""),
                "label_selector": bundle.selector,
            }
            for index, bundle in enumerate(group.bundles)
        ],
        "is_detached": False,
        "stats": {
            "creation_request_received_ns": str(int(group.requested * 1e9)),
            "scheduling_started_time_ns": str(int((group.requested + 0.01) * 1e9)),
            "scheduling_latency_us": "0" if waiting else "4742",
            "end_to_end_creation_latency_us": "0" if waiting else "4891",
            "scheduling_attempt": group.attempts,
            "scheduling_state": group.scheduling,
            "highest_retry_delay_ms": 1000.0 if waiting else 0.0,
        },
        "topology_strategy": {},
        "topology_assignments": {},
    }


def _actor_id(group: Group, index: int) -> str:
    return hexid("actor", group.cluster.key, group.number, index, length=24) + group.job_id


def _pid(worker: Worker) -> int:
    return 4000 + worker.bundle


def _actors(cluster: Cluster) -> Iterator[Row]:
    for group in cluster.groups:
        for index, worker in enumerate(group.workers):
            tpu = group.bundles[worker.bundle].resources.get("TPU", 0.0)
            needs: dict[str, float] = {
                f"TPU_group_{group.id}": tpu,
                f"TPU_group_{worker.bundle}_{group.id}": tpu,
                f"bundle_group_{group.id}": 0.001,
                f"bundle_group_{worker.bundle}_{group.id}": 0.001,
            }
            cause = None
            if worker.state == "DEAD":
                context = {
                    "error_message": worker.death,
                    "node_id": worker.node_id,
                    "class_name": "TrainWorker",
                    "actor_id": _actor_id(group, index),
                    "reason": "NODE_DIED" if "node" in worker.death else "WORKER_DIED",
                    "never_started": False,
                }
                cause = {"actor_died_error_context": context}
            yield {
                "actor_id": _actor_id(group, index),
                "class_name": "TrainWorker",
                "state": worker.state,
                "job_id": group.job_id,
                "name": f"{group.name}-rank-{worker.bundle}",
                "node_id": worker.node_id,
                "pid": _pid(worker),
                "ray_namespace": "train",
                "serialized_runtime_env": "{}",
                "required_resources": needs,
                "death_cause": cause,
                "is_detached": False,
                "placement_group_id": group.id,
                "repr_name": "",
                "num_restarts": "0",
                "num_restarts_due_to_lineage_reconstruction": "0",
                "num_restarts_due_to_node_preemption": "0",
                "call_site": None,
                "label_selector": {},
                "fallback_strategy": None,
            }


def _tasks(cluster: Cluster) -> Iterator[Row]:
    for group in cluster.groups:
        for index, worker in enumerate(group.workers):
            started = _ms(worker.started)
            yield {
                "task_id": hexid("task", _actor_id(group, index), length=16)
                + _actor_id(group, index),
                "attempt_number": 0,
                "name": "TrainWorker.run",
                "state": "RUNNING" if worker.alive else "FAILED",
                "job_id": group.job_id,
                "actor_id": _actor_id(group, index),
                "type": "ACTOR_TASK",
                "func_or_class_name": "TrainWorker.run",
                "parent_task_id": "f" * 40 + group.job_id,
                "node_id": worker.node_id,
                "worker_id": hexid("worker", _actor_id(group, index), length=56),
                "worker_pid": _pid(worker),
                "error_type": None if worker.alive else "ACTOR_DIED",
                "error_message": None if worker.alive else worker.death,
                "language": "PYTHON",
                "required_resources": {},
                "placement_group_id": None,
                "events": [{"state": "RUNNING", "created_ms": started}],
                "creation_time_ms": started,
                "start_time_ms": started,
                "end_time_ms": None,
                "label_selector": {},
            }


def _job(cluster: Cluster, number: int) -> Row:
    job_id = f"{number:02d}000000"
    return {
        "type": "DRIVER",
        "job_id": job_id,
        "submission_id": None,
        "driver_info": {
            "id": job_id,
            "node_ip_address": head_ip(cluster),
            "pid": str(100 + number),
        },
        "status": "RUNNING",
        "entrypoint": cluster.jobs[number - 1],
        "message": None,
        "error_type": None,
        "start_time": _ms(cluster.created + 120),
        "end_time": 0,
        "metadata": {},
        "runtime_env": {},
        "driver_agent_http_address": None,
        "driver_node_id": None,
        "driver_exit_code": None,
    }


def _ms(seconds: float | None) -> int:
    return int((seconds or 0) * 1000)
