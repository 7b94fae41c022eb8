"""What the chips of a gang do over several looks: nothing at all, or one host not like the rest."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from diagnosis import commands
from diagnosis.finding import Action
from diagnosis.rules.base import (
    Outcome,
    fix,
    group_subject,
    hit,
    look,
    ray_evidence,
    unknown,
)
from diagnosis.rules.placement import group_links, who
from diagnosis.view import View, host_name, names_of
from fleet.model import ClusterView, Host, PlacementGroup, Slice, TpuUse
from fleet.times import format_duration, format_time

FAR_APART = 0.5
"""Ratio of duty cycle by which a host must differ from the gang's median: ranks of one program
differ by some percent, one that waits or has crashed by nearly everything."""

CLOSE = 0.25
"""The rest must lie this close to the median, else there is no "rest" to differ from."""


def _members(view: View, group: PlacementGroup) -> list[tuple[Slice, Host]]:
    keys = {
        (bundle.slice_id, bundle.host_key)
        for bundle in group.bundles
        if bundle.chips > 0 and bundle.host_key is not None
    }
    return [
        (item, host)
        for slice_id in group.slices
        if (item := view.slices.get(slice_id)) is not None
        for host in item.hosts
        if (slice_id, host.key) in keys
    ]


def _running(group: PlacementGroup, members: list[tuple[Slice, Host]]) -> bool:
    """Whether a worker runs something on each of the gang's hosts."""
    busy = {
        (worker.slice_id, worker.host_key)
        for worker in group.workers
        if worker.alive and (worker.kind == "task" or worker.running_task is not None)
    }
    return bool(members) and all((item.id, host.key) in busy for item, host in members)


def _sampled(use: TpuUse | None) -> bool:
    """Whether a sample says something. The agent fills gaps with 0.0 (ray_2_60 "Row limits"), so
    a host of which even the total memory reads 0 was not sampled."""
    if use is None or use.duty_cycle is None:
        return False
    return not (use.duty_cycle == 0.0 and use.memory_total_bytes == 0.0)


def _gangs(
    view: View, cluster: ClusterView
) -> Iterator[tuple[PlacementGroup, list[tuple[Slice, Host]]]]:
    for group in view.groups_of(cluster):
        if group.state != "CREATED" or group.chips <= 0:
            continue
        members = _members(view, group)
        if len(members) >= 1 and _running(group, members):
            yield group, members


def judge_stalled(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``GangStalled``: every worker runs, and the chips have done nothing for 10 min.

    Facts: gke_tpu 4.1 (duty cycle near 0 on all hosts of a slice while a runtime is up), ray_2_60
    (a zero can mean no data).
    Must not flag: gangs whose workers run no task (an idle inference server); hosts without
    samples; a pause shorter than 10 min (compilation, checkpoint), as far as looks tell. A single
    look judges what it sees: a gang whose every worker has run for 10 min and whose chips rest.
    """
    for group, members in _gangs(view, cluster):
        uses = [view.use_of(host, item) for item, host in members]
        if not all(_sampled(use) for use in uses):
            yield unknown(
                "GangStalled", group_subject(group), "not every host's chips were sampled"
            )
            continue
        duties = [use.duty_cycle for use in uses if use is not None and use.duty_cycle is not None]
        if max(duties) >= view.thresholds.gang_stall_duty_cycle:
            continue
        mark = view.mark("GangStalled", cluster.id, group.key)
        begun = [worker.since for worker in group.workers if worker.since is not None]
        if mark is None and not begun:
            yield unknown(
                "GangStalled",
                group_subject(group),
                "its chips do nothing in this one look, and since when its workers run is unknown",
            )
            continue
        if begun and view.now - max(begun) < view.thresholds.gang_stall:
            continue
        if mark is not None and view.now - mark.since < view.thresholds.gang_stall:
            continue
        if mark is not None:
            how_long = f"have done nothing for {format_duration(view.now - mark.since)}"
        else:
            how_long = (
                "do nothing in this look, though the youngest worker has run for "
                f"{format_duration(view.now - max(begun))}"
            )
        yield hit(
            "GangStalled",
            group_subject(group),
            f"{who(group)}: all {len(members)} workers run, but their chips {how_long} "
            f"(duty cycle {max(duties) * 100:.1f} % at most).",
            severity="critical",
            evidence=[
                ray_evidence(
                    cluster,
                    f"{host_name(host)} of {item.name}",
                    "duty cycle",
                    f"{(use.duty_cycle or 0.0) * 100:.1f} %" if use is not None else "?",
                )
                for (item, host), use in list(zip(members, uses, strict=True))[:8]
            ]
            + [
                ray_evidence(
                    cluster,
                    f"placement group {group.label}",
                    "idle since" if mark is not None else "youngest worker since",
                    format_time(mark.since if mark is not None else max(begun)),
                )
            ],
            actions=_actions(view, cluster, group, members),
            since=mark.since if mark is not None else None,
            links=group_links(view, group),
            effect=f"the chips of {group.label} do nothing",
        )


def judge_straggler(view: View, cluster: ClusterView) -> Iterator[Outcome]:
    """``GangStraggler``: one or a few hosts do something else than the rest of the gang.

    Facts: gke_tpu 4.1 (one host without the series while its peers have it).
    Must not flag: gangs of fewer than three hosts; hosts that were not sampled; a gang that is
    mixed as a whole; what lasts under two minutes (evaluation or a checkpoint on one rank), as far
    as looks tell: a single look judges what it sees, of workers that have run for that long.
    """
    for group, members in _gangs(view, cluster):
        if len(members) < 3:
            continue
        sampled = [
            (item, host, use)
            for item, host in members
            if (use := view.use_of(host, item)) is not None and _sampled(use)
        ]
        if len(sampled) < 3:
            if view.fleet.tpu_use:
                yield unknown("GangStraggler", group_subject(group), "too few hosts were sampled")
            continue
        duties = [use.duty_cycle or 0.0 for _, _, use in sampled]
        middle = median(duties)
        odd = [
            (item, host, use)
            for item, host, use in sampled
            if abs((use.duty_cycle or 0.0) - middle) > FAR_APART
        ]
        odd_keys = {(item.id, host.key) for item, host, _ in odd}
        rest = [
            use.duty_cycle or 0.0
            for item, host, use in sampled
            if (item.id, host.key) not in odd_keys
        ]
        few = 0 < len(odd) <= max(1, len(sampled) // 4)
        if not few or max(abs(value - middle) for value in rest) > CLOSE:
            continue
        marks = [
            view.mark("GangStraggler", cluster.id, group.key, item.id, host.key)
            for item, host, _ in odd
        ]
        seen = [mark for mark in marks if mark is not None]
        begun = [worker.since for worker in group.workers if worker.since is not None]
        since = min((mark.since for mark in seen), default=None)
        started = since if since is not None else max(begun, default=None)
        if started is None:
            yield unknown(
                "GangStraggler",
                group_subject(group),
                "one host differs in this one look, and since when its workers run is unknown",
            )
            continue
        if view.now - started < view.thresholds.gang_straggler:
            continue
        how_long = f" for {format_duration(view.now - since)}" if since is not None else ""
        hosts = names_of(f"{host_name(host)} of {item.name}" for item, host, _ in odd)
        values = names_of(f"{(use.duty_cycle or 0.0) * 100:.0f} %" for _, _, use in odd)
        yield hit(
            "GangStraggler",
            group_subject(group),
            f"{who(group)}: {hosts} {'differs' if len(odd) == 1 else 'differ'} from the rest of "
            f"the gang (duty cycle {values} against {middle * 100:.0f} %){how_long}.",
            severity="warning",
            evidence=[
                ray_evidence(
                    cluster,
                    f"{host_name(host)} of {item.name}",
                    "duty cycle",
                    f"{(use.duty_cycle or 0.0) * 100:.1f} %",
                )
                for item, host, use in (*odd, *[row for row in sampled if row not in odd][:4])
            ],
            actions=_actions(view, cluster, group, [(item, host) for item, host, _ in odd]),
            since=since,
            links=group_links(view, group),
            effect=f"{hosts} of {group.label} differ from the rest",
        )


def _actions(
    view: View, cluster: ClusterView, group: PlacementGroup, members: list[tuple[Slice, Host]]
) -> list[Action]:
    steps = [
        look(
            "See what each rank is doing.",
            commands.ray_list(view, cluster, "tasks", "state=RUNNING"),
        )
    ]
    item, host = members[0]
    if host.pod_name:
        steps += [
            look(
                f"See what the chips of {host_name(host)} do.",
                commands.tpu_info(view, item.namespace, host.pod_name),
            ),
            look(
                "Read where its Python processes stand.",
                commands.kubectl(
                    view, "exec", host.pod_name, "--", "ray", "stack", namespace=item.namespace
                ),
            ),
        ]
    else:
        steps.append(
            look("Read where the Python processes of a host stand (run it there).", "ray stack")
        )
    steps.append(
        fix(
            "Save the stacks, then stop the job and start it from its last checkpoint. If its "
            "driver is gone, remove the group, which kills its workers.",
            commands.remove_group(view, cluster, group.id),
        )
    )
    return steps
