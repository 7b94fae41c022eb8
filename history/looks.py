"""A look as bytes, and back: the observation, and what was judged of it.

Kept are the observation and the report without its fleet: the fleet is rebuilt from the
observation when somebody goes back, the findings are those that were shown then. Rows are encoded
one by one, so that a look of 10,000 hosts does not hold the interpreter for half a second, and so
that those which did not change can be told (:mod:`history.packing`).

The chips' gauges are noise that no compressor can shrink, a value a chip and metric. What a fleet
knows of them is a host's mean, so that is kept: percentages in steps of a half, bytes in steps of
64 MiB.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import msgspec

from diagnosis.finding import Finding, Report, Unknown
from diagnosis.snapshot import PollStats, Snapshot
from fleet.mapping import build_fleet
from fleet.model import SliceStatusName
from fleet.observation import (
    Event,
    KubernetesObservation,
    Node,
    Observation,
    Pod,
    RayActor,
    RayCluster,
    RayJob,
    RayNode,
    RayObservation,
    RayPlacementGroup,
    RayTask,
    Service,
    SliceObject,
    TpuSample,
)

FORMAT = 1
PERCENT = ("duty_cycle", "tensorcore_utilization")
BYTES = ("memory_used", "memory_total")
PERCENT_STEPS = 2
BYTE_STEP = 64 * 2**20

KUBERNETES_ROWS: dict[str, type[msgspec.Struct]] = {
    "pods": Pod,
    "nodes": Node,
    "services": Service,
    "events": Event,
    "ray_clusters": RayCluster,
    "slices": SliceObject,
}
RAY_ROWS: dict[str, type[msgspec.Struct]] = {
    "nodes": RayNode,
    "placement_groups": RayPlacementGroup,
    "actors": RayActor,
    "tasks": RayTask,
    "jobs": RayJob,
}


class LookError(Exception):
    """Bytes that are no look that this version can read; the message is one line."""


class _Gauges(msgspec.Struct, frozen=True, array_like=True):
    """Means by host. ``hosts``: Ray node id, IP, pod, namespace, as the sample named it."""

    metric: str
    hosts: tuple[tuple[str | None, str | None, str | None, str | None], ...]
    percents: bytes = b""
    sizes: tuple[int, ...] = ()


class _Part(msgspec.Struct, frozen=True, array_like=True):
    """How many of the rows belong where. ``side`` -1 is Kubernetes, else a Ray cluster."""

    side: int
    name: str
    rows: int


class Encoded(msgspec.Struct, frozen=True, array_like=True):
    """A look as bytes: what there is one of, and the rows of all parts one after the other."""

    frame: bytes
    rows: tuple[bytes, ...]


class _Frame(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    observation: Observation
    parts: tuple[_Part, ...] = ()
    gauges: dict[int, tuple[_Gauges, ...]] = {}
    published_at: float
    findings: tuple[Finding, ...] = ()
    unconfirmed: tuple[Finding, ...] = ()
    unknowns: tuple[Unknown, ...] = ()
    statuses: dict[str, SliceStatusName] = {}
    status_since: dict[str, float] = {}
    stats: tuple[PollStats, ...] = ()


class _Version(msgspec.Struct):
    format: int = 0


_encoder = msgspec.msgpack.Encoder()


@lru_cache(maxsize=32)
def _decoder(kind: type[Any]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(kind)


_frames = msgspec.msgpack.Decoder(_Frame)
_versions = msgspec.msgpack.Decoder(_Version)


# --- bytes ----------------------------------------------------------------------------------


def encode_look(snapshot: Snapshot) -> Encoded:
    """A snapshot as bytes, uncompressed."""
    observation = snapshot.observation
    parts: list[_Part] = []
    rows: list[bytes] = []
    kubernetes = observation.kubernetes
    if kubernetes is not None:
        emptied = _take_rows(-1, kubernetes, KUBERNETES_ROWS, parts, rows)
        kubernetes = msgspec.structs.replace(kubernetes, **emptied)
    gauges: dict[int, tuple[_Gauges, ...]] = {}
    rays = []
    for side, ray in enumerate(observation.ray):
        emptied = _take_rows(side, ray, RAY_ROWS, parts, rows)
        if ray.tpu_samples:
            gauges[side] = tuple(_fold(ray.tpu_samples))
            emptied["tpu_samples"] = ()
        rays.append(msgspec.structs.replace(ray, **emptied))
    report = snapshot.report
    frame = _Frame(
        observation=Observation(now=observation.now, kubernetes=kubernetes, ray=tuple(rays)),
        parts=tuple(parts),
        gauges=gauges,
        published_at=snapshot.published_at,
        findings=report.findings,
        unconfirmed=report.unconfirmed,
        unknowns=report.unknowns,
        statuses=report.statuses,
        status_since=report.status_since,
        stats=snapshot.stats,
    )
    return Encoded(_encoder.encode(frame), tuple(rows))


def decode_look(encoded: Encoded, *, startup_grace: float, stale_after: float) -> Snapshot:
    """The snapshot back, its fleet rebuilt.

    Args:
        encoded: what :func:`encode_look` gave.
        startup_grace: seconds, as the service that kept it was set.
        stale_after: of the new snapshot.

    Raises:
        LookError: it cannot be read.
    """
    try:
        found = _versions.decode(encoded.frame).format
        if found != FORMAT:
            raise LookError(f"the look was kept in format {found}; this version reads {FORMAT}")
        frame = _frames.decode(encoded.frame)
        observation = _put_rows(frame, iter(encoded.rows))
    except (msgspec.MsgspecError, StopIteration, ValueError) as error:
        raise LookError(f"the look cannot be read: {str(error) or 'it is cut short'}") from None
    fleet = build_fleet(observation, startup_grace=startup_grace)
    return Snapshot(
        observation=observation,
        report=Report(
            fleet=fleet,
            findings=frame.findings,
            unconfirmed=frame.unconfirmed,
            unknowns=frame.unknowns,
            statuses=frame.statuses,
            status_since=frame.status_since,
        ),
        published_at=frame.published_at,
        stale_after=stale_after,
        stats=frame.stats,
    )


def _take_rows(
    side: int,
    source: KubernetesObservation | RayObservation,
    kinds: dict[str, type[msgspec.Struct]],
    parts: list[_Part],
    rows: list[bytes],
) -> dict[str, Any]:
    """Encode a source's rows, and say which of its parts to empty."""
    emptied: dict[str, Any] = {}
    for name in kinds:
        own = getattr(source, name)
        if not own:
            continue  # None (not answered) and empty stay as they are
        parts.append(_Part(side, name, len(own)))
        # A loop of bytecode, in which other threads get their turn; map() gives them none.
        rows += [_encoder.encode(row) for row in own]
        emptied[name] = ()
    return emptied


def _put_rows(frame: _Frame, rows: Iterator[bytes]) -> Observation:
    found: dict[int, dict[str, Any]] = defaultdict(dict)
    for part in frame.parts:
        kinds = KUBERNETES_ROWS if part.side < 0 else RAY_ROWS
        if part.name not in kinds:
            raise ValueError(f"part {part.name!r} is unknown")
        decode = _decoder(kinds[part.name]).decode
        found[part.side][part.name] = tuple([decode(next(rows)) for _ in range(part.rows)])
    for side, gauges in frame.gauges.items():
        found[side]["tpu_samples"] = tuple(sample for item in gauges for sample in _unfold(item))
    observation = frame.observation
    kubernetes = observation.kubernetes
    if kubernetes is not None:
        kubernetes = msgspec.structs.replace(kubernetes, **found[-1])
    return Observation(
        now=observation.now,
        kubernetes=kubernetes,
        ray=tuple(
            msgspec.structs.replace(ray, **found[side]) for side, ray in enumerate(observation.ray)
        ),
    )


# --- gauges ---------------------------------------------------------------------------------


def _fold(samples: tuple[TpuSample, ...]) -> Iterator[_Gauges]:
    sums: dict[str, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for item in samples:
        if item.metric in PERCENT or item.metric in BYTES:
            host = (item.ray_node_id, item.node_ip, item.pod, item.namespace)
            if math.isfinite(item.value):
                sums[item.metric][host].append(item.value)
    for metric, by_host in sorted(sums.items()):
        hosts = tuple(sorted(by_host, key=repr))
        means = [math.fsum(by_host[host]) / len(by_host[host]) for host in hosts]
        if metric in PERCENT:
            steps = (round(max(0.0, min(mean, 127.0)) * PERCENT_STEPS) for mean in means)
            yield _Gauges(metric, hosts, percents=bytes(steps))
        else:
            sizes = tuple(round(max(0.0, min(mean, 2.0**62)) / BYTE_STEP) for mean in means)
            yield _Gauges(metric, hosts, sizes=sizes)


def _unfold(gauges: _Gauges) -> Iterator[TpuSample]:
    values: list[float] = [step / PERCENT_STEPS for step in gauges.percents]
    values += [float(step * BYTE_STEP) for step in gauges.sizes]
    for host, value in zip(gauges.hosts, values, strict=True):
        yield TpuSample(
            metric=gauges.metric,
            value=value,
            ray_node_id=host[0],
            node_ip=host[1],
            pod=host[2],
            namespace=host[3],
        )
