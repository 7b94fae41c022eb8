"""Kubernetes objects in memory, with resource versions and a history that watches follow."""

from __future__ import annotations

import copy
import threading
import uuid
from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

Object = dict[str, Any]
Key = tuple[str, str]
"""``(namespace, name)``; the namespace is empty for cluster-scoped kinds."""

HISTORY = 4096
"""Changes kept a kind. Older ones are compacted away: a watch from before gets 410, as in etcd."""
SNAPSHOTS = 32
"""Paged lists in progress a kind; the next page of an older one gets 410."""


@dataclass(frozen=True)
class Kind:
    """A resource that the API serves."""

    plural: str
    kind: str
    group: str = ""
    version: str = "v1"
    namespaced: bool = True
    short: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()


KINDS: dict[str, Kind] = {
    kind.plural: kind
    for kind in (
        Kind("pods", "Pod", short=("po",), categories=("all",)),
        Kind("nodes", "Node", namespaced=False, short=("no",)),
        Kind("services", "Service", short=("svc",), categories=("all",)),
        Kind("events", "Event", short=("ev",)),
        Kind("namespaces", "Namespace", namespaced=False, short=("ns",)),
        Kind("endpoints", "Endpoints", short=("ep",)),
        Kind("rayclusters", "RayCluster", "ray.io", categories=("all",)),
        Kind("slices", "Slice", "accelerator.gke.io", "v1beta1", namespaced=False),
    )
}


@dataclass(frozen=True)
class Entry:
    """An object at one version, with its JSON; never changed, only replaced."""

    key: Key
    version: int
    obj: Object
    raw: bytes


@dataclass(frozen=True)
class Change:
    """One change. ``before`` lets a watch with a selector tell a leaving object from a new one."""

    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    entry: Entry
    before: Entry | None


class Gone(Exception):  # noqa: N818 - the API's own word
    """The version asked for has been compacted away (HTTP 410)."""


@dataclass
class _Shelf:
    entries: dict[Key, Entry] = field(default_factory=dict)
    changes: deque[Change] = field(default_factory=deque)
    compacted: int = 0
    ordered: tuple[Entry, ...] | None = None
    snapshots: OrderedDict[int, tuple[Entry, ...]] = field(default_factory=OrderedDict)


class Store:
    """All objects by kind. Thread-safe; objects go in and come out as copies or as frozen JSON."""

    def __init__(self, history: int = HISTORY) -> None:
        self.version = 1000
        self._history = history
        self._shelves = {plural: _Shelf() for plural in KINDS}
        self._lock = threading.RLock()
        self._listeners: set[Callable[[str], None]] = set()

    # --- writing ---------------------------------------------------------------------------

    def put(self, plural: str, obj: Object) -> Object:
        """Add or replace an object; nothing changes, not even the version, where it is the same."""
        return copy.deepcopy(self._put(plural, copy.deepcopy(obj)))

    def _put(self, plural: str, obj: Object) -> Object:
        """As :meth:`put` with an object that nobody else holds; the answer is not to be changed."""
        kind = KINDS[plural]
        meta = obj.setdefault("metadata", {})
        obj.update(apiVersion=kind.api_version, kind=kind.kind)
        key = (meta.get("namespace", "") if kind.namespaced else "", meta["name"])
        with self._lock:
            shelf = self._shelves[plural]
            before = shelf.entries.get(key)
            if not meta.get("uid"):
                meta["uid"] = before.obj["metadata"]["uid"] if before else str(uuid.uuid4())
            meta["resourceVersion"] = before.obj["metadata"]["resourceVersion"] if before else ""
            if before is not None and before.obj == obj:
                return obj
            self._record(plural, key, obj, before, "MODIFIED" if before else "ADDED")
        self._tell(plural)
        return obj

    def remove(self, plural: str, name: str, namespace: str = "") -> Object | None:
        """Take an object away; answers with its last state, or ``None`` where there was none."""
        with self._lock:
            shelf = self._shelves[plural]
            before = shelf.entries.get((namespace, name))
            if before is None:
                return None
            obj = copy.deepcopy(before.obj)
            self._record(plural, before.key, obj, before, "DELETED")
        self._tell(plural)
        return obj

    def replace_all(self, objects: dict[str, list[Object]]) -> None:
        """Make the store hold exactly these objects of these kinds; it keeps what it is given."""
        for plural, items in objects.items():
            kind = KINDS[plural]
            wanted = set()
            for item in items:
                meta = item["metadata"]
                wanted.add((meta.get("namespace", "") if kind.namespaced else "", meta["name"]))
                self._put(plural, item)
            for key in [key for key in self._shelves[plural].entries if key not in wanted]:
                self.remove(plural, key[1], key[0])

    def compact(self) -> None:
        """Forget all history: every watch from an older version gets 410."""
        with self._lock:
            for shelf in self._shelves.values():
                shelf.changes.clear()
                shelf.snapshots.clear()
                shelf.compacted = self.version

    def _record(
        self,
        plural: str,
        key: Key,
        obj: Object,
        before: Entry | None,
        change: Literal["ADDED", "MODIFIED", "DELETED"],
    ) -> None:
        shelf = self._shelves[plural]
        self.version += 1
        obj["metadata"]["resourceVersion"] = str(self.version)
        entry = Entry(key, self.version, obj, msgspec.json.encode(obj))
        if change == "DELETED":
            del shelf.entries[key]
        else:
            shelf.entries[key] = entry
        shelf.ordered = None
        shelf.changes.append(Change(self.version, change, entry, before))
        while len(shelf.changes) > self._history:
            shelf.compacted = shelf.changes.popleft().version

    # --- reading ---------------------------------------------------------------------------

    def get(self, plural: str, name: str, namespace: str = "") -> Object | None:
        """A copy of one object."""
        entry = self.entry(plural, name, namespace)
        return copy.deepcopy(entry.obj) if entry else None

    def entry(self, plural: str, name: str, namespace: str = "") -> Entry | None:
        """One object, not to be changed."""
        with self._lock:
            return self._shelves[plural].entries.get((namespace, name))

    def all(self, plural: str) -> tuple[Entry, ...]:
        """All objects of a kind by namespace and name, not to be changed."""
        with self._lock:
            shelf = self._shelves[plural]
            if shelf.ordered is None:
                shelf.ordered = tuple(shelf.entries[key] for key in sorted(shelf.entries))
            return shelf.ordered

    def snapshot(self, plural: str, version: int | None = None) -> tuple[int, tuple[Entry, ...]]:
        """All objects as they were at a version that a paged list began with; or as they are now.

        Raises :class:`Gone` when that version is no longer kept.
        """
        with self._lock:
            shelf = self._shelves[plural]
            if version is not None:
                if version not in shelf.snapshots:
                    raise Gone
                return version, shelf.snapshots[version]
            entries = self.all(plural)
            shelf.snapshots[self.version] = entries
            shelf.snapshots.move_to_end(self.version)
            while len(shelf.snapshots) > SNAPSHOTS:
                shelf.snapshots.popitem(last=False)
            return self.version, entries

    def since(self, plural: str, version: int) -> tuple[int, list[Change]]:
        """Changes after a version, and the version they lead to. Raises :class:`Gone`."""
        with self._lock:
            shelf = self._shelves[plural]
            if version < shelf.compacted:
                raise Gone
            start = bisect_right(shelf.changes, version, key=lambda change: change.version)
            return self.version, [shelf.changes[i] for i in range(start, len(shelf.changes))]

    def __iter__(self) -> Iterator[str]:
        return iter(self._shelves)

    # --- telling ---------------------------------------------------------------------------

    def listen(self, call: Callable[[str], None]) -> Callable[[], None]:
        """Have ``call(plural)`` made after each change, from any thread; the answer ends that."""
        with self._lock:
            self._listeners.add(call)

        def end() -> None:
            with self._lock:
                self._listeners.discard(call)

        return end

    def _tell(self, plural: str) -> None:
        with self._lock:
            listeners = tuple(self._listeners)
        for call in listeners:
            call(plural)
