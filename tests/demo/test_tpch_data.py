"""The TPC-H schema restricted to the columns of a query, and the comparison that the demo and the benchmark rely on."""

from __future__ import annotations

import pyarrow as pa

from benchmarks import tpch
from benchmarks.agreement import differing_rows


def test_schema_matches_the_generated_tables(tiny_tpch: dict[str, pa.Table]) -> None:
    statements = tpch.ddl()
    assert len(statements) == len(tpch.TABLES)
    for name, statement in zip(tpch.TABLES, statements, strict=True):
        declared = [line.split()[0] for line in statement.splitlines()[1:-1]]
        assert [c for c in declared if c not in ("PRIMARY", "FOREIGN")] == tiny_tpch[name].column_names


def test_schema_of_one_query() -> None:
    q4 = tpch.QUERIES["q4"]
    orders, lineitem = tpch.ddl(tpch.tables_of(q4), tpch.columns_of(q4))
    assert orders.splitlines() == [
        "CREATE TABLE orders (",
        "    o_orderkey BIGINT PRIMARY KEY,",
        "    o_orderdate DATE,",
        "    o_orderpriority STRING",
        ")",
    ]
    assert "l_linenumber" in lineitem  # not read by the query, but part of the key
    assert "REFERENCES orders" in lineitem
    assert "REFERENCES part" not in lineitem


def test_agreement_counts_rows_too_many_and_too_few() -> None:
    tables = {"t": pa.table({"a": [1, 1, 2, None]})}
    assert differing_rows(pa.table({"a": [None, 2, 1, 1]}), "SELECT a FROM t", tables) == 0
    assert differing_rows(pa.table({"a": [None, 2, 1]}), "SELECT a FROM t", tables) == 1
    assert differing_rows(pa.table({"a": [None, 2, 1, 3]}), "SELECT a FROM t", tables) == 2
