"""A whole monitoring house: a simulated fleet, Slicewatch, Prometheus, Alertmanager, a receiver.

All are real but the fleet, which stands behind the simulator's two HTTP APIs: Slicewatch is the
``serve --headless`` that people start, Prometheus and Alertmanager are Debian's. The rules are those
that are shipped, with shorter waits.
"""

from __future__ import annotations

import json
import subprocess
import threading
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from simulator.fleet_server import FleetServer
from tests.serving import free_port, served
from tests.simulator.conftest import wait_for

Alert = dict[str, Any]

PROMETHEUS = ("prometheus",)
ALERTMANAGER = ("prometheus-alertmanager", "alertmanager")

SHORT = {"RayTPU": "1s", "Slicewatch": "2s"}
"""``for`` in the test, by how the alert's name begins: shorter than a test may last."""


def shortened(rules: str) -> str:
    """The shipped rules, with alerts that fire at once; nothing else is changed."""
    found = yaml.safe_load(rules)
    for group in found["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                assert rule["for"], rule["alert"]
                rule["for"] = next(
                    wait for start, wait in SHORT.items() if rule["alert"].startswith(start)
                )
    return yaml.safe_dump(found)


class Receiver:
    """What Alertmanager notifies: each alert of each notification, in order."""

    def __init__(self) -> None:
        self.alerts: list[Alert] = []
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.alerts.extend(json.loads(body)["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def got(self, status: str, name: str, since: int = 0, **labels: str) -> Alert | None:
        """The first alert like this that was notified after the first ``since``."""
        wanted = {"alertname": name, **labels}.items()
        for alert in self.alerts[since:]:
            if alert["status"] == status and wanted <= alert["labels"].items():
                return alert
        return None


@dataclass
class Stack:
    """Addresses of what runs, and what it says."""

    fleet: FleetServer
    slicewatch: str
    prometheus: str
    alertmanager: str
    receiver: Receiver
    seen: list[str] = field(default_factory=list)

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query; raises on what Prometheus cannot parse or evaluate."""
        answer = get_json(f"{self.prometheus}/api/v1/query?" + quoted(query=expression))
        assert answer["status"] == "success", answer
        result = answer["data"]["result"]
        return result if answer["data"]["resultType"] != "scalar" else [{"value": result}]

    def active(self) -> list[Alert]:
        """The alerts that Alertmanager holds as firing now."""
        return get_json(f"{self.alertmanager}/api/v2/alerts?active=true")

    def active_names(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self.active()}

    @contextmanager
    def fault(self, key: str) -> Iterator[int]:
        """A fault of the simulator, mended at the end. Gives how many alerts were sent before."""
        before = len(self.receiver.alerts)
        self.fleet.inject(key)
        wait_for(lambda: any(view.active for view in self.fleet.faults() if view.key == key))
        try:
            yield before
        finally:
            self.mend(key)

    def mend(self, key: str) -> None:
        """Mend a fault; nothing happens when it is not there."""
        self.fleet.mend(key)
        wait_for(lambda: not any(v.active or v.busy for v in self.fleet.faults() if v.key == key))


def quoted(**query: str) -> str:
    return urllib.parse.urlencode(query)


def get_json(url: str) -> Any:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{url}: {error.code}: {error.read().decode()}") from None


def is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


@contextmanager
def running(command: list[str], ready: str, log: Path) -> Iterator[None]:
    """A program, from when it is ready; ended in the end."""
    with log.open("w+") as output:
        process = subprocess.Popen(command, cwd=log.parent, stdout=output, stderr=output)
        try:

            def there() -> bool:
                assert process.poll() is None, log.read_text()[-2000:]
                return is_up(ready)

            wait_for(there, 30)
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def alertmanager(binary: str, folder: Path, receiver: str, stack: ExitStack) -> str:
    """A real Alertmanager that notifies ``receiver``; its address."""
    config = {
        # One notification an alert, at once: what is asked here is whether it comes.
        "route": {
            "receiver": "test",
            "group_by": ["..."],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        },
        "receivers": [
            {"name": "test", "webhook_configs": [{"url": receiver, "send_resolved": True}]}
        ],
    }
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(config))
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        binary,
        "--config.file=alertmanager.yml",
        f"--storage.path={folder / 'alertmanager'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--cluster.listen-address=",
        "--log.level=warn",
    ]
    stack.enter_context(running(command, f"{url}/-/ready", folder / "alertmanager.log"))
    return url


def prometheus(
    binary: str, folder: Path, rules: str, target: str, alerts_to: str, stack: ExitStack
) -> str:
    """A real Prometheus that scrapes ``target`` each second; its address."""
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "alerting": {
            "alertmanagers": [
                {"static_configs": [{"targets": [alerts_to.removeprefix("http://")]}]}
            ]
        },
        "scrape_configs": [
            {
                "job_name": "slicewatch",
                "honor_labels": True,
                "scrape_timeout": "1s",
                "static_configs": [{"targets": [target.removeprefix("http://")]}],
            }
        ],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    (folder / "rules.yaml").write_text(rules)
    url = f"http://127.0.0.1:{free_port()}"
    command = [
        binary,
        "--config.file=prometheus.yml",
        f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address={url.removeprefix('http://')}",
        "--log.level=warn",
    ]
    stack.enter_context(running(command, f"{url}/-/ready", folder / "prometheus.log"))
    return url


@contextmanager
def house(
    folder: Path, rules: str, program: Callable[..., str | None], *, hosts: int = 40, seed: int = 1
) -> Iterator[Stack]:
    """All of it, once Prometheus has Slicewatch's first scrape.

    ``program`` finds the path of the first program of these names.
    """
    with ExitStack() as stack:
        fleet = stack.enter_context(FleetServer.of_hosts(hosts, seed=seed))
        kubeconfig = fleet.kube.write_kubeconfig(folder / "kubeconfig")
        slicewatch = stack.enter_context(
            served(
                "--headless",
                *("--kubeconfig", str(kubeconfig)),
                *("--poll-interval", "1"),
                *("--request-timeout", "5"),
                *("--history", "off"),
            )
        )
        receiver = stack.enter_context(Receiver())
        alerts = alertmanager(program(*ALERTMANAGER) or "", folder, receiver.url, stack)
        server = prometheus(
            program(*PROMETHEUS) or "", folder, shortened(rules), slicewatch, alerts, stack
        )
        found = Stack(fleet, slicewatch, server, alerts, receiver)
        wait_for(lambda: found.query("slicewatch_slice_info"))
        yield found
