"""What is asked of Kubernetes, and one paged list of it. Used by lists and by watches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec

from collectors.decoding import Decoded, decode_kubernetes
from collectors.fetching import FetchError
from collectors.sources import Part
from fleet.observation import Event, Node, Truncation

PAGE = 500
"""Rows a page: 2.5 MB of pods, a size that an API server gives without effort."""
MOST_PAGES = 400
"""200,000 rows; a server that always has one more page must not hold us for ever."""

RAY_PODS = "ray.io/is-ray-node=yes"
TPU_NODES = "cloud.google.com/gke-tpu-accelerator"
TPU7X = "tpu7x"

MOST_NAMESPACES = 10
"""Lists by namespace up to here; with more, one list of everything costs less."""

EVENT_KINDS = ("Pod", "Node", "RayCluster")


class Resource(msgspec.Struct, frozen=True):
    """One kind of object: where its list is, and what RBAC calls it."""

    part: str
    prefix: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str | None, query: Mapping[str, str]) -> str:
        """The list's path, in one namespace or (``None``) across the cluster."""
        middle = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.prefix}{middle}/{self.plural.partition('.')[0]}?{urlencode(query)}"


POD = Resource("pods", "/api/v1", "pods")
NODE = Resource("nodes", "/api/v1", "nodes", namespaced=False)
SERVICE = Resource("services", "/api/v1", "services")
EVENT = Resource("events", "/api/v1", "events")
RAY_CLUSTER = Resource("ray_clusters", "/apis/ray.io/v1", "rayclusters.ray.io")
SLICE = Resource(
    "slices", "/apis/accelerator.gke.io/v1beta1", "slices.accelerator.gke.io", namespaced=False
)


class Getter(Protocol):
    """Something that GETs below the API server's address."""

    def get(self, path: str) -> bytes:
        """The body of a 200 answer; raises :class:`~collectors.fetching.FetchError`."""
        ...


def list_pages(
    connection: Getter,
    resource: Resource,
    namespace: str | None,
    query: Mapping[str, str],
    *,
    closed: Callable[[], bool] = lambda: False,
) -> Part:
    """One list, page after page; what came before a page failed is kept and marked as cut.

    Args:
        connection: to the API server.
        resource: what to list.
        namespace: where; ``None`` for the whole cluster.
        query: selectors and the like.
        closed: asked before each page; ends the list.
    """
    pages: list[Part] = []
    token: str | None = None
    restarted = False
    while len(pages) < MOST_PAGES and not closed():
        asked = {"limit": str(PAGE), **query}
        if token:
            # A continued list has the first page's version, and must not name another.
            asked = {**asked, "continue": token}
            asked.pop("resourceVersion", None)
        try:
            body = connection.get(resource.path(namespace, asked))
        except FetchError as error:
            if error.status == 410 and token and not restarted:
                # The list's version expired between two pages: begin anew, once.
                pages, token, restarted = [], None, True
                continue
            failed = Part(
                reason=error.reason,
                detail=refusal(error, resource, namespace),
                retry_after=error.retry_after,
            )
            return _cut(resource.part, [*pages, failed]) if pages else failed
        page = decode_kubernetes(resource.part, body)
        pages.append(Part(decoded=page))
        token = page.continue_token
        if not token:
            return joined(resource.part, pages)
    return _cut(resource.part, pages)


def about_ours(event: Event) -> bool:
    """Is an event about a kind of object that some rule looks at?"""
    return event.involved_object is None or event.involved_object.kind in EVENT_KINDS


# --- parts out of pages ---------------------------------------------------------------------


def rows_of(part: Part, kind: type[Any]) -> tuple[Any, ...]:
    """The rows of one kind that a part holds; none where it was not answered."""
    rows = part.decoded.rows if part.decoded else None
    return tuple(row for row in rows or () if isinstance(row, kind))


def joined(name: str, pages: list[Part]) -> Part:
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
            version=pages[-1].decoded.version if pages and pages[-1].decoded else None,
        )
    )


def _cut(name: str, pages: list[Part]) -> Part:
    """What came before a page failed, or before there were too many."""
    if not pages:
        return Part(reason="timed_out", detail="stopped before it was asked")
    whole = joined(name, [page for page in pages if page.answered])
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


def refusal(
    error: FetchError, resource: Resource, namespace: str | None, verb: str = "list"
) -> str:
    """A refusal names the verb and the resource that a role has to allow."""
    if error.reason == "forbidden":
        where = f"in namespace {namespace}" if namespace else "in all namespaces"
        where = where if resource.namespaced else "(cluster-wide)"
        return f"the account may not {verb} {resource.plural} {where} ({error.detail})"
    if error.reason == "unauthorized":
        return f"the API server does not accept the credentials ({error.detail})"
    return error.detail


_HOPELESS = frozenset({"refused", "unreachable", "unauthorized", "timed_out", "rate_limited"})


def hopeless(parts: Iterable[Part]) -> Part | None:
    """The failure after which further lists would fail alike, to stand for them."""
    for part in parts:
        if not part.answered and part.reason in _HOPELESS:
            return Part(reason=part.reason, detail=part.detail)
    return None


def absent(part: Part) -> bool:
    """Does the API server not know the resource at all?"""
    return not part.answered and part.reason == "not_found"


def need_not_see(part: Part, nodes: Part) -> bool:
    """Slice objects exist for TPU7x only; elsewhere a role that cannot list them misses nothing.

    RBAC refuses before it is looked whether a resource exists, so a refusal tells nothing.
    """
    if part.answered or part.reason != "forbidden" or not nodes.answered:
        return False
    kinds = (
        ((node.metadata.labels if node.metadata else None) or {}).get(TPU_NODES)
        for node in rows_of(nodes, Node)
    )
    return not any((kind or "").startswith(TPU7X) for kind in kinds)
