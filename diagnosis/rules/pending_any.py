"""Why a group that would take TPUs anywhere waits."""

from __future__ import annotations

from diagnosis.rules.base import (
    ray_evidence,
)
from diagnosis.rules.survey import (
    MANY,
    Reason,
    Survey,
    incomplete,
    no_nodes,
    unexplained,
    whole_enough,
)
from diagnosis.view import names_of
from fleet.groups import HEAD_RESOURCE
from fleet.joining import RAY_TOPOLOGY_LABEL
from fleet.model import PlacementGroup

COMMON_RESOURCES = frozenset({"CPU", "GPU", "TPU", "memory", "object_store_memory"})


def any_host(survey: Survey, group: PlacementGroup) -> Reason | None:
    """Why no hosts at all are free for a group that names neither slice nor shape."""
    cluster = survey.cluster
    topologies = frozenset(
        bundle.selector[RAY_TOPOLOGY_LABEL]
        for bundle in group.bundles
        if RAY_TOPOLOGY_LABEL in bundle.selector
    )
    if survey.coming(topologies):
        return None
    odd = _unknown_resource(survey, group)
    if odd is not None:
        return odd
    total = survey.tpus(topologies)
    thing = f"placement group {group.label}"
    if total < group.chips:
        broken = [item for item in survey.of_topologies(topologies) if not whole_enough(item)]
        if broken:
            return incomplete(cluster, broken[:MANY])
        return Reason(
            cause="NoSuchSlice",
            text=f"it asks for {group.chips:g} TPUs in {len(group.bundles)} bundles, and the "
            f"cluster has {total:g} TPUs"
            + (f" of topology {names_of(sorted(topologies))}" if topologies else ""),
            evidence=(
                ray_evidence(cluster, thing, "TPUs", group.chips),
                ray_evidence(cluster, "nodes", "TPUs", total),
            ),
        )
    own = sum(bundle.chips for bundle in group.bundles if bundle.host_key is not None)
    held = survey.held - own
    if held <= 0 or total - held >= group.chips:
        return unexplained(cluster, group)
    refused = [item for item in survey.of_topologies(topologies) if no_nodes(item)]
    if refused:
        return incomplete(cluster, refused[:MANY])
    labels = [other.label for other in survey.holders[: MANY + 1] if other.key != group.key]
    return Reason(
        cause="AllSlicesBusy",
        text=f"it asks for {group.chips:g} TPUs, and {held:g} of {total:g} are held"
        + (f" (by {names_of(labels)})" if labels else ""),
        evidence=(
            ray_evidence(cluster, thing, "TPUs", group.chips),
            ray_evidence(cluster, "nodes", "TPUs held", f"{held:g} of {total:g}"),
        ),
    )


def _unknown_resource(survey: Survey, group: PlacementGroup) -> Reason | None:
    """A resource that no live host offers, such as the name of a slice that is gone."""
    wanted = {
        name
        for bundle in group.bundles
        for name, amount in bundle.resources.items()
        if amount > 0 and name not in COMMON_RESOURCES and not HEAD_RESOURCE.match(name)
    }
    missing = sorted(wanted - survey.resources)
    if not missing:
        return None
    name = missing[0]
    near = next(
        (item for item in sorted(survey.resources) if _spelled(item) == _spelled(name)), None
    )
    gone = near is None and name in survey.slice_labels
    return Reason(
        cause="SliceGone" if gone else "ResourceNameMismatch",
        text=f"it asks for resource {name}, which no live host offers"
        + (f" (they offer {near})" if near else ""),
        evidence=(
            ray_evidence(
                survey.cluster, f"placement group {group.label}", "bundles.unit_resources", name
            ),
        ),
    )


def _spelled(name: str) -> str:
    return name.lower().replace("-", "_")
