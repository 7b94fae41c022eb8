"""Keeps a simulated Kubernetes in step with the raylets of a real local Ray cluster.

One pod a raylet with the labels of KubeRay 1.6 and the environment of the TPU webhook, TPU nodes
with GKE's labels, taints and chips, the RayCluster, its services, and events. A raylet that dies
shows as a container that has ended; a host can also be *put* into a state (machine lost, crash
loop, no capacity), which stops its raylet. Deleting a pod with ``kubectl`` replaces it, as KubeRay
does, and the replacement's raylet joins under the same slice name and worker id.

All raylets share one address on this machine, so pods get addresses of their own here, and Ray's
nodes and pods can be joined by slice name and worker id only.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from simulator import kube_objects as objects
from simulator.child import ChildError
from simulator.kube_api import KubeAPI
from simulator.kube_objects import ClusterFacts, GroupFacts, Object, suffix
from simulator.kube_pods import HostFacts, PodState, head_pod, worker_pod
from simulator.ray_cluster import HostPlan, HostView, LocalRay
from simulator.ray_keeper import RAY_ENV

log = logging.getLogger(__name__)

Condition = Literal["well", "starting", "machine_lost", "crash_loop", "no_capacity"]
"""What a host is put into. Whether a well host's raylet really runs is read from the process."""

SYNC_SECONDS = 0.5
GRACE_SECONDS = 1.0
"""How long a deleted pod stays Terminating; the real one may take 30 s."""
BACK_OFF_SECONDS = 20.0


@dataclass(frozen=True)
class _Host:
    plan: HostPlan
    pod_name: str
    created: float
    condition: Condition = "well"
    since: float = 0.0
    restarts: int = 0
    attempt: int = 0
    was_alive: bool = False


class Mirror:
    """The mirror of one local Ray cluster as ``namespace/name``. Thread-safe."""

    def __init__(
        self, ray: LocalRay, kube: KubeAPI, *, namespace: str = "ml", name: str = "train"
    ) -> None:
        self.ray = ray
        self.kube = kube
        now = time.time()
        self.cluster = ClusterFacts(namespace, name, now)
        self._hosts = {
            key: _Host(plan, self._new_name(plan, 0), now, since=now)
            for key, plan in ray.plans.items()
        }
        self.head_name = f"{name}-head-{suffix(self.cluster.uid, now)}"
        self._lock = threading.RLock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)
        self._events: deque[str] = deque(maxlen=400)
        kube.on_delete = self._deleted
        kube.exec_env = self._exec_env
        kube.logs = self._log_of

    # --- life ------------------------------------------------------------------------------

    def pod_name(self, plan: HostPlan) -> str:
        """The present pod of a host: its ``RAY_CLOUD_INSTANCE_ID``."""
        return self._hosts[plan.key].pod_name

    def start(self) -> None:
        """Write everything once, and keep it in step from a thread."""
        if self.ray.head is not None:
            key = (self.cluster.namespace, self.cluster.head_service)
            self.kube.proxies[key] = self.ray.head.dashboard
        self.sync()
        self._thread.start()

    def stop(self) -> None:
        """End the thread; what was written stays."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(5)

    def _run(self) -> None:
        while not self._stop.wait(SYNC_SECONDS):
            try:
                self.sync()
            except Exception:
                log.exception("the mirror missed a turn")

    # --- hosts -----------------------------------------------------------------------------

    def condition(self, key: str) -> Condition:
        """What a host was put into."""
        with self._lock:
            return self._hosts[key].condition

    def put(self, key: str, condition: Condition) -> None:
        """Put a host into a state: its raylet is killed, and Kubernetes shows why."""
        with self._lock:
            host = self._hosts[key]
            host = replace(host, condition=condition, since=time.time(), was_alive=False)
            if condition == "no_capacity":  # its machine is gone, and a new pod waits for another
                attempt = host.attempt + 1
                self._remove_pod(host.pod_name)
                name = self._new_name(host.plan, attempt)
                host = replace(host, attempt=attempt, pod_name=name, created=time.time())
            self._hosts[key] = host
        self.ray.stop_host(key)
        self.sync()

    def mend(self, key: str) -> None:
        """Give a host a new pod, and start its raylet again; returns when it has joined."""
        with self._lock:
            old = self._hosts[key]
            attempt, now = old.attempt + 1, time.time()
            new = replace(
                old,
                attempt=attempt,
                pod_name=self._new_name(old.plan, attempt),
                created=now,
                since=now,
                condition="starting",
                restarts=0,
                was_alive=False,
            )
            self._hosts[key] = new
            self._remove_pod(old.pod_name)
        self.sync()
        self.ray.stop_host(key)
        self.ray.start_host(key, new.pod_name)
        with self._lock:
            if self._hosts[key].pod_name == new.pod_name:
                self._hosts[key] = replace(new, condition="well", since=time.time())
        self.sync()

    def _deleted(self, plural: str, obj: Object) -> None:
        """A client deleted an object: act as the controllers would."""
        meta = obj["metadata"]
        if plural == "pods":
            with self._lock:
                key = next((k for k, h in self._hosts.items() if h.pod_name == meta["name"]), None)
            if key is not None:
                self._stop.wait(GRACE_SECONDS)
                if self.condition(key) == "no_capacity":
                    self.put(key, "no_capacity")  # a new pod finds no machine either
                    return
                try:
                    self.mend(key)
                except ChildError as error:
                    log.warning("could not replace %s: %s", meta["name"], error)
                return
        self.kube.store.remove(plural, meta["name"], meta.get("namespace", ""))
        self.sync()  # whatever belongs to the cluster is made again

    def _remove_pod(self, name: str) -> None:
        self.kube.store.remove("pods", name, self.cluster.namespace)

    def _new_name(self, plan: HostPlan, attempt: int) -> str:
        ending = suffix(self.cluster.uid, plan.key, attempt, os.getpid())
        return f"{self.cluster.name}-{plan.group}-worker-{ending}"

    # --- writing ---------------------------------------------------------------------------

    def sync(self) -> None:
        """Bring every object up to what the raylets are doing now."""
        with self._lock:
            views = self.ray.hosts()
            facts = []
            for number, key in enumerate(self._hosts):
                host = self._age(key, views.get(key))
                facts.append(self._facts(number, host, views.get(key)))
                self._write_host(host, facts[-1])
            self._write_cluster(facts)

    def _age(self, key: str, view: HostView | None) -> _Host:
        """Notice that a raylet has died or come up by itself."""
        host = self._hosts[key]
        alive = view is not None and view.alive and view.pod_name == host.pod_name
        if host.condition == "well" and alive != host.was_alive:
            host = replace(host, was_alive=alive, since=time.time())
        elif host.condition == "crash_loop" and time.time() - host.since > BACK_OFF_SECONDS:
            host = replace(host, restarts=host.restarts + 1, since=time.time())
        self._hosts[key] = host
        return host

    def _facts(self, number: int, host: _Host, view: HostView | None) -> HostFacts:
        plan = host.plan
        state: PodState = {
            "well": "running" if host.was_alive else "terminated",
            "starting": "starting",
            "machine_lost": "not_ready",
            "crash_loop": "crash_loop",
            "no_capacity": "unschedulable",
        }[host.condition]
        message = "the raylet has ended" if state in ("terminated", "crash_loop") else ""
        return HostFacts(
            group=plan.group,
            replica=plan.replica,
            index=plan.worker_id,
            shape=plan.shape,
            pod_name=host.pod_name,
            node_name=self._node_name(plan),
            pod_ip=f"10.8.{number // 250}.{number % 250 + 4}",
            host_ip=f"10.128.{number // 250}.{number % 250 + 4}",
            created=host.created,
            since=host.since,
            state=state,
            restarts=host.restarts,
            message=message,
        )

    def _node_name(self, plan: HostPlan) -> str:
        pool = f"{plan.group}-{plan.shape.topology}-pool-{plan.replica}"
        return f"gke-{self.cluster.name}-{pool}-{suffix(self.cluster.uid, plan.key, length=4)}"

    def _write_host(self, host: _Host, facts: HostFacts) -> None:
        store = self.kube.store
        if host.condition == "no_capacity":
            store.remove("nodes", facts.node_name)
        else:
            lost = host.condition == "machine_lost"
            node = objects.node(
                name=facts.node_name,
                pool=facts.pool,
                created=self.cluster.created,
                ip=facts.host_ip,
                shape=facts.shape,
                ready=not lost,
                since=host.since if lost else self.cluster.created,
            )
            store.put("nodes", node)
            if lost:
                text = f"Node {facts.node_name} status is now: NodeNotReady"
                self._event(node, "NodeNotReady", text, host.since, component="node-controller")
        before = store.get("pods", facts.pod_name, self.cluster.namespace)
        pod = worker_pod(self.cluster, facts)
        if before is not None and "deletionTimestamp" in before["metadata"]:
            return  # on its way out: leave it to whoever deletes it
        store.put("pods", pod)
        self._pod_events(host, facts, pod)

    def _pod_events(self, host: _Host, facts: HostFacts, pod: Object) -> None:
        at = host.since
        if facts.state == "running":
            where = f"Successfully assigned {self.cluster.namespace}/{facts.pod_name}"
            self._event(
                pod,
                "Scheduled",
                f"{where} to {facts.node_name}",
                facts.created,
                warning=False,
                component="default-scheduler",
            )
            self._event(pod, "Started", "Started container ray-worker", at, warning=False)
        elif facts.state == "crash_loop":
            text = f"Back-off restarting failed container ray-worker in pod {facts.pod_name}"
            self._event(pod, "BackOff", text, at, count=3 + host.restarts * 2)
        elif facts.state == "terminated":
            text = "Readiness probe failed: the raylet does not answer"
            self._event(pod, "Unhealthy", text, at)
        elif facts.state == "not_ready":
            self._event(pod, "NodeNotReady", "Node is not ready", at, component="node-controller")
        elif facts.state == "unschedulable":
            text = pod["status"]["conditions"][0]["message"]
            self._event(pod, "FailedScheduling", text, at, component="default-scheduler")
            text = (
                "Node scale up in zones us-east5-b associated with this pod failed: GCE out of "
                "resources. Pod is at risk of not being scheduled."
            )
            self._event(pod, "FailedScaleUp", text, at, component="cluster-autoscaler")

    def _event(
        self,
        about: Object,
        reason: str,
        message: str,
        at: float,
        *,
        count: int = 1,
        warning: bool = True,
        component: str = "kubelet",
    ) -> None:
        event = objects.event(
            about,
            reason,
            message,
            at=at,
            count=count,
            first=at if count == 1 else about_time(about),
            warning=warning,
            component=component,
        )
        name = event["metadata"]["name"]
        if name not in self._events:
            if len(self._events) == self._events.maxlen:  # events live for an hour, not for ever
                self.kube.store.remove("events", self._events[0], event["metadata"]["namespace"])
            self._events.append(name)
        self.kube.store.put("events", event)

    def _write_cluster(self, facts: list[HostFacts]) -> None:
        store, cluster = self.kube.store, self.cluster
        groups: dict[str, list[HostFacts]] = {}
        for host in facts:
            groups.setdefault(host.group, []).append(host)
        described = [
            GroupFacts(
                name=name,
                shape=hosts[0].shape,
                replicas=len(hosts) // hosts[0].shape.hosts,
                ready=sum(host.state == "running" for host in hosts),
                available=sum(host.state in ("running", "not_ready") for host in hosts),
            )
            for name, hosts in groups.items()
        ]
        head_ip, head_node = "10.8.255.2", f"gke-{cluster.name}-cpu-pool-0"
        for name in ("default", "kube-system", cluster.namespace):
            store.put("namespaces", objects.namespace(name, cluster.created))
        store.put(
            "nodes",
            objects.node(
                name=head_node, pool="cpu-pool", created=cluster.created, ip="10.128.255.2"
            ),
        )
        store.put(
            "pods",
            head_pod(
                cluster, name=self.head_name, node=head_node, ip=head_ip, host_ip="10.128.255.2"
            ),
        )
        for service in objects.services(cluster, multi_host=True):
            store.put("services", service)
        store.put(
            "rayclusters",
            objects.ray_cluster(cluster, described, head_pod_name=self.head_name, head_ip=head_ip),
        )

    # --- kubectl exec and logs -------------------------------------------------------------

    def _exec_env(self, pod: Object) -> dict[str, str] | None:
        head, name = self.ray.head, pod["metadata"]["name"]
        if head is None:
            return None
        env = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '/usr/bin:/bin')}",
            "HOME": os.environ.get("HOME", "/"),
            "LANG": "C.UTF-8",
            "RAY_ADDRESS": head.gcs,
            "RAY_API_SERVER_ADDRESS": head.dashboard,
            **RAY_ENV,
            "PYTHONWARNINGS": "ignore",
        }
        if name == self.head_name:
            return env
        for view in self.ray.hosts().values():
            if view.pod_name == name and view.alive:
                return {**env, **view.plan.env(name)}
        return None

    def _log_of(self, pod: Object) -> str:
        """The log of the pod's raylet, or of the head's GCS."""
        head, name = self.ray.head, pod["metadata"]["name"]
        if name == self.head_name and head is not None:
            return _read(Path(head.session) / "logs" / "gcs_server.out")
        for view in self.ray.hosts().values():
            if view.pod_name == name and view.log:
                return _read(Path(view.log))
        return ""


def about_time(obj: Object) -> float:
    """When an object was created, in epoch seconds."""
    return datetime.fromisoformat(obj["metadata"]["creationTimestamp"]).timestamp()


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
