"""What the page *Break something* can do: real faults, each made and mended on request.

Every call returns at once; the work goes on in a thread while the fault is ``busy``. Whether a
fault is active is read from the cluster, not remembered: who mends it by typing a finding's command
sees it mended on the page as well.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpx

from simulator.child import Child, ChildError
from simulator.mirror import Condition, Mirror

log = logging.getLogger(__name__)

ORDER_SECONDS = 120.0
CHECK_SECONDS = 2.0


@dataclass(frozen=True)
class FaultView:
    """A fault as the page shows it: what the button says, what it does, how it stands."""

    key: str
    label: str
    text: str
    active: bool = False
    busy: bool = False


class Control(Protocol):
    """What the page needs: real clusters and invented fleets both have one."""

    def faults(self) -> list[FaultView]: ...

    def inject(self, key: str) -> None: ...

    def mend(self, key: str) -> None: ...


@dataclass
class _Fault:
    key: str
    label: str
    text: str
    inject: Callable[[], None]
    mend: Callable[[], None]
    active: Callable[[], bool]
    waiting: Callable[[], bool] = lambda: False
    busy: bool = False
    note: str = ""


@dataclass
class _Groups:
    """Placement groups that a fault made, by the name of what made them."""

    ids: dict[str, list[str]] = field(default_factory=dict)


class DemoControl:
    """Faults of the demo's real Ray cluster. Thread-safe.

    ``gang_slice`` is the slice that the training gang runs on, ``free_slice`` another of the same
    shape, ``other_slice`` one of another shape. ``driver`` is :mod:`simulator.workload`.
    """

    def __init__(
        self,
        mirror: Mirror,
        driver: Child,
        *,
        gang: str,
        gang_slice: str,
        free_slice: str,
        other_slice: str,
    ) -> None:
        self.mirror = mirror
        self.driver = driver
        self._groups = _Groups()
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(3, thread_name_prefix="fault")
        shapes = {plan.slice_name: plan.shape for plan in mirror.ray.plans.values()}
        free, other = shapes[free_slice], shapes[other_slice]
        free_shape: dict[str, Any] = {
            "generation": free.generation.pod_prefix,
            "topology": free.topology,
        }
        other_shape: dict[str, Any] = {
            "generation": other.generation.pod_prefix,
            "topology": other.topology,
        }
        hosts = free.hosts + 1
        self._faults = {
            fault.key: fault
            for fault in (
                self._host_fault(
                    "stop_host",
                    "Stop a host",
                    f"The machine of worker 1 of {gang_slice} dies while {gang} runs on it. The "
                    "other workers stay up and wait for ever; Ray retries the group without delay "
                    "and places nothing else.",
                    f"{gang_slice}-1",
                    "machine_lost",
                ),
                self._group_fault(
                    "split_group",
                    "Make a split group",
                    f"A job asks for {hosts} hosts with a plain placement group, not for a slice. "
                    f"Ray says CREATED, over {free_slice} and {other_slice}: no ICI between them.",
                    "eval-split",
                    "split",
                    hosts=hosts,
                    chips=free.chips_per_host,
                ),
                self._group_fault(
                    "squat",
                    "Squat on a slice",
                    f"A notebook takes two hosts of {free_slice}; then train-b reserves that slice "
                    "and waits for all of it.",
                    "notebook",
                    "squat",
                    waiting="train-b",
                    slice_name=free_slice,
                    hosts=2,
                    **free_shape,
                ),
                self._group_fault(
                    "leak_head",
                    "Leak a head reservation",
                    f"A job reserves {other_slice} by its head and never asks for the slice.",
                    "leaked-head",
                    "leak",
                    **other_shape,
                ),
                self._host_fault(
                    "stall_pod",
                    "Stall a pod",
                    f"The container of worker {free.hosts - 1} of {free_slice} fails at each "
                    "start: CrashLoopBackOff.",
                    f"{free_slice}-{free.hosts - 1}",
                    "crash_loop",
                ),
                self._host_fault(
                    "no_capacity",
                    "Take a machine away",
                    f"The machine of worker {other.hosts - 1} of {other_slice} is taken back, and "
                    "the cloud has no other: the new pod cannot be scheduled.",
                    f"{other_slice}-{other.hosts - 1}",
                    "no_capacity",
                ),
            )
        }
        self._watcher = threading.Thread(target=self._watch, name="fault-watch", daemon=True)
        self._watcher.start()

    # --- what the page calls ---------------------------------------------------------------

    def faults(self) -> list[FaultView]:
        """All faults, and how each stands now."""
        with self._lock:
            return [
                FaultView(
                    fault.key,
                    fault.label,
                    f"{fault.text} {fault.note}".strip(),
                    active=fault.active(),
                    busy=fault.busy or fault.waiting(),
                )
                for fault in self._faults.values()
            ]

    def inject(self, key: str) -> None:
        """Begin to make a fault; nothing happens when it is there or on its way already."""
        self._begin(key, wanted=True)

    def mend(self, key: str) -> None:
        """Begin to mend a fault; nothing happens when it is not there."""
        self._begin(key, wanted=False)

    def mend_all(self) -> None:
        """Begin to mend every fault that is active."""
        for fault in self.faults():
            self.mend(fault.key)

    def stop(self) -> None:
        """End the threads; faults stay as they are."""
        self._stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._watcher.join(5)

    # --- inside ----------------------------------------------------------------------------

    def _begin(self, key: str, *, wanted: bool) -> None:
        with self._lock:
            fault = self._faults[key]
            if fault.busy or fault.waiting() or fault.active() is wanted or self._stop.is_set():
                return
            fault.busy, fault.note = True, ""
        self._pool.submit(self._carry_out, fault, fault.inject if wanted else fault.mend)

    def _carry_out(self, fault: _Fault, work: Callable[[], None]) -> None:
        note = ""
        try:
            work()
        except ChildError as error:
            note = f"It did not work: {str(error)[:200]}"
        except Exception:
            log.exception("fault %s", fault.key)
            note = "It did not work; the log says why."
        finally:
            with self._lock:
                fault.busy, fault.note = False, note

    def _host_fault(
        self, key: str, label: str, text: str, host: str, condition: Condition
    ) -> _Fault:
        return _Fault(
            key,
            label,
            text,
            inject=lambda: self.mirror.put(host, condition),
            mend=lambda: self.mirror.mend(host),
            active=lambda: self.mirror.condition(host) == condition,
            # Mended by somebody else, with kubectl: on its way.
            waiting=lambda: self.mirror.condition(host) == "starting",
        )

    def _group_fault(
        self, key: str, label: str, text: str, name: str, op: str, **arguments: Any
    ) -> _Fault:
        def inject() -> None:
            answer = self.driver.ask(op, timeout=ORDER_SECONDS, name=name, **arguments)
            with self._lock:
                self._groups.ids[name] = answer["groups"]

        def mend() -> None:
            self.driver.ask("undo", timeout=ORDER_SECONDS, name=name)
            with self._lock:
                self._groups.ids.pop(name, None)

        return _Fault(key, label, text, inject, mend, active=lambda: name in self._groups.ids)

    def _watch(self) -> None:
        """Notice groups that somebody removed by hand."""
        while not self._stop.wait(CHECK_SECONDS):
            with self._lock:
                made = {name: set(ids) for name, ids in self._groups.ids.items()}
            head = self.mirror.ray.head
            if not made or head is None:
                continue
            try:
                there = _groups_there(head.dashboard)
            except (httpx.HTTPError, ValueError, KeyError, TypeError):
                continue
            for name, ids in made.items():
                if not ids & there:
                    with self._lock:
                        self._groups.ids.pop(name, None)
                    try:
                        self.driver.ask("undo", timeout=ORDER_SECONDS, name=name)
                    except ChildError as error:
                        log.info("undo %s: %s", name, error)


def _groups_there(dashboard: str) -> set[str]:
    """Ids of all placement groups that are not removed."""
    answer = httpx.get(
        f"{dashboard}/api/v0/placement_groups", params={"limit": 10000}, timeout=10, trust_env=False
    )
    rows = answer.json()["data"]["result"]["result"]
    return {row["placement_group_id"] for row in rows if row["state"] != "REMOVED"}
