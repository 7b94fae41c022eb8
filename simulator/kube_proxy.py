"""The API server's proxy to services and pods, and what its answers to writes are made of."""

from __future__ import annotations

from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from simulator.kube_paths import Target, status
from simulator.kube_store import Store

DROPPED = ("host", "authorization", "content-length", "connection", "accept-encoding")
"""Headers that do not go on. The API server uses up Authorization: what is behind never sees it."""


class Proxy:
    """Forwards ``…/services/<[scheme:]name[:port]>/proxy/…`` to where ``upstreams`` says it is."""

    def __init__(self) -> None:
        self.upstreams: dict[tuple[str, str], str] = {}
        self._client: httpx.AsyncClient | None = None

    async def forward(self, request: Request, target: Target, store: Store) -> Response:
        """The answer of what is behind, or the API server's own refusal."""
        parts = target.name.split(":")
        name = parts[1] if len(parts) == 3 else parts[0]
        port = parts[-1] if len(parts) > 1 else ""
        entry = store.entry(target.kind.plural, name, target.namespace)
        if entry is None:
            return not_found(Target(target.kind, target.namespace, name))
        ports = (entry.obj.get("spec") or {}).get("ports") or ()
        known = {str(item.get(key)) for item in ports for key in ("name", "port")}
        upstream = self.upstreams.get((target.namespace, name))
        if upstream is None or (target.kind.plural == "services" and port and port not in known):
            message = f'no endpoints available for service "{target.name}"'
            return JSONResponse(status(503, "ServiceUnavailable", message), 503)
        headers = {key: value for key, value in request.headers.items() if key not in DROPPED}
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=60, trust_env=False)
        try:
            answer = await self._client.request(
                request.method,
                f"{upstream}/{target.rest}",
                params=httpx.QueryParams(request.url.query),
                headers=headers,
                content=await request.body(),
            )
        except httpx.HTTPError as error:
            message = f"error trying to reach service: {type(error).__name__}: {error}"
            return JSONResponse(status(503, "ServiceUnavailable", message), 503)
        kept = {"content-type": answer.headers.get("content-type", "application/octet-stream")}
        return Response(answer.content, answer.status_code, kept)


def not_found(target: Target) -> Response:
    """The Status object for an object that is not there."""
    group = f".{target.kind.group}" if target.kind.group else ""
    message = f'{target.kind.plural}{group} "{target.name}" not found'
    body = status(404, "NotFound", message, name=target.name, kind=target.kind.plural)
    return JSONResponse(body, 404)


def merge_patch(base: Any, patch: Any) -> Any:
    """A JSON merge patch, as RFC 7386 defines it."""
    if not isinstance(base, dict) or not isinstance(patch, dict):
        return patch
    merged = dict(base)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(
                merged.get(key, {} if isinstance(value, dict) else None), value
            )
    return merged
