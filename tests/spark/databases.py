"""Databases for the tests of JDBC targets: drivers and a PostgreSQL of the test's own."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.spark.jars import JARS, jar

DRIVERS = ("org.xerial:sqlite-jdbc:3.50.3.0", "org.postgresql:postgresql:42.7.7")


def driver_jars() -> list[Path]:
    """The drivers' jars, as far as they can be had."""
    return [path for path in map(jar, DRIVERS) if path is not None]


def has_driver(name: str) -> bool:
    return any(name in path.name for path in JARS.glob("*.jar"))


def postgres_programs() -> Path | None:
    """The folder of initdb and pg_ctl, which Debian keeps off the path."""
    program = shutil.which("initdb")
    folders = [os.path.dirname(program)] if program else sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    return Path(folders[-1]) if folders else None


@contextmanager
def postgres(programs: Path) -> Iterator[str]:
    """A PostgreSQL server on loopback with its data in a new folder; yields the port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    folder = Path(tempfile.mkdtemp(prefix="freshet-postgres-", dir="/tmp"))
    # The server refuses to run as root.
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_user:
        shutil.chown(folder, "postgres")
    data = str(folder / "data")

    def run(*command: str) -> None:
        done = subprocess.run([*as_user, *command], cwd=folder, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr

    try:
        run(str(programs / "initdb"), "-D", data, "-U", "freshet", "-A", "trust", "--no-sync", "-E", "UTF8")
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -k {folder} -c fsync=off"
        run(str(programs / "pg_ctl"), "-D", data, "-w", "-o", settings, "-l", str(folder / "log"), "start")
        try:
            yield port
        finally:
            run(str(programs / "pg_ctl"), "-D", data, "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
