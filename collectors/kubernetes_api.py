"""Kubernetes' side: Ray's pods, TPU nodes, services, events, RayClusters, Slice objects.

Everything is listed at each look, in pages, and decoded from raw bytes. The rest of the program
knows only :class:`ObjectSource`, so that a watch can take over.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec

from collectors.decoding import Decoded, decode_kubernetes
from collectors.fetching import FetchError
from collectors.kubernetes_connection import KubernetesConnection, SharedConnection
from collectors.sources import KUBERNETES_NEEDED, Part, summarise
from fleet.observation import KubernetesObservation, Node, Pod, RayCluster, Truncation

PAGE = 500
"""Rows a page: 2.5 MB of pods, a size that an API server gives without effort."""
MOST_PAGES = 400
"""200,000 rows; a server that always has one more page must not hold us for ever."""

RAY_PODS = "ray.io/is-ray-node=yes"
TPU_NODES = "cloud.google.com/gke-tpu-accelerator"
TPU7X = "tpu7x"

MOST_NAMESPACES = 10
"""Lists by namespace up to here; with more, one list of everything costs less."""
MOST_SINGLE_NODES = 20
"""Nodes without TPU (of heads and CPU workers) are asked for by name up to here, else listed."""

EVENT_KINDS = ("Pod", "Node", "RayCluster")


class ObjectSource(Protocol):
    """Where Kubernetes objects come from."""

    def look(self) -> KubernetesObservation:
        """What Kubernetes says now; failures are in ``source``, their parts ``None``."""
        ...

    def close(self) -> None:
        """Give the connections back."""
        ...


class _Resource(msgspec.Struct, frozen=True):
    """One kind of object: where its list is, and what RBAC calls it."""

    part: str
    prefix: str
    plural: str
    namespaced: bool = True


_POD = _Resource("pods", "/api/v1", "pods")
_NODE = _Resource("nodes", "/api/v1", "nodes", namespaced=False)
_SERVICE = _Resource("services", "/api/v1", "services")
_EVENT = _Resource("events", "/api/v1", "events")
_RAY_CLUSTER = _Resource("ray_clusters", "/apis/ray.io/v1", "rayclusters.ray.io")
_SLICE = _Resource(
    "slices", "/apis/accelerator.gke.io/v1beta1", "slices.accelerator.gke.io", namespaced=False
)


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
        clusters = self._everywhere(_RAY_CLUSTER, parts)
        if _absent(clusters):
            clusters = Part(decoded=Decoded(rows=()))
            remarks.append("there is no RayCluster resource: KubeRay is not installed")
        parts["ray_clusters"] = clusters
        parts["pods"] = self._everywhere(_POD, parts, labelSelector=RAY_PODS)
        parts["nodes"] = self._nodes(parts)
        homes = self._homes(parts)
        parts["services"] = self._in(homes, _SERVICE, parts)
        parts["events"] = self._events(homes, parts)
        slices = self._everywhere(_SLICE, parts)
        if _absent(slices) or _need_not_see(slices, parts["nodes"]):
            slices = Part(decoded=Decoded(rows=()) if _absent(slices) else None, reason=None)
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

    def _everywhere(self, resource: _Resource, parts: Mapping[str, Part], **query: str) -> Part:
        scope = self._namespaces if resource.namespaced else ()
        return self._in(scope, resource, parts, **query)

    def _in(
        self,
        namespaces: Iterable[str],
        resource: _Resource,
        parts: Mapping[str, Part],
        **query: str,
    ) -> Part:
        """The list in each namespace, or across the cluster when none is named."""
        hopeless = _hopeless(parts.values())
        if hopeless is not None:
            return hopeless
        found = [self._pages(resource, name, query) for name in namespaces]
        return _joined(resource.part, found) if found else self._pages(resource, None, query)

    def _pages(self, resource: _Resource, namespace: str | None, query: Mapping[str, str]) -> Part:
        name = resource.plural.partition(".")[0]
        middle = f"/namespaces/{namespace}" if namespace else ""
        pages: list[Part] = []
        token: str | None = None
        restarted = False
        while len(pages) < MOST_PAGES and not self._closed:
            asked = {"limit": str(PAGE), **query} | ({"continue": token} if token else {})
            path = f"{resource.prefix}{middle}/{name}?{urlencode(asked)}"
            try:
                assert self._connection is not None
                body = self._connection.get(path)
            except FetchError as error:
                if error.status == 410 and token and not restarted:
                    # The list's version expired between two pages: begin anew, once.
                    pages, token, restarted = [], None, True
                    continue
                failed = Part(reason=error.reason, detail=_refusal(error, resource, namespace))
                return _cut(resource.part, [*pages, failed]) if pages else failed
            page = decode_kubernetes(resource.part, body)
            pages.append(Part(decoded=page))
            token = page.continue_token
            if not token:
                return _joined(resource.part, pages)
        return _cut(resource.part, pages)

    def _nodes(self, parts: Mapping[str, Part]) -> Part:
        """TPU nodes, and the other nodes that Ray's pods run on."""
        tpu = self._in((), _NODE, parts, labelSelector=TPU_NODES)
        if not tpu.answered:
            return tpu
        have = {node.metadata.name for node in _rows(tpu, Node) if node.metadata is not None}
        wanted = {
            pod.spec.node_name
            for pod in _rows(parts["pods"], Pod)
            if pod.spec is not None and pod.spec.node_name
        }
        others = sorted(wanted - have)
        if not others:
            return tpu
        if len(others) > MOST_SINGLE_NODES:
            everything = self._in((), _NODE, parts)
            if not everything.answered or everything.decoded is None:
                return everything
            kept = tuple(
                node
                for node in _rows(everything, Node)
                if node.metadata is not None and node.metadata.name in (have | wanted)
            )
            return Part(decoded=msgspec.structs.replace(everything.decoded, rows=kept))
        single = [
            self._in((), _NODE, parts, fieldSelector=f"metadata.name={name}") for name in others
        ]
        return _joined("nodes", [tpu, *single])

    def _homes(self, parts: Mapping[str, Part]) -> tuple[str, ...]:
        """Namespaces in which Ray clusters live; empty for "look everywhere"."""
        if self._namespaces:
            return self._namespaces
        objects: list[RayCluster | Pod] = [
            *_rows(parts["ray_clusters"], RayCluster),
            *_rows(parts["pods"], Pod),
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
        found = self._in(homes, _EVENT, parts)
        if homes and not self._namespaces and "default" not in homes:
            about = "involvedObject.kind=Node"
            nodes = self._in(("default",), _EVENT, parts, fieldSelector=about)
            found = _joined("events", [found, nodes])
        if found.decoded is None or found.decoded.rows is None:
            return found
        kept = tuple(
            event
            for event in found.decoded.rows
            if event.involved_object is None or event.involved_object.kind in EVENT_KINDS
        )
        return msgspec.structs.replace(
            found, decoded=msgspec.structs.replace(found.decoded, rows=kept)
        )


# --- parts out of pages ---------------------------------------------------------------------


def _rows(part: Part, kind: type[Any]) -> tuple[Any, ...]:
    rows = part.decoded.rows if part.decoded else None
    return tuple(row for row in rows or () if isinstance(row, kind))


def _joined(name: str, pages: list[Part]) -> Part:
    """Several answers as one. One that failed fails all: a part list must not look whole."""
    if len(pages) == 1:
        return pages[0]
    rows: list[Any] = []
    problem: Decoded | None = None
    malformed: list[str] = []
    truncation: Truncation | None = None
    for page in pages:
        if page.decoded is None or page.decoded.rows is None:
            return page
        rows.extend(page.decoded.rows)
        malformed.extend(page.decoded.malformed)
        truncation = truncation or page.decoded.truncation
        problem = problem or (page.decoded if page.decoded.reason else None)
    if truncation is not None:
        truncation = Truncation(part=name, total=-1, rows=len(rows))
    return Part(
        decoded=Decoded(
            rows=tuple(rows),
            reason=problem.reason if problem else None,
            detail=problem.detail if problem else "",
            malformed=tuple(malformed[:10]),
            truncation=truncation,
        )
    )


def _cut(name: str, pages: list[Part]) -> Part:
    """What came before a page failed, or before there were too many."""
    if not pages:
        return Part(reason="timed_out", detail="stopped before it was asked")
    whole = _joined(name, [page for page in pages if page.answered])
    rows = whole.decoded.rows if whole.decoded else None
    if whole.decoded is None or rows is None:
        return whole
    failed = next((page.detail for page in pages if not page.answered), "too many pages")
    return Part(
        decoded=msgspec.structs.replace(
            whole.decoded,
            reason="truncated",
            detail=f"{name}: the list broke off after {len(rows)} rows ({failed})",
            truncation=Truncation(part=name, total=-1, rows=len(rows)),
        )
    )


def _refusal(error: FetchError, resource: _Resource, namespace: str | None) -> str:
    """A refusal names the verb and the resource that a role has to allow."""
    if error.reason == "forbidden":
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        where = where if resource.namespaced else "(cluster-wide)"
        return f"the account may not list {resource.plural} {where} ({error.detail})"
    if error.reason == "unauthorized":
        return f"the API server does not accept the credentials ({error.detail})"
    return error.detail


_HOPELESS = frozenset({"refused", "unreachable", "unauthorized", "timed_out", "rate_limited"})


def _hopeless(parts: Iterable[Part]) -> Part | None:
    """The failure after which further lists would fail alike, to stand for them."""
    for part in parts:
        if not part.answered and part.reason in _HOPELESS:
            return Part(reason=part.reason, detail=part.detail)
    return None


def _absent(part: Part) -> bool:
    """Does the API server not know the resource at all?"""
    return not part.answered and part.reason == "not_found"


def _need_not_see(part: Part, nodes: Part) -> bool:
    """Slice objects exist for TPU7x only; elsewhere a role that cannot list them misses nothing.

    RBAC refuses before it is looked whether a resource exists, so a refusal tells nothing.
    """
    if part.answered or part.reason != "forbidden" or not nodes.answered:
        return False
    kinds = (
        ((node.metadata.labels if node.metadata else None) or {}).get(TPU_NODES)
        for node in _rows(nodes, Node)
    )
    return not any((kind or "").startswith(TPU7X) for kind in kinds)
