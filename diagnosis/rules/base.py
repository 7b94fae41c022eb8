"""What a rule is and what it gives: hits and unknowns, never an "ok" on missing data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from diagnosis.finding import Action, Evidence, Finding, Severity, Subject, Unknown
from diagnosis.view import KUBERNETES, View
from fleet.model import ClusterView, PlacementGroup, Slice, WorkerGroup
from fleet.observation import Pod
from fleet.pods import pod_name, pod_namespace

RUNBOOKS = "docs/runbooks"


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """What a finding touches, by id; folding joins findings that touch the same thing."""

    cluster: str = ""
    slices: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    """Those of the slices that a selector asks for by name."""
    groups: tuple[str, ...] = ()
    worker_groups: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    """``<slice id>|<host key>``."""
    source: str = ""


class Hit(msgspec.Struct, frozen=True, kw_only=True):
    """A rule fires. ``effect``: what it means to somebody else's finding that it is folded into.

    ``dated``: ``finding.since`` comes from timestamps of the APIs or from several looks, so a
    single look is no blip. ``host_problem_fold``: see :mod:`diagnosis.folding`.
    """

    finding: Finding
    links: Links
    effect: str = ""
    dated: bool = False

    @property
    def code(self) -> str:
        return self.finding.code


Outcome = Hit | Unknown
Judge = Callable[[View, ClusterView], Iterator[Outcome]]
FleetJudge = Callable[[View], Iterator[Outcome]]


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """One code's rule for one Ray cluster.

    ``needs``: parts of sources (``ray:nodes``, ``kubernetes:pods``) without which it cannot say
    "ok"; the cluster is then ``unknown`` for this code. ``partial``: what it can see is judged all
    the same, because a fault that shows is a fault (a missing row never makes it fire).
    ``ray_side``: it judges what Ray says, so it holds still for a while after a head restart.
    """

    code: str
    needs: tuple[str, ...] = ()
    either: tuple[str, ...] = ()
    """Parts of which one is enough; with none of them the rule is unknown."""
    judge: Judge
    partial: bool = True
    ray_side: bool = True
    kubernetes_only: bool = False


def slice_subject(item: Slice) -> Subject:
    """A slice as a subject."""
    return Subject(
        kind="slice", id=item.id, name=item.name, namespace=item.namespace, cluster=item.cluster
    )


def group_subject(group: PlacementGroup) -> Subject:
    """A placement group as a subject; its id is the key."""
    return Subject(
        kind="placement_group",
        id=group.key,
        name=group.label,
        namespace=group.namespace,
        cluster=group.cluster,
    )


def worker_group_subject(group: WorkerGroup) -> Subject:
    """A worker group as a subject."""
    return Subject(
        kind="worker_group",
        id=group.id,
        name=group.name,
        namespace=group.namespace,
        cluster=group.cluster,
    )


def cluster_subject(cluster: ClusterView) -> Subject:
    """A Ray cluster as a subject."""
    return Subject(
        kind="ray_cluster",
        id=cluster.id,
        name=cluster.cluster,
        namespace=cluster.namespace,
        cluster=cluster.cluster,
    )


def pod_subject(cluster: ClusterView, pod: Pod) -> Subject:
    """A pod as a subject; its id is ``<namespace>/<name>``."""
    return Subject(
        kind="pod",
        id=f"{pod_namespace(pod)}/{pod_name(pod)}",
        name=pod_name(pod),
        namespace=cluster.namespace,
        cluster=cluster.cluster,
    )


def node_subject(cluster: ClusterView, name: str) -> Subject:
    """A Kubernetes node as a subject."""
    return Subject(
        kind="node", id=name, name=name, namespace=cluster.namespace, cluster=cluster.cluster
    )


def hit(
    code: str,
    subject: Subject,
    summary: str,
    *,
    severity: Severity,
    cause: str | None = None,
    evidence: Iterable[Evidence] = (),
    actions: Iterable[Action] = (),
    since: float | None = None,
    affects: Iterable[str] = (),
    links: Links,
    effect: str = "",
    dated: bool | None = None,
) -> Hit:
    """A finding with what folding needs; ``dated`` where ``since`` is given, unless said."""
    return Hit(
        finding=Finding(
            code=code,
            severity=severity,
            cause=cause,
            subject=subject,
            summary=summary,
            evidence=tuple(evidence),
            actions=tuple(actions),
            since=since,
            affects=tuple(affects),
            runbook=f"{RUNBOOKS}/{code}.md",
        ),
        links=links,
        effect=effect or summary,
        dated=since is not None if dated is None else dated,
    )


def unknown(code: str, subject: Subject | None, reason: str) -> Unknown:
    """A rule could not judge ``subject``, and why."""
    return Unknown(code=code, subject=subject, reason=reason)


def kube_evidence(kind: str, name: str, field: str, value: object) -> Evidence:
    """Something that Kubernetes said."""
    return Evidence(source=KUBERNETES, object=f"{kind} {name}", field=field, value=_text(value))


def ray_evidence(cluster: ClusterView, thing: str, field: str, value: object) -> Evidence:
    """Something that a Ray cluster said."""
    return Evidence(source=cluster.source.name, object=thing, field=field, value=_text(value))


def _text(value: object) -> str:
    if value is None:
        return "not set"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = " ".join(str(value).split())
    return text if len(text) <= 400 else text[:399] + "…"


def look(text: str, command: str | None = None) -> Action:
    """A step that only reads."""
    return Action(text=text, command=command, kind="look")


def fix(text: str, command: str | None = None) -> Action:
    """A step that changes something; the text says what it costs."""
    return Action(text=text, command=command, kind="fix")


SIDE = Literal["ray", "kubernetes"]


def available(view: View, cluster: ClusterView, need: str) -> bool:
    """Whether a part of a source (``ray:nodes``) was answered in full for this cluster."""
    side, _, part = need.partition(":")
    if side == "ray":
        return part in cluster.ray_parts
    return part in view.fleet.kubernetes_parts
