"""The process that owns a local Ray cluster: ``python -m simulator.ray_keeper``.

It starts the head and one raylet a host, and takes orders as JSON lines on standard input:
``{"op": "head", …}``, ``{"op": "add", "host": …}``, ``{"op": "stop", "host": …}``,
``{"op": "hosts"}``. Each has an ``id`` that its answer repeats, with ``result`` or ``error``.

When its input closes, because its parent ended in whatever way, it ends every Ray process and
itself. It leads a session of its own, and a watcher outside that session (a shell that waits for a
pipe to close) kills what is left of it, also when this process was killed outright: Ray's agents
would otherwise linger for a minute, asking for a head that is gone.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

# Set before Ray is imported: it reads them at import.
RAY_ENV = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_DEDUP_LOGS": "0",
    "RAY_enable_metrics_collection": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
}
"""No phone-home, no metrics of Ray's own (nobody scrapes them here, and they cost CPU).
The last one keeps Ray on the loopback address, as it does by itself on a Mac: the demo listens to
nobody else. Ray's own commands need the same environment to reach it by its GCS address."""

SYSTEM_CONFIG = {
    "health_check_initial_delay_ms": 3000,
    "health_check_period_ms": 1000,
    "health_check_timeout_ms": 4000,
    "health_check_failure_threshold": 4,
    "enable_metrics_collection": False,
}
"""A killed raylet closes its sockets and is seen at once; the health check is for a hung one. It is
shorter than Ray's 30 s so that a demo is not boring, long enough for a busy laptop."""


ATTEMPTS = 4
STARTS_AT_ONCE = 3
"""Starting a host is mostly waiting for two Python agents; more only fight for the cores."""


class Keeper:
    """Holds the cluster's nodes by host name. Orders for different hosts may run side by side."""

    def __init__(self) -> None:
        self.cluster: Any = None
        self.nodes: dict[str, Any] = {}
        self.counter = itertools.count(1)
        self.alone = threading.Lock()

    def head(self, *, dashboard_port: int, env: dict[str, str]) -> dict[str, Any]:
        """Start the head with its dashboard; answer with addresses."""
        from ray.cluster_utils import Cluster

        self.cluster = Cluster(
            initialize_head=True,
            shutdown_at_exit=False,  # the watcher does it, and Ray's hooks want the main thread
            head_node_args={
                "num_cpus": 4,
                "resources": {},
                "object_store_memory": 80 * 1024 * 1024,
                "include_dashboard": True,
                "dashboard_host": "127.0.0.1",
                "dashboard_port": dashboard_port,
                "node_ip_address": "127.0.0.1",
                "gcs_server_port": 0,
                "dashboard_agent_listen_port": 0,
                "include_log_monitor": False,
                "env_vars": env,
                "labels": {},
                "_system_config": SYSTEM_CONFIG,
            },
        )
        node = self.cluster.head_node
        return {
            "gcs": self.cluster.gcs_address,
            "dashboard": f"http://{node.webui_url}",
            "node_id": node.node_id,
            "session": node.get_session_dir_path(),
            "pid": _raylet_pid(node),
        }

    def add(
        self,
        *,
        host: str,
        resources: dict[str, float],
        labels: dict[str, str],
        env: dict[str, str],
        cpus: int,
    ) -> dict[str, Any]:
        """Start one raylet and wait until the head knows it."""
        if host in self.nodes:
            raise ValueError(f"host {host} is already there")
        for attempt in range(ATTEMPTS):
            try:
                # Side by side is quicker; where that was too much for the machine, one by one.
                with contextlib.nullcontext() if attempt == 0 else self.alone:
                    node = self._start(resources, labels, env, cpus)
                break
            except Exception:
                if attempt == ATTEMPTS - 1:
                    raise
        self.nodes[host] = node
        outputs = getattr(node.all_processes["raylet"][0], "stdout_file", None)
        log = str(outputs) if isinstance(outputs, str | os.PathLike) else ""
        return {"node_id": node.node_id, "pid": _raylet_pid(node), "log": log}

    def _start(
        self,
        resources: dict[str, float],
        labels: dict[str, str],
        env: dict[str, str],
        cpus: int,
    ) -> Any:
        # Ray picks the first free names, which races when several hosts start side by side.
        sockets = Path(self.cluster.head_node.get_session_dir_path()) / "sockets"
        number = next(self.counter)
        socket = str(sockets / f"r{number}")
        try:
            return self.cluster.add_node(
                raylet_socket_name=socket,
                plasma_store_socket_name=str(sockets / f"p{number}"),
                wait=True,
                num_cpus=cpus,
                resources=resources,
                labels=labels,
                env_vars=env,
                object_store_memory=80 * 1024 * 1024,
                node_ip_address="127.0.0.1",
            )
        except Exception:
            # Ray gives a raylet 30 s. A late one must not join behind our back.
            _kill_raylet(socket)
            raise

    def stop(self, *, host: str) -> dict[str, Any]:
        """Kill one raylet with all its processes, without a goodbye, as a dying machine would."""
        node = self.nodes.pop(host, None)
        if node is not None:
            self.cluster.worker_nodes.discard(node)
            with contextlib.suppress(ProcessLookupError):
                node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
        return {"stopped": node is not None}

    def hosts(self) -> dict[str, Any]:
        """Which raylets are alive."""
        return {
            name: {"alive": not node.dead_processes() and node.any_processes_alive()}
            for name, node in self.nodes.items()
        }

    def shutdown(self) -> None:
        """End everything, hosts first. Safe to call twice."""
        cluster, self.cluster = self.cluster, None
        if cluster is None:
            return
        for node in [*self.nodes.values(), cluster.head_node]:
            with contextlib.suppress(Exception):
                node.kill_all_processes(check_alive=False, allow_graceful=False, wait=True)
        self.nodes.clear()
        cluster.head_node = None
        cluster.worker_nodes.clear()


def _raylet_pid(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def _kill_raylet(socket: str) -> None:
    """Kill our raylet that listens on a socket, if it is there."""
    listing = subprocess.run(
        ["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=False
    )
    for line in listing.stdout.splitlines():
        pid, _, command = line.strip().partition(" ")
        if f"--raylet_socket_name={socket} " in f"{command} ":
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(pid), signal.SIGKILL)


def serve(orders: TextIO, answers: TextIO, keeper: Keeper, pool: ThreadPoolExecutor) -> None:
    """Carry out orders until the input closes, several at once; answers come as they are ready."""
    writing = threading.Lock()

    def carry_out(order: dict[str, Any]) -> None:
        number, op = order.pop("id"), order.pop("op")
        try:
            answer = {"id": number, "result": getattr(keeper, op)(**order)}
        except Exception as error:  # noqa: BLE001 - the parent decides what an error means
            answer = {"id": number, "error": f"{type(error).__name__}: {error}"}
        with writing, contextlib.suppress(BrokenPipeError):
            answers.write(json.dumps(answer) + "\n")
            answers.flush()

    for line in orders:
        pool.submit(carry_out, json.loads(line))


WATCHER = 'read _; sleep 0.2; kill -s KILL -- "-$1" 2>/dev/null; sleep 0.2; rm -rf -- "$2"'


def start_watcher(temp_dir: Path) -> int:
    """Start the shell that tidies up once this process is gone: its process group, its folder.

    Answers with the end of the pipe that it waits for: it closes when this process ends.
    """
    if os.getpgid(0) != os.getpid():
        raise RuntimeError("the keeper must lead its own process group")
    reading, writing = os.pipe()
    subprocess.Popen(
        ["/bin/sh", "-c", WATCHER, "watcher", str(os.getpid()), str(temp_dir)],
        stdin=reading,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(reading)
    return writing


def main() -> None:
    """Entry point of the keeper's process; its one argument is the cluster's temporary folder."""
    temp_dir = Path(sys.argv[1])
    # Ray's own folder is ours too: the user's "current cluster" under /tmp/ray stays untouched.
    os.environ.update(RAY_ENV, RAY_TMPDIR=str(temp_dir))
    (temp_dir / "ray").mkdir(parents=True, exist_ok=True)
    # Ray prints to standard output, which here carries the answers: give it the log instead.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    logging.basicConfig(level=logging.WARNING)
    watcher = start_watcher(temp_dir)
    pool = ThreadPoolExecutor(STARTS_AT_ONCE, thread_name_prefix="keeper")
    keeper = Keeper()

    def tidy(*_: object) -> None:
        with contextlib.suppress(Exception):
            keeper.shutdown()
        shutil.rmtree(temp_dir, ignore_errors=True)
        os.close(watcher)
        os._exit(0)

    signal.signal(signal.SIGTERM, tidy)
    try:
        serve(sys.stdin, answers, keeper, pool)
    finally:
        tidy()


if __name__ == "__main__":
    main()
