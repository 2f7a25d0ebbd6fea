"""Constant delay, counted: the operations between two consecutive results do not grow with the data.

Loop turns and calls of the enumeration kernel are counted between one result and the next (tests/counted.py), for whole
answers and for deltas, over data that grows a hundredfold: graphs with hubs and many dead ends, values that repeat.
Operations before the first result count too, except for reading which of the root's tuples are alive: one byte each, a
million at a time.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest

import freshet
from benchmarks.papers.data import inequality_tables, social_network
from benchmarks.papers.queries import (
    GRAPH_DDL,
    INEQUALITIES,
    INEQUALITY_DDL,
    SNB_DDL,
    graph_queries,
    snb_queries,
)
from benchmarks.streams import skewed_edges
from freshet.database.db import Database
from tests.counted import Delays

SIZES = (300, 30_000)
RESULTS = 3_000  # looked at; a hundredfold of data has more than anyone would wait for
Tables = dict[str, pa.Table]


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> Delays:
    return Delays(monkeypatch)


def graph(size: int) -> Tables:
    edges, vertices = skewed_edges(size // 5, size), np.arange(size // 5)
    return {
        "g": pa.table({"src": edges[:, 0], "dst": edges[:, 1]}),
        "v1": pa.table({"v": vertices[::4]}),
        "v2": pa.table({"v": vertices[1::3]}),
    }


def network(size: int) -> Tables:
    return {name: timed.rows for name, timed in social_network(size // 20).items()}


def numbers(size: int) -> Tables:
    return inequality_tables(size // 3, size // 30, spread=max(size // 10, 50))


UNEQUAL = "SELECT r.a, s.d, t.g FROM r, s, t WHERE r.k = s.k AND r.a <> s.d AND s.e <> t.g"
FREE_CONNEX = {
    **{name: (GRAPH_DDL, graph, graph_queries()[name]) for name in graph_queries() if name != "star"},
    **{name: (SNB_DDL, network, snb_queries()[name]) for name in ("snb_1", "snb_2", "snb_3")},
    **{f"q{i}": (INEQUALITY_DDL, numbers, INEQUALITIES[f"q{i}"]) for i in range(1, 10)},
    "unequal pairs": (INEQUALITY_DDL, numbers, "SELECT r.a, s.d FROM r, s WHERE r.k = s.k AND r.a <> s.d"),
    "unequal": (INEQUALITY_DDL, numbers, UNEQUAL),
}
#: Queries in which tuples that compare with others are counted, in O(log n).
COUNTED = {"q9"}


def filled(name: str, size: int) -> Database:
    ddl, make, sql = FREE_CONNEX[name]
    db = freshet.connect()
    db.execute(ddl)
    view = db.create_view("v", sql)
    delay = "O(log n) for each tuple whose partners are counted" if name in COUNTED else "constant"
    assert f"delay      {delay}" in view.explain()
    read = {t.lower() for t in ddl.replace("(", " ").split()}
    db.apply({t: rows for t, rows in make(size).items() if t in read}, deltas=False)
    return db


@pytest.mark.parametrize("name", FREE_CONNEX)
def test_answers(name: str, delays: Delays) -> None:
    most = []
    for size in SIZES:
        view = filled(name, size).view("v")
        delays.reset()
        for _ in view.batches(512):
            if delays.results > RESULTS:
                break
        assert delays.results > 100
        most.append(delays.most)
    growth = math.log(SIZES[1]) / math.log(SIZES[0]) if name in COUNTED else 1
    assert most[1] <= 1.1 * growth * most[0], most
    described = json.loads(view.explain("json"))
    assert most[1] < 10 * growth * (1 + len(described["tree"])), "a few steps for each node of the tree"


def single_changes(db: Database, table: str, count: int) -> Iterator[pa.Table]:
    """Rows of a table, drawn at random, taken away and brought back one by one."""
    rows = db.execute(f"SELECT * FROM {table}")
    for place in np.random.default_rng(5).permutation(rows.num_rows)[:count].tolist():
        for weight in (-1, 1):
            yield rows.slice(place, 1).append_column("_weight", pa.array([weight]))


CHANGED = {
    "three_hop": "g",
    "four_hop_distinct": "g",
    "q2": "r",
    "q5": "r",
    "unequal pairs": "s",
    "snb_3": "knows",
}


@pytest.mark.parametrize(("name", "table"), CHANGED.items())
def test_deltas(name: str, table: str, delays: Delays) -> None:
    """Of single changes, from the change to its first result and from each to the next."""
    most = []
    for size in SIZES:
        db = filled(name, size)
        delays.reset()
        for change in single_changes(db, table, 25):
            db.apply({table: change})
        assert delays.results > 20
        most.append(delays.most)
    assert most[1] <= 1.1 * most[0], most


def test_dead_ends_would_be_counted(delays: Delays) -> None:
    """A thousand changes in one transaction without a result: the loop over them is counted."""
    db = freshet.connect()
    db.execute(GRAPH_DDL)
    db.create_view("v", graph_queries()["three_hop"])
    ends = np.arange(10, 1_010)
    db.apply({"g": pa.table({"src": ends, "dst": ends + 10_000})})
    assert delays.results == 0 and delays.most > 900
