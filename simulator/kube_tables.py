"""Server-side tables: what ``kubectl get`` prints, column by column, as the real API makes them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

Object = dict[str, Any]
Cell = str | int
Column = tuple[str, str, int]
"""Name, type, priority (0 always, 1 with ``-o wide``)."""


def table(plural: str, objects: Iterable[Object], version: int | str, include: str) -> Object:
    """A ``meta.k8s.io/v1`` Table; ``include``: ``Metadata``, ``Object`` or ``None`` (the word)."""
    columns, cells = _PRINTERS.get(plural, (_PLAIN, _plain))
    now = time.time()
    rows = []
    for obj in objects:
        row: Object = {"cells": cells(obj, now)}
        if include == "Object":
            row["object"] = obj
        elif include != "None":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": obj["metadata"],
            }
        rows.append(row)
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": str(version)},
        "columnDefinitions": [
            {
                "name": name,
                "type": kind,
                "format": "name" if name == "Name" else "",
                "description": name,
                "priority": priority,
            }
            for name, kind, priority in columns
        ],
        "rows": rows,
    }


def age(stamp: str | None, now: float) -> str:
    """The age as kubectl writes it: ``42s``, ``7m30s``, ``12m``, ``3h5m``, ``2d4h``, ``9d``."""
    if not stamp:
        return "<unknown>"
    try:
        seconds = max(0, int(now - datetime.fromisoformat(stamp).timestamp()))
    except ValueError:
        return "<invalid>"
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 10:
        return _two(minutes, "m", seconds % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return _two(days, "d", hours % 24, "h")
    return f"{days}d"


def _two(big: int, big_unit: str, small: int, small_unit: str) -> str:
    return f"{big}{big_unit}{small}{small_unit}" if small else f"{big}{big_unit}"


def _meta_age(obj: Object, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


_PLAIN: tuple[Column, ...] = (("Name", "string", 0), ("Age", "date", 0))


def _plain(obj: Object, now: float) -> list[Cell]:
    return [obj["metadata"]["name"], _meta_age(obj, now)]


def pod_status(pod: Object) -> tuple[str, int, int, int]:
    """What kubectl writes under STATUS, with ready containers, all containers and restarts."""
    status = pod.get("status") or {}
    reason = status.get("reason") or status.get("phase") or "Unknown"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            reason = "SchedulingGated"
    ready = restarts = 0
    statuses = status.get("containerStatuses") or ()
    for container in reversed(statuses):
        restarts += container.get("restartCount") or 0
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        if waiting.get("reason"):
            reason = waiting["reason"]
        elif ended:
            reason = ended.get("reason") or f"ExitCode:{ended.get('exitCode')}"
        elif container.get("ready") and state.get("running") is not None:
            ready += 1
    if pod["metadata"].get("deletionTimestamp"):
        reason = "Unknown" if status.get("reason") == "NodeLost" else "Terminating"
    total = len(pod.get("spec", {}).get("containers") or ())
    return reason, ready, total, restarts


def _pod(pod: Object, now: float) -> list[Cell]:
    reason, ready, total, restarts = pod_status(pod)
    last = [
        ((item.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        for item in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    when = max(filter(None, last), default=None)
    text = f"{restarts} ({age(when, now)} ago)" if restarts and when else str(restarts)
    status = pod.get("status") or {}
    return [
        pod["metadata"]["name"],
        f"{ready}/{total}",
        reason,
        text,
        _meta_age(pod, now),
        status.get("podIP") or "<none>",
        pod.get("spec", {}).get("nodeName") or "<none>",
        "<none>",
        "<none>",
    ]


def _node(node: Object, now: float) -> list[Cell]:
    ready = "Unknown"
    for condition in node.get("status", {}).get("conditions") or ():
        if condition.get("type") == "Ready":
            ready = "Ready" if condition.get("status") == "True" else "NotReady"
    if node.get("spec", {}).get("unschedulable"):
        ready += ",SchedulingDisabled"
    info = node.get("status", {}).get("nodeInfo") or {}
    addresses = {
        item["type"]: item["address"] for item in node.get("status", {}).get("addresses") or ()
    }
    return [
        node["metadata"]["name"],
        ready,
        "<none>",
        _meta_age(node, now),
        info.get("kubeletVersion") or "<unknown>",
        addresses.get("InternalIP", "<none>"),
        addresses.get("ExternalIP", "<none>"),
        info.get("osImage") or "<unknown>",
        info.get("kernelVersion") or "<unknown>",
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _service(service: Object, now: float) -> list[Cell]:
    spec = service.get("spec") or {}
    ports = ",".join(
        f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in spec.get("ports") or ()
    )
    selector = ",".join(f"{key}={value}" for key, value in (spec.get("selector") or {}).items())
    return [
        service["metadata"]["name"],
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or "None",
        "<none>",
        ports or "<none>",
        _meta_age(service, now),
        selector or "<none>",
    ]


def _event(event: Object, now: float) -> list[Cell]:
    involved = event.get("involvedObject") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    count = event.get("count") or 1
    last = age(event.get("lastTimestamp") or first, now)
    seen = f"{last} (x{count} over {age(first, now)})" if count > 1 else last
    source = event.get("source") or {}
    return [
        seen,
        event.get("type", ""),
        event.get("reason", ""),
        f"{(involved.get('kind') or '').lower()}/{involved.get('name')}",
        (event.get("message") or "").strip(),
        involved.get("fieldPath", ""),
        ", ".join(filter(None, (source.get("component"), source.get("host")))),
        age(first, now),
        count,
        event["metadata"]["name"],
    ]


def _namespace(namespace: Object, now: float) -> list[Cell]:
    phase = (namespace.get("status") or {}).get("phase", "Active")
    return [namespace["metadata"]["name"], phase, _meta_age(namespace, now)]


def _endpoints(endpoints: Object, now: float) -> list[Cell]:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in endpoints.get("subsets") or ()
        for address in subset.get("addresses") or ()
        for port in subset.get("ports") or ()
    ]
    shown = ",".join(found[:3]) + (f" + {len(found) - 3} more..." if len(found) > 3 else "")
    return [endpoints["metadata"]["name"], shown or "<none>", _meta_age(endpoints, now)]


def _ray_cluster(cluster: Object, now: float) -> list[Cell]:
    status = cluster.get("status") or {}
    head = status.get("head") or {}
    return [
        cluster["metadata"]["name"],
        status.get("desiredWorkerReplicas", ""),
        status.get("availableWorkerReplicas", ""),
        status.get("desiredCPU", ""),
        status.get("desiredMemory", ""),
        status.get("desiredGPU", ""),
        status.get("desiredTPU", ""),
        status.get("state", ""),
        _meta_age(cluster, now),
        head.get("podIP", ""),
        head.get("serviceIP", ""),
    ]


def _slice(item: Object, now: float) -> list[Cell]:
    ready: Object = next(
        (c for c in (item.get("status") or {}).get("conditions") or () if c.get("type") == "Ready"),
        {},
    )
    spec = item.get("spec") or {}
    return [
        item["metadata"]["name"],
        spec.get("type", ""),
        spec.get("topology", ""),
        ready.get("reason", ""),
        _meta_age(item, now),
    ]


def _columns(
    *names: str, wide: tuple[str, ...] = (), numbers: tuple[str, ...] = ()
) -> tuple[Column, ...]:
    def kind(name: str) -> str:
        return "integer" if name in numbers else "string"

    return (
        *((name, kind(name), 0) for name in names),
        *((name, kind(name), 1) for name in wide),
    )


_PRINTERS: dict[str, tuple[tuple[Column, ...], Callable[[Object, float], list[Cell]]]] = {
    "pods": (
        _columns(
            "Name",
            "Ready",
            "Status",
            "Restarts",
            "Age",
            wide=("IP", "Node", "Nominated Node", "Readiness Gates"),
        ),
        _pod,
    ),
    "nodes": (
        _columns(
            "Name",
            "Status",
            "Roles",
            "Age",
            "Version",
            wide=("Internal-IP", "External-IP", "OS-Image", "Kernel-Version", "Container-Runtime"),
        ),
        _node,
    ),
    "services": (
        _columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", wide=("Selector",)),
        _service,
    ),
    "events": (
        _columns(
            "Last Seen",
            "Type",
            "Reason",
            "Object",
            "Message",
            wide=("Subobject", "Source", "First Seen", "Count", "Name"),
            numbers=("Count",),
        ),
        _event,
    ),
    "namespaces": (_columns("Name", "Status", "Age"), _namespace),
    "endpoints": (_columns("Name", "Endpoints", "Age"), _endpoints),
    "rayclusters": (
        _columns(
            "Name",
            "Desired Workers",
            "Available Workers",
            "CPUs",
            "Memory",
            "GPUs",
            "TPUs",
            "Status",
            "Age",
            wide=("Head Pod IP", "Head Service IP"),
            numbers=("Desired Workers", "Available Workers"),
        ),
        _ray_cluster,
    ),
    "slices": (_columns("Name", "Type", "Topology", "Status", "Age"), _slice),
}
