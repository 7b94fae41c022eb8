"""TPU gauges of a live cluster, from a Prometheus that scrapes Ray's agents or the device plugin.

Neither exporter should be asked by us: the agents' addresses are only reachable inside the
cluster, and a second scraper of the device plugin races with its own. A Prometheus that is there
anyway has both.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from urllib.parse import quote

import msgspec

from collectors.fetching import FetchError, HttpTransport
from collectors.tpu_metrics import sample_of
from fleet.observation import KubernetesObservation, RayObservation, TpuSample

log = logging.getLogger("slicewatch.prometheus")

QUERY = (
    '{__name__=~"(ray_tpu_)?(duty_cycle|tensorcore_utilization|memory_bandwidth_utilization'
    '|memory_used|memory_total)"}'
)


class _Series(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Result(msgspec.Struct):
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Result | None = None
    error: str | None = None


def decode_query(body: bytes) -> tuple[TpuSample, ...]:
    """TPU samples out of an instant query's answer.

    Raises:
        FetchError: not the answer of a Prometheus.
    """
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except (msgspec.MsgspecError, RecursionError):
        raise FetchError("not_json", "not a Prometheus query API") from None
    if answer.data is None or answer.status != "success":
        raise FetchError("server_error", answer.error or "the query failed")
    found = []
    for series in answer.data.result:
        try:
            value = float(series.value[1])
        except ValueError:
            continue
        sample = sample_of(series.metric.get("__name__", ""), value, series.metric)
        if sample is not None and math.isfinite(value):
            found.append(sample)
    return tuple(found)


class PrometheusSamples:
    """Asks one Prometheus. ``latest`` is ``None`` while there is no good answer."""

    def __init__(self, url: str, *, timeout: float) -> None:
        self.latest: tuple[TpuSample, ...] | None = None
        self._transport = HttpTransport(url, timeout=timeout)
        self._said: str | None = None

    async def look(self) -> None:
        """One query. A failure empties ``latest``: old gauges must not look like new ones."""
        try:
            body = await self._transport.get(f"/api/v1/query?query={quote(QUERY)}", {})
            self.latest = decode_query(body)
            problem = None
        except FetchError as error:
            self.latest = None
            problem = str(error)
        if problem and problem != self._said:
            log.warning("no TPU gauges from Prometheus: %s", problem)
        self._said = problem

    async def run(self, interval: float) -> None:
        """Look until cancelled."""
        while True:
            started = time.monotonic()
            await self.look()
            await asyncio.sleep(max(0.0, interval - (time.monotonic() - started)))

    async def aclose(self) -> None:
        """Close the connection."""
        await self._transport.aclose()


def with_samples(
    looks: Iterable[RayObservation],
    samples: tuple[TpuSample, ...] | None,
    kubernetes: KubernetesObservation | None,
) -> tuple[RayObservation, ...]:
    """Each Ray cluster with the samples of its hosts, which are given their Ray node's id.

    A sample names its host by Ray node id, by pod, or by IP where only one live Ray node has it;
    one that names none of ours is left out.
    """
    looks = tuple(looks)
    if samples is None:
        return looks
    owner: dict[str, int] = {}
    by_ip: dict[str, set[tuple[int, str]]] = defaultdict(set)
    for index, look in enumerate(looks):
        for node in look.nodes or ():
            if node.node_id:
                owner[node.node_id] = index
                if node.state == "ALIVE" and node.node_ip:
                    by_ip[node.node_ip].add((index, node.node_id))
    pod_ips = _pod_ips(kubernetes)
    mine: dict[int, list[TpuSample]] = defaultdict(list)
    for sample in samples:
        node_id = sample.ray_node_id
        if node_id is None or node_id not in owner:
            address = pod_ips.get((sample.namespace or "", sample.pod or "")) or sample.node_ip
            places = by_ip.get(address or "", set())
            if len(places) != 1:
                continue
            node_id = next(iter(places))[1]
        mine[owner[node_id]].append(msgspec.structs.replace(sample, ray_node_id=node_id))
    return tuple(
        msgspec.structs.replace(look, tpu_samples=tuple(mine.get(index, ())))
        for index, look in enumerate(looks)
    )


def _pod_ips(kubernetes: KubernetesObservation | None) -> Mapping[tuple[str, str], str]:
    return {
        (pod.metadata.namespace or "", pod.metadata.name or ""): pod.status.pod_i_p
        for pod in (kubernetes.pods if kubernetes is not None else None) or ()
        if pod.metadata is not None and pod.status is not None and pod.status.pod_i_p
    }
