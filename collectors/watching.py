"""The pollers of one runtime: Kubernetes, Ray by address, and the Ray clusters it knows of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from collectors.discovery import RayTarget, ray_targets, source_name
from collectors.poller import Poller
from collectors.ray_state import RaySource
from collectors.source_set import (
    Key,
    SourceSet,
    suspended_observation,
    unasked_observation,
    unasked_status,
)
from collectors.tpu_prometheus import PrometheusSamples, with_samples
from diagnosis.snapshot import PollStats
from fleet.observation import KubernetesObservation, RayObservation
from settings import Settings


class Watching:
    """Starts and ends pollers as Ray clusters come and go. Belongs to one event loop."""

    def __init__(
        self,
        settings: Settings,
        sources: SourceSet,
        on_look: Callable[[], None],
        spread: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._sources = sources
        self._on_look = on_look
        self._spread = spread
        self._kubernetes: Poller[KubernetesObservation] | None = None
        self._ray: dict[Key, Poller[RayObservation]] = {}
        self._targets: dict[Key, RayTarget] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._open: dict[Key, RaySource] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._since: dict[str, float] = {}
        self._samples: PrometheusSamples | None = None
        if settings.prometheus_url:
            self._samples = PrometheusSamples(
                settings.prometheus_url, timeout=settings.request_timeout
            )

    def start(self) -> None:
        """Start the pollers that the settings name."""
        kubernetes = self._sources.kubernetes
        if kubernetes is not None:
            self._kubernetes = Poller(
                "kubernetes",
                lambda: asyncio.to_thread(kubernetes.look),
                interval=self._settings.poll_interval,
                on_look=self._kubernetes_looked,
                spread=self._spread,
            )
            self._begin("kubernetes", self._kubernetes.run())
        for key, source in self._sources.bare().items():
            self._add(key, source)
        if self._samples is not None:
            self._begin("prometheus", self._samples.run(self._settings.poll_interval))

    def _begin(self, name: str, run: object) -> None:
        assert asyncio.iscoroutine(run)
        self._tasks[name] = asyncio.create_task(run, name=name)
        self._since[name] = time.monotonic()

    def _add(self, key: Key, source: RaySource) -> None:
        poller: Poller[RayObservation] = Poller(
            source.name,
            source.look,
            interval=self._settings.poll_interval,
            on_look=self._on_look,
            spread=self._spread,
            retry_after=lambda: source.retry_after,
        )
        self._open[key] = source
        self._ray[key] = poller
        self._begin(source.name, poller.run())

    def _remove(self, key: Key) -> None:
        del self._ray[key]
        name = source_name(*key)
        self._since.pop(name, None)
        task = asyncio.create_task(self._end(self._tasks.pop(name), self._open.pop(key)))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    @staticmethod
    async def _end(task: asyncio.Task[None], source: RaySource) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await source.aclose()

    def _kubernetes_looked(self) -> None:
        """Follow the RayClusters. While Kubernetes is silent about them, the known ones stay."""
        latest = self._kubernetes.latest if self._kubernetes is not None else None
        if latest is not None and latest.ray_clusters is not None:
            targets = {target.key: target for target in ray_targets(latest)}
            named = self._sources.addresses
            for key in [key for key in self._ray if key not in named]:
                # A changed service is another address: the poller is made anew.
                if targets.get(key) != self._targets.get(key) or targets[key].suspended:
                    self._remove(key)
            for key, target in targets.items():
                if key not in self._ray and not target.suspended:
                    self._add(key, self._sources.of(target))
            self._targets = targets
        self._on_look()

    # --- what they said

    @property
    def answered(self) -> bool:
        """Has each source answered, or had the time to? Before that, a look shows half a fleet."""
        limit = time.monotonic() - 2 * self._settings.request_timeout
        pollers = {poller.name: poller for poller in self._ray.values()}
        if self._kubernetes is not None and not self._kubernetes.looks:
            return self._since["kubernetes"] < limit
        return all(poller.looks or self._since[name] < limit for name, poller in pollers.items())

    @property
    def kubernetes(self) -> KubernetesObservation | None:
        """The last look; down while there was none; ``None`` where Kubernetes plays no part."""
        if self._kubernetes is None:
            return None
        if self._kubernetes.latest is not None:
            return self._kubernetes.latest
        return KubernetesObservation(
            source=unasked_status("kubernetes", self._settings.poll_interval)
        )

    @property
    def ray(self) -> tuple[RayObservation, ...]:
        """The last look at each Ray cluster, by namespace and name."""
        interval = self._settings.poll_interval
        found = {
            key: poller.latest or unasked_observation(key, interval)
            for key, poller in self._ray.items()
        }
        for key, target in self._targets.items():
            if target.suspended and key not in self._sources.addresses:
                found[key] = suspended_observation(target, interval)
        looks = tuple(found[key] for key in sorted(found))
        if self._samples is None:
            return looks
        return with_samples(looks, self._samples.latest, self.kubernetes)

    def versions(self) -> dict[str, int]:
        """How many answers each source has given; sources that fail are left out."""
        pollers: list[Poller] = [*self._ray.values()]
        if self._kubernetes is not None:
            pollers.append(self._kubernetes)
        return {poller.name: poller.looks for poller in pollers if not poller.failures}

    def stats(self) -> tuple[PollStats, ...]:
        """Of all pollers, by name."""
        pollers: list[Poller] = [*self._ray.values()]
        if self._kubernetes is not None:
            pollers.append(self._kubernetes)
        return tuple(sorted((poller.stats() for poller in pollers), key=lambda item: item.source))

    def soon(self) -> None:
        """Have all sources look again soon."""
        if self._kubernetes is not None:
            self._kubernetes.soon()
        for poller in self._ray.values():
            poller.soon()

    async def aclose(self) -> None:
        """End all pollers."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), *self._leaving, return_exceptions=True)
        for source in self._open.values():
            await source.aclose()
        if self._samples is not None:
            await self._samples.aclose()
