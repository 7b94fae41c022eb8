"""Tables: numbers as numbers, unknown as missing."""

from __future__ import annotations

import msgspec
import pandas as pd
import pytest

from charts.tables import (
    CAPACITY_COLUMNS,
    GROUP_COLUMNS,
    HOST_COLUMNS,
    SLICE_COLUMNS,
    capacity_table,
    groups_table,
    hosts_table,
    slices_table,
)
from fleet.model import Fleet
from tests.charts.builders import NOW, fleet_of, made, many


def test_hosts() -> None:
    part = made("v6e", "4x4", missing=(1,), dead=(2,))
    table = hosts_table(part[0], "incomplete", fleet=fleet_of(part))
    assert list(table.columns) == list(HOST_COLUMNS)
    assert list(table["state"]) == ["at work", "missing", "not ready", "at work"]
    assert list(table["worker_id"]) == [0, 1, 2, 3]
    assert table["since"][0] == pd.Timestamp(NOW - 3600.0, unit="s", tz="UTC")
    assert table["duty_cycle"].isna().tolist() == [False, True, True, False]
    assert table["memory_used"][0] == pytest.approx(0.375)


def test_hosts_beyond_the_topology_have_rows_too() -> None:
    slice_, _, _ = made("v6e", "4x4")
    lost = msgspec.structs.replace(
        slice_.hosts[0], key="lost", worker_id=None, coordinates=None, chips=None, age_since=1e30
    )
    table = hosts_table(msgspec.structs.replace(slice_, hosts=(*slice_.hosts, lost)), "broken")
    assert len(table) == 5
    assert pd.isna(table["worker_id"][4])
    assert pd.isna(table["x"][4])
    assert pd.isna(table["since"][4])


def test_slices_and_groups() -> None:
    fleet, statuses = many(40)
    table = slices_table(fleet, statuses)
    assert list(table.columns) == list(SLICE_COLUMNS)
    assert len(table) == 40
    assert table["hosts_alive"].dtype.kind == "i"
    waiting = msgspec.structs.replace(
        fleet.placement_groups[3], key="z", state="PENDING", pending_seconds=77.0, requested_at=NOW
    )
    fleet = msgspec.structs.replace(fleet, placement_groups=(*fleet.placement_groups, waiting))
    groups = groups_table(fleet)
    assert list(groups.columns) == list(GROUP_COLUMNS)
    assert groups["key"][0] == "z"
    assert groups["pending_seconds"].dtype.kind == "f"


def test_capacity_adds_up_and_never_counts_what_is_unseen_as_free() -> None:
    fleet, statuses = many(120)
    table = capacity_table(fleet, statuses)
    assert list(table.columns) == list(CAPACITY_COLUMNS)
    assert table["slices"].sum() == 120
    assert table["hosts"].sum() == sum(len(item.hosts) for item in fleet.slices)
    assert (table["chips_free"] <= table["chips_ready"]).all()
    blind = dict.fromkeys(statuses, "unknown")
    assert capacity_table(fleet, blind)["chips_free"].sum() == 0  # type: ignore[arg-type]
    idle = made("v6e", "4x4", hold=False)
    assert capacity_table(fleet_of(idle), {idle[0].id: "idle"})["chips_free"].tolist() == [16]


def test_nothing_gives_empty_tables() -> None:
    nothing = Fleet(now=0.0)
    for table in (slices_table(nothing, {}), groups_table(nothing), capacity_table(nothing, {})):
        assert len(table) == 0
