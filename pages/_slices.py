"""Parts about slices that the overview and the slice page share."""

from __future__ import annotations

from collections.abc import Sequence

from diagnosis.snapshot import Snapshot
from exporter.words import hosts_ratio, shape, since, status_of
from fleet.model import Slice
from pages._parts import ago, cell, pick


def slices_table(current: Snapshot, slices: Sequence[Slice], key: str) -> None:
    """All slices, a row each; choosing one opens it."""
    report = current.report
    labels = {group.key: group.label for group in report.fleet.placement_groups}
    rows = [
        {
            "status": status_of(report, item),
            "slice": cell(item.name),
            "cluster": cell(f"{item.namespace}/{item.cluster}"),
            "shape": cell(shape(item)),
            "hosts": cell(hosts_ratio(item)),
            "chips": item.chips_expected,
            "held by": cell(", ".join(labels[key] for key in item.held_by if key in labels)),
            "for": ago(current, since(report, item)),
        }
        for item in slices
    ]
    pick(
        rows,
        [{"id": item.id} for item in slices],
        key,
        "slice",
        empty="No slice.",
        alt="Slices with their status, shape and hosts",
    )
