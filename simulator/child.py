"""A child process that takes orders as JSON lines and answers them, several at a time."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOREIGN = ("RAY_ADDRESS", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH", "RAY_AUTH_MODE", "TPU_NAME")
"""Environment of the user's own cluster, which is none of the demo's business."""


class ChildError(RuntimeError):
    """The child could not do what was asked, or has ended; the message says which and why."""


class Child:
    """Runs ``python -m MODULE ARGUMENTS``; it leads a session of its own.

    It is told to end by closing its input, and killed with its whole process group if it does not.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str] = (),
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.module = module
        self.log = log
        inherited = {key: value for key, value in os.environ.items() if key not in FOREIGN}
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={
                    **inherited,
                    "PYTHONPATH": str(ROOT),
                    "PYTHONWARNINGS": "ignore",
                    **(env or {}),
                },
                start_new_session=True,  # Ctrl-C goes to us, and we end it in order
            )
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, Future[dict[str, Any]]] = {}
        self._listener = threading.Thread(target=self._listen, name=module, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def order(self, op: str, **arguments: Any) -> Future[dict[str, Any]]:
        """Send an order without waiting; :func:`result_of` reads its answer."""
        future: Future[dict[str, Any]] = Future()
        stdin = self._process.stdin
        with self._lock:
            if stdin is None or stdin.closed or not self.alive:
                raise ChildError(f"{self.module} has ended{self._last_words()}")
            self._number += 1
            self._waiting[self._number] = future
            try:
                stdin.write(json.dumps({"id": self._number, "op": op, **arguments}) + "\n")
                stdin.flush()
            except OSError as error:
                self._waiting.pop(self._number, None)
                raise ChildError(f"{self.module} has ended{self._last_words()}") from error
        return future

    def ask(self, op: str, *, timeout: float, **arguments: Any) -> dict[str, Any]:
        """Send an order and wait for its answer; raises :class:`ChildError`."""
        return result_of(self.order(op, **arguments), timeout)

    def stop(self, seconds: float = 15.0) -> None:
        """Have it end, and kill what is left of its process group. Safe to call twice."""
        process = self._process
        with self._lock, contextlib.suppress(OSError, ValueError):
            if process.stdin is not None:
                process.stdin.close()
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        self._listener.join(5)
        if process.stdout is not None:
            process.stdout.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stdout:
                answer = json.loads(line)
                with self._lock:
                    future = self._waiting.pop(answer["id"], None)
                if future is not None:
                    future.set_result(answer)
        # Its output ends a moment before it does; whoever waits wants both over.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        with self._lock:
            left, self._waiting = self._waiting, {}
        for future in left.values():
            future.set_result({"error": f"{self.module} has ended{self._last_words()}"})

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = [line for line in self.log.read_text(errors="replace").splitlines() if line]
            if lines:
                return f": {lines[-1][:300]}"
        return ""


def result_of(future: Future[dict[str, Any]], timeout: float) -> dict[str, Any]:
    """An order's result within ``timeout`` seconds; raises :class:`ChildError`."""
    try:
        answer = future.result(timeout)
    except TimeoutError:
        raise ChildError(f"no answer within {timeout:.0f} s") from None
    if "error" in answer:
        raise ChildError(answer["error"])
    return dict(answer["result"])
