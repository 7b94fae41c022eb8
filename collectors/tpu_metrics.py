"""TPU gauges in Prometheus' text format, made into :class:`~fleet.observation.TpuSample`.

Two exporters write them: Ray's node agents (``ray_tpu_duty_cycle{RayNodeId=…,TpuIndex=…}``) and
GKE's TPU device plugin (``duty_cycle{make="cloud-tpu",namespace=…,pod=…,accelerator_id=…}``).
Both give percent for the ratios and bytes for memory. Ray's agent fills gaps with 0.0, so a zero
can mean no data; that is for the rules to weigh, here it stays what it was.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from collectors.salvage import Notes
from fleet.observation import TpuSample

PERCENT_METRICS = ("duty_cycle", "tensorcore_utilization", "memory_bandwidth_utilization")
BYTE_METRICS = ("memory_used", "memory_total")

MOST_PERCENT = 101.0
"""A percentage rounds to a little above 100; beyond that it is not one."""

_NAMES = {f"ray_tpu_{name}": name for name in (*PERCENT_METRICS, *BYTE_METRICS)} | {
    name: name for name in (*PERCENT_METRICS, *BYTE_METRICS)
}
_LINE = re.compile(
    r"(?P<name>[a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(?P<labels>.*)\})?"
    r"\s+(?P<value>[^\s{}]+)(?:\s+-?\d+)?\s*"
)
_LABEL = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|$)')
_ESCAPE = re.compile(r"\\(.)")


class ParsedSamples(msgspec.Struct, frozen=True, kw_only=True):
    """Samples of one exposition, and what could not be read of the lines that matter."""

    samples: tuple[TpuSample, ...]
    malformed: tuple[str, ...] = ()


def parse_exposition(text: str) -> ParsedSamples:
    """The TPU gauges in a text exposition; other families are passed over in silence."""
    notes = Notes()
    samples = tuple(_samples(text.splitlines(), notes))
    return ParsedSamples(
        samples=samples, malformed=tuple(f"tpu_metrics: {text}" for text in notes.summary())
    )


def _samples(lines: Iterable[str], notes: Notes) -> Iterator[TpuSample]:
    for number, line in enumerate(lines, start=1):
        name = re.split(r"[{\s]", line, maxsplit=1)[0]
        if name not in _NAMES:
            continue
        place = f"line {number}"
        match = _LINE.fullmatch(line)
        labels = parse_labels(match["labels"] or "") if match else None
        if match is None or labels is None:
            notes.add(place, "is no sample")
            continue
        if not name.startswith("ray_tpu_") and labels.get("make", "cloud-tpu") != "cloud-tpu":
            continue  # the same names are used for GPUs
        metric = _NAMES[name]
        value = _value(metric, match["value"])
        if value is None:
            notes.add(place, f"{metric} cannot have this value")
        elif value is not _NO_DATA:
            yield _sample(metric, value, labels)


def sample_of(name: str, value: float, labels: Mapping[str, str]) -> TpuSample | None:
    """One series of a TPU gauge as a sample; ``None`` for other series and absurd values."""
    metric = _NAMES.get(name)
    if metric is None or _value(metric, repr(value)) in (None, _NO_DATA):
        return None
    if not name.startswith("ray_tpu_") and labels.get("make", "cloud-tpu") != "cloud-tpu":
        return None  # the same names are used for GPUs
    return _sample(metric, value, labels)


_NO_DATA = math.inf


def _value(metric: str, text: str) -> float | None:
    """The number, ``_NO_DATA`` for NaN (Prometheus' own way to say so), ``None`` when absurd."""
    try:
        value = float(text)
    except ValueError:
        return None
    if math.isnan(value):
        return _NO_DATA
    if not math.isfinite(value) or value < 0:
        return None
    return None if metric in PERCENT_METRICS and value > MOST_PERCENT else value


def parse_labels(text: str) -> dict[str, str] | None:
    """Labels of one sample, unescaped; ``None`` when the text is not a list of labels."""
    labels: dict[str, str] = {}
    position = 0
    while position < len(text) and text[position:].strip():
        match = _LABEL.match(text, position)
        if match is None:
            return None
        labels[match[1]] = _ESCAPE.sub(
            lambda found: "\n" if found[1] == "n" else found[1], match[2]
        )
        position = match.end()
    return labels


def _first(labels: Mapping[str, str], *names: str) -> str | None:
    return next((labels[name] for name in names if labels.get(name)), None)


def _sample(metric: str, value: float, labels: Mapping[str, str]) -> TpuSample:
    address = _first(labels, "NodeAddress", "node_ip", "ip")
    instance = labels.get("instance", "")
    if address is None and ":" in instance:
        address = instance.rpartition(":")[0].strip("[]")
    return TpuSample(
        metric=metric,
        value=value,
        chip=_first(labels, "TpuIndex", "TpuDeviceName", "accelerator_id", "chip") or "",
        ray_node_id=_first(labels, "RayNodeId", "NodeId", "node_id"),
        node_ip=address,
        pod=_first(labels, "pod", "pod_name"),
        namespace=_first(labels, "namespace"),
    )


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def render_exposition(samples: Iterable[TpuSample]) -> str:
    """The inverse of :func:`parse_exposition`: what a bundle's ``tpu_metrics.prom`` holds."""
    lines = []
    for sample in samples:
        labels = {
            "NodeAddress": sample.node_ip,
            "RayNodeId": sample.ray_node_id,
            "TpuIndex": sample.chip,
            "namespace": sample.namespace,
            "pod": sample.pod,
        }
        inner = ",".join(f'{key}="{_escape(value)}"' for key, value in labels.items() if value)
        lines.append(f"ray_tpu_{sample.metric}{{{inner}}} {sample.value!r}\n")
    return "".join(lines)
