"""Broken files, full disks, folders that may not be written: a clear word, and no crash."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from history import schema
from history.errors import HistoryError, hide_password
from history.service import History
from tests.history.test_service import EVER, wait_for
from tests.history.watching import Watch, keep, kinds, training

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def watch() -> Watch:
    found = Watch()
    training(found)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history.sqlite"


@pytest.fixture
def opened() -> Iterator[list[History]]:
    found: list[History] = []
    yield found
    for history in found:
        history.close()


def begin(path: Path | str, watch: Watch, opened: list[History]) -> History:
    history = keep(path, watch)
    opened.append(history)
    return history


def fill(path: Path, watch: Watch) -> None:
    """A history that is closed again, with some looks in it."""
    history = keep(path, watch)
    for number in range(6):
        watch.world.waiting(f"job-{number}", age=1)
        watch.look(400)
    assert history.state().status == "ok"
    history.close()
    watch.history = None


@pytest.mark.parametrize(
    "content", [b"garbage" * 1000, b"x", b"SQLite format 3\x00" + b"\x00" * 5000]
)
def test_a_file_that_is_no_database_is_set_aside(
    path: Path, watch: Watch, opened: list[History], content: bytes
) -> None:
    path.write_bytes(content)
    history = begin(path, watch, opened)
    watch.look()
    state = history.state()
    assert state.status == "ok"
    assert "set aside" in state.note
    (aside,) = path.parent.glob("history.sqlite.damaged-*")
    assert aside.read_bytes() == content
    assert kinds(history.changes(0, EVER)) == ["watch_began"]


def test_a_file_that_is_damaged_within_is_set_aside_and_history_goes_on(
    path: Path, watch: Watch, opened: list[History]
) -> None:
    fill(path, watch)
    data = bytearray(path.read_bytes())
    for at in range(4096, len(data), 4096):
        data[at : at + 2000] = b"\xee" * 2000
    path.write_bytes(data)
    history = begin(path, watch, opened)
    watch.look()
    wait_for(
        lambda: history.flush(10) and history.state().status == "ok" and bool(history.state().note)
    )
    watch.look()
    assert "damaged" in history.state().note
    assert history.span() is not None
    assert list(path.parent.glob("history.sqlite.damaged-*"))


def test_damage_that_a_reader_meets_is_dealt_with(
    path: Path, watch: Watch, opened: list[History]
) -> None:
    fill(path, watch)
    history = begin(path, watch, opened)
    watch.look()
    assert history._database is not None
    history._database.damage = None
    with pytest.raises(HistoryError, match="damaged"), history._database.reading():
        raise sqlite3.DatabaseError("database disk image is malformed")
    wait_for(lambda: "set aside" in history.state().note)
    watch.look()
    assert history.state().status == "ok"


def test_one_look_that_cannot_be_read_spoils_no_other(
    path: Path, watch: Watch, opened: list[History]
) -> None:
    fill(path, watch)
    with sqlite3.connect(path) as connection:
        (moment,) = connection.execute("SELECT max(moment) FROM slicewatch_looks").fetchone()
        connection.execute(
            "UPDATE slicewatch_looks SET data = x'00112233' WHERE moment = ?", (moment,)
        )
    connection.close()
    history = begin(path, watch, opened)
    with pytest.raises(HistoryError, match="damaged"):
        history.look_at(moment / 1000)
    assert history.look_at(moment / 1000 - 1) is not None


def test_another_programs_database_is_left_alone(
    path: Path, watch: Watch, opened: list[History]
) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = path.read_bytes()
    history = begin(path, watch, opened)
    watch.look()
    assert history.state().status == "off"
    assert "another program's" in history.state().problem
    with pytest.raises(HistoryError, match="another program's"):
        history.changes(0, EVER)
    history.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("bookmarks",)]
    connection.close()
    assert len(path.read_bytes()) == len(before)


def test_tables_of_a_newer_version_are_left_alone(
    path: Path, watch: Watch, opened: list[History]
) -> None:
    fill(path, watch)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE slicewatch_about SET value = ?", (str(schema.VERSION + 1),))
    connection.close()
    history = begin(path, watch, opened)
    watch.look()
    state = history.state()
    assert state.status == "off"
    assert "newer Slicewatch" in state.problem
    assert history.last_memory() is None
    assert state.failed == 1


def test_a_folder_that_cannot_be_made(tmp_path: Path, watch: Watch, opened: list[History]) -> None:
    (tmp_path / "file").write_text("")
    history = begin(tmp_path / "file" / "history.sqlite", watch, opened)
    watch.look()
    state = history.state()
    assert state.status == "failing"
    assert str(tmp_path) in state.problem
    with pytest.raises(HistoryError, match=r"history\.sqlite"):
        history.span()
    assert history.last_memory() is None


def test_a_path_that_is_a_folder(tmp_path: Path, watch: Watch, opened: list[History]) -> None:
    history = begin(tmp_path, watch, opened)
    watch.look()
    assert history.state().status == "failing"
    assert "\n" not in history.state().problem


REAL_CONNECT = sqlite3.connect

READ_ONLY = """
import contextlib, io, os, sys
from pathlib import Path
from tests.history.test_failures import read_only_script
with contextlib.redirect_stdout(io.StringIO()):
    read_only_script(Path(sys.argv[2]))  # imports all that another user may not be able to read
if os.geteuid() == 0:
    os.setgid(65534); os.setuid(65534)
read_only_script(Path(sys.argv[1]))
"""


def read_only_script(path: Path) -> None:
    watch = Watch()
    training(watch)
    watch.look()
    history = keep(path, watch)
    watch.look()
    print(history.state().status, "|", history.state().problem)
    try:
        print(len(history.moments(0, EVER)))
    except HistoryError as error:
        print(error)
    history.close()


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_that_may_not_be_written(path: Path, watch: Watch, there: bool) -> None:
    """In a process of another user, as root may write anywhere."""
    if there:
        fill(path, watch)
    folder = Path(shutil.copytree(path.parent, f"/tmp/slicewatch-ro-{os.getpid()}-{there}"))
    try:
        for item in folder.iterdir():
            item.chmod(0o444)
        folder.chmod(0o555)
        result = subprocess.run(
            [sys.executable, "-c", READ_ONLY, str(folder / path.name), str(path.parent / "other.sqlite")],
            capture_output=True, text=True, timeout=60, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        )  # fmt: skip
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
    assert result.returncode == 0, result.stderr
    status, answer = result.stdout.strip().splitlines()
    assert status.startswith("failing | ")
    assert "may not be written" in status or "cannot be opened" in status
    assert answer


def test_a_full_disk_costs_history_until_there_is_room(
    path: Path, watch: Watch, opened: list[History], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("history.recorder.FIRST_RETRY", 0.05)
    monkeypatch.setattr("history.recorder.LAST_RETRY", 0.05)
    fill(path, watch)
    limit_pages(monkeypatch, 1)
    history = begin(path, watch, opened)
    for number in range(30):
        watch.world.waiting(f"big-{number}", bundles=200, age=1)
    watch.look()
    assert history.state().status == "failing"
    assert "the disk is full" in history.state().problem
    assert str(path) in history.state().problem
    assert history.span() is not None  # what is there can still be read
    watch.look()
    limit_pages(monkeypatch, 1_000_000)
    wait_for(lambda: watch.look() is not None and history.state().status == "ok")
    told = kinds(history.changes(0, EVER))
    assert told.count("group_created") == 35  # what changed meanwhile is told, only later


def limit_pages(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """SQLite answers as on a full disk once its file has so many pages."""
    real = REAL_CONNECT

    class Limited(sqlite3.Connection):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **kwargs)  # type: ignore[arg-type]
            self.execute(f"PRAGMA max_page_count = {pages}")

    def connect(*args: object, **kwargs: object) -> sqlite3.Connection:
        return real(*args, **{**kwargs, "factory": Limited})  # type: ignore[arg-type]

    monkeypatch.setattr("sqlite3.dbapi2.connect", connect)
    monkeypatch.setattr("sqlite3.connect", connect)


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("mysql://me:hunter2@host/db", "not in 'mysql'"),
        ("sqlite://", "in memory"),
        ("postgresql://me:hunter2@host:port/db", "cannot be read"),
    ],
)
def test_a_url_that_is_none_turns_history_off(url: str, word: str, watch: Watch) -> None:
    history = keep(url, watch)
    history.record(watch.look(record=False))
    state = history.state()
    assert state.status == "off"
    assert word in state.problem
    assert "hunter2" not in state.problem
    with pytest.raises(HistoryError):
        history.span()
    assert history.last_memory() is None
    history.close()


def test_no_password_in_any_word(watch: Watch, opened: list[History]) -> None:
    history = begin("postgresql://me:hunter2@127.0.0.1:1/db", watch, opened)
    watch.look()
    state = history.state()
    assert state.status == "failing"
    assert "127.0.0.1" in state.problem
    assert "hunter2" not in state.problem + state.where
    assert hide_password("to postgresql://me:p:w@h/d failed") == "to postgresql://me:***@h/d failed"


KILLED = """
import os, signal, sys
from tests.history.watching import Watch, keep, training
watch = Watch()
training(watch)
history = keep(sys.argv[1], watch, lease_seconds=0.2)
watch.look()
watch.world.lose_host("v6e-16-group-0", 1, ago=3)
watch.look(); watch.look()
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_that_is_killed_loses_nothing_that_was_written(
    path: Path, watch: Watch, opened: list[History]
) -> None:
    result = subprocess.run(
        [sys.executable, "-c", KILLED, str(path)], cwd=ROOT, capture_output=True, timeout=60
    )
    assert result.returncode == -9, result.stderr
    history = begin(path, watch, opened)
    memory = history.last_memory(watch.world.now + 60)
    assert memory is not None
    assert [key[0] for key, track in memory.tracks.items() if track.open] == ["SliceIncomplete"]
    watch.memory = memory
    watch.world.lose_host("v6e-16-group-0", 1, ago=3)
    watch.look(60)
    wait_for(lambda: watch.look() is not None and history.state().status == "ok")
    told = kinds(history.changes(0, EVER))
    assert told.count("watch_began") == 1
    assert told.count("finding_opened") == 1
    assert told.count("slice_status") == 1
