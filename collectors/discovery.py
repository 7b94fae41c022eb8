"""Which Ray clusters there are and where they answer, from their RayCluster objects."""

from __future__ import annotations

import re

import msgspec

from fleet.observation import KubernetesObservation, RayCluster, Service

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


DASHBOARD_PORT = 8265
"""Where a Ray head serves its state API, unless its service says otherwise."""

_DNS_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class RayTarget(msgspec.Struct, frozen=True, kw_only=True):
    """A Ray cluster that Kubernetes knows, and the service of its head."""

    namespace: str
    cluster: str
    suspended: bool = False
    service: str
    port: int = DASHBOARD_PORT

    @property
    def key(self) -> tuple[str, str]:
        return (self.namespace, self.cluster)

    @property
    def url(self) -> str:
        """The head's address as pods of the cluster see it."""
        return f"http://{self.service}.{self.namespace}.svc:{self.port}"

    @property
    def proxy_path(self) -> str:
        """The head's address below the API server, for whoever is outside."""
        return f"/api/v1/namespaces/{self.namespace}/services/{self.service}:{self.port}/proxy"


def ray_targets(kubernetes: KubernetesObservation) -> tuple[RayTarget, ...]:
    """The Ray clusters of all RayCluster objects, by namespace and name.

    Names that are none in DNS are left out: they would end up in an address.
    """
    services = {
        (item.metadata.namespace, item.metadata.name): item
        for item in kubernetes.services or ()
        if item.metadata is not None
    }
    found = {}
    for item in kubernetes.ray_clusters or ():
        if item.metadata is None or not item.metadata.name:
            continue
        namespace, name = item.metadata.namespace or "default", item.metadata.name
        if not _DNS_NAME.fullmatch(namespace) or not _DNS_NAME.fullmatch(name):
            continue
        service = _head_service(item, name)
        found[namespace, name] = RayTarget(
            namespace=namespace,
            cluster=name,
            suspended=is_suspended(item),
            service=service,
            port=_dashboard_port(services.get((namespace, service))),
        )
    return tuple(found[key] for key in sorted(found))


def _head_service(cluster: RayCluster, name: str) -> str:
    head = cluster.status.head if cluster.status is not None else None
    said = head.service_name if head is not None else None
    return said if said and _DNS_NAME.fullmatch(said) else f"{name}-head-svc"


def _dashboard_port(service: Service | None) -> int:
    ports = (service.spec.ports if service is not None and service.spec is not None else None) or ()
    for port in ports:
        if port.name == "dashboard" and port.port is not None and 0 < port.port < 65536:
            return port.port
    return DASHBOARD_PORT
