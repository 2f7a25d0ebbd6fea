"""The cost of order: a top-k emits a few rows whatever n is; window functions are computed for touched partitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import freshet
from freshet.database.db import inside
from freshet.engine.top_k import TopKOperator
from freshet.engine.window import WindowOperator
from freshet.state.ranked import Ranked

SIZES = (1_000, 16_000)


def filled(sql: str, rows: int, groups: int) -> freshet.Database:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, g INT, v INT)")
    db.create_view("v", sql)
    keys = np.arange(rows)
    db.apply({"t": [{"k": int(k), "g": int(k % groups), "v": int(k * 7919 % rows)} for k in keys]})
    return db


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT k, v FROM t ORDER BY v DESC, k LIMIT 10",
        "SELECT k, v FROM t ORDER BY v, k LIMIT 10 OFFSET 500",
        "SELECT k, g, v FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY g ORDER BY v DESC, k) <= 3",
    ],
)
def test_a_change_of_a_top_k_emits_at_most_two_rows(sql: str) -> None:
    for rows in SIZES:
        db = filled(sql, rows, 10)
        for value in (-1, rows // 2, rows + 1):
            delta = db.apply({"t": [{"k": rows, "g": 3, "v": value}]}).deltas["v"]
            assert delta.num_rows <= 2
            db.execute(f"DELETE FROM t WHERE k = {rows}")
        kept = inside(db.view("v")).operator
        assert isinstance(kept, TopKOperator)
        assert depth(kept.ranked) < 4 * math.log2(rows)


def depth(ranked: Ranked) -> int:
    """The longest way down any tree; a node's first two 32-bit numbers are its children."""
    links = ranked.nodes.data.view(np.int32)
    deepest, level = 0, [int(r) for r in ranked.roots.data if r]
    while level:
        deepest += 1
        level = [int(links[n, side]) for n in level for side in (0, 1) if links[n, side]]
    return deepest


def test_windows_are_computed_for_touched_partitions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []
    whole = WindowOperator._with_values

    def counted(self: WindowOperator, lanes: Any, owners: Any) -> Any:
        computed.append(len(lanes))
        return whole(self, lanes, owners)

    by_group = "OVER (PARTITION BY g ORDER BY"
    sql = f"SELECT k, g, SUM(v) {by_group} v, k) AS s, LAG(v) {by_group} k) AS p FROM t"
    for groups in (10, 100):
        db = filled(sql, 1_000, groups)
        monkeypatch.setattr(WindowOperator, "_with_values", counted)
        computed.clear()
        db.apply({"t": [{"k": 5_000, "g": 3, "v": 4}]})
        monkeypatch.undo()
        size = 1_000 // groups
        assert sum(computed) <= 2 * (2 * size + 1), "two windows, each before and after"
