"""What must not be kept: environment values that no rule reads.

Pods and pod templates carry passwords and tokens in their environment. An allow list decides, not
a list of known secrets: what is not named here is dropped as soon as it was decoded.
Annotations, managed fields, commands and arguments are in no struct at all.
"""

from __future__ import annotations

from typing import Any

import msgspec

from fleet.observation import Container, Pod, PodSpec, RayCluster, WorkerGroupSpec

ENV_PREFIXES = ("TPU_", "MEGASCALE_")
"""The TPU webhook's marks and the multislice settings; the TPU runtime keeps no secret in them."""

ENV_NAMES = frozenset(
    {"RAY_CLUSTER_NAME", "RAY_CLUSTER_NAMESPACE", "RAY_CLOUD_INSTANCE_ID", "RAY_NODE_TYPE_NAME"}
)
"""KubeRay's join keys. By name, because ``RAY_AUTH_TOKEN`` and ``RAY_REDIS_PASSWORD`` exist."""


def is_public(name: str | None) -> bool:
    """May the value of this environment variable be kept?"""
    return name is not None and (name in ENV_NAMES or name.startswith(ENV_PREFIXES))


def without_private_values(part: str, rows: tuple[Any, ...]) -> tuple[Any, ...]:
    """The rows of one part of a source, without what must not be kept."""
    if part == "pods":
        return tuple(_pod(row) for row in rows)
    if part == "ray_clusters":
        return tuple(_ray_cluster(row) for row in rows)
    return rows


def _pod(pod: Pod) -> Pod:
    if pod.spec is None:
        return pod
    spec = _pod_spec(pod.spec)
    return pod if spec is pod.spec else msgspec.structs.replace(pod, spec=spec)


def _pod_spec(spec: PodSpec) -> PodSpec:
    if not spec.containers:
        return spec
    containers = tuple(_container(container) for container in spec.containers)
    if all(new is old for new, old in zip(containers, spec.containers, strict=True)):
        return spec
    return msgspec.structs.replace(spec, containers=containers)


def _container(container: Container) -> Container:
    if not container.env:
        return container
    kept = tuple(variable for variable in container.env if is_public(variable.name))
    if len(kept) == len(container.env):
        return container
    return msgspec.structs.replace(container, env=kept)


def _ray_cluster(cluster: RayCluster) -> RayCluster:
    if cluster.spec is None or not cluster.spec.worker_group_specs:
        return cluster
    groups = tuple(_worker_group(group) for group in cluster.spec.worker_group_specs)
    spec = msgspec.structs.replace(cluster.spec, worker_group_specs=groups)
    return msgspec.structs.replace(cluster, spec=spec)


def _worker_group(group: WorkerGroupSpec) -> WorkerGroupSpec:
    if group.template is None or group.template.spec is None:
        return group
    template = msgspec.structs.replace(group.template, spec=_pod_spec(group.template.spec))
    return msgspec.structs.replace(group, template=template)
