"""A bundle of a large fleet, for the browser: 200 slices of three shapes, a few of them hurt."""

from __future__ import annotations

from pathlib import Path

from collectors.bundle_writing import write_bundle
from tests.scenarios.world import World

SLICES = 200


def write(path: Path) -> Path:
    """Write it to ``path`` (``….tar.gz``)."""
    world = World()
    for number in range(SLICES):
        shape = ("v6e-16", "v6e-16", "v4-32", "v5p-16")[number % 4]
        name = world.add(shape)
        if number % 3:
            world.gang(f"train-{number}", name)
        if number in (17, 90):
            world.lose_host(name, 1, ago=300 + number)
    write_bundle(path, [world.observation()])
    return path


if __name__ == "__main__":
    import sys

    print(write(Path(sys.argv[1])))
