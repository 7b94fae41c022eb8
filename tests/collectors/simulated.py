"""A simulated Kubernetes API with one small Ray cluster, and a source that watches it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from collectors.kubernetes_connection import SharedConnection, connect
from collectors.kubernetes_source import WatchSource
from fleet.observation import KubernetesObservation
from simulator.kube_api import KubeAPI
from tests.collectors.kube import kubeconfig

WAIT = 15.0
RAY_POD = {"ray.io/is-ray-node": "yes"}
TPU_NODE = {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}
TPU = {"containers": [{"name": "ray", "resources": {"limits": {"google.com/tpu": "4"}}}]}


def obj(name: str, namespace: str = "", labels: object = None, **fields: object) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": name, "labels": labels or {}}
    if namespace:
        meta["namespace"] = namespace
    return {"metadata": meta, **fields}


def pod(name: str, namespace: str = "ml", node: str = "", **fields: object) -> dict[str, Any]:
    spec = {**TPU, "nodeName": node or f"node-{name}"}
    return obj(name, namespace, RAY_POD, **{"spec": spec, **fields})


def event(name: str, kind: str, about: str, namespace: str = "ml", **fields: Any) -> dict[str, Any]:
    about_ = {"kind": kind, "name": about, "namespace": namespace}
    return obj(name, namespace, involvedObject=about_, **{"reason": "Failed", **fields})


def fill(api: KubeAPI, pods: int = 3, namespace: str = "ml") -> None:
    """One RayCluster with some TPU hosts."""
    api.store.put("rayclusters", obj("train", namespace))
    api.store.put("services", obj("train-head-svc", namespace))
    for number in range(pods):
        api.store.put("pods", pod(f"p{number}", namespace))
        api.store.put("nodes", obj(f"node-p{number}", labels=TPU_NODE))


def source_of(
    url: str, folder: Path, token: str = "", *, timeout: float = 5.0, **options: Any
) -> WatchSource:
    config = kubeconfig(folder / "config", url, token=token or "none")

    def make() -> Any:
        return connect(kubeconfig=config, timeout=timeout, max_body=4 << 20)

    return WatchSource(SharedConnection(make), **{"poll_interval": 0.5, "patience": 5.0, **options})


def until(
    source: WatchSource, wanted: Callable[[KubernetesObservation], bool], wait: float = WAIT
) -> KubernetesObservation:
    """The first look that is as wanted; looks are far apart enough to count requests by them."""
    deadline = time.monotonic() + wait
    while True:
        look = source.look()
        if wanted(look):
            return look
        assert time.monotonic() < deadline, look.source
        time.sleep(0.05)


def names(rows: tuple[Any, ...] | None) -> list[str]:
    return [row.metadata.name for row in rows or ()]


PARTS = ("pods", "nodes", "services", "events", "ray_clusters", "slices")
