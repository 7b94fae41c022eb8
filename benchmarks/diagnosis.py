"""Time of the engine alone on fleets of 1,000 to 10,000 hosts, one host in twenty hurt.

    python benchmarks/diagnosis.py [hosts …]

Prints seconds for a single look and for a look with a memory, and the slope between the smallest
and the largest fleet (1.0 = the cost grows as the hosts do).
"""

from __future__ import annotations

import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from diagnosis.engine import judge
from diagnosis.memory import Memory
from fleet.model import Fleet
from tests.scenarios.world import World

FAULT_EVERY = 20
"""One fault in so many hosts: 500 in 10,000."""


def hurt_fleet(hosts: int) -> Fleet:
    """Slices of four hosts, every second one with a gang, and faults of several kinds."""
    world = World()
    slices = hosts // 4
    for number in range(slices):
        name = world.add()
        if number % 2:
            world.gang(f"train-{number}", name)
    for number in range(hosts // FAULT_EVERY):
        name = f"v6e-16-group-{number * 5 % slices}"
        match number % 5:
            case 0:
                world.die(f"ray-{name}-1", ago=300)
            case 1:
                world.not_ready(f"{name}-pod-2")
            case 2:
                world.head_group(name, age=1000)
            case 3:
                world.waiting(f"waits-{number}", selector={"ray.io/tpu-slice-name": name})
            case _:
                world.head_group(None, age=1000)
    return world.fleet()


def seconds(fleet: Fleet, memory: Memory | None) -> float:
    """Processor time, the best of three."""
    best = math.inf
    for _ in range(3):
        start = time.process_time()
        judge(fleet, memory)
        best = min(best, time.process_time() - start)
    return best


def main(sizes: list[int]) -> None:
    """Measure and print a table."""
    rows = []
    for hosts in sizes:
        fleet = hurt_fleet(hosts)
        report, memory = judge(fleet, Memory())
        rows.append((hosts, seconds(fleet, None), seconds(fleet, memory), len(report.findings)))
    print(f"{'hosts':>8}{'single look':>14}{'with memory':>14}{'findings':>10}")
    for hosts, single, live, findings in rows:
        print(f"{hosts:>8}{single:>12.3f} s{live:>12.3f} s{findings:>10}")
    if len(rows) > 1 and rows[0][1] > 0:
        slope = math.log(rows[-1][1] / rows[0][1]) / math.log(rows[-1][0] / rows[0][0])
        print(f"slope {slope:.2f}")


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [1_000, 3_000, 10_000])
