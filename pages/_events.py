"""Kubernetes events as a table, newest first."""

from __future__ import annotations

from collections.abc import Iterable

from diagnosis.snapshot import Snapshot
from fleet.observation import Event
from fleet.times import parse_time
from pages._parts import ago, cell, moment, table, time_column

MOST = 200
"""Events shown; a crash loop writes the same one for ever."""


def event_time(event: Event) -> float | None:
    """When it was last seen, whichever field its reporter filled (epoch seconds)."""
    series = event.series.last_observed_time if event.series is not None else None
    texts = (series, event.last_timestamp, event.event_time, event.first_timestamp)
    return next((at for text in texts if (at := parse_time(text)) is not None), None)


def events_table(current: Snapshot, objects: Iterable[tuple[str, str, str]], key: str) -> None:
    """The events of these ``(kind, namespace, name)``; says so when events cannot be seen."""
    fleet = current.report.fleet
    found = [
        (event_time(event), name, event)
        for kind, namespace, name in dict.fromkeys(objects)
        for event in fleet.events_by_object.get((kind, namespace, name), ())
    ]
    found.sort(key=lambda row: (row[0] or 0.0, row[1]), reverse=True)
    if fleet.has_kubernetes and "events" not in fleet.kubernetes_parts:
        empty = "Events cannot be seen: see Sources."
    elif not fleet.has_kubernetes:
        empty = "None: this Ray cluster does not run on Kubernetes."
    else:
        empty = "None in the last hour or so (Kubernetes forgets them)."
    table(
        [
            {
                "ago": ago(current, at),
                "when": moment(at),
                "type": cell(event.type),
                "reason": cell(event.reason),
                "object": cell(name),
                "message": cell(event.message, 1000),
                "count": event.series.count if event.series is not None else event.count,
            }
            for at, name, event in found[:MOST]
        ],
        f"events-{key}",
        empty=empty,
        config={"when": time_column("when")},
        alt="Kubernetes events, newest first",
    )
