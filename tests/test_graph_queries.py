"""The graph queries of the CROWN paper (appendix D) over one changing graph, all kept by one database.

Random small graphs: few vertices, so paths meet, edges come and go in any order and parallel edges exist. Where
FRESHET_DATA names a folder with graph/wiki-Vote.txt.gz, also a sliding window over a real graph.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import freshet
from benchmarks.streams import edge_window, in_transactions
from tests.oracle import RunningSum, duckdb_answer, same_bag
from tests.twin import Twin, TwinTable

THREE = "FROM g g1, g g2, g g3 WHERE g1.dst = g2.src AND g2.dst = g3.src"
FOUR = "FROM g g1, g g2, g g3, g g4 WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g4.src"
QUERIES = {
    "three_hop": f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d {THREE} AND g3.dst % 3 = 0",
    "four_hop": f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d, g4.dst AS e {FOUR} AND g4.dst % 4 = 0",
    "three_hop_project": f"SELECT g2.src AS b, g3.src AS c {THREE}",
    "three_hop_distinct": f"SELECT DISTINCT g2.src AS b, g3.src AS c {THREE}",
    "four_hop_project": f"SELECT g2.src AS b, g3.src AS c, g3.dst AS d {FOUR} AND g4.dst % 4 <> 0",
    "four_hop_distinct": f"SELECT DISTINCT g2.src AS b, g3.src AS c, g3.dst AS d {FOUR} AND g4.dst % 4 <> 0",
    "two_comb": f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d {THREE.replace('WHERE', ', v1, v2 WHERE')}"
    " AND v1.v = g1.src AND v2.v = g3.dst",
    "star": "SELECT g1.src, COUNT(*) AS n FROM g g1, g g2, g g3, g g4"
    " WHERE g1.src = g2.src AND g1.src = g3.src AND g1.src = g4.src GROUP BY g1.src",
}
#: Not free-connex: the ends of a path, without the middle.
ENDS = {"ends_distinct": "SELECT DISTINCT g1.src AS a, g2.dst AS b FROM g g1, g g2 WHERE g1.dst = g2.src"}
DDL = "CREATE TABLE g (src BIGINT, dst BIGINT); CREATE TABLE v1 (v BIGINT); CREATE TABLE v2 (v BIGINT PRIMARY KEY)"


def vertices(count: int) -> pa.Table:
    return pa.table({"v": pa.array(range(count), pa.int64())})


@pytest.mark.parametrize("seed", range(3))
def test_random_graph(seed: int) -> None:
    rng, size = np.random.default_rng(seed), 5 + 2 * seed
    ends = np.stack(np.meshgrid(np.arange(size), np.arange(size)), axis=-1).reshape(-1, 2)
    edges = TwinTable("g", pa.table({"src": ends[:, 0], "dst": ends[:, 1]}))
    db = freshet.connect()
    db.execute(DDL)
    tables = [edges, TwinTable("v1", vertices(size)), TwinTable("v2", vertices(size), ("v",))]
    twin = Twin(db, tables, QUERIES | ENDS)
    for step in range(30):
        rise = step < 8 or (step // 4) % 2 == 0  # waves: the graph grows thick and thin again
        moves = {}
        for table in twin.tables.values():
            inside, outside = rng.permutation(table.inside()), rng.permutation(table.outside())
            few, many = (2, 5) if table is edges else (2, 3)
            come, gone = (
                outside[: rng.integers(0, many if rise else 2)],
                inside[: rng.integers(0, few if rise else many)],
            )
            weights = [np.ones(len(come), np.int64), np.full(len(gone), -1)]
            if not table.key:
                weights[0] = rng.choice([1, 1, 1, 2], len(come))  # a bag may hold a row twice
                weights[1] = -rng.integers(1, table.held[gone] + 1)
            moves[table.name] = (np.concatenate([come, gone]), np.concatenate(weights))
        twin.move(moves)
    for name, sizes in twin.sizes.items():
        assert np.mean(np.array(sizes) > 0) > 0.5, f"{name} was mostly empty"
    for table in twin.tables.values():
        inside = table.inside()
        twin.move({table.name: (inside, -table.held[inside])})
    assert all(view.count() == 0 for view in twin.views.values())


def test_distinct_projections_stand_in_the_tree_itself() -> None:
    db = freshet.connect()
    db.execute(DDL)
    for name in ("three_hop_distinct", "four_hop_distinct"):
        assert "by the tree itself" in db.create_view(name, QUERIES[name]).explain()
    assert "by counting rows" in db.create_view("ends_distinct", ENDS["ends_distinct"]).explain()


def real_edges() -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
    folder = os.environ.get("FRESHET_DATA")
    if not folder:
        pytest.skip("FRESHET_DATA is not set; it names a folder with graph/wiki-Vote.txt.gz")
    with gzip.open(Path(folder) / "graph" / "wiki-Vote.txt.gz", "rt") as lines:
        return np.loadtxt(lines, np.int64, comments="#")


def test_sliding_window_over_a_real_graph() -> None:
    """A window over part of a graph of votes: thousands of edges, hubs included; compared a few times on the way."""
    edges = real_edges()[:12_000]
    db = freshet.connect()
    db.execute(DDL)
    wanted = {name: sql for name, sql in (QUERIES | ENDS).items() if name != "star"}  # a hub's star has 10¹¹ rows
    db.apply({"v1": pa.table({"v": np.unique(edges)[::50]}), "v2": pa.table({"v": np.unique(edges)[1::50]})})
    views = {name: db.create_view(name, sql) for name, sql in wanted.items()}
    sums = {name: RunningSum(view.to_arrow()) for name, view in views.items()}
    stream = list(in_transactions(edge_window(edges, 1_200), "g", 1_500))
    window = pa.table({"src": edges[:0, 0], "dst": edges[:0, 1]})
    for step, changes in enumerate(stream):
        tx = db.apply(changes)
        for name, total in sums.items():
            total.add(tx.deltas[name])
        if step % 5 == 4 or step == len(stream) - 1:
            moved = pa.concat_tables(c["g"] for c in stream[: step + 1])
            window = duckdb_answer(
                "SELECT src, dst FROM moved GROUP BY src, dst HAVING SUM(_weight) > 0", {"moved": moved}
            )
            others = {n: db.execute(f"SELECT v FROM {n}") for n in ("v1", "v2")}
            for name, view in views.items():
                answer = view.to_arrow()
                same_bag(answer, duckdb_answer(wanted[name], {"g": window, **others}))
                sums[name].equals(answer)
                assert view.count() == answer.num_rows
    assert window.num_rows == 0 and all(view.count() == 0 for view in views.values())
