"""The TPC-H queries, as DuckDB publishes them, bind; those that cannot yet are refused for a stated reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from described import described

from freshet.errors import UnsupportedError
from freshet.sql import Catalog, bind_query

duckdb = pytest.importorskip("duckdb")
extension = pytest.importorskip("duckdb_extension_tpch")

#: Why a query is not bound yet: words of the refusal.
REFUSED = {
    2: "scalar subquery", 11: "scalar subquery", 15: "scalar subquery", 17: "scalar subquery", 20: "scalar subquery",
    22: "scalar subquery",
    18: "LIMIT", 21: "LIMIT", 3: "LIMIT", 10: "LIMIT",
}  # fmt: skip


@pytest.fixture(scope="module")
def queries() -> dict[int, str]:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    (found,) = Path(extension.__file__).parent.rglob("tpch.duckdb_extension")
    connection.execute(f"LOAD '{found}'")
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
    PRIMARY KEY (l_orderkey, l_linenumber), FOREIGN KEY (l_partkey, l_suppkey) REFERENCES partsupp (ps_partkey, ps_suppkey));
"""
