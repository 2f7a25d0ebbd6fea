"""The twins have DuckDB's answer after every transaction, and the cost that the papers state."""

from __future__ import annotations

import pytest

from benchmarks.agreement import differing_rows
from benchmarks.papers.data import DAY, social_network
from benchmarks.papers.figures.crown_queries import graph_moves, opened
from benchmarks.papers.harness import SIZES, work
from benchmarks.papers.queries import GRAPH_DDL, SNB_DDL, graph_queries, snb_queries
from benchmarks.papers.sequences import time_window
from benchmarks.papers.twins import FRESHET, INTERMEDIATE, PROPAGATION, keep_as

MOVES = {"graph": graph_moves(SIZES["tiny"]), "network": time_window(social_network(15), 60 * DAY)}
QUERIES = {name: (GRAPH_DDL, sql, "graph") for name, sql in graph_queries().items()}
QUERIES |= {name: (SNB_DDL, sql, "network") for name, sql in snb_queries().items()}


@pytest.mark.parametrize("way", [PROPAGATION, INTERMEDIATE])
@pytest.mark.parametrize("name", QUERIES)
def test_answers_are_duckdbs(name: str, way: str) -> None:
    ddl, sql, of = QUERIES[name]
    moves = MOVES[of]
    db, view = opened(ddl, name, sql)
    keep_as(view, way)
    steps, at = len(moves) // 3, 0
    for transaction in moves.transactions(steps // 4, 0, steps):
        db.apply(transaction)
        at = min(at + steps // 4, steps)
        assert differing_rows(view.to_arrow(), sql, moves.held(at)) == 0


def test_intermediate_views_are_larger_than_tables() -> None:
    costs = {}
    for way in (FRESHET, PROPAGATION, INTERMEDIATE):
        db, view = opened(GRAPH_DDL, "paths", graph_queries()["four_hop"])
        keep_as(view, way)
        for transaction in MOVES["graph"].transactions(100, 0, 700):
            db.apply(transaction)
        costs[way] = db.nbytes(), work(view).steps
    assert costs[INTERMEDIATE][0] > 2 * costs[FRESHET][0]
    assert min(costs[INTERMEDIATE][1], costs[PROPAGATION][1]) > 3 * costs[FRESHET][1]
