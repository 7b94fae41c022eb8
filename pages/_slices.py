"""Parts about slices that the overview and the slice page share."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.snapshot import Snapshot
from exporter.words import hosts_ratio, ordered, shape, since, status_of
from fleet.model import Slice
from pages import _memo
from pages._parts import MOST_ROWS, ago, cell, moment, pick, time_column, zone


def slices_table(current: Snapshot, key: str) -> None:
    """All slices of a look, worst first, a row each; choosing one opens it."""
    report = current.report
    slices = _memo.once(current, "ordered", lambda: ordered(report, report.fleet.slices))
    rows = _memo.once(
        current, ("slice-rows", str(zone())), lambda: _rows(current, slices[:MOST_ROWS])
    )
    pick(
        rows,
        [{"id": item.id} for item in slices[:MOST_ROWS]],
        key,
        "slice",
        empty="No slice.",
        config={"since": time_column("since")},
        alt="Slices with their status, shape and hosts",
        total=len(slices),
    )


def _rows(current: Snapshot, slices: Sequence[Slice]) -> list[dict[str, object]]:
    report = current.report
    labels = {group.key: group.label for group in report.fleet.placement_groups}
    return [
        {
            "status": status_of(report, item),
            "slice": cell(item.name),
            "cluster": cell(f"{item.namespace}/{item.cluster}"),
            "shape": cell(shape(item)),
            "hosts": cell(hosts_ratio(item)),
            "chips": item.chips_expected,
            "held by": cell(", ".join(labels[key] for key in item.held_by if key in labels)),
            "for": ago(current, since(report, item)),
            "since": moment(since(report, item)),
        }
        for item in slices
    ]
