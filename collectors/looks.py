"""One look at everything, for ``diagnose`` and ``capture``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from collectors.discovery import ray_targets
from collectors.ray_state import RaySource
from collectors.source_set import Key, SourceSet, suspended_observation
from collectors.tpu_prometheus import PrometheusSamples, with_samples
from fleet.observation import KubernetesObservation, Observation, RayObservation
from settings import Settings

Progress = Callable[[str], None]
"""Takes a short line about what is being done."""

AT_ONCE = 8
"""Ray clusters asked at the same time; each of them still gets one request at a time."""


def look_once(
    settings: Settings,
    progress: Progress = lambda line: None,
    *,
    clock: Callable[[], float] = time.time,
) -> Observation:
    """Ask all sources once and wait for their answers (bounded by the request timeouts).

    Raises:
        NothingToLookAt: the settings name nothing, and nothing was found.
    """
    return asyncio.run(_look_once(settings, progress, clock))


async def _look_once(
    settings: Settings, progress: Progress, clock: Callable[[], float]
) -> Observation:
    sources = SourceSet(settings, clock=clock)
    try:
        kubernetes: KubernetesObservation | None = None
        if sources.kubernetes is not None:
            progress("asking Kubernetes")
            kubernetes = await asyncio.to_thread(sources.kubernetes.look)
            progress(_said(kubernetes.source.name, kubernetes.source.status))
        asked = sources.bare()
        found: dict[Key, RayObservation] = {}
        for target in ray_targets(kubernetes) if kubernetes is not None else ():
            if target.suspended:
                found[target.key] = suspended_observation(target, settings.poll_interval)
            elif target.key not in asked:
                asked[target.key] = sources.of(target)
        gate = asyncio.Semaphore(AT_ONCE)
        looks = await asyncio.gather(*(_ask(gate, each, progress) for each in asked.values()))
        found |= dict(zip(asked, looks, strict=True))
        ray = tuple(found[key] for key in sorted(found))
        if settings.prometheus_url:
            progress("asking Prometheus")
            samples = PrometheusSamples(settings.prometheus_url, timeout=settings.request_timeout)
            await samples.look()
            await samples.aclose()
            ray = with_samples(ray, samples.latest, kubernetes)
        return Observation(now=rounded(clock()), kubernetes=kubernetes, ray=ray)
    finally:
        sources.close()


async def _ask(gate: asyncio.Semaphore, source: RaySource, progress: Progress) -> RayObservation:
    async with gate:
        progress(f"asking {source.name}")
        try:
            look = await source.look()
        finally:
            await source.aclose()
        progress(_said(source.name, look.source.status))
        return look


def _said(name: str, status: str) -> str:
    return f"{name}: {status}"


def rounded(now: float) -> float:
    """Epoch seconds to the millisecond: what a bundle's manifest can hold and give back."""
    return round(now, 3)
