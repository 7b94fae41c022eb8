"""Databases to keep history in: an SQLite file, and a real PostgreSQL of this test run's own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.conftest import program

SERVER_USER = "postgres"
"""PostgreSQL refuses to run as root; Debian's package makes this user."""


def server_program(name: str) -> str | None:
    """Debian keeps the server's programs off the path."""
    found = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else program(name)


class Server:
    """A PostgreSQL in a folder of its own, reached through a socket there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        root = os.geteuid() == 0
        self._as = {"user": SERVER_USER, "group": SERVER_USER, "extra_groups": []} if root else {}
        self._count = 0

    def make(self) -> None:
        initdb = server_program("initdb")
        assert initdb is not None
        command = [initdb, "-D", str(self.data), "-U", "postgres", "-A", "trust", "-N"]
        subprocess.run(
            [*command, "--locale=C", "-E", "UTF8"],
            check=True, capture_output=True, timeout=60, cwd=self.folder, **self._as,
        )  # fmt: skip

    def start(self) -> None:
        postgres = server_program("postgres")
        assert postgres is not None
        options = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.folder),
            "fsync": "off",
            "shared_buffers": "16MB",
        }
        flags = [text for key, value in options.items() for text in ("-c", f"{key}={value}")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [postgres, "-D", str(self.data), *flags],
                stdout=log, stderr=log, cwd=self.folder, **self._as,
            )  # fmt: skip
        deadline = time.monotonic() + 30
        while True:
            try:
                psycopg.connect(self.dsn("postgres")).close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, (self.folder / "log").read_text()
                assert time.monotonic() < deadline, "PostgreSQL does not start"
                time.sleep(0.05)

    def stop(self) -> None:
        """At once: sessions are cut off, as in a failover."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
            self._process = None

    def dsn(self, name: str) -> str:
        return f"postgresql://postgres@/{name}?host={self.folder}"

    def database(self) -> str:
        """The URL of a new, empty database."""
        self._count += 1
        name = f"history_{self._count}"
        with psycopg.connect(self.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.dsn(name)


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    if server_program("postgres") is None or server_program("initdb") is None:
        pytest.skip("postgres is not installed")
    folder = Path(tempfile.mkdtemp(prefix="slicewatch-pg-"))
    if os.geteuid() == 0:
        try:
            user = pwd.getpwnam(SERVER_USER)
        except KeyError:
            shutil.rmtree(folder)
            pytest.skip("postgres does not run as root, and there is no user 'postgres'")
        os.chown(folder, user.pw_uid, user.pw_gid)
    found = Server(folder)
    try:
        found.make()
        found.start()
        yield found
    finally:
        found.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for history, in each kind of database."""
    if request.param == "sqlite":
        return str(tmp_path / "state" / "history.sqlite")
    found: Server = request.getfixturevalue("server")
    return found.database()
