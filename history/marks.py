"""What is compared from one look to the next, cut down to what a change can be seen in.

A report of 1,000 hosts holds megabytes; a picture of it some tens of kilobytes, so it can be kept
with each change and taken up again after a restart, or by another replica. What cannot be seen in
a look is carried over from the picture before (see :mod:`history.picture`).
"""

from __future__ import annotations

import msgspec


class _Mark(msgspec.Struct, frozen=True, omit_defaults=True):
    pass


class HostMark(_Mark, frozen=True, kw_only=True):
    """A place of a slice (``worker 2``) and what is in it. ``ray``: its Ray node, as a digest."""

    place: str
    state: str
    problem: str = ""
    ray: str = ""


class SliceMark(_Mark, frozen=True, kw_only=True):
    """``status`` is the last one that was known. ``sides``: who showed it (``ray``,
    ``kubernetes``). ``hidden``: this look could not tell. ``seen_at``: the last that could."""

    namespace: str
    cluster: str
    name: str
    status: str
    seen_at: float
    sides: tuple[str, ...] = ()
    hosts: tuple[HostMark, ...] = ()
    hidden: bool = False
    why: str = ""


class BundleMark(_Mark, frozen=True, kw_only=True):
    """Where a bundle lies, or lay when it was last placed: the node as a digest, the place for
    people."""

    index: int
    node: str = ""
    place: str = ""


class GroupMark(_Mark, frozen=True, kw_only=True):
    """A placement group. ``workers``: actors alive and dead; no change by themselves."""

    namespace: str
    cluster: str
    name: str
    state: str
    role: str
    seen_at: float
    bundles: tuple[BundleMark, ...] = ()
    slices: tuple[str, ...] = ()
    requested_at: float | None = None
    created_at: float | None = None
    workers: tuple[int, int] = (0, 0)


class ClusterMark(_Mark, frozen=True, kw_only=True):
    """A Ray cluster. ``sides``: which ever answered for its hosts. ``groups_seen``: its placement
    groups were ever answered in full. ``hidden``: slices that cannot be judged now."""

    namespace: str
    cluster: str
    seen_at: float
    has_kubernetes: bool = False
    sides: tuple[str, ...] = ()
    groups_seen: bool = False
    head_since: float | None = None
    hidden: int = 0
    slices: int = 0
    why: str = ""


class FindingMark(_Mark, frozen=True, kw_only=True):
    """An open finding, as far as a change of it is worth a line."""

    code: str
    kind: str
    id: str
    name: str
    namespace: str = ""
    cluster: str = ""
    severity: str
    cause: str | None = None
    summary: str = ""
    since: float | None = None
    opened: float


class SourceMark(_Mark, frozen=True, kw_only=True):
    """How a source answered."""

    status: str
    reason: str = ""
    detail: str = ""


class Picture(_Mark, frozen=True, kw_only=True):
    """One look as it is compared. ``findings`` by code, kind and id of subject, joined by ``|``.

    ``forgotten``: ids that were hidden for so long that nothing more is said of them.
    """

    at: float
    slices: dict[str, SliceMark] = {}
    groups: dict[str, GroupMark] = {}
    clusters: dict[str, ClusterMark] = {}
    findings: dict[str, FindingMark] = {}
    sources: dict[str, SourceMark] = {}
    forgotten: tuple[str, ...] = ()
