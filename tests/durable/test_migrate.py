"""A folder of the version before there was a log, made by that version (format2.tar.gz)."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import freshet
from tests.durable.test_on_disk import DDL, VIEWS, agrees, transaction
from tests.oracle import RunningSum, same_bag

KEPT = {name: sql for name, sql in VIEWS.items() if name != "kinds"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(Path(__file__).with_name("format2.tar.gz")) as packed:
        packed.extractall(tmp_path / "db", filter="data")
    return tmp_path / "db"


def test_a_closed_folder_is_migrated(folder: Path) -> None:
    twin = freshet.connect()
    twin.execute(DDL)
    for name, sql in VIEWS.items():
        twin.create_view(name, sql)
    for step in range(3):
        twin.apply(transaction(step))
    with freshet.connect(folder) as db:
        assert db.version == 4 and list(db.views) == list(KEPT)
        rows = {"s": ["ä€"] * 3 + [None], "n": pa.array([None] * 3 + [7], pa.int32())}
        same_bag(db.execute("SELECT s, n FROM b"), pa.table(rows))
        for name in KEPT:
            same_bag(db.view(name).to_arrow(), twin.view(name).to_arrow())
    assert sorted(f.name for f in folder.iterdir()) == ["checkpoint", "lock", "log"]
    with freshet.connect(folder) as db:
        db.create_view("kinds", VIEWS["kinds"])
        sums = {name: RunningSum(db.view(name).to_arrow()) for name in VIEWS}
        tx = db.apply(transaction(3))
        for name, total in sums.items():
            total.add(tx.deltas[name])
        agrees(db, sums)


def test_one_that_was_not_closed_is_refused(folder: Path) -> None:
    (folder / "in-use").touch()
    for read_only in (False, True):
        with pytest.raises(freshet.StateError, match="was not closed; close it with that version"):
            freshet.connect(folder, read_only=read_only)
    (folder / "in-use").unlink()
    with pytest.raises(freshet.StateError, match="open it once without read_only"):
        freshet.connect(folder, read_only=True)
    with freshet.connect(folder) as db:
        assert db.version == 4


def test_other_formats_and_lost_files(folder: Path) -> None:
    catalog = folder / "catalog.json"
    kept = json.loads(catalog.read_text())
    catalog.write_text(json.dumps(kept | {"format": 1}))
    with pytest.raises(freshet.StateError, match="another format"):
        freshet.connect(folder)
    catalog.write_text(json.dumps(kept))
    lost = next((folder / "state").glob("table*lanes.bin"))
    content = lost.read_bytes()
    lost.write_bytes(content[:-3])
    with pytest.raises(freshet.StateError, match="is torn"):
        freshet.connect(folder)
    lost.unlink()
    with pytest.raises(freshet.StateError, match="is missing"):
        freshet.connect(folder)
    lost.write_bytes(content)
    for file in (catalog, folder / "state" / "arena.json"):
        content = file.read_bytes()
        file.unlink()
        with pytest.raises(freshet.StateError, match="restore it from a copy"):
            freshet.connect(folder)
        file.write_bytes(content)
    (folder / "state" / "mine.txt").write_text("not Freshet's")
    with freshet.connect(folder) as db:
        assert db.version == 4
    assert [f.name for f in (folder / "state").iterdir()] == ["mine.txt"]


def test_folders_with_other_things(tmp_path: Path) -> None:
    """Files of other programs stay."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "mine.bin").write_text("not Freshet's")
    (tmp_path / "catalog.json").write_text("[1]")
    freshet.connect(tmp_path).close()
    freshet.connect(tmp_path).close()
    assert (tmp_path / "state" / "mine.bin").exists() and (tmp_path / "catalog.json").exists()


def test_interrupted_in_between(folder: Path, monkeypatch: Any) -> None:
    """The old form is there until the new one is."""
    for place in ("freshet.durable.log.Log.append", "freshet.durable.migrate.clear"):
        with monkeypatch.context() as patched:
            patched.setattr(place, _interrupt)
            with pytest.raises(KeyboardInterrupt):
                freshet.connect(folder)
    with freshet.connect(folder) as db:
        assert db.version == 4 and list(db.views) == list(KEPT)
    assert not (folder / "state").exists()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt
