"""Which Ray clusters there are and where they answer, from their RayCluster objects."""

from __future__ import annotations

from fleet.observation import RayCluster

BARE_NAMESPACE = "-"
"""Namespace of a Ray cluster that is not on Kubernetes."""


def source_name(namespace: str, cluster: str) -> str:
    """The contract's name of a Ray cluster's source."""
    return f"ray:{namespace}/{cluster}"


def split_folder(folder: str) -> tuple[str, str]:
    """``ml__train`` → ``("ml", "train")``; ``default`` → ``("-", "default")``.

    Kubernetes names hold no underscore, so the first ``__`` is the border.
    """
    namespace, border, cluster = folder.partition("__")
    return (namespace, cluster) if border and namespace and cluster else (BARE_NAMESPACE, folder)


def folder_name(namespace: str, cluster: str) -> str:
    """The inverse of :func:`split_folder`."""
    return cluster if namespace == BARE_NAMESPACE else f"{namespace}__{cluster}"


def is_suspended(cluster: RayCluster) -> bool:
    """Suspended on purpose (``spec.suspend``, or KubeRay says so): not polled, and not down."""
    if cluster.spec is not None and cluster.spec.suspend:
        return True
    if cluster.status is None:
        return False
    return cluster.status.state == "suspended" or any(
        condition.type == "RayClusterSuspended" and condition.status == "True"
        for condition in cluster.status.conditions or ()
    )
