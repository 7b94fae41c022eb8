"""Taking a look: at a bundle or at live clusters, for one report or for a server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cli.terminal import InputError, progress
from diagnosis.finding import Report
from fleet.observation import Observation, SourceStatus

if TYPE_CHECKING:
    from collectors.runtime import Runtime
    from history.service import History
    from settings import Settings


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """A report and the observation that it was made from; ``frames`` looks went into it."""

    observation: Observation
    report: Report
    frames: int = 1


def look_at_bundle(path: Path, settings: Settings) -> Look:
    """Read a bundle and replay its frames. Raises :class:`InputError` when it cannot be read."""
    from diagnosis.engine import replay
    from fleet.mapping import build_fleet

    frames = frames_of(path)
    with progress("Judging it"):
        grace = settings.thresholds.slice_startup_grace
        fleets = [build_fleet(frame, startup_grace=grace) for frame in frames]
        report = replay(fleets, settings.thresholds)
    return Look(observation=frames[-1], report=report, frames=len(frames))


def look_at_live(settings: Settings) -> Look:
    """One look at everything that can be found, judged by itself.

    A source that is down is part of the answer; when all are, there is none, and
    :class:`InputError` says what did not answer.
    """
    from diagnosis.engine import judge
    from fleet.mapping import build_fleet

    with progress("Looking at the clusters") as note:
        observation = observe(settings, note)
        require_an_answer(observation)
        grace = settings.thresholds.slice_startup_grace
        fleet = build_fleet(observation, startup_grace=grace)
        report, _ = judge(fleet, None, settings.thresholds)
    return Look(observation=observation, report=report)


def observe(settings: Settings, note: Callable[[str], None]) -> Observation:
    """Ask all sources once; raises :class:`InputError` when there is nothing to ask."""
    from collectors.looks import look_once
    from collectors.source_set import NothingToLookAt

    try:
        return look_once(settings, note)
    except NothingToLookAt as error:
        raise InputError(str(error)) from None


def sources_of(observation: Observation) -> list[SourceStatus]:
    """The sources that one look asked."""
    kubernetes = [observation.kubernetes.source] if observation.kubernetes is not None else []
    return kubernetes + [ray.source for ray in observation.ray]


def require_an_answer(observation: Observation) -> None:
    """Raise :class:`InputError` when every source is down: silence is no result."""
    sources = sources_of(observation)
    if sources and all(source.status == "down" for source in sources):
        said = "; ".join(f"{source.name}: {source.detail or source.reason}" for source in sources)
        raise InputError(f"nothing answered: {said}")


def live_runtime(settings: Settings, past: History | None = None) -> Runtime:
    """The collectors, not started yet; ``past`` keeps each look and remembers earlier ones."""
    from collectors.runtime import Runtime

    if past is None:
        return Runtime(settings)
    return Runtime(settings, listeners=(past.record,), memory=past.last_memory)


def frames_of(path: Path) -> list[Observation]:
    """A bundle's looks, oldest first. Raises :class:`InputError` when it cannot be read."""
    from collectors.archive import BundleError
    from collectors.bundle import read_bundle

    with progress(f"Reading {path}"):
        try:
            return read_bundle(path)
        except BundleError as error:
            raise InputError(str(error)) from None
