"""Figures and tables of the example clusters, as the collectors and the mapping give them."""

from __future__ import annotations

from pathlib import Path

import pytest

from charts.colouring import COLOUR_BY
from charts.grid import slice_figure
from charts.tables import capacity_table, groups_table, hosts_table, slices_table
from charts.wall import wall_figure
from collectors.bundle import read_bundle
from diagnosis.engine import judge
from fleet.mapping import build_fleet

BUNDLES = Path(__file__).resolve().parent.parent / "bundles"


@pytest.mark.parametrize("bundle", sorted(path.name for path in BUNDLES.iterdir() if path.is_dir()))
def test_every_example_can_be_drawn(bundle: str) -> None:
    fleet = build_fleet(read_bundle(BUNDLES / bundle)[-1])
    report, _ = judge(fleet)
    assert wall_figure(fleet, report.statuses).layout.height > 0
    assert len(slices_table(fleet, report.statuses)) == len(fleet.slices)
    assert len(groups_table(fleet)) == len(fleet.placement_groups)
    assert capacity_table(fleet, report.statuses)["slices"].sum() == len(fleet.slices)
    for item in fleet.slices:
        status = report.statuses[item.id]
        assert len(hosts_table(item, status, fleet=fleet)) == len(item.hosts)
        for colour_by in COLOUR_BY:
            figure = slice_figure(item, status, fleet=fleet, colour_by=colour_by)
            target = next(trace for trace in figure.data if trace.name == "hosts")
            assert len(target.x) >= len(item.hosts)
