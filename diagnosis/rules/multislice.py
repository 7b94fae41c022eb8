"""``MultisliceMismatch``: what pods are told about the multislice is not what is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Subject
from diagnosis.rules.base import (
    Links,
    Outcome,
    cluster_subject,
    fix,
    group_subject,
    hit,
    kube_evidence,
    look,
)
from diagnosis.view import View, names_of
from fleet.model import ClusterView, PlacementGroup, Slice, WorkerGroup
from fleet.pods import terminating

COUNT, INDEX = "MEGASCALE_NUM_SLICES", "MEGASCALE_SLICE_ID"


class Told:
    """What the pods of some slices were told: counts by value, and slice ids by slice."""

    def __init__(self, view: View, slices: list[Slice]) -> None:
        """Read the environment of every live pod of ``slices``."""
        self.counts: dict[str, list[str]] = defaultdict(list)
        self.ids: dict[str, set[str]] = defaultdict(set)
        self.pod_of_id: dict[tuple[str, str], str] = {}
        self.without: list[str] = []
        for item in slices:
            for host in item.hosts:
                if host.pod is None or terminating(host.pod):
                    continue
                env = view.env(host.pod)
                name = host.pod_name or "?"
                count, index = env.get(COUNT), env.get(INDEX)
                if count is not None:
                    self.counts[count].append(name)
                elif COUNT not in env:
                    self.without.append(name)
                if index is not None:
                    self.ids[item.id].add(index)
                    self.pod_of_id.setdefault((item.id, index), name)


def judge_multislice(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``MEGASCALE_NUM_SLICES`` or slice ids do not agree with the slices that are there.

    Facts: gke_tpu R18 (stale values on replaced pods; jax.distributed waits for ever), R28 (the
    same ids on several slices), 1.2 (injected only where the user sets the count).
    Must not flag: pods without these variables (Ray sets them at run time); a multislice of which
    a slice is still coming or broken (``SliceIncomplete``); suspended groups.
    """
    judged: set[str] = set()
    for group in view.groups_of(cluster):
        if group.state != "CREATED" or group.role != "multislice":
            continue
        slices = [item for key in group.slices if (item := view.slices.get(key)) is not None]
        judged |= {item.id for item in slices}
        problem = _problem(view, slices, len(slices), exact=True)
        if problem is not None:
            yield _mismatch(view, cluster, group_subject(group), problem, slices, group)
    for worker_group in view.worker_groups_of(cluster):
        slices = list(view.slices_of_worker_group(worker_group))
        if worker_group.suspended or not slices or any(item.id in judged for item in slices):
            continue
        if any(item.forming or item.gated or item.leaving for item in slices):
            continue
        problem = _problem(view, slices, _replicas(worker_group, slices), exact=False)
        if problem is not None:
            yield _mismatch(view, cluster, cluster_subject(cluster), problem, slices, None)


def _replicas(group: WorkerGroup, slices: list[Slice]) -> int:
    wanted = group.spec.replicas if group.spec is not None else None
    return max(wanted or 0, len(slices))


def _problem(
    view: View, slices: list[Slice], there: int, *, exact: bool
) -> tuple[str, Told] | None:
    told = Told(view, slices)
    if not told.counts and not any(told.ids.values()):
        return None
    if len(told.counts) > 1:
        values = names_of(sorted(told.counts))
        return f"its pods are told {COUNT} {values}, not one number", told
    count = next(iter(told.counts), None)
    number = int(count) if count is not None and count.isdecimal() and len(count) < 9 else None
    if count is not None and number is None:
        return f"{COUNT} is {count!r}, which is no number", told
    if told.counts and told.without:
        return f"{len(told.without)} of its pods have no {COUNT}, the others say {count}", told
    if number is not None and (number != there if exact else number > there):
        slices_there = "is 1 slice" if there == 1 else f"are {there} slices"
        return f"{COUNT} is {number}, and there {slices_there}", told
    mixed = [item for item in slices if len(told.ids.get(item.id, ())) > 1]
    if mixed:
        return f"pods of slice {mixed[0].name} are told different {INDEX}", told
    owners: dict[str, list[str]] = defaultdict(list)
    for item in slices:
        for index in told.ids.get(item.id, ()):
            owners[index].append(item.name)
    twice = sorted(index for index, names in owners.items() if len(names) > 1)
    if twice:
        return f"slices {names_of(sorted(owners[twice[0]]))} share {INDEX} {twice[0]}", told
    if number is not None:
        outside = sorted(
            index for index in owners if not (index.isdecimal() and int(index[:8]) < number)
        )
        if outside:
            return f"{INDEX} {names_of(outside)} is not below {COUNT} {number}", told
    return None


def _mismatch(
    view: View,
    cluster: ClusterView,
    subject: Subject,
    problem: tuple[str, Told],
    slices: list[Slice],
    group: PlacementGroup | None,
) -> Outcome:
    text, told = problem
    who = f"Placement group {group.label}" if group is not None else f"Ray cluster {cluster.id}"
    rows = [
        kube_evidence("pod", pods[0], COUNT, f"{value} (and {len(pods) - 1} more pods)")
        for value, pods in sorted(told.counts.items())
    ]
    names = {item.id: item.name for item in slices}
    rows += [
        kube_evidence(
            "pod", told.pod_of_id[slice_id, index], f"{INDEX} of {names[slice_id]}", index
        )
        for slice_id in sorted(told.ids)
        for index in sorted(told.ids[slice_id])
    ][:12]
    pod = next((host.pod_name for item in slices for host in item.hosts if host.pod_name), None)
    worker_groups = {f"{cluster.id}/{item.group}" for item in slices if item.group}
    steps = [look("See the pods and their replicas.", commands.list_pods(view, cluster))]
    if pod is not None:
        steps.append(
            look("Read what a pod was told.", commands.pod_env(view, cluster.namespace, pod))
        )
    owner = next(
        (view.worker_groups[key] for key in sorted(worker_groups) if key in view.worker_groups),
        None,
    )
    steps.append(
        fix(
            f"Set {COUNT} to the number of slices and delete the pods, so that all are told the "
            "same (kills the job on all its slices).",
            commands.delete_group_pods(view, owner) if owner is not None else None,
        )
    )
    return hit(
        "MultisliceMismatch",
        subject,
        f"{who} over {len(slices)} slices ({names_of(item.name for item in slices)}): {text}. "
        "The processes wait for slices that do not come.",
        severity="critical",
        evidence=rows,
        actions=steps,
        links=Links(
            cluster=cluster.id,
            slices=tuple(item.id for item in slices),
            groups=(group.key,) if group is not None else (),
            worker_groups=tuple(sorted(worker_groups)),
        ),
        effect=f"multislice settings of {who} do not agree",
    )
