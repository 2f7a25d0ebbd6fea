"""Folders whose views an earlier version planned wrongly (wrong_plans.tar.gz, made by that version, once closed and
once killed): they are planned again when the folder is opened."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest

import freshet

VIEWS = ["first", "paired", "above", "last"]
CHANGE = {"s": [{"k": 1, "c": 5, "d": 5, "_weight": -1}, {"k": 1, "c": 10, "d": -1}]}


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_they_are_planned_again(tmp_path: Path, end: str) -> None:
    with tarfile.open(Path(__file__).with_name("wrong_plans.tar.gz")) as packed:
        packed.extractall(tmp_path, filter="data")
    with freshet.connect(tmp_path / end, read_only=True) as db:
        assert db.view("paired").to_dicts() == [{"a": 0}]
    for _ in range(2):
        with freshet.connect(tmp_path / end) as db:
            assert list(db.views) == VIEWS
            assert db.view("paired").to_dicts() == [{"a": 0}]
            assert db.view("above").to_dicts() == [{"a": 0, "n": 1}]
            assert db.view("last").to_dicts() == [{"c": 5}]
    with freshet.connect(tmp_path / end) as db:
        changes = {"s": [{"_weight": 1, **row} for row in CHANGE["s"]]}
        assert sorted(map(str, db.apply(changes).deltas["paired"].to_pylist())) == [
            "{'a': 0, '_weight': 1}",
            "{'a': 9, '_weight': 1}",
        ]
        assert sorted(row["a"] for row in db.view("paired").to_dicts()) == [0, 0, 9]
