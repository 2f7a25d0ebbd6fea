"""The counted cost of an edge with a comparison: the tuples that an update flips, and a path down a balanced tree.
Whether a tuple finds support depends only on the extreme value on the other side. So a value that is not extreme flips
no tuple, however many it is compared with, and an extreme one flips exactly those between the old extreme and the new.
"""

from __future__ import annotations

import json
import math

import numpy as np
import pyarrow as pa
import pytest

import freshet
from freshet.database.db import Database, inside
from freshet.engine.query import Select
from freshet.state.comparison import CHILDREN, ENDS_COLUMNS, LIVES, PARENTS
from freshet.state.rows import Rows

SIZES = (1_000, 16_000)
DDL = "CREATE TABLE low (k INT, v BIGINT, n BIGINT); CREATE TABLE high (k INT, w BIGINT)"
COMPARED = {
    "<": "SELECT low.n, high.w FROM low JOIN high ON low.k = high.k AND low.v < high.w",
    "offset": "SELECT low.n, high.w FROM low JOIN high ON low.k = high.k AND low.v + 1 <= high.w",
    "turned": "SELECT low.n, high.w FROM low JOIN high ON low.k = high.k AND -high.w < -low.v",
    "no key": "SELECT low.n, high.w FROM low JOIN high ON low.v < high.w",
    "exists": "SELECT low.n FROM low WHERE EXISTS (SELECT 1 FROM high WHERE high.k = low.k AND low.v < high.w)",
    "not exists": "SELECT low.n FROM low WHERE NOT EXISTS (SELECT 1 FROM high WHERE high.k = low.k AND low.v < high.w)",
    "two of them": "SELECT low.n, high.w FROM low JOIN high ON low.k = high.k AND low.v < high.w AND high.w < low.n",
}


def filled(sql: str, rows: int) -> Database:
    """Values 0, 2, 4, ... below, and above them two in the middle."""
    db = freshet.connect()
    db.execute(DDL)
    db.create_view("v", sql)
    low = np.random.default_rng(rows).permutation(2 * np.arange(rows))
    db.apply({"low": pa.table({"k": 0 * low, "v": low, "n": low})}, deltas=False)
    change(db, "high", rows, 1)
    change(db, "high", rows - 1, 1)
    return db


def change(db: Database, table: str, value: int, weight: int) -> int:
    """The counters that one tuple's coming or going changes."""
    before = counters(db)
    row = {"k": 0, "w": value} if table == "high" else {"k": 0, "v": value, "n": value}
    db.apply({table: [{**row, "_weight": weight}]}, deltas=False)
    return counters(db) - before


def counters(db: Database) -> int:
    return int(json.loads(db.view("v").explain("json"))["work"]["counters changed"])


@pytest.mark.parametrize("sql", COMPARED.values(), ids=list(COMPARED))
def test_an_update_flips_what_lies_between_extremes(sql: str) -> None:
    for rows in SIZES:
        db = filled(sql, rows)
        for value in (-5, 0, rows // 2, rows - 1, rows):
            assert change(db, "high", value, 1) == 0, "half of the tuples compare with it, and none is flipped"
        assert change(db, "high", rows + 20, 1) == 10
        assert change(db, "high", rows + 10, 1) == 0
        assert change(db, "high", rows + 20, -1) == 5
        assert change(db, "high", rows + 10, -1) == 5
        for value in (rows, rows - 1, rows // 2, 0, -5):
            assert change(db, "high", value, -1) == 0
        for value in (rows + 1, rows // 2 + 1):
            assert change(db, "low", value, 1) <= 1
            assert change(db, "low", value, -1) <= 1


@pytest.mark.parametrize("sql", COMPARED.values(), ids=list(COMPARED))
def test_the_way_to_a_place_is_logarithmic(sql: str) -> None:
    for rows in SIZES:
        kept = inside(filled(sql, rows).view("v")).operator
        assert isinstance(kept, Select) and kept.join is not None
        (order,) = kept.join.ordered.values()
        ends = order.ends.data.reshape(-1, ENDS_COLUMNS)
        deepest = [
            depth(ends[:, at], sides.data)
            for at, sides in ((CHILDREN, order.child_sides), (PARENTS, order.parent_sides), (LIVES, order.live_sides))
        ]
        assert max(deepest) > math.log2(rows) / 2, "one of the chains holds the rows"
        assert max(deepest) < 4 * math.log2(rows)


def depth(roots: np.ndarray, sides: np.ndarray) -> int:
    """The longest way down any of the trees over slots."""
    deepest, level = 0, [int(r) for r in roots if r]
    while level:
        deepest += 1
        level = [int(below) for node in level for below in sides.reshape(-1, 2)[node - 1] if below]
    return deepest


BANDS = {
    "above": "low.v < high.w AND high.w <= low.v + 20",
    "below": "high.w - 20 <= low.v AND low.v < high.w",
    "turned": "low.v > high.w AND low.v < high.w + 20",
    "both offset": "low.v + 3 <= high.w + 1 AND high.w + 1 < low.v + 23",
}


@pytest.mark.parametrize("condition", BANDS.values(), ids=list(BANDS))
def test_a_range_is_entered_at_its_end(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ends of a range are bounded: whichever side a tuple is inserted on, only its partners are enumerated."""
    checked: list[int] = []
    plain = Select._checked

    def counting(self: Select, rows: Rows) -> object:
        checked.append(len(rows))
        return plain(self, rows)

    monkeypatch.setattr(Select, "_checked", counting)
    for rows in SIZES:
        db = freshet.connect()
        db.execute(DDL)
        view = db.create_view("v", f"SELECT low.n, high.w FROM low JOIN high ON low.k = high.k AND {condition}")
        assert "no further than" in view.explain() and "delay      O(log n)" in view.explain()
        values = np.arange(0, 10 * rows, 10)
        db.apply({"low": pa.table({"k": 0 * values, "v": values, "n": values})}, deltas=False)
        db.apply({"high": pa.table({"k": 0 * values, "w": values})}, deltas=False)
        for table, name in (("low", "v"), ("high", "w")):
            for value in (5, 5 * rows + 5, 10 * rows - 5):
                for weight in (1, -1):
                    checked.clear()
                    row = {"k": 0, name: value, "_weight": weight, **({"n": value} if table == "low" else {})}
                    emitted = db.apply({table: [row]}).deltas["v"].num_rows
                    assert sum(checked) == emitted <= 2
