"""Sources that do not answer, answer in part, or answered too long ago.

Facts: facts/ray_2_60.md "State API over HTTP" (limits cut rows without a warning; 401 is its own
state, not "down"), contract section 2 (what should be there and is not counts as down).
"""

from __future__ import annotations

from collections.abc import Iterator

from diagnosis import commands
from diagnosis.finding import Action, Evidence, Subject
from diagnosis.rules.base import Hit, Links, Outcome, fix, hit, look
from diagnosis.view import KUBERNETES, View, names_of, shorten
from fleet.model import ClusterView
from fleet.observation import SourceStatus
from fleet.times import format_duration, format_time

ESSENTIAL = frozenset(
    {"pods", "nodes", "ray_clusters", "rayclusters", "placement_groups", "actors", "tasks"}
)
"""Parts without which whole families of rules are blind. The rest (events, services, jobs, …) may
be missing from a bundle made by hand, and then only makes single rules unknown."""

LIVE_ONLY = frozenset({"missing", "not_found", None})
"""Reasons that say "was not in the bundle" or "is not installed" rather than "it refused"."""

ADVICE: dict[str, str] = {
    "refused": "Nothing listens at the address: is the head pod up?",
    "timed_out": "It took the request and did not answer in time: an overloaded or hung head.",
    "unreachable": "No way to the address: network policy, DNS, or the wrong address.",
    "unauthorized": "Token authentication is on: give a token in RAY_AUTH_TOKEN.",
    "forbidden": "The account may not do this: grant the verb and resource that is named.",
    "not_found": "The address answers but knows no such path: is it the dashboard of Ray?",
    "rate_limited": "The head answers at most 100 calls at a time (429): poll less often.",
    "server_error": "It answers with an error of its own: read its log.",
    "not_json": "Something else answers there, such as a login page or a proxy.",
    "malformed": "The answer is cut or has an unknown shape.",
    "missing": "It should be in the bundle and is not: capture again, or add the folder.",
}


def _subject(source: SourceStatus) -> Subject:
    kind, _, rest = source.name.partition(":")
    namespace, _, cluster = rest.partition("/")
    return Subject(
        kind="source",
        id=source.name,
        name=source.name,
        namespace=namespace if kind == "ray" else "",
        cluster=cluster if kind == "ray" else "",
    )


def _title(source: SourceStatus) -> str:
    if source.name == KUBERNETES:
        return "Kubernetes"
    return f"Ray cluster {source.name.partition(':')[2]}"


def _evidence(source: SourceStatus, *more: tuple[str, str]) -> list[Evidence]:
    rows: list[tuple[str, str]] = [("status", source.status)]
    rows += [(name, value) for name, value in (("reason", source.reason or ""),) if value]
    if source.detail:
        rows.append(("detail", shorten(source.detail, 400)))
    if source.fetched_at is not None:
        rows.append(("last good answer", format_time(source.fetched_at) or "?"))
    rows += more
    return [
        Evidence(source=source.name, object="source", field=field, value=value)
        for field, value in rows
    ]


def _look(view: View, source: SourceStatus) -> list[Action]:
    advice = ADVICE.get(source.reason or "", "")
    if source.name == KUBERNETES:
        checks = [
            look(
                "See whether the API server answers you.",
                commands.kubectl(view, "get", "--raw", "/readyz"),
            ),
            look(
                "See what this account may read.",
                commands.kubectl(view, "auth", "can-i", "--list"),
            ),
        ]
    else:
        cluster = _cluster(view, source)
        if cluster is not None and cluster.has_kubernetes:
            checks = [
                look(
                    "See whether the head pod is up and ready.", commands.list_pods(view, cluster)
                ),
                look("Ask Ray where it runs.", commands.ray_status(view, cluster)),
            ]
        else:
            checks = [look("Ask Ray on the head host.", "ray status -v")]
    if advice:
        checks[0] = Action(text=f"{advice} {checks[0].text}", command=checks[0].command)
    return checks


def _cluster(view: View, source: SourceStatus) -> ClusterView | None:
    return view.clusters.get(source.name.partition(":")[2])


def judge_sources(view: View) -> Iterator[Outcome]:
    """One finding a source at most: down before cut before stale.

    Must not flag: a suspended cluster; a part that is optional and simply not in the bundle.
    """
    for source in view.fleet.sources:
        cluster = _cluster(view, source)
        if source.status == "suspended" or (cluster is not None and cluster.suspended):
            continue
        found = _down(view, source) or _truncated(view, source) or _stale(view, source)
        if found is not None:
            yield found


def _down(view: View, source: SourceStatus) -> Hit | None:
    missing = sorted(set(source.missing))
    if source.status != "down":
        failed = [part for part in missing if part in ESSENTIAL or source.reason not in LIVE_ONLY]
        if not failed:
            return None
        what = f"{_title(source)} does not answer {names_of(failed)}"
    else:
        what = f"{_title(source)} does not answer"
    told = f": {shorten(source.detail)}" if source.detail else ""
    since = source.fetched_at if source.status == "down" else None
    return hit(
        "SourceDown",
        _subject(source),
        f"{what}{told}. Whatever needs it is unknown, not healthy.",
        severity="warning",
        evidence=_evidence(source, *((("missing parts", ", ".join(missing)),) if missing else ())),
        actions=_look(view, source),
        since=since,
        dated=since is not None and view.now - since > view.thresholds.blip,
        links=Links(source=source.name),
    )


def _truncated(view: View, source: SourceStatus) -> Hit | None:
    if not source.truncated and not source.malformed:
        return None
    cuts = [
        f"{item.rows:,} of {item.total:,} {item.part}"
        if item.total >= 0
        else f"only {item.rows:,} {item.part}"
        for item in source.truncated
    ]
    cuts += [f"unreadable rows in {shorten(text, 80)}" for text in source.malformed]
    cluster = _cluster(view, source)
    steps = _look(view, source)
    if cluster is not None:
        part = source.truncated[0].part if source.truncated else "nodes"
        what = part.replace("_", "-")
        if what in ("nodes", "placement-groups", "actors", "tasks", "jobs"):
            steps = [
                look(
                    "Read the list without the default limit of 100 rows.",
                    commands.ray_list(view, cluster, what),
                )
            ]
        steps.append(
            fix(
                "If rows beyond Ray's maximum of 10,000 are missing: fewer finished tasks and "
                "actors are kept with a lower RAY_task_events_max_num_task_in_gcs (needs a restart "
                "of the head). If a bundle was made by hand: ask again with limit=10000."
            )
        )
    return hit(
        "SourceTruncated",
        _subject(source),
        f"{_title(source)} gave only part of its rows ({'; '.join(cuts)}): what is missing is "
        "unknown, not gone.",
        severity="warning",
        evidence=_evidence(
            source,
            *(
                (item.part, f"{item.rows} rows of {item.total if item.total >= 0 else 'unknown'}")
                for item in source.truncated
            ),
            *(("unreadable", text) for text in source.malformed),
        ),
        actions=steps,
        links=Links(source=source.name),
    )


def _stale(view: View, source: SourceStatus) -> Hit | None:
    if source.fetched_at is None or source.status == "down":
        return None
    limit = view.thresholds.stale_polls * source.poll_interval_seconds
    age = view.now - source.fetched_at
    if age <= limit:
        return None
    return hit(
        "SourceStale",
        _subject(source),
        f"{_title(source)}'s last good answer is {format_duration(age)} old (polled every "
        f"{format_duration(source.poll_interval_seconds)}): what is shown of it may have changed.",
        severity="warning",
        evidence=_evidence(source, ("age", f"{age:.0f} s")),
        actions=_look(view, source),
        since=source.fetched_at + limit,
        links=Links(source=source.name),
    )
