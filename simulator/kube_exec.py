"""``kubectl exec`` over a WebSocket: runs the command here, in the environment of a simulated pod.

Whoever holds the kubeconfig's token may run commands as the user who started the demo, on the
loopback interface only. That is what ``kubectl exec`` means, and it makes the commands that a
finding suggests really work.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
from asyncio.subprocess import PIPE
from collections.abc import Callable
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

STDIN, STDOUT, STDERR, ERROR, CLOSE = 0, 1, 2, 3, 255
"""Channels of ``v5.channel.k8s.io``: each message starts with its channel's number."""

ExecEnv = Callable[[dict[str, Any]], dict[str, str] | None]


async def serve(socket: WebSocket, pod: dict[str, Any] | None, env: ExecEnv) -> None:
    """Carry out one exec request until its command ends or the client leaves."""
    offered = socket.scope.get("subprotocols") or []
    protocol = next(
        (name for name in ("v5.channel.k8s.io", "v4.channel.k8s.io") if name in offered), None
    )
    if protocol is None:
        await socket.close(4400)
        return
    await socket.accept(subprotocol=protocol)
    command = socket.query_params.getlist("command")
    found = env(pod) if pod is not None else None
    if found is None or not command:
        await _end(socket, _error("container not found or not running"))
        return
    if shutil.which(command[0], path=found.get("PATH")) is None:
        await _end(socket, _error(f'exec: "{command[0]}": executable file not found in $PATH'))
        return
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=found, start_new_session=True
    )
    incoming = asyncio.create_task(_stdin(socket, process, wanted="stdin" in socket.query_params))
    try:
        assert process.stdout is not None
        assert process.stderr is not None
        await asyncio.gather(
            _forward(process.stdout, socket, STDOUT), _forward(process.stderr, socket, STDERR)
        )
        code = await process.wait()
        outcome = {"metadata": {}, "status": "Success"} if code == 0 else _failure(code)
        await _end(socket, outcome)
    except (WebSocketDisconnect, RuntimeError):
        pass  # the client left
    finally:
        incoming.cancel()
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _forward(stream: asyncio.StreamReader, socket: WebSocket, channel: int) -> None:
    while data := await stream.read(16384):
        await socket.send_bytes(bytes([channel]) + data)


async def _stdin(socket: WebSocket, process: asyncio.subprocess.Process, *, wanted: bool) -> None:
    stdin = process.stdin
    assert stdin is not None
    if not wanted:
        stdin.close()
    with contextlib.suppress(WebSocketDisconnect, RuntimeError, ConnectionError):
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                break
            data = message.get("bytes") or b""
            if data[:1] == bytes([STDIN]) and wanted:
                stdin.write(data[1:])
                await stdin.drain()
            elif data[:1] == bytes([CLOSE]):
                stdin.close()
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)


def _error(message: str) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "InternalError",
        "message": f"Internal error occurred: error executing command in container: {message}",
        "code": 500,
    }


def _failure(code: int) -> dict[str, Any]:
    return {
        "metadata": {},
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


async def _end(socket: WebSocket, outcome: dict[str, Any]) -> None:
    await socket.send_bytes(bytes([ERROR]) + json.dumps(outcome).encode())
    await socket.close()
