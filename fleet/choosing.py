"""Which slices somebody asked to see: by cluster, namespace, generation, state and words. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from fleet.model import Fleet, PlacementGroup, Slice, SliceStatusName


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What to keep; an empty part keeps everything.

    ``clusters`` are ``<namespace>/<ray cluster>``. ``text``: words that must all occur in what a
    slice or one of its hosts or holders is called. Case does not count.
    """

    clusters: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    generations: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    text: str = ""

    @property
    def all(self) -> bool:
        """Whether nothing is left out."""
        return not (
            self.clusters or self.namespaces or self.generations or self.states or self.text.strip()
        )

    @property
    def words(self) -> tuple[str, ...]:
        return tuple(self.text.lower().split())

    def place_fits(self, namespace: str, cluster: str) -> bool:
        """Whether something of this Ray cluster may be kept."""
        return (not self.namespaces or namespace in self.namespaces) and (
            not self.clusters or f"{namespace}/{cluster}" in self.clusters
        )


def options(fleet: Fleet) -> dict[str, tuple[str, ...]]:
    """What there is to choose from: ``clusters``, ``namespaces`` and ``generations``, sorted."""
    places = {(view.namespace, view.cluster) for view in fleet.clusters}
    places |= {(item.namespace, item.cluster) for item in fleet.slices}
    return {
        "clusters": tuple(sorted(f"{namespace}/{cluster}" for namespace, cluster in places)),
        "namespaces": tuple(sorted({namespace for namespace, _ in places})),
        "generations": tuple(sorted({item.generation for item in fleet.slices if item.generation})),
    }


def chosen_slices(
    fleet: Fleet, statuses: Mapping[str, SliceStatusName], choice: Choice
) -> tuple[Slice, ...]:
    """The slices that fit, in the fleet's order."""
    words = choice.words
    labels = {group.key: group.label for group in fleet.placement_groups} if words else {}
    return tuple(
        item
        for item in fleet.slices
        if choice.place_fits(item.namespace, item.cluster)
        and (not choice.generations or item.generation in choice.generations)
        and (not choice.states or statuses.get(item.id, "unknown") in choice.states)
        and (not words or _says(words, item, labels))
    )


def chosen_groups(
    fleet: Fleet, slices: Iterable[Slice], choice: Choice
) -> tuple[PlacementGroup, ...]:
    """The placement groups that lie on one of ``slices``, ask for one, or fit by their own name.

    A group that lies nowhere yet is kept by its place and its words alone, unless a generation or
    a state is asked for, which it has none of.
    """
    kept = {item.id for item in slices}
    names = {(item.namespace, item.cluster, item.name) for item in slices}
    words = choice.words
    found = []
    for group in fleet.placement_groups:
        if not choice.place_fits(group.namespace, group.cluster):
            continue
        on = kept.intersection(group.slices) or any(
            (group.namespace, group.cluster, name) in names for name in group.wanted_slices
        )
        loose = (
            not group.slices
            and not group.wanted_slices
            and not (choice.generations or choice.states)
            and contains(words, (group.name, group.id, group.job_id))
        )
        named = bool(words) and contains(words, (group.name, group.id, group.job_id))
        if on or loose or (named and not (choice.generations or choice.states)):
            found.append(group)
    return tuple(found)


def contains(words: Iterable[str], texts: Iterable[str | None]) -> bool:
    """Whether each of the (lower-case) words occurs somewhere in the texts."""
    together = "\n".join(text for text in texts if text).lower()
    return all(word in together for word in words)


def _says(words: tuple[str, ...], item: Slice, labels: Mapping[str, str]) -> bool:
    names = [item.id, item.generation, item.topology_name, item.group]
    names += item.node_pools
    names += [labels.get(key, key) for key in item.held_by]
    together = "\n".join(name for name in names if name).lower()
    rest = [word for word in words if word not in together]
    if not rest:
        return True
    return contains(rest, (text for host in item.hosts for text in (host.pod_name, host.node_name)))
