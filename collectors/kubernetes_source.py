"""Kubernetes' side by watches: what the service uses.

One watch a kind (and a namespace, where only some are looked at) keeps a store up to date; a look
only puts the stores' rows together, which are the same tuples while nothing changed. A look also
asks for ``/version``: a silent watch cannot tell a quiet cluster from a dead API server, and that
answer can (it also says what the server's clock shows).

Which watches there are follows from what they say: services and events where Ray clusters live,
all nodes or only those with TPUs. See docs/adr/0011-watches.md.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from collectors.decoding import Decoded
from collectors.fetching import FetchError, skew_remark
from collectors.kubernetes_connection import SharedConnection
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
    joined,
    need_not_see,
    rows_of,
)
from collectors.kubernetes_store import Store
from collectors.kubernetes_watch import Asked, Watcher
from collectors.sources import KUBERNETES_NEEDED, Part, summarise
from fleet.observation import Event, KubernetesObservation, Node, Pod, RayCluster
from fleet.pods import event_time

MOST_EVENTS = 5_000
"""Events kept a watch: the newest. The API server itself forgets them after an hour."""

ROUTINE = frozenset({"Scheduled", "Pulling", "Pulled", "Created", "Started"})
"""What every pod that comes up well says, five events each: no rule reads them."""

ENDING = 2.0
"""Seconds in which watches have to end; they are woken up, so it takes milliseconds."""

_ANSWERS = frozenset({"forbidden", "not_found"})
"""Refusals that show an API server at work."""


class Wanted(msgspec.Struct, frozen=True):
    """One watch that there should be."""

    resource: Resource
    namespace: str | None = None
    query: tuple[tuple[str, str], ...] = ()


Running: TypeAlias = tuple[Store, Watcher]


class WatchSource:
    """:class:`~collectors.kubernetes_api.ObjectSource` by watches. One thread looks at a time."""

    def __init__(
        self,
        shared: SharedConnection,
        *,
        namespaces: Iterable[str] = (),
        poll_interval: float = 10.0,
        patience: float = 10.0,
        clock: Callable[[], float] = time.time,
        spread: Callable[[], float] = random.random,
    ) -> None:
        """A source; its threads start with the first look.

        Args:
            shared: the connection; dropped after credentials were refused, and made anew.
            namespaces: only these; empty for the whole cluster.
            poll_interval: the pace of looks, for the status and for how long rows outlive a watch.
            patience: seconds for which a look waits for first lists.
            clock: epoch seconds.
            spread: random numbers from 0 to 1.
        """
        self._shared = shared
        self._namespaces = tuple(namespaces)
        self._poll_interval = poll_interval
        self._patience = patience
        self._clock = clock
        self._spread = spread
        self._running: dict[Wanted, Running] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._reachable = True
        self._all_nodes = False
        self._last_good: float | None = None
        self._skew: float | None = None
        self._joined: dict[str, tuple[tuple[Part, ...], Part]] = {}
        self.retry_after: float | None = None
        self.context: str | None = None

    # --- looking

    def look(self) -> KubernetesObservation:
        """What the watches know now. The first look waits for the lists."""
        failed = self._ping()
        if failed is not None:
            return self._observation(dict.fromkeys(KUBERNETES_NEEDED, failed), [])
        self._follow()
        remarks = []
        parts = {resource.part: self._part(resource) for resource in (RAY_CLUSTER, POD, NODE)}
        parts["services"] = self._part(SERVICE)
        parts["events"] = self._part(EVENT)
        slices = self._part(SLICE)
        if absent(parts["ray_clusters"]):
            parts["ray_clusters"] = _NOTHING
            remarks.append("there is no RayCluster resource: KubeRay is not installed")
        parts["nodes"] = self._wanted_nodes(parts["nodes"], parts["pods"])
        parts["events"] = self._events_of(parts["events"], parts["pods"])
        if absent(slices) or need_not_see(slices, parts["nodes"]):
            slices = _NOTHING if absent(slices) else Part()
        parts["slices"] = slices
        if any(part.reason == "unauthorized" for part in parts.values()):
            self._shared.drop()  # the next request reads the kubeconfig anew
        return self._observation(parts, remarks)

    def _ping(self) -> Part | None:
        """Does the API server answer at all? Any account may ask for its version."""
        self.retry_after = None
        try:
            connection = self._shared.get()
            self.context = connection.context
            self._skew = connection.ping()
        except FetchError as error:
            if error.reason not in _ANSWERS:
                self._reachable = False
                self.retry_after = error.retry_after
                if error.reason == "unauthorized":
                    self._shared.drop()
                return Part(reason=error.reason, detail=error.detail)
        if not self._reachable:
            self._reachable = True
            for _, watcher in self._running.values():
                watcher.wake()
        return None

    def _observation(self, parts: Mapping[str, Part], remarks: list[str]) -> KubernetesObservation:
        remark = skew_remark(self._skew)
        status = summarise(
            "kubernetes",
            {name: part for name, part in parts.items() if part.answered or part.problem},
            needed=KUBERNETES_NEEDED,
            fetched_at=self._clock(),
            poll_interval=self._poll_interval,
            remarks=[*remarks, *([remark] if remark else [])],
        )
        if status.fetched_at is not None:
            self._last_good = status.fetched_at
        else:
            status = msgspec.structs.replace(status, fetched_at=self._last_good)
        rows = {name: part.decoded.rows if part.decoded else None for name, part in parts.items()}
        return KubernetesObservation(source=status, context=self.context, **rows)

    # --- which watches there are

    def _follow(self) -> None:
        """Have the watches that are wanted now, and wait for the first lists of new ones."""
        deadline = time.monotonic() + self._patience
        self._have([RAY_CLUSTER, POD, SLICE], deadline)
        self._have([RAY_CLUSTER, POD, SLICE, SERVICE, EVENT, NODE], deadline)

    def _have(self, resources: Iterable[Resource], deadline: float) -> None:
        wanted = [each for resource in resources for each in self._wanted(resource)]
        there = {each.resource for each in wanted}
        new = [each for each in wanted if each not in self._running]
        for each in new:
            self._start(each)
        with self._changed:
            self._changed.wait_for(
                lambda: self._closed or all(self._running[each][0].answered for each in wanted),
                max(0.0, deadline - time.monotonic()),
            )
        # Only now, so that a change of plan leaves no gap.
        gone = [each for each in self._running if each.resource in there and each not in wanted]
        for each in gone:
            self._running.pop(each)[1].end()

    def _wanted(self, resource: Resource) -> list[Wanted]:
        if resource is POD:
            return self._everywhere(resource, labelSelector=RAY_PODS)
        if resource is NODE:
            self._all_nodes = self._all_nodes or self._off_tpu()
            return [Wanted(NODE) if self._all_nodes else _TPU_NODES]
        if resource in (SERVICE, EVENT):
            homes = self._homes()
            found = [Wanted(resource, name) for name in homes] or [Wanted(resource)]
            if resource is EVENT and homes and not self._namespaces and "default" not in homes:
                found.append(_NODE_EVENTS)
            return found
        return self._everywhere(resource)

    def _everywhere(self, resource: Resource, **query: str) -> list[Wanted]:
        names = self._namespaces if resource.namespaced else ()
        asked = tuple(query.items())
        return [Wanted(resource, name, asked) for name in names] or [Wanted(resource, None, asked)]

    def _off_tpu(self) -> bool:
        """Does some pod of Ray run where there may be no TPU, as heads do? Then all nodes are
        watched from the start: a second list for the others would cost more."""
        return any(
            pod.spec is not None and pod.spec.node_name and not _asks_for_tpu(pod)
            for pod in rows_of(self._part(POD), Pod)
        )

    def _homes(self) -> tuple[str, ...]:
        """Namespaces in which Ray clusters live; empty for "look everywhere"."""
        if self._namespaces:
            return self._namespaces
        objects: list[RayCluster | Pod] = [
            *rows_of(self._part(RAY_CLUSTER), RayCluster),
            *rows_of(self._part(POD), Pod),
        ]
        found = sorted(
            {
                item.metadata.namespace
                for item in objects
                if item.metadata is not None and item.metadata.namespace
            }
        )
        return tuple(found) if len(found) <= MOST_NAMESPACES else ()

    def _start(self, wanted: Wanted) -> None:
        is_event = wanted.resource is EVENT
        store = Store(
            wanted.resource.part,
            grace=self._poll_interval,
            keep=_tells if is_event else _any,
            most=MOST_EVENTS if is_event else None,
            newest_first=_moment if is_event else None,
            on_change=self._tell,
        )
        asked = Asked(
            self._shared,
            wanted.resource,
            wanted.namespace,
            dict(wanted.query),
            spread=self._spread,
        )
        watcher = Watcher(wanted.resource.part, asked, store, self._spread)
        self._running[wanted] = (store, watcher)
        watcher.start()

    def _tell(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # --- what they know

    def _part(self, resource: Resource) -> Part:
        """The rows of all watches of one kind; one that failed fails all."""
        found = tuple(
            store.part() for each, (store, _) in self._running.items() if each.resource == resource
        )
        if not found:
            return Part(reason="missing", detail="not asked yet")
        before = self._joined.get(resource.part)
        if before is not None and _identical(before[0], found):
            return before[1]
        whole = next((part for part in found if not part.answered), None)
        whole = whole or joined(resource.part, list(found))
        self._joined[resource.part] = (found, whole)
        return whole

    def _wanted_nodes(self, nodes: Part, pods: Part) -> Part:
        """TPU nodes, and the others that Ray's pods run on."""
        if not self._all_nodes or nodes.decoded is None:
            return nodes

        def made() -> tuple[Any, ...]:
            wanted = {pod.spec.node_name for pod in rows_of(pods, Pod) if pod.spec is not None}
            return tuple(
                node
                for node in rows_of(nodes, Node)
                if node.metadata is not None
                and (node.metadata.name in wanted or TPU_NODES in (node.metadata.labels or {}))
            )

        return self._derived("nodes", nodes, pods, made)

    def _events_of(self, events: Part, pods: Part) -> Part:
        """Events without those about pods that are no pods of Ray."""
        if not pods.answered or events.decoded is None:
            return events

        def made() -> tuple[Any, ...]:
            ours = {
                (pod.metadata.namespace, pod.metadata.name)
                for pod in rows_of(pods, Pod)
                if pod.metadata is not None
            }
            return tuple(
                event
                for event in rows_of(events, Event)
                if event.involved_object is None
                or event.involved_object.kind != "Pod"
                or (event.involved_object.namespace, event.involved_object.name) in ours
            )

        return self._derived("events", events, pods, made)

    def _derived(
        self, name: str, part: Part, other: Part, made: Callable[[], tuple[Any, ...]]
    ) -> Part:
        """``part`` with other rows; the same as before where both parts are, or the rows are."""
        key = f"{name} of ours"
        before = self._joined.get(key)
        if before is not None and _identical(before[0], (part, other)):
            return before[1]
        rows = made()
        old = before[1].decoded if before is not None else None
        if old is not None and old.rows is not None and _identical(old.rows, rows):
            rows = old.rows
        assert part.decoded is not None
        whole = Part(decoded=msgspec.structs.replace(part.decoded, rows=rows))
        self._joined[key] = ((part, other), whole)
        return whole

    def close(self) -> None:
        """End all watches and give the connections back."""
        self._closed = True
        self._tell()
        running = list(self._running.values())
        for _, watcher in running:
            watcher.end()
        deadline = time.monotonic() + ENDING
        for _, watcher in running:
            watcher.join(max(0.0, deadline - time.monotonic()))
        self._shared.drop()


_NOTHING = Part(decoded=Decoded(rows=()))
_TPU_NODES = Wanted(NODE, None, (("labelSelector", TPU_NODES),))
_NODE_EVENTS = Wanted(EVENT, "default", (("fieldSelector", "involvedObject.kind=Node"),))


def _identical(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _any(row: Any) -> bool:
    return True


def _tells(event: Event) -> bool:
    """Is an event worth keeping: about what rules look at, and no routine?"""
    return about_ours(event) and not (event.type == "Normal" and event.reason in ROUTINE)


def _moment(event: Event) -> float:
    return event_time(event) or 0.0


def _asks_for_tpu(pod: Pod) -> bool:
    containers = (pod.spec.containers if pod.spec is not None else None) or ()
    return any(
        "google.com/tpu" in (amounts or {})
        for container in containers
        if container.resources is not None
        for amounts in (container.resources.limits, container.resources.requests)
    )
