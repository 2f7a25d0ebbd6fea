"""The TPC-H queries, as DuckDB publishes them, bind."""

from __future__ import annotations

from pathlib import Path

import pytest

from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query
from tests.sql.described import bind_select, described

duckdb = pytest.importorskip("duckdb")
extension = pytest.importorskip("duckdb_extension_tpch")


@pytest.fixture(scope="module")
def queries() -> dict[int, str]:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    (path,) = Path(extension.__file__).parent.rglob("tpch.duckdb_extension")
    connection.execute(f"LOAD '{path}'")
    return dict(connection.execute("FROM tpch_queries()").fetchall())


DDL = """
CREATE TABLE region (r_regionkey INT PRIMARY KEY, r_name VARCHAR(25) NOT NULL, r_comment VARCHAR(152));
CREATE TABLE nation (n_nationkey INT PRIMARY KEY, n_name VARCHAR(25) NOT NULL,
    n_regionkey INT NOT NULL REFERENCES region (r_regionkey), n_comment VARCHAR(152));
CREATE TABLE supplier (s_suppkey BIGINT PRIMARY KEY, s_name VARCHAR(25) NOT NULL, s_address VARCHAR(40) NOT NULL,
    s_nationkey INT NOT NULL REFERENCES nation (n_nationkey), s_phone VARCHAR(15), s_acctbal DECIMAL(15,2),
    s_comment VARCHAR(101));
CREATE TABLE customer (c_custkey BIGINT PRIMARY KEY, c_name VARCHAR(25), c_address VARCHAR(40),
    c_nationkey INT NOT NULL REFERENCES nation (n_nationkey), c_phone VARCHAR(15), c_acctbal DECIMAL(15,2),
    c_mktsegment VARCHAR(10), c_comment VARCHAR(117));
CREATE TABLE part (p_partkey BIGINT PRIMARY KEY, p_name VARCHAR(55), p_mfgr VARCHAR(25), p_brand VARCHAR(10),
    p_type VARCHAR(25), p_size INT, p_container VARCHAR(10), p_retailprice DECIMAL(15,2), p_comment VARCHAR(23));
CREATE TABLE partsupp (ps_partkey BIGINT REFERENCES part (p_partkey), ps_suppkey BIGINT REFERENCES supplier (s_suppkey),
    ps_availqty BIGINT, ps_supplycost DECIMAL(15,2), ps_comment VARCHAR(199), PRIMARY KEY (ps_partkey, ps_suppkey));
CREATE TABLE orders (o_orderkey BIGINT PRIMARY KEY, o_custkey BIGINT NOT NULL REFERENCES customer (c_custkey),
    o_orderstatus VARCHAR(1), o_totalprice DECIMAL(15,2), o_orderdate DATE NOT NULL, o_orderpriority VARCHAR(15),
    o_clerk VARCHAR(15), o_shippriority INT, o_comment VARCHAR(79));
CREATE TABLE lineitem (l_orderkey BIGINT REFERENCES orders (o_orderkey), l_partkey BIGINT NOT NULL,
    l_suppkey BIGINT NOT NULL, l_linenumber BIGINT, l_quantity DECIMAL(15,2) NOT NULL,
    l_extendedprice DECIMAL(15,2) NOT NULL, l_discount DECIMAL(15,2) NOT NULL, l_tax DECIMAL(15,2) NOT NULL,
    l_returnflag VARCHAR(1), l_linestatus VARCHAR(1), l_shipdate DATE NOT NULL, l_commitdate DATE NOT NULL,
    l_receiptdate DATE NOT NULL, l_shipinstruct VARCHAR(25), l_shipmode VARCHAR(10), l_comment VARCHAR(44),
    PRIMARY KEY (l_orderkey, l_linenumber),
    FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp (ps_partkey, ps_suppkey));
"""


@pytest.fixture(scope="module")
def tpch() -> Catalog:
    return Catalog.from_ddl(DDL)


@pytest.mark.parametrize("number", range(1, 23))
def test_binds(number: int, queries: dict[int, str], tpch: Catalog) -> None:
    assert bind_query(queries[number], tpch).fields


MEANINGS = {
    4: "orders | orders.o_orderdate >= DATE '1993-07-01' & orders.o_orderdate < DATE '1993-10-01'"
    " | semi[lineitem | lineitem.l_orderkey = orders.o_orderkey & lineitem.l_commitdate < lineitem.l_receiptdate]"
    " | group orders.o_orderpriority, count(*) | select #0, #1",
    6: "lineitem | lineitem.l_shipdate >= DATE '1994-01-01' & lineitem.l_shipdate < DATE '1995-01-01'"
    " & lineitem.l_discount >= 0.05 & lineitem.l_discount <= 0.07 & lineitem.l_quantity < 24.00"
    " | group sum((l_extendedprice * l_discount)) | select #0",
    13: "c_orders:(customer | left[orders | customer.c_custkey = orders.o_custkey"
    " & NOT((orders.o_comment LIKE '%special%requests%'))] | group customer.c_custkey, count(o_orderkey)"
    " | select #0, #1) | group c_orders.c_count, count(*) | select #0, #1",
}


@pytest.mark.parametrize("number", MEANINGS)
def test_means(number: int, queries: dict[int, str], tpch: Catalog) -> None:
    assert described(bind_select(queries[number], tpch)) == MEANINGS[number]


def test_q19_shares_its_join_condition(queries: dict[int, str], tpch: Catalog) -> None:
    predicates = described(bind_select(queries[19], tpch)).split(" | ")[1]
    assert predicates.startswith("part.p_partkey = lineitem.l_partkey & ")


def test_q16_excludes_by_an_anti_arm(queries: dict[int, str], tpch: Catalog) -> None:
    assert [arm.kind for arm in bind_select(queries[16], tpch).block.arms] == ["anti"]
