"""Kubernetes' side: Ray's pods, TPU nodes, services, events, RayClusters, Slice objects.

Everything is listed at each look, in pages, and decoded from raw bytes: what a single look wants.
The rest of the program knows only :class:`ObjectSource`; the service follows the same objects by
watches (:mod:`collectors.kubernetes_source`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import msgspec

from collectors.decoding import Decoded
from collectors.fetching import FetchError
from collectors.kubernetes_connection import KubernetesConnection, SharedConnection
from collectors.kubernetes_lists import (
    EVENT,
    MOST_NAMESPACES,
    NODE,
    POD,
    RAY_CLUSTER,
    RAY_PODS,
    SERVICE,
    SLICE,
    TPU_NODES,
    Resource,
    about_ours,
    absent,
    hopeless,
    joined,
    list_pages,
    need_not_see,
    rows_of,
)
from collectors.sources import KUBERNETES_NEEDED, Part, summarise
from fleet.observation import KubernetesObservation, Node, Pod, RayCluster

MOST_SINGLE_NODES = 20
"""Nodes without TPU (of heads and CPU workers) are asked for by name up to here, else listed."""


class ObjectSource(Protocol):
    """Where Kubernetes objects come from."""

    def look(self) -> KubernetesObservation:
        """What Kubernetes says now; failures are in ``source``, their parts ``None``."""
        ...

    def close(self) -> None:
        """Give the connections back."""
        ...


class ListSource:
    """:class:`ObjectSource` by listing everything at each look."""

    def __init__(
        self,
        shared: SharedConnection,
        *,
        namespaces: Iterable[str] = (),
        poll_interval: float = 10.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """A source.

        Args:
            shared: the connection; dropped after credentials were refused, and made anew.
            namespaces: only these; empty for the whole cluster.
            poll_interval: the nominal pace, for the status.
            clock: epoch seconds.
        """
        self._shared = shared
        self._connection: KubernetesConnection | None = None
        self._namespaces = tuple(namespaces)
        self._poll_interval = poll_interval
        self._clock = clock
        self._last_good: float | None = None
        self._closed = False
        self.context: str | None = None

    def look(self) -> KubernetesObservation:
        """List everything once. Blocks; call it in a thread."""
        parts: dict[str, Part] = {}
        remarks: list[str] = []
        try:
            self._connection = self._shared.get()
            self.context = self._connection.context
        except FetchError as error:
            failed = Part(reason=error.reason, detail=error.detail)
            parts = dict.fromkeys(KUBERNETES_NEEDED, failed)
            return self._observation(parts, remarks)
        clusters = self._everywhere(RAY_CLUSTER, parts)
        if absent(clusters):
            clusters = Part(decoded=Decoded(rows=()))
            remarks.append("there is no RayCluster resource: KubeRay is not installed")
        parts["ray_clusters"] = clusters
        parts["pods"] = self._everywhere(POD, parts, labelSelector=RAY_PODS)
        parts["nodes"] = self._nodes(parts)
        homes = self._homes(parts)
        parts["services"] = self._in(homes, SERVICE, parts)
        parts["events"] = self._events(homes, parts)
        slices = self._everywhere(SLICE, parts)
        if absent(slices) or need_not_see(slices, parts["nodes"]):
            slices = Part(decoded=Decoded(rows=()) if absent(slices) else None, reason=None)
        parts["slices"] = slices
        if any(part.reason == "unauthorized" for part in parts.values()):
            self._shared.drop()  # the next look reads the kubeconfig anew
        return self._observation(parts, remarks)

    def close(self) -> None:
        """End after the request in flight."""
        self._closed = True
        self._shared.drop()

    def _observation(self, parts: Mapping[str, Part], remarks: list[str]) -> KubernetesObservation:
        status = summarise(
            "kubernetes",
            {name: part for name, part in parts.items() if part.answered or part.problem},
            needed=KUBERNETES_NEEDED,
            fetched_at=self._clock(),
            poll_interval=self._poll_interval,
            remarks=remarks,
        )
        if status.fetched_at is not None:
            self._last_good = status.fetched_at
        else:
            status = msgspec.structs.replace(status, fetched_at=self._last_good)
        rows = {name: part.decoded.rows if part.decoded else None for name, part in parts.items()}
        return KubernetesObservation(source=status, context=self.context, **rows)

    # --- lists

    def _everywhere(self, resource: Resource, parts: Mapping[str, Part], **query: str) -> Part:
        scope = self._namespaces if resource.namespaced else ()
        return self._in(scope, resource, parts, **query)

    def _in(
        self,
        namespaces: Iterable[str],
        resource: Resource,
        parts: Mapping[str, Part],
        **query: str,
    ) -> Part:
        """The list in each namespace, or across the cluster when none is named."""
        failed = hopeless(parts.values())
        if failed is not None:
            return failed
        found = [self._pages(resource, name, query) for name in namespaces]
        return joined(resource.part, found) if found else self._pages(resource, None, query)

    def _pages(self, resource: Resource, namespace: str | None, query: Mapping[str, str]) -> Part:
        assert self._connection is not None
        return list_pages(self._connection, resource, namespace, query, closed=lambda: self._closed)

    def _nodes(self, parts: Mapping[str, Part]) -> Part:
        """TPU nodes, and the other nodes that Ray's pods run on."""
        tpu = self._in((), NODE, parts, labelSelector=TPU_NODES)
        if not tpu.answered:
            return tpu
        have = {node.metadata.name for node in rows_of(tpu, Node) if node.metadata is not None}
        wanted = {
            pod.spec.node_name
            for pod in rows_of(parts["pods"], Pod)
            if pod.spec is not None and pod.spec.node_name
        }
        others = sorted(wanted - have)
        if not others:
            return tpu
        if len(others) > MOST_SINGLE_NODES:
            everything = self._in((), NODE, parts)
            if not everything.answered or everything.decoded is None:
                return everything
            kept = tuple(
                node
                for node in rows_of(everything, Node)
                if node.metadata is not None and node.metadata.name in (have | wanted)
            )
            return Part(decoded=msgspec.structs.replace(everything.decoded, rows=kept))
        single = [
            self._in((), NODE, parts, fieldSelector=f"metadata.name={name}") for name in others
        ]
        return joined("nodes", [tpu, *single])

    def _homes(self, parts: Mapping[str, Part]) -> tuple[str, ...]:
        """Namespaces in which Ray clusters live; empty for "look everywhere"."""
        if self._namespaces:
            return self._namespaces
        objects: list[RayCluster | Pod] = [
            *rows_of(parts["ray_clusters"], RayCluster),
            *rows_of(parts["pods"], Pod),
        ]
        found = sorted(
            {
                item.metadata.namespace
                for item in objects
                if item.metadata is not None and item.metadata.namespace
            }
        )
        return tuple(found) if len(found) <= MOST_NAMESPACES else ()

    def _events(self, homes: tuple[str, ...], parts: Mapping[str, Part]) -> Part:
        """Events of pods and RayClusters in their namespaces, and those of nodes (in default)."""
        found = self._in(homes, EVENT, parts)
        if homes and not self._namespaces and "default" not in homes:
            about = "involvedObject.kind=Node"
            nodes = self._in(("default",), EVENT, parts, fieldSelector=about)
            found = joined("events", [found, nodes])
        if found.decoded is None or found.decoded.rows is None:
            return found
        kept = tuple(event for event in found.decoded.rows if about_ours(event))
        return msgspec.structs.replace(
            found, decoded=msgspec.structs.replace(found.decoded, rows=kept)
        )
