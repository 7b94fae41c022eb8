"""Prometheus families, made fresh at each scrape from the last snapshot.

Nothing is remembered between scrapes, so what is gone from the fleet leaves no series behind.
A label set never comes twice, whatever the cluster's names look like: Prometheus would reject the
whole scrape for one duplicate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from diagnosis.finding import Finding
from diagnosis.snapshot import POLL_BUCKETS_SECONDS, Snapshot
from exporter.families import BY_NAME, FAMILIES, PREFIX
from fleet.model import SLICE_STATUSES, HostState, Slice

MAX_LABEL = 256
"""Longest label value. Kubernetes names end at 253; a placement group's name may be any text."""

_BOUNDS = (*(str(bound) for bound in POLL_BUCKETS_SECONDS), "+Inf")
_HOST_STATES: tuple[HostState, ...] = ("ready", "not_ready", "missing")


def render(
    snapshot: Snapshot | None,
    now: float,
    *,
    accept: str = "",
    version: str = "",
    process: bool = False,
) -> tuple[bytes, str]:
    """The whole exposition and its content type.

    ``snapshot`` is ``None`` before the first look; ``now`` is epoch seconds; ``accept`` the
    scraper's ``Accept`` header (OpenMetrics or text); ``process`` adds the ``process_*`` families
    of Slicewatch itself.
    """
    registry = CollectorRegistry()
    registry.register(SnapshotCollector(lambda: snapshot, lambda: now, version=version))
    if process:
        ProcessCollector(registry=registry)
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


class SnapshotCollector(Collector):
    """A custom collector: ``snapshot`` and ``clock`` are asked at each scrape."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot | None],
        clock: Callable[[], float],
        *,
        version: str = "",
    ) -> None:
        self._snapshot = snapshot
        self._clock = clock
        self._version = version

    def describe(self) -> list[Metric]:
        """Nothing up front: registering must not take a look at the fleet."""
        return []

    def collect(self) -> Iterator[Metric]:
        """All families in the order of :data:`exporter.families.FAMILIES`; empty ones left out."""
        families = {info.name: _Family(info.name) for info in FAMILIES}
        families["build_info"].add(1.0, self._version or "unknown")
        snapshot = self._snapshot()
        if snapshot is not None:
            _fill(families, snapshot, self._clock())
        for family in families.values():
            if family.metric.samples:
                yield family.metric


class _Family:
    """One family under construction, which refuses a label set that it already has."""

    def __init__(self, name: str) -> None:
        info = BY_NAME[name]
        base = name.removesuffix("_total") if info.type == "counter" else name
        self.metric = Metric(PREFIX + base, info.help, info.type)
        self._labels = info.labels
        self._name = PREFIX + name
        self._seen: set[tuple[str, ...]] = set()

    def new(self, *values: str | None) -> dict[str, str] | None:
        """The labels for ``values``, or ``None`` when they were given before."""
        clean = tuple(_label(value) for value in values)
        if clean in self._seen:
            return None
        self._seen.add(clean)
        return dict(zip(self._labels, clean, strict=True))

    def add(self, value: float, *values: str | None) -> None:
        labels = self.new(*values)
        if labels is not None:
            self.metric.add_sample(self._name, labels, float(value))


def _label(value: str | None) -> str:
    """A label value that is safe in both text formats: valid UTF-8, no control characters.

    Quotes, backslashes and line ends are left to the client, which escapes them.
    """
    if value is None:
        return ""
    if not value.isprintable():
        value = "".join(
            char if char.isprintable() or char in " \n" else "\N{REPLACEMENT CHARACTER}"
            for char in value
        )
    return value if len(value) <= MAX_LABEL else value[: MAX_LABEL - 1] + "…"


def _fill(families: dict[str, _Family], snapshot: Snapshot, now: float) -> None:
    report = snapshot.report
    for item in report.fleet.slices:
        _fill_slice(families, item, report.statuses.get(item.id, "unknown"))
        since = report.status_since.get(item.id)
        if since is not None:
            families["slice_status_since_timestamp_seconds"].add(since, *_slice_labels(item))
    _fill_groups(families, snapshot)
    for finding in report.findings:
        families["finding_active"].add(1.0, *_finding_labels(finding))
    for code, count in sorted(Counter(item.code for item in report.unknowns).items()):
        families["rule_unknown"].add(count, code)
    _fill_sources(families, snapshot)
    families["snapshot_age_seconds"].add(max(0.0, now - snapshot.published_at))


def _slice_labels(item: Slice) -> tuple[str, str, str]:
    return item.namespace, item.cluster, item.name


def _fill_slice(families: dict[str, _Family], item: Slice, status: str) -> None:
    labels = _slice_labels(item)
    families["slice_info"].add(
        1.0, *labels, item.generation, item.topology_name, ",".join(item.node_pools)
    )
    if item.hosts_expected is not None:
        families["slice_hosts_expected"].add(item.hosts_expected, *labels)
    hosts = Counter(host.state for host in item.hosts)
    for state in _HOST_STATES:
        families["slice_hosts"].add(hosts[state], *labels, state)
    if item.chips_expected is not None:
        families["slice_chips"].add(item.chips_expected, *labels)
    for name in SLICE_STATUSES:
        families["slice_status"].add(name == status, *labels, name)


def _fill_groups(families: dict[str, _Family], snapshot: Snapshot) -> None:
    groups = snapshot.report.fleet.placement_groups
    counts = Counter((group.namespace, group.cluster, group.state, group.role) for group in groups)
    for key, count in sorted(counts.items()):
        families["placement_groups"].add(count, *key)
    for group in groups:
        if group.waiting and group.pending_seconds is not None:
            families["placement_group_pending_seconds"].add(
                max(0.0, group.pending_seconds),
                group.namespace,
                group.cluster,
                group.id,
                group.name,
            )


def _finding_labels(finding: Finding) -> tuple[str | None, ...]:
    subject = finding.subject
    # A group carries its id only while it waits (placement_group_pending_seconds): a gang that is
    # made again under its old name keeps its series, and so its alert.
    named = subject.kind == "placement_group" and subject.name
    return (
        subject.namespace,
        subject.cluster,
        finding.code,
        finding.severity,
        finding.cause,
        subject.kind,
        subject.name if named else subject.id,
    )


def _fill_sources(families: dict[str, _Family], snapshot: Snapshot) -> None:
    for source in snapshot.report.fleet.sources:
        if source.status != "suspended":
            families["source_up"].add(source.status != "down", source.name)
            families["source_complete"].add(
                source.complete and source.status != "down", source.name
            )
        if source.fetched_at is not None:
            families["source_last_success_timestamp_seconds"].add(source.fetched_at, source.name)
    histogram = families["source_poll_duration_seconds"]
    for stats in snapshot.stats:
        labels = histogram.new(stats.source)
        if labels is None:
            continue
        name = PREFIX + "source_poll_duration_seconds"
        for bound, count in zip(_BOUNDS, stats.bucket_counts, strict=True):
            histogram.metric.add_sample(name + "_bucket", {**labels, "le": bound}, float(count))
        histogram.metric.add_sample(name + "_count", labels, float(stats.polls))
        histogram.metric.add_sample(name + "_sum", labels, stats.sum_seconds)
        for reason, count in sorted(stats.errors.items()):
            families["source_errors_total"].add(count, stats.source, reason)
