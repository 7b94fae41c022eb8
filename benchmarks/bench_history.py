"""What history costs: MB a day for a fleet with churn, and the time a look takes to keep.

A fleet is looked at every ten seconds. Gangs end and others take their slices, hosts die and come
back, heads restart, jobs queue, and the chips' gauges never stand still. Prints JSON.

Usage: ``python benchmarks/bench_history.py [--hosts 1000] [--hours 24] [--url URL]``; without
``--hours`` one hour is simulated and the day is estimated from it. Fails over the goal of 50 MB
a day for 1,000 hosts.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import msgspec

from collectors.decoding import decode_kubernetes, decode_ray
from collectors.tpu_metrics import parse_exposition
from diagnosis.engine import judge
from diagnosis.memory import Memory
from diagnosis.snapshot import Snapshot
from fleet.mapping import build_fleet
from fleet.observation import KubernetesObservation, Observation, RayObservation, SourceStatus
from history.service import History
from simulator import fleet_faults, fleet_group_faults
from simulator.fleet import FleetBuilder
from simulator.fleet_kube import kubernetes_objects
from simulator.fleet_model import Cluster, Group, Host, InventedFleet
from simulator.fleet_rows import answer, rows, tpu_metrics

GOAL_MB_A_DAY_PER_1000_HOSTS = 50.0
POLL = 10.0

GANGS_A_DAY = 400
HOSTS_LOST_A_DAY = 40
HEAD_RESTARTS_A_DAY = 6
QUEUED_A_DAY = 100
"""Each of them a thousand hosts' worth: a busy research fleet."""

MENDED_AFTER = 900.0
RAY_PARTS = ("nodes", "placement_groups", "actors", "tasks", "jobs")
KUBERNETES_PARTS = {
    "pods": "pods", "nodes": "nodes", "services": "services", "events": "events",
    "rayclusters": "ray_clusters",
}  # fmt: skip


class Day:
    """An invented fleet that lives; only the cluster in which something happened is made anew."""

    def __init__(self, hosts: int, seed: int) -> None:
        self.fleet = FleetBuilder(seed).fill(hosts).build()
        self.random = random.Random(seed)
        self.hosts = hosts
        self.sides: dict[str, tuple[dict[str, Any], RayObservation]] = {}
        self.stale = {cluster.key for cluster in self.fleet.clusters}
        self.dying: list[tuple[float, Cluster, Host]] = []
        self.queued: list[tuple[float, Cluster, Group]] = []
        self.events = 0

    @property
    def now(self) -> float:
        return self.fleet.now

    def live(self, seconds: float) -> bool:
        """Let time pass. Gives whether anything happened that a look shows."""
        self.fleet.now = round(self.fleet.now + seconds, 3)
        before = self.events
        share = seconds / 86400 * self.hosts / 1000
        for happens, a_day in (
            (self.end_gang, GANGS_A_DAY),
            (self.begin_gang, GANGS_A_DAY),
            (self.lose_host, HOSTS_LOST_A_DAY),
            (self.restart_head, HEAD_RESTARTS_A_DAY),
            (self.queue, QUEUED_A_DAY),
        ):
            if self.random.random() < a_day * share:
                cluster = self.random.choice(self.fleet.clusters)
                if happens(cluster):
                    self.events += 1
                    self.stale.add(cluster.key)
        self.settle()
        return self.events != before

    def end_gang(self, cluster: Cluster) -> bool:
        running = [g for g in cluster.groups if g.state == "CREATED" and not g.is_head]
        if not running:
            return False
        gang = self.random.choice(running)
        held = {id(b.host.slice) for b in gang.bundles if b.host is not None}
        for group in cluster.groups:
            on = {id(b.host.slice) for b in group.bundles if b.host is not None}
            if group is gang or (group.is_head and on & held):
                group.state = group.scheduling = "REMOVED"
                for worker in group.workers:
                    worker.state, worker.death = "DEAD", "killed by `ray.kill`"
        return True

    def begin_gang(self, cluster: Cluster) -> bool:
        free = [
            part
            for part in cluster.slices
            if all(host.well for host in part.hosts)
            and not any(
                bundle.host is not None and bundle.host.slice is part
                for group in cluster.groups
                if group.state != "REMOVED"
                for bundle in group.bundles
            )
        ]
        if not free:
            return False
        part = self.random.choice(free)
        name = f"job-{len(cluster.groups)}"
        fleet_group_faults.reserve(cluster, name, [part], self.now - 25, run=True)
        return True

    def lose_host(self, cluster: Cluster) -> bool:
        part = self.random.choice(cluster.slices)
        host = self.random.choice(part.hosts)
        if not host.well:
            return False
        fleet_faults.lose(cluster, host, self.now - 5, self.now)
        self.dying.append((self.now + MENDED_AFTER, cluster, host))
        return True

    def restart_head(self, cluster: Cluster) -> bool:
        cluster.created = self.now - 90  # the head starts a minute after the cluster
        return True

    def queue(self, cluster: Cluster) -> bool:
        part = self.random.choice(cluster.slices)
        group = fleet_group_faults.reserve(
            cluster, f"queued-{len(cluster.groups)}", [part], self.now - 5, run=False
        )
        for item in cluster.groups[-2:]:
            if item is group or item.is_head:
                item.state, item.scheduling = "PENDING", "NO_RESOURCES"
                for bundle in item.bundles:
                    bundle.host = None
                self.queued.append((self.now + 1200, cluster, item))
        return True

    def settle(self) -> None:
        """Hosts that come back, jobs that give up."""
        for due, cluster, host in [item for item in self.dying if item[0] <= self.now]:
            self.dying.remove((due, cluster, host))
            lost = host.node_id
            host.history.append((host.started, host.died or self.now))
            host.ray, host.died, host.started = "alive", None, self.now - 20
            host.attempt += 1
            for group in cluster.groups:
                if group.state != "RESCHEDULING":
                    continue
                group.state, group.scheduling, group.attempts = "CREATED", "FINISHED", 3
                for bundle in group.bundles:
                    bundle.host = bundle.host or host
                for worker in group.workers:
                    if worker.node_id == lost:
                        worker.node_id, worker.state = host.node_id, "ALIVE"
            self.events += 1
            self.stale.add(cluster.key)
        for due, cluster, group in [item for item in self.queued if item[0] <= self.now]:
            self.queued.remove((due, cluster, group))
            if group.state == "PENDING":
                group.state = group.scheduling = "REMOVED"
                self.events += 1
                self.stale.add(cluster.key)

    # --- looking ------------------------------------------------------------------------

    def observation(self) -> Observation:
        for cluster in self.fleet.clusters:
            if cluster.key in self.stale:
                self.sides[cluster.key] = self._answers(cluster)
        self.stale.clear()
        sides = list(self.sides.values())
        parts = {
            part: tuple(row for kubernetes, _ in sides for row in kubernetes[part])
            for part in KUBERNETES_PARTS.values()
        }
        fetched = self.now - self.random.random() * POLL
        kubernetes = KubernetesObservation(
            source=SourceStatus(name="kubernetes", status="ok", fetched_at=fetched), **parts
        )
        rays = tuple(self._living(ray) for _, ray in sides)
        return Observation(now=self.now, kubernetes=kubernetes, ray=rays)

    def _answers(self, cluster: Cluster) -> tuple[dict[str, Any], RayObservation]:
        alone = InventedFleet(self.now, 1, [cluster])
        objects = kubernetes_objects(alone)
        kubernetes = {
            part: decode_kubernetes(
                part, msgspec.json.encode({"kind": "List", "items": objects[kind]})
            ).rows
            for kind, part in KUBERNETES_PARTS.items()
        }
        found = rows(cluster)
        ray = RayObservation(
            source=SourceStatus(name=f"ray:{cluster.key}", status="ok"),
            namespace=cluster.namespace,
            cluster=cluster.name,
            version="2.60.0",
            tpu_samples=parse_exposition(tpu_metrics(cluster)).samples,
            **{
                part: decode_ray(part, msgspec.json.encode(answer(found[part]))).rows
                for part in RAY_PARTS
            },
        )
        return kubernetes, ray

    def _living(self, ray: RayObservation) -> RayObservation:
        """What differs in every look: gauges, and how often a waiting group was tried."""
        groups = tuple(
            msgspec.structs.replace(
                group,
                stats=msgspec.structs.replace(
                    group.stats, scheduling_attempt=int(self.now * 7) % 10_000_000
                ),
            )
            if group.state in ("PENDING", "RESCHEDULING") and group.stats is not None
            else group
            for group in ray.placement_groups or ()
        )
        samples = tuple(
            msgspec.structs.replace(sample, value=max(0.0, self.random.gauss(88, 6)))
            for sample in ray.tpu_samples or ()
        )
        fetched = self.now - self.random.random() * POLL
        return msgspec.structs.replace(
            ray,
            source=msgspec.structs.replace(ray.source, fetched_at=fetched),
            placement_groups=groups,
            tpu_samples=samples,
        )


def simulate(day: Day, history: History, seconds: float) -> dict[str, Any]:
    """Looks for so long; a look in which nothing happened is not judged anew, only dated anew."""
    memory = Memory()
    looks, rejudge, slowest = 0, 2, 0.0
    report = None
    end = day.now + seconds
    started = time.monotonic()
    while day.now < end:
        if day.live(POLL):
            rejudge = 2  # a finding opens and closes at the second look
        observation = day.observation()
        if rejudge or report is None:
            report, memory = judge(build_fleet(observation), memory)
            rejudge -= 1
        else:
            fleet = msgspec.structs.replace(report.fleet, now=day.now)
            report = msgspec.structs.replace(report, fleet=fleet)
        snapshot = Snapshot(
            observation=observation, report=report, published_at=day.now, memory=memory
        )
        begun = time.perf_counter()
        history.record(snapshot)
        if not history.flush(60):
            raise SystemExit("history does not keep up")
        slowest = max(slowest, time.perf_counter() - begun)
        looks += 1
        if looks % 360 == 0:
            state = history.state()
            print(
                f"{looks / 360:4.0f} h  {state.written} looks kept of {looks}, "
                f"{day.events} events, {time.monotonic() - started:.0f} s",
                file=sys.stderr,
            )
    return {"looks": looks, "slowest_look_seconds": round(slowest, 3)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--url", help="another database than an SQLite file in a temporary folder")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.sqlite"
        day = Day(args.hosts, args.seed)
        history = History(args.url or path, clock=lambda: day.now)
        start = day.now
        result = simulate(day, history, args.hours * 3600)
        asked = [time.perf_counter()]
        changes = history.changes(start, day.now, limit=1_000_000)
        asked.append(time.perf_counter())
        for share in (0.3, 0.6, 0.9):
            history.look_at(start + share * (day.now - start))
        asked.append(time.perf_counter())
        history.close()
        state = history.state()
        used = path.stat().st_size if not args.url else state.used_bytes
        first = (state.used_bytes / max(1, state.looks)) if state.looks else 0
    a_day = used / 1e6 * 24 / args.hours
    per_1000 = a_day * 1000 / args.hosts
    print(
        json.dumps(
            {
                "hosts": args.hosts,
                "hours": args.hours,
                **result,
                "events": day.events,
                "looks_kept": state.written,
                "changes": len(changes),
                "bytes": used,
                "bytes_a_kept_look": round(first),
                "mb_a_day": round(a_day, 2),
                "mb_a_day_per_1000_hosts": round(per_1000, 2),
                "goal_mb_a_day_per_1000_hosts": GOAL_MB_A_DAY_PER_1000_HOSTS,
                "measured_on_a_whole_day": args.hours >= 24,
                "seconds_to_list_all_changes": round(asked[1] - asked[0], 3),
                "seconds_to_go_back": round((asked[2] - asked[1]) / 3, 3),
                "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
            },
            indent=2,
        )
    )
    return int(per_1000 > GOAL_MB_A_DAY_PER_1000_HOSTS)


if __name__ == "__main__":
    sys.exit(main())
