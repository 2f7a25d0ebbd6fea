"""One process writes, others read; forks, copies and folders that are none."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import freshet
from tests.durable.small import Expected, make, step

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def expected() -> Expected:
    return Expected(8)


def start(script: str, *args: object) -> subprocess.Popen[str]:
    head = "import os, sys\nimport freshet\nfrom tests.durable.small import *\nargs = sys.argv[1:]\n"
    return subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(script), *map(str, args)], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")])},
    )  # fmt: skip


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    process.stdin.write(line + "\n")
    process.stdin.flush()


WRITER = """
    db = make(Path(args[0]), 3)
    print("open", flush=True)
    for line in sys.stdin:
        print(db.apply(step(int(line))).version, flush=True)
"""


def test_one_writer_many_readers(tmp_path: Path, expected: Expected) -> None:
    writer = start(WRITER, tmp_path)
    try:
        assert said(writer) == "open"
        with pytest.raises(freshet.StateError, match=f"in use by process {writer.pid}; .*read_only=True"):
            freshet.connect(tmp_path)
        for version in (3, 4, 5, 6):
            if version > 3:
                tell(writer, str(version))
                assert said(writer) == str(version)
            with freshet.connect(tmp_path, read_only=True) as db, freshet.connect(tmp_path, read_only=True) as other:
                for reader in (db, other):
                    assert reader.version == version
                    expected.check(reader)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        with freshet.connect(tmp_path) as db:  # at once: the lock ended with the process
            assert db.version == 6
            expected.check(db)
    finally:
        writer.kill()
        writer.wait()
        for stream in (writer.stdin, writer.stdout):
            assert stream is not None
            stream.close()


def test_readers_refuse_changes(tmp_path: Path, expected: Expected) -> None:
    make(tmp_path, 3).close()
    files = {f.name: f.read_bytes() for f in tmp_path.iterdir()}
    with freshet.connect(tmp_path, read_only=True) as db:
        for change in (
            lambda: db.apply(step(4)),
            lambda: db.execute("INSERT INTO b VALUES ('a', 1)"),
            lambda: db.execute("CREATE TABLE more (a INT)"),
            lambda: db.execute("DROP VIEW v"),
            lambda: db.create_view("more", "SELECT s FROM t"),
        ):
            with pytest.raises(freshet.StateError, match="opened with read_only; connect without it"):
                change()
        assert db.execute("SELECT COUNT(*) AS n FROM t").to_pylist() == [{"n": 3}]
        expected.check(db)
    assert {f.name: f.read_bytes() for f in tmp_path.iterdir()} == files


def test_a_fork_has_no_right_to_the_folder(tmp_path: Path, expected: Expected) -> None:
    db = make(tmp_path, 3)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:  # no assertions here: the result is passed to the parent
        messages = []
        for change in (lambda: db.apply(step(4)), lambda: db.execute("DROP VIEW v"), db.close):
            try:
                change()
                messages.append("nothing")
            except freshet.StateError as e:
                messages.append(str(e))
        os.write(write, "\n".join(messages).encode())
        signal.pause()
    try:
        printed = os.read(read, 10_000).decode().split("\n")
        assert len(printed) == 3 and all("of which this one is a copy; connect again" in line for line in printed)
        with pytest.raises(freshet.StateError, match=f"by process {os.getpid()}"):
            freshet.connect(tmp_path)
        db.apply(step(4))
        expected.check(db)
        db.close()
        with freshet.connect(tmp_path) as db:  # though the child still lives
            assert db.version == 4
            expected.check(db)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(read)
        os.close(write)


def test_databases_are_not_pickled(tmp_path: Path) -> None:
    with make(tmp_path, 1) as db:
        for thing in (db, db.view("v")):
            with pytest.raises(freshet.StateError, match="cannot be pickled; send"):
                pickle.dumps(thing)


def test_a_folder_without_a_database_is_refused(tmp_path: Path, monkeypatch: Any) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    for read_only in (False, True):
        with pytest.raises(freshet.StateError, match="is a file, not a folder"):
            freshet.connect(file, read_only=read_only)
        with pytest.raises(freshet.StateError, match="contains a zero character"):
            freshet.connect(f"{tmp_path}/a\0b", read_only=read_only)
    with pytest.raises(freshet.StateError, match="there is no folder"):
        freshet.connect(tmp_path / "none", read_only=True)
    assert not (tmp_path / "none").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(freshet.StateError, match="is not a database"):
        freshet.connect(tmp_path / "empty", read_only=True)
    with pytest.raises(ValueError, match="give one of fsync, os, none"):
        freshet.connect(tmp_path / "empty", durability="some")
    with pytest.raises(ValueError, match="in memory cannot be opened read-only"):
        freshet.connect(read_only=True)
    real = os.open

    def refusing(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & (os.O_RDWR | os.O_WRONLY):
            raise PermissionError(13, "Permission denied", str(path))
        return real(path, flags, *args, **kwargs)

    make(tmp_path / "db", 2).close()
    monkeypatch.setattr(os, "open", refusing)
    with pytest.raises(freshet.StateError, match=r"cannot be written to \(Permission denied\); .*read_only=True"):
        freshet.connect(tmp_path / "db")
    with freshet.connect(tmp_path / "db", read_only=True) as db:
        assert db.version == 2
