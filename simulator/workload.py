"""The drivers of the demo: a training-like gang, and the ways in which people break it.

``python -m simulator.workload --address HOST:PORT`` is a Ray driver in a process of its own, as a
training job is. It takes orders as JSON lines on standard input (``{"id": 1, "op": "train"}``),
answers on standard output, and ends when its input closes.
:class:`simulator.child.Child` is the other end.

Everything goes through Ray's public calls: ``slice_placement_group`` for what is right, plain
``placement_group`` for what people do wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

QUEUE_SECONDS = 20.0
"""How long an order waits for Ray to place a group before it says that it does not come."""
SUPERVISE_SECONDS = 2.0
HURT_SECONDS = 8.0
"""A worker is seen to die some seconds before its host is: only after that is its group settled."""


def main() -> None:
    """Entry point of the driver's process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--address", required=True)
    parser.add_argument("--job", default="train")
    options = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    # A driver that its parent abandoned ends by itself: its input closes.
    driver = Driver(options.address)
    threading.Thread(target=driver.supervise, name="supervise", daemon=True).start()
    try:
        for line in sys.stdin:
            order = json.loads(line)
            number, op = order.pop("id"), order.pop("op")
            try:
                answer = {"id": number, "result": driver.carry_out(op, **order)}
            except Exception as error:  # noqa: BLE001 - the parent decides what an error means
                text = str(error).splitlines()[0] if str(error) else ""
                answer = {"id": number, "error": f"{type(error).__name__}: {text}"}
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        os._exit(0)  # the job's groups and actors end with its driver


class Driver:
    """Holds the groups and actors by the name of what made them."""

    def __init__(self, address: str) -> None:
        import ray

        ray.init(address=address, namespace="train", log_to_driver=False, logging_level="error")
        self.lock = threading.RLock()
        self.groups: dict[str, list[Any]] = {}
        self.actors: dict[str, list[Any]] = {}
        self.runs: dict[str, list[Any]] = {}
        self.gangs: dict[str, Any] = {}
        self.attempts: Counter[str] = Counter()
        self.hurt_since: dict[str, float] = {}

        class TrainWorker:
            """One rank: steps for ever, as a worker inside a collective looks from outside."""

            def run(self, rank: int, world: int) -> None:
                while True:
                    time.sleep(1)

        make_actor: Any = ray.remote
        self.worker = make_actor(max_restarts=0, num_cpus=0)(TrainWorker)

    def carry_out(self, op: str, **arguments: Any) -> dict[str, Any]:
        """One order by its name."""
        orders: dict[str, Callable[..., dict[str, Any]]] = {
            "train": self.train,
            "split": self.split,
            "squat": self.squat,
            "leak": self.leak,
            "undo": self.undo,
        }
        with self.lock:
            return orders[op](**arguments)

    # --- what is right ---------------------------------------------------------------------

    def train(self, name: str, generation: str, topology: str) -> dict[str, Any]:
        """A gang on a whole slice: the way it is meant to be done."""
        from ray.util.tpu import slice_placement_group

        gang = slice_placement_group(
            topology=topology,
            accelerator_version=generation,
            name=name,
            head_reservation_timeout_s=QUEUE_SECONDS,
        )
        group = gang.slice_placement_group
        self.groups[name] = [*gang.head_placement_groups, group]
        self.gangs[name] = gang
        self._wait(group, name)
        self._start_workers(name, group)
        return {
            "groups": [item.id.hex() for item in self.groups[name]],
            "slice": gang.bundle_label_selector[0]["ray.io/tpu-slice-name"],
        }

    # --- what people do wrong --------------------------------------------------------------

    def split(self, name: str, hosts: int, chips: int) -> dict[str, Any]:
        """A group that asks for hosts, not for a slice: Ray spreads it over two of them."""
        from ray.util.placement_group import placement_group

        group = placement_group([{"TPU": chips}] * hosts, strategy="STRICT_SPREAD", name=name)
        self.groups[name] = [group]
        self._wait(group, name)
        self._start_workers(name, group)
        return {"groups": [group.id.hex()]}

    def squat(
        self, name: str, waiting: str, slice_name: str, hosts: int, generation: str, topology: str
    ) -> dict[str, Any]:
        """A small job sits on some hosts of a slice; then a gang reserves the slice and waits."""
        from ray.util.placement_group import placement_group
        from ray.util.tpu import slice_placement_group

        chips = self._chips(generation, topology)
        # It leaves worker 0 alone: a squatter on the head's host looks no different to Ray, but
        # the reservation's own task needs a worker process there.
        selectors = [
            {"ray.io/tpu-slice-name": slice_name, "ray.io/tpu-worker-id": str(number)}
            for number in range(1, hosts + 1)
        ]
        squatter = placement_group(
            [{"TPU": chips}] * hosts,
            strategy="STRICT_SPREAD",
            name=name,
            bundle_label_selector=selectors,
        )
        self.groups[name] = [squatter]
        self._wait(squatter, name)
        self._start_workers(name, squatter)
        gang = slice_placement_group(
            topology=topology,
            accelerator_version=generation,
            name=waiting,
            head_reservation_timeout_s=QUEUE_SECONDS,
        )
        self.gangs[name] = gang
        self.groups[name] += [*gang.head_placement_groups, gang.slice_placement_group]
        return {"groups": [item.id.hex() for item in self.groups[name]]}

    def leak(self, name: str, generation: str, topology: str) -> dict[str, Any]:
        """A slice is reserved by its head and the job that wanted it never comes."""
        from ray._private.accelerators.tpu import reserve_tpu_slice

        found = reserve_tpu_slice(topology, f"TPU-{generation.upper()}", timeout_s=QUEUE_SECONDS)
        if found is None:
            raise RuntimeError(f"Ray knows no slice {generation} {topology}")
        self.groups[name] = [found[1]]
        return {"groups": [found[1].id.hex()], "slice": found[0]}

    def undo(self, name: str) -> dict[str, Any]:
        """Kill the actors and remove the groups that an order made."""
        import ray
        from ray.util.placement_group import remove_placement_group

        for actor in self.actors.pop(name, ()):
            with contextlib.suppress(Exception):
                ray.kill(actor)
        groups = self.groups.pop(name, [])
        for group in reversed(groups):
            with contextlib.suppress(Exception):
                remove_placement_group(group)
        self.gangs.pop(name, None)
        self.runs.pop(name, None)
        return {"removed": len(groups)}

    # --- inside ----------------------------------------------------------------------------

    @staticmethod
    def _chips(generation: str, topology: str) -> int:
        from ray._private.accelerators.tpu import get_chips_per_host

        return int(get_chips_per_host(topology, generation))

    def _wait(self, group: Any, name: str) -> None:
        if not group.wait(QUEUE_SECONDS):
            self.undo(name)
            raise TimeoutError(f"Ray did not place {name} within {QUEUE_SECONDS:.0f} s")

    def _start_workers(self, name: str, group: Any) -> None:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        world = group.bundle_count
        attempt = self.attempts[name]
        self.attempts[name] += 1  # the name of a killed actor is free only some time later
        actors = []
        for rank in range(world):
            chips = group.bundle_specs[rank]["TPU"]
            strategy = PlacementGroupSchedulingStrategy(group, rank)
            actor = self.worker.options(
                resources={"TPU": chips},
                scheduling_strategy=strategy,
                name=f"{name}-rank-{rank}" + (f".{attempt}" if attempt else ""),
            ).remote()
            actors.append(actor)
        ray.wait(
            [actor.__ray_ready__.remote() for actor in actors],
            num_returns=world,
            timeout=QUEUE_SECONDS,
        )
        runs = [actor.run.remote(rank, world) for rank, actor in enumerate(actors)]
        self.actors[name], self.runs[name] = actors, runs

    def supervise(self) -> None:
        """Start a gang's workers anew once its lost host is back, as a training controller does.

        While the host is away the survivors are left alone: on hardware they wait in a collective.
        """
        import ray

        while True:
            time.sleep(SUPERVISE_SECONDS)
            with self.lock, contextlib.suppress(Exception):
                for name in list(self.gangs):
                    group = self.gangs[name].slice_placement_group
                    runs = self.runs.get(name)
                    if not runs or group not in self.groups.get(name, ()):
                        continue
                    # No worker ever returns: one whose call is over has died.
                    died, _ = ray.wait(runs, num_returns=len(runs), timeout=0)
                    if not died or _group_state(group) != "CREATED":
                        self.hurt_since.pop(name, None)
                    elif time.time() - self.hurt_since.setdefault(name, time.time()) > HURT_SECONDS:
                        self._restart(name, group)

    def _restart(self, name: str, group: Any) -> None:
        import ray

        for actor in self.actors.pop(name, ()):
            with contextlib.suppress(Exception):
                ray.kill(actor)
        self._start_workers(name, group)


def _group_state(group: Any) -> str:
    from ray.util import placement_group_table

    return str(placement_group_table(group).get("state"))


if __name__ == "__main__":
    main()
