"""The queries of the CROWN paper (appendix D) over one changing graph and one social network.

Random small graphs: few vertices, so paths meet, edges are inserted and deleted in any order, and there are parallel
edges. If FRESHET_DATA names a folder with real data, also sliding windows over these.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

import freshet
from benchmarks.papers.data import DAY, real_edges, real_folder, real_social_network, social_network
from benchmarks.papers.queries import CYCLES, GRAPH_DDL, SNB_DDL, graph_queries, snb_queries
from benchmarks.papers.sequences import time_window
from benchmarks.streams import Transaction, edge_window, in_transactions
from freshet.database.db import Database
from tests.oracle import RunningSum, duckdb_answer, same_bag
from tests.twin import Twin, TwinTable, complete_graph, drain, waves

#: Not free-connex: the ends of a path, without the middle.
ENDS = {"ends_distinct": "SELECT DISTINCT g1.src AS a, g2.dst AS b FROM g g1, g g2 WHERE g1.dst = g2.src"}


@pytest.mark.parametrize("seed", range(3))
def test_random_graph(seed: int) -> None:
    size = 5 + 2 * seed
    vertices = pa.table({"v": pa.array(range(size), pa.int64())})
    db = freshet.connect()
    db.execute(GRAPH_DDL)
    tables = [TwinTable("g", complete_graph(size)), TwinTable("v1", vertices), TwinTable("v2", vertices, ("v",))]
    twin = Twin(db, tables, graph_queries(3) | ENDS)
    waves(twin, np.random.default_rng(seed), 30, first=8, pace={"v1": 3, "v2": 3})
    for name, sizes in twin.sizes.items():
        assert np.mean(np.array(sizes) > 0) > 0.5, f"{name} was mostly empty"
    drain(twin)
    assert all(view.count() == 0 for view in twin.views.values())


@pytest.mark.parametrize("seed", range(2))
def test_random_social_network(seed: int) -> None:
    timed = social_network(8 + 4 * seed)
    keys = {"person": 1, "knows": 2, "message": 1, "message_tag": 2, "tag": 1}
    tables = [TwinTable(n, t.rows, tuple(t.rows.column_names[: keys[n]])) for n, t in timed.items()]
    db = freshet.connect()
    db.execute(SNB_DDL)
    twin = Twin(db, tables, snb_queries(2))
    waves(twin, np.random.default_rng(seed), 40, first=20, pace={"message": 9, "message_tag": 15})
    for name, sizes in twin.sizes.items():
        assert np.mean(np.array(sizes) > 0) > 0.5, f"{name} was mostly empty"
    drain(twin)
    assert all(view.count() == 0 for view in twin.views.values())


def test_distinct_projections_stand_in_the_tree_itself() -> None:
    db = freshet.connect()
    db.execute(GRAPH_DDL)
    for name in ("three_hop_distinct", "four_hop_distinct"):
        assert "by the tree itself" in db.create_view(name, graph_queries()[name]).explain()
    assert "by counting rows" in db.create_view("ends_distinct", ENDS["ends_distinct"]).explain()


def followed(
    db: Database, queries: Mapping[str, str], tables: Sequence[str], stream: list[Transaction], every: int
) -> Iterator[int]:
    """Applies the transactions and compares answers and sums of deltas with DuckDB's now and then; yields the rows of
    the answers each time."""
    views = {name: db.create_view(name, sql) for name, sql in queries.items()}
    sums = {name: RunningSum(view.to_arrow()) for name, view in views.items()}
    for step, changes in enumerate(stream):
        tx = db.apply(changes)
        for name, total in sums.items():
            total.add(tx.deltas[name])
        if step % every == every - 1 or step == len(stream) - 1:
            held = {name: db.execute(f"SELECT * FROM {name}") for name in tables}
            rows = 0
            for name, view in views.items():
                answer = view.to_arrow()
                same_bag(answer, duckdb_answer(queries[name], held))
                sums[name].equals(answer)
                assert view.count() == answer.num_rows
                rows += answer.num_rows
            yield rows


def test_sliding_window_over_a_real_graph() -> None:
    """A window over part of a graph of votes: thousands of edges, hubs included; compared a few times on the way."""
    folder = real_folder()
    if folder is None:
        pytest.skip("FRESHET_DATA is not set; it names a folder with graph/wiki-Vote.txt.gz")
    edges = real_edges(folder)[:12_000]
    db = freshet.connect()
    db.execute(GRAPH_DDL)
    db.apply({"v1": pa.table({"v": np.unique(edges)[::50]}), "v2": pa.table({"v": np.unique(edges)[1::50]})})
    wanted = graph_queries(4) | ENDS | CYCLES
    for name in ("star", "dumbbell"):  # a hub's star has 10¹¹ rows for DuckDB to count
        del wanted[name]
    sizes = list(
        followed(db, wanted, ("g", "v1", "v2"), list(in_transactions(edge_window(edges, 1_200), "g", 1_500)), 5)
    )
    assert max(sizes) > 3_000 and sizes[-1] == 0


@pytest.mark.parametrize("real", [False, True], ids=["made", "real"])
def test_sliding_window_over_a_social_network(real: bool) -> None:
    """Rows live for some days; compared a few times on the way."""
    folder, timed = real_folder(), social_network(60)
    if real:
        if folder is None:
            pytest.skip("FRESHET_DATA is not set; it names a folder with snb/*.csv.gz")
        timed = real_social_network(folder)
    db = freshet.connect()
    db.execute(SNB_DDL)
    stream = time_window(timed, 100 * DAY)
    sizes = list(followed(db, snb_queries(4), tuple(timed), list(stream.transactions(len(stream) // 20 + 1)), 5))
    assert max(sizes) > 200 and sizes[-1] == 0
