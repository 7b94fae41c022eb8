"""What a scenario is, and the list of all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fleet.model import Fleet
from tests.scenarios.world import World

Must = tuple[str, str | None, str | None]
"""Code, cause, text that the subject or the summary contains."""


@dataclass(frozen=True)
class Scenario:
    """A scene with its right answer.

    ``unknown``: codes that must answer "unknown" for something here. ``absent``: statuses that the
    named slice must not have.
    """

    name: str
    frames: Callable[[], list[Fleet]]
    must: tuple[Must, ...] = ()
    may: tuple[str, ...] = ()
    statuses: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()


SCENARIOS: list[Scenario] = []


def scene(
    *must: Must,
    may: tuple[str, ...] = (),
    statuses: dict[str, tuple[str, ...]] | None = None,
    unknown: tuple[str, ...] = (),
) -> Callable[[Callable[[], World | list[World]]], Callable[[], World | list[World]]]:
    """Register a function that builds a world (or one a frame) as a scenario."""

    def register(
        build: Callable[[], World | list[World]],
    ) -> Callable[[], World | list[World]]:
        def frames() -> list[Fleet]:
            made = build()
            worlds = made if isinstance(made, list) else [made]
            return [world.fleet() for world in worlds]

        SCENARIOS.append(
            Scenario(
                name=f"{build.__module__.rpartition('.')[2]}:{build.__name__}",
                frames=frames,
                must=must,
                may=may,
                statuses=statuses or {},
                unknown=unknown,
            )
        )
        return build

    return register
