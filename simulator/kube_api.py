"""A Kubernetes API over HTTP, good enough for the official clients and for ``kubectl``.

Discovery, lists with selectors and pages, watches with bookmarks and 410, server-side tables,
single objects, deletion, merge patches, the service and pod proxy, logs and exec; a bearer token;
and failures to switch on. It listens on 127.0.0.1 alone.
"""

from __future__ import annotations

import asyncio
import base64
import secrets
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from simulator import kube_exec, kube_paths, kube_tables
from simulator.http_server import Failures, ServerThread, spoil
from simulator.kube_paths import Target, failure_status, status
from simulator.kube_proxy import Proxy, merge_patch, not_found
from simulator.kube_selectors import Matcher, SelectorError, field_matcher, label_matcher
from simulator.kube_store import KINDS, Entry, Gone, Object, Store
from simulator.kube_watch import Watch, WatchRequest

USER = "system:serviceaccount:slicewatch:slicewatch"
BOOKMARK_SECONDS = 60.0
"""The real API sends bookmarks about once a minute, and one before it closes a watch."""
WATCH_SECONDS = 1800.0
"""How long a watch lives whose client named no time; the real one takes 30 to 60 minutes."""

MERGE_PATCHES = ("application/merge-patch+json", "application/strategic-merge-patch+json")

Deleter = Callable[[str, Object], None]


class Call(NamedTuple):
    """A request as RBAC sees it. ``resource`` has its subresource (``services/proxy``); what is no
    resource that is served has its path there instead, as a rule's ``nonResourceURLs`` would."""

    verb: str
    group: str
    resource: str
    namespace: str


class KubeAPI:
    """The API server. ``store`` holds what it serves; ``failures`` what it does wrong on purpose.

    TLS is on by default: kubectl sends a token over TLS only. With an empty ``token`` nobody is
    asked for one (and exec is refused).

    ``on_delete(plural, object)`` is called in a thread after a client deleted an object: it has to
    take it out of the store; without one the object goes at once. ``proxies`` maps
    ``(namespace, service)`` to the URL that the service proxy reaches. ``exec_env(pod)`` gives the
    environment in which ``kubectl exec`` runs a command, or ``None`` to refuse; ``logs(pod)`` the
    text of a pod's log.
    """

    def __init__(
        self,
        store: Store | None = None,
        *,
        token: str | None = None,
        port: int = 0,
        tls: bool = True,
        served: frozenset[str] = frozenset(KINDS),
        bookmark_seconds: float = BOOKMARK_SECONDS,
    ) -> None:
        self.store = store or Store()
        self.token = token if token is not None else secrets.token_urlsafe(24)
        self.served = served
        self.failures = Failures()
        self.calls: Counter[Call] = Counter()
        """What was asked so far, as RBAC sees it; added to by the server's own thread."""
        self._proxy = Proxy()
        self.proxies = self._proxy.upstreams
        self.on_delete: Deleter | None = None
        self.exec_env: kube_exec.ExecEnv = lambda _: None
        self.logs: Callable[[Object], str] = lambda _: ""
        self.bookmark_seconds = bookmark_seconds
        self._watches: set[Watch] = set()
        self.server = ServerThread(self, port=port, websockets=True, tls=tls)
        self.server.on_stop(self._end_streams)

    @property
    def url(self) -> str:
        return self.server.url

    def start(self) -> KubeAPI:
        """Serve from a thread until :meth:`stop`."""
        self.server.start()
        return self

    def stop(self) -> None:
        """Close all watches and stop."""
        self.server.stop()

    def __enter__(self) -> KubeAPI:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def write_kubeconfig(self, path: Path, *, context: str = "demo", namespace: str = "") -> Path:
        """Write a kubeconfig (mode 0600: it holds the token) that reaches this API."""
        server = {"server": self.url}
        if self.server.certificate is not None:
            text = base64.b64encode(self.server.certificate.read_bytes()).decode()
            server["certificate-authority-data"] = text
        inner = {"cluster": context, "user": context}
        if namespace:
            inner["namespace"] = namespace
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": context,
            "clusters": [{"name": context, "cluster": server}],
            "users": [{"name": context, "user": {"token": self.token}}],
            "contexts": [{"name": context, "context": inner}],
        }
        path.touch(mode=0o600, exist_ok=True)
        path.chmod(0o600)
        path.write_text(yaml.safe_dump(config, sort_keys=False))
        return path

    def _end_streams(self) -> None:
        for watch in tuple(self._watches):
            watch.end()

    # --- requests --------------------------------------------------------------------------

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry point."""
        if scope["type"] == "websocket":
            await self._websocket(WebSocket(scope, receive, send))
            return
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        response = await self._answer(request)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.url.path
        target = kube_paths.parse(path)
        if target is not None and target.kind.plural not in self.served:
            target = None
        verb = _verb(request, target)
        self.calls[_call(verb, path, target)] += 1
        failure = self.failures.take(target.kind.plural if target else "", verb, path)
        if failure is not None and failure.latency:
            await asyncio.sleep(failure.latency)
        if failure is not None and failure.status is not None:
            body = failure_status(failure.status, target.kind if target else None, verb, USER)
            headers = {"Retry-After": "1"} if failure.status == 429 else {}
            return JSONResponse(body, failure.status, headers)
        if path in ("/healthz", "/livez", "/readyz"):
            return Response("ok", media_type="text/plain")
        if path != "/version" and not self._knows(request.headers.get("authorization", "")):
            return JSONResponse(failure_status(401, None, verb, USER), 401)
        response = await self._serve(request, path, target)
        if failure is not None and failure.body is not None:
            whole = bytes(response.body) if hasattr(response, "body") else b"{}"
            text, media = spoil(whole, failure.body)
            return Response(text, media_type=media)
        return response

    def _knows(self, authorization: str) -> bool:
        # The scheme in any case, as the real API takes it: the official client writes "bearer".
        scheme, _, given = authorization.partition(" ")
        right = secrets.compare_digest(given.encode(), self.token.encode())
        return not self.token or (scheme.lower() == "bearer" and right)

    async def _serve(self, request: Request, path: str, target: Target | None) -> Response:
        if target is None:
            if path.rstrip("/").endswith("/selfsubjectaccessreviews") and request.method == "POST":
                return await self._review(request)
            found = kube_paths.discovery(path, self.served)
            if found is None:
                return JSONResponse(failure_status(404, None, "get", USER), 404)
            return JSONResponse(found)
        if target.sub == "proxy":
            return await self._proxy.forward(request, target, self.store)
        if target.sub == "log":
            return self._log(request, target)
        if target.sub not in ("", "status"):
            return JSONResponse(failure_status(404, target.kind, "get", USER), 404)
        try:
            if request.method == "GET":
                return self._get(request, target) if target.name else self._list(request, target)
            if request.method == "DELETE" and target.name:
                return await self._delete(request, target)
            if request.method == "PATCH" and target.name:
                return await self._patch(request, target)
        except (SelectorError, msgspec.DecodeError) as error:
            return JSONResponse(status(400, "BadRequest", str(error)), 400)
        return JSONResponse(
            status(
                405, "MethodNotAllowed", "the server does not allow this method on the resource"
            ),
            405,
        )

    async def _review(self, request: Request) -> Response:
        kind = request.headers.get("content-type", "")
        if kind.startswith("application/vnd.kubernetes.protobuf"):
            message = f"the body of the request was in an unknown format - {kind}"
            return JSONResponse(status(415, "UnsupportedMediaType", message), 415)
        body = msgspec.json.decode(await request.body())
        asked = (body.get("spec") or {}).get("resourceAttributes") or {}
        denied = any(
            failure.status == 403
            and failure.hits(asked.get("resource", ""), asked.get("verb", ""), "")
            for failure in self.failures.on()
        )
        return JSONResponse({**body, "status": {"allowed": not denied}}, 201)

    # --- one object ------------------------------------------------------------------------

    def _get(self, request: Request, target: Target) -> Response:
        entry = self.store.entry(target.kind.plural, target.name, target.namespace)
        if entry is None:
            return not_found(target)
        if include := _wants_table(request):
            return JSONResponse(
                kube_tables.table(target.kind.plural, [entry.obj], entry.version, include)
            )
        return Response(entry.raw, media_type="application/json")

    async def _delete(self, request: Request, target: Target) -> Response:
        body = await request.body()
        options = msgspec.json.decode(body) if body else {}
        plural = target.kind.plural
        found = self.store.get(plural, target.name, target.namespace)
        if found is None:
            return not_found(target)
        wanted = (options.get("preconditions") or {}).get("uid")
        if wanted and wanted != found["metadata"].get("uid"):
            return JSONResponse(
                status(409, "Conflict", f"the UID in the precondition ({wanted}) does not match"),
                409,
            )
        if options.get("dryRun"):
            return JSONResponse(found)
        if self.on_delete is None:
            self.store.remove(plural, target.name, target.namespace)
            return JSONResponse(found)
        found["metadata"]["deletionTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        found["metadata"]["deletionGracePeriodSeconds"] = options.get("gracePeriodSeconds", 30)
        found = self.store.put(plural, found)
        threading.Thread(
            target=self.on_delete, args=(plural, found), name=f"delete-{target.name}", daemon=True
        ).start()
        return JSONResponse(found)

    async def _patch(self, request: Request, target: Target) -> Response:
        """Merge patches; a strategic one is taken as a merge patch (lists are replaced)."""
        kind = request.headers.get("content-type", "").split(";")[0]
        if kind not in ("application/merge-patch+json", "application/strategic-merge-patch+json"):
            return JSONResponse(
                status(415, "UnsupportedMediaType", f"the patch type {kind} is not served here"),
                415,
            )
        patch = msgspec.json.decode(await request.body())
        found = self.store.get(target.kind.plural, target.name, target.namespace)
        if found is None:
            return not_found(target)
        merged = merge_patch(found, patch)
        merged["metadata"].update(name=target.name, uid=found["metadata"]["uid"])
        return JSONResponse(self.store.put(target.kind.plural, merged))

    def _log(self, request: Request, target: Target) -> Response:
        entry = self.store.entry("pods", target.name, target.namespace)
        if entry is None:
            return not_found(target)
        lines = self.logs(entry.obj).splitlines(keepends=True)
        if tail := request.query_params.get("tailLines"):
            lines = lines[-int(tail) :] if int(tail) else []
        return Response("".join(lines), media_type="text/plain")

    # --- lists and watches -----------------------------------------------------------------

    def _matcher(self, request: Request, target: Target) -> Matcher:
        query = request.query_params
        labels = label_matcher(query.get("labelSelector", ""))
        fields = field_matcher(query.get("fieldSelector", ""), target.kind.plural)
        namespace, name = target.namespace, target.name

        def matches(obj: Any) -> bool:
            meta = obj["metadata"]
            return (
                (not namespace or meta.get("namespace") == namespace)
                and (not name or meta["name"] == name)
                and labels(obj)
                and fields(obj)
            )

        return matches

    def _list(self, request: Request, target: Target) -> Response:
        query, plural = request.query_params, target.kind.plural
        matches = self._matcher(request, target)
        if query.get("watch") in ("1", "true", "True"):
            return StreamingResponse(
                self._watch(request, target, matches), media_type="application/json"
            )
        limit = int(query.get("limit") or 0)
        try:
            version, after = _continued(query.get("continue", ""))
            version, entries = self.store.snapshot(plural, version)
        except (Gone, ValueError):
            body = status(
                410,
                "Expired",
                "The provided continue parameter is too old to display a consistent list result.",
            )
            return JSONResponse(body, 410)
        found = [
            entry
            for entry in entries
            if (after is None or entry.key > after) and matches(entry.obj)
        ]
        meta: dict[str, Any] = {"resourceVersion": str(version)}
        if limit and len(found) > limit:
            meta["continue"] = _token(version, found[limit - 1])
            meta["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        if include := _wants_table(request):
            whole = kube_tables.table(plural, (entry.obj for entry in found), version, include)
            whole["metadata"].update(meta)
            return JSONResponse(whole)
        head = msgspec.json.encode(
            {
                "kind": f"{target.kind.kind}List",
                "apiVersion": target.kind.api_version,
                "metadata": meta,
            }
        )
        items = b",".join(entry.raw for entry in found)
        return Response(head[:-1] + b',"items":[' + items + b"]}", media_type="application/json")

    def _watch(self, request: Request, target: Target, matches: Matcher) -> AsyncIterator[bytes]:
        query = request.query_params
        asked = WatchRequest(
            kind=target.kind,
            matches=matches,
            include=_wants_table(request),
            version=query.get("resourceVersion") or "0",
            seconds=float(query.get("timeoutSeconds") or WATCH_SECONDS),
            bookmark_seconds=self.bookmark_seconds
            if query.get("allowWatchBookmarks") in ("1", "true", "True")
            else None,
        )
        return Watch(self.store, asked, self._watches).lines()

    # --- through the API to others ---------------------------------------------------------

    async def _websocket(self, socket: WebSocket) -> None:
        target = kube_paths.parse(socket.url.path)
        authorized = bool(self.token) and self._knows(socket.headers.get("authorization", ""))
        if target is None or target.sub != "exec" or not authorized:
            await socket.close(4403)
            return
        entry = self.store.entry("pods", target.name, target.namespace)
        await kube_exec.serve(socket, entry.obj if entry else None, self.exec_env)


def _verb(request: Request, target: Target | None) -> str:
    if request.method != "GET":
        return {"POST": "create", "PUT": "update"}.get(request.method, request.method.lower())
    if target is None or target.name:
        return "get"
    return "watch" if request.query_params.get("watch") in ("1", "true", "True") else "list"


def _call(verb: str, path: str, target: Target | None) -> Call:
    if target is None:
        return Call(verb, "", path, "")
    plural, sub = target.kind.plural, target.sub
    return Call(verb, target.kind.group, f"{plural}/{sub}" if sub else plural, target.namespace)


def _wants_table(request: Request) -> str:
    """How much of the object a table's rows carry; empty when no table is wanted."""
    if "as=Table" not in request.headers.get("accept", ""):
        return ""
    return request.query_params.get("includeObject") or "Metadata"


def _token(version: int, last: Entry) -> str:
    raw = msgspec.json.encode({"rv": version, "start": list(last.key)})
    return base64.urlsafe_b64encode(raw).decode()


def _continued(token: str) -> tuple[int | None, tuple[str, str] | None]:
    """The version and last key of a continue token; raises ``ValueError`` for a wrong one."""
    if not token:
        return None, None
    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(token))
        return int(found["rv"]), (str(found["start"][0]), str(found["start"][1]))
    except (msgspec.DecodeError, KeyError, TypeError, IndexError) as error:
        raise ValueError("not a continue token") from error
