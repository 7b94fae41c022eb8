"""What shape a slice has, from whoever says so: pods, nodes, Ray's labels, the worker group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

import msgspec

from fleet.topology import (
    Topology,
    TopologyError,
    generation_of,
    parse_topology,
    pod_type_of,
    topologies_of_pod_type,
)

T = TypeVar("T", bound=Hashable)


class ShapeHints(msgspec.Struct, frozen=True, kw_only=True):
    """What one member of a slice (a pod with its node, or a Ray node) says about the slice's shape.

    ``chips_asked`` is what the pod asks for or the node has; ``chips_counted`` what Ray counts,
    which may be logical devices (several a chip) and is therefore trusted last.
    """

    topology: str | None = None
    accelerator: str | None = None
    pod_type: str | None = None
    accelerator_type: str | None = None
    chips_asked: int | None = None
    chips_counted: int | None = None
    hostnames: int | None = None


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The shape as far as it is known. ``hosts`` and ``chips`` are for the whole slice."""

    generation: str | None = None
    topology_name: str | None = None
    topology: Topology | None = None
    pod_type: str | None = None
    hosts: int | None = None
    chips: int | None = None
    chips_per_host: int | None = None


def _most_common(values: Iterable[T | None]) -> T | None:
    counts = Counter(value for value in values if value)
    return min(counts, key=lambda value: (-counts[value], str(value))) if counts else None


def shape_of(hints: Iterable[ShapeHints], *, declared_hosts: int | None = None) -> Shape:
    """Put the members' hints together; the majority wins where they differ.

    Args:
        hints: one a member.
        declared_hosts: ``numOfHosts`` of the worker group, used only when no topology is known.
    """
    seen = tuple(hints)
    pod_type = _most_common(hint.pod_type for hint in seen)
    generation = (
        generation_of(accelerator_label=_most_common(hint.accelerator for hint in seen))
        or generation_of(pod_type=pod_type)
        or generation_of(accelerator_type=_most_common(hint.accelerator_type for hint in seen))
    )
    name = _most_common(hint.topology for hint in seen)
    asked = _most_common(hint.chips_asked for hint in seen)
    counted = _most_common(hint.chips_counted for hint in seen)
    if name is None and pod_type is not None:
        candidates = topologies_of_pod_type(pod_type)
        name = candidates[0] if len(candidates) == 1 else None
    if name is not None and generation is not None:
        for chips_per_host in (*(count for count in (asked, counted) if count), None):
            try:
                topology = parse_topology(generation, name, chips_per_host)
            except TopologyError:
                continue
            if chips_per_host is not None and chips_per_host != asked and not topology.verified:
                # Ray may count logical devices; only a size that exists is taken for chips.
                continue
            return Shape(
                generation=generation,
                topology_name=topology.name,
                topology=topology,
                pod_type=pod_type or pod_type_of(generation, topology.name),
                hosts=topology.hosts,
                chips=topology.chips,
                chips_per_host=topology.chips_per_host,
            )
    per_host = asked or counted
    hosts = (declared_hosts if declared_hosts and declared_hosts > 0 else None) or _most_common(
        hint.hostnames for hint in seen
    )
    return Shape(
        generation=generation,
        topology_name=name,
        pod_type=pod_type,
        hosts=hosts,
        chips=hosts * per_host if hosts and per_host else None,
        chips_per_host=per_host,
    )
