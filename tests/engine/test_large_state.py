"""Views over more rows than the limit from which kernels prefetch (state/kernel, FAR), compared with DuckDB. The small
random tables of other tests never reach it.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

import freshet
from freshet.state.kernel import FAR
from tests.twin import Twin, TwinTable, drain

ROWS = FAR + 4_000
#: Keys are spread so that few rows join: answers stay small although the state is large.
KEYS = 8 * ROWS

DDL = (
    "CREATE TABLE a (id BIGINT PRIMARY KEY, k BIGINT, word STRING, n BIGINT);"
    " CREATE TABLE b (k BIGINT, word STRING, n BIGINT); CREATE TABLE c (k BIGINT, n BIGINT)"
)
QUERIES = {
    "chain": "SELECT a.id, b.n, c.n AS m FROM a, b, c WHERE a.k = b.k AND b.k = c.k",
    "shown in part": "SELECT DISTINCT a.n FROM a, b, c WHERE a.k = b.k AND a.id = c.k",
    "compared": "SELECT a.id, b.n FROM a, b WHERE a.k = b.k AND a.n < b.n",
    "compared twice": "SELECT a.id, b.n, c.n AS m FROM a, b, c"
    " WHERE a.k = b.k AND a.n < b.n AND b.k = c.k AND b.n <> c.n",
    "texts": "SELECT a.word, COUNT(*) AS many, SUM(b.n) AS total FROM a JOIN b ON a.word = b.word GROUP BY a.word",
    "missing": "SELECT a.n % 100 AS part, COUNT(b.n) AS many, MAX(c.n) AS most FROM a LEFT JOIN b ON a.k = b.k"
    " LEFT JOIN c ON a.k = c.k GROUP BY a.n % 100",
    "none": "SELECT COUNT(*) AS many FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.n > a.n)",
}


def table(rng: np.random.Generator, count: int, columns: str) -> pa.Table:
    drawn = {
        "id": rng.permutation(count),
        "k": pa.array(rng.integers(0, KEYS, count), mask=rng.random(count) < 0.01),
        "word": pa.array([f"{i:020}" for i in rng.integers(0, 30 * count, count)]),
        "n": rng.integers(0, 1_000, count),
    }
    return pa.table({c: drawn[c] for c in columns.split()})


def test_answers_and_deltas() -> None:
    rng = np.random.default_rng(3)
    db = freshet.connect()
    db.execute(DDL)
    known = {"a": "id k word n", "b": "k word n", "c": "k n"}
    tables = [TwinTable(name, table(rng, ROWS, columns), ("id",) * (name == "a")) for name, columns in known.items()]
    twin = Twin(db, tables, QUERIES)
    everything = np.arange(ROWS)
    twin.move({t.name: (everything, np.ones(ROWS, np.int64)) for t in tables})
    for _ in range(3):
        moves = {}
        for t in tables:
            gone, back = rng.permutation(t.inside())[:500], rng.permutation(t.outside())[:300]
            moves[t.name] = np.concatenate([gone, back]), np.repeat([-1, 1], [len(gone), len(back)])
        twin.move(moves)
    assert all(min(sizes[1:]) > 0 for sizes in twin.sizes.values())
    drain(twin)
