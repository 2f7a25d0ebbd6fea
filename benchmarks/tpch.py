"""TPC-H: tables, and the queries that the demo and the benchmark keep fresh."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from freshet.demo.tpch import TABLES as TABLES
from freshet.demo.tpch import generate as generated
from freshet.demo.tpch import schema

ROOT = Path(__file__).resolve().parent.parent

#: The tables that do not change in a stream; they are loaded first.
DIMENSIONS = ("region", "nation", "supplier", "customer")

#: ORDER BY does not change a view. Q3 and Q10 are here without their LIMIT: the whole answer is maintained.
QUERIES = {
    "q3": """
        SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer, orders, lineitem
        WHERE c_mktsegment = 'BUILDING' AND c_custkey = o_custkey AND l_orderkey = o_orderkey
          AND o_orderdate < DATE '1995-03-15' AND l_shipdate > DATE '1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority""",
    "q4": """
        SELECT o_orderpriority, COUNT(*) AS order_count
        FROM orders
        WHERE o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'
          AND EXISTS (SELECT * FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority""",
    "q5": """
        SELECT n_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue
        FROM customer, orders, lineitem, supplier, nation, region
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_suppkey = s_suppkey
          AND c_nationkey = s_nationkey AND s_nationkey = n_nationkey AND n_regionkey = r_regionkey
          AND r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'
        GROUP BY n_name""",
    "q10": """
        SELECT c_custkey, c_name, SUM(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_address,
               c_phone, c_comment
        FROM customer, orders, lineitem, nation
        WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey AND l_returnflag = 'R' AND c_nationkey = n_nationkey
          AND o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01'
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment""",
}


def ddl(tables: Iterable[str] = TABLES, columns: Iterable[str] | None = None) -> list[str]:
    """CREATE TABLE statements for the tables, referenced ones first, with all columns or only the given ones and keys.

    Foreign keys are kept if both of their columns are.
    """
    text = schema()
    wanted = set(tables)
    kept = None if columns is None else set(columns)
    statements = []
    for name, body in re.findall(r"CREATE TABLE (\w+) \(\n(.*?)\n\);", text, re.DOTALL):
        if name not in wanted:
            continue
        lines = [line.strip().rstrip(",") for line in body.splitlines()]
        own = {line.split()[0] for line in lines} - {"PRIMARY", "FOREIGN"}
        keys = {word for line in lines if "PRIMARY KEY" in line for word in re.findall(r"\w+", line)} & own
        stays = own if kept is None else own & (kept | keys)
        lines = [line for line in lines if _stays(line, stays, wanted)]
        statements.append(f"CREATE TABLE {name} (\n    " + ",\n    ".join(lines) + "\n)")
    return statements


def _stays(line: str, columns: set[str], tables: set[str]) -> bool:
    if line.startswith("PRIMARY KEY"):
        return True
    foreign = re.match(r"FOREIGN KEY \((.*?)\) REFERENCES (\w+)", line)
    if foreign is None:
        return line.split()[0] in columns
    return foreign[2] in tables and set(foreign[1].split(", ")) <= columns


def tables_of(query: str) -> list[str]:
    """The tables a query reads."""
    return [name for name in TABLES if re.search(rf"\b{name}\b", query)]


def columns_of(query: str) -> set[str]:
    """The columns a query reads: TPC-H gives every table a prefix, so a name identifies its table."""
    return set(re.findall(r"\b(?:r|n|s|c|p|ps|o|l)_\w+", query))


def extension() -> Path:
    """DuckDB's TPC-H extension, which has the texts of the queries and their answers."""
    import duckdb_extension_tpch

    return next(Path(duckdb_extension_tpch.__path__[0]).rglob("tpch.duckdb_extension"))


@functools.cache
def official(number: int) -> str:
    """The official text of a TPC-H query, with its validation parameters."""
    import duckdb

    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension()}'")
    row = connection.execute("SELECT query FROM tpch_queries() WHERE query_nr = ?", [number]).fetchone()
    assert row is not None, f"TPC-H has queries 1 to 22, not {number}"
    return str(row[0]).strip().rstrip(";")


def generate(scale: float, tables: Iterable[str] = TABLES) -> dict[str, pa.Table]:
    """The tables at a scale factor, generated on first use into the repository's own cache."""
    return generated(scale, tables, Path(os.environ.get("FRESHET_TPCH") or ROOT / ".cache" / "tpch"))
