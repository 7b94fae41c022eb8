"""A small HTTP server that answers as told, in a thread; bytes on the wire, no mocks."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Answer:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    claimed_length: int | None = None
    wait_for: threading.Event | None = None


@dataclass
class Request:
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]


Handler = Callable[[Request], Answer]


class Server:
    """``routes`` maps a path to an answer, or to a function of the request."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.routes: dict[str, Answer | Handler] = {}
        self.requests: list[Request] = []
        self.in_flight = 0
        self.most_in_flight = 0

    def json(self, path: str, value: object, status: int = 200) -> None:
        self.routes[path] = Answer(json.dumps(value).encode(), status)

    def answer(self, request: Request) -> Answer:
        self.requests.append(request)
        route = self.routes.get(request.path, Answer(b"404 page not found", 404))
        return route(request) if callable(route) else route

    def paths(self) -> list[str]:
        return [request.path for request in self.requests]


class _Threading(socketserver.ThreadingMixIn, HTTPServer):
    daemon_threads = True


@contextmanager
def serving() -> Iterator[Server]:
    class Reply(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
            try:
                answer = server.answer(
                    Request(parts.path, parse_qs(parts.query), dict(self.headers))
                )
                if answer.wait_for is not None:
                    answer.wait_for.wait(20)
            finally:
                server.in_flight -= 1
            self.send_response(answer.status)
            length = len(answer.body) if answer.claimed_length is None else answer.claimed_length
            self.send_header("Content-Length", str(length))
            for name, value in answer.headers.items():
                self.send_header(name, value)
            if answer.claimed_length is not None:
                self.send_header("Connection", "close")
                self.close_connection = True
            self.end_headers()
            try:
                self.wfile.write(answer.body)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    http = _Threading(("127.0.0.1", 0), Reply)
    server = Server(f"http://127.0.0.1:{http.server_address[1]}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


def ray_answer(rows: list[Any], **changes: object) -> dict[str, Any]:
    """The envelope of Ray's state API."""
    inner = {
        "total": len(rows),
        "num_after_truncation": len(rows),
        "num_filtered": len(rows),
        "result": rows,
        "partial_failure_warning": "",
        "warnings": None,
    } | changes
    return {"result": True, "msg": "", "data": {"result": inner}}


RAY_PARTS = ("nodes", "placement_groups", "actors", "tasks", "jobs")


def ray_head(server: Server, prefix: str = "", **rows: list[Any]) -> None:
    """Make ``server`` answer as a Ray head does."""
    for part in RAY_PARTS:
        server.json(f"{prefix}/api/v0/{part}", ray_answer(rows.get(part, [])))
    server.json(
        f"{prefix}/api/cluster_status",
        {"result": True, "msg": "", "data": {"autoscalingStatus": "fine", "clusterStatus": None}},
    )
    server.json(f"{prefix}/api/version", {"version": "4", "ray_version": "2.60.0"})
