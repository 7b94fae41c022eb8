"""The one word that says what a slice is up to (contract section 3).

Decided in this order:

1. ``broken`` for two hosts with one identity, whatever else is seen of the slice;
2. ``incomplete`` and ``forming`` where hosts are surely lacking;
3. ``unknown`` where something that could change the answer cannot be seen;
4. ``broken`` where all hosts are there but a finding says that they cannot work as one slice:
   pools apart, no identity, unresolvable hostnames, a fault of the runtime, a Slice that has
   failed, or one host that restarted alone (the others' runtime waits for what it was);
5. how it is held: ``idle``, ``reserved``, ``running`` or ``shared``. A slice of which only the
   head is held is ``reserved``: nobody else can get it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from diagnosis.finding import Finding
from diagnosis.rules.base import Hit
from diagnosis.view import View
from fleet.model import Slice, SliceStatusName

APART = frozenset(
    {
        "SliceSpansNodePools",
        "MissingSliceIdentity",
        "HostnamesUnresolvable",
        "HostCountMismatch",
        "RuntimeFault",
        "HostRestartedAlone",
    }
)


def broken_slices(hits: Iterable[Hit]) -> dict[str, set[str]]:
    """Slice ids with the codes that make them ``broken`` or ``incomplete``."""
    found: dict[str, set[str]] = defaultdict(set)
    for item in hits:
        finding = item.finding
        if _breaks(finding):
            for slice_id in item.links.slices:
                found[slice_id].add(item.code)
    return found


def _breaks(finding: Finding) -> bool:
    if finding.code == "DynamicSliceDegraded":
        return finding.severity == "critical"
    return finding.code in APART or finding.code in ("DuplicateWorkerId", "SliceIncomplete")


def status_of(view: View, item: Slice, codes: Mapping[str, set[str]]) -> SliceStatusName:
    """The status of one slice, given the codes of the hits that touch it."""
    found = codes.get(item.id, set())
    if "DuplicateWorkerId" in found:
        return "broken"
    if "SliceIncomplete" in found:
        return "incomplete"
    if item.forming:
        return "forming"
    if item.hosts_expected is None or (item.blind and not found):
        return "unknown"
    if item.hosts_alive < item.hosts_expected:
        # Hosts are lacking, yet nothing certain could be said of them.
        return "unknown" if not item.leaving else "incomplete"
    if found & (APART | {"DynamicSliceDegraded"}):
        return "broken"
    if item.blind:
        return "unknown"
    return _held(view, item)


def _held(view: View, item: Slice) -> SliceStatusName:
    cluster = view.clusters.get(f"{item.namespace}/{item.cluster}")
    seen = cluster.ray_parts if cluster is not None else frozenset()
    if item.holding == "unknown":
        return "unknown"
    if "placement_groups" not in seen and not view.holders_of(item):
        return "unknown"  # workers may show, but not the groups that hold for them
    if item.holding in ("part", "several"):
        return "shared"
    if item.holding == "whole":
        covered = {worker.host_key for worker in item.workers if worker.alive}
        if all(host.key in covered for host in item.hosts if host.state == "ready"):
            return "running"
        return "reserved" if {"actors", "tasks"} <= seen else "unknown"
    if not {"placement_groups", "actors", "tasks"} <= seen:
        return "unknown"
    return "reserved" if item.head_held_by else "idle"
