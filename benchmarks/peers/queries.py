"""The queries that every peer keeps fresh, and what their outputs are.

`scales`: the decimals of an output that is a decimal, so that answers can be compared as integers.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks import tpch

_PATH = "FROM g g1, g g2, g g3 WHERE g1.dst = g2.src AND g2.dst = g3.src"
_SUMS = "SELECT l_orderkey, SUM(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority"


@dataclass(frozen=True)
class PeerQuery:
    title: str
    sql: str
    scales: dict[str, int] = field(default_factory=dict)

    @property
    def on_graph(self) -> bool:
        return "FROM g " in self.sql

    @property
    def tables(self) -> list[str]:
        return ["g"] if self.on_graph else tpch.tables_of(self.sql)

    def ddl(self, all_columns: bool) -> list[str]:
        if self.on_graph:
            return ["CREATE TABLE g (src BIGINT, dst BIGINT)"]
        return tpch.ddl(self.tables, None if all_columns else tpch.columns_of(self.sql))


QUERIES = {
    "q3": PeerQuery("TPC-H Q3", tpch.QUERIES["q3"], {"revenue": 4}),
    "q3_all": PeerQuery(
        "TPC-H Q3 without its filters",
        f"{_SUMS} FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND l_orderkey = o_orderkey"
        " GROUP BY l_orderkey, o_orderdate, o_shippriority",
        {"revenue": 4},
    ),
    "q5": PeerQuery("TPC-H Q5", tpch.QUERIES["q5"], {"revenue": 4}),
    "path_count": PeerQuery("3-hop paths, counted", f"SELECT COUNT(*) AS n {_PATH}"),
    "star_count": PeerQuery(
        "4-stars, counted",
        "SELECT COUNT(*) AS n FROM g g1, g g2, g g3, g g4"
        " WHERE g1.src = g2.src AND g1.src = g3.src AND g1.src = g4.src",
    ),
    "triangle_count": PeerQuery("triangles, counted", f"SELECT COUNT(*) AS n {_PATH} AND g3.dst = g1.src"),
    "paths": PeerQuery(
        "3-hop paths, their rows",
        f"SELECT g1.src AS a, g2.src AS b, g3.src AS c, g3.dst AS d {_PATH} AND g3.dst % 10 = 0",
    ),
}  # fmt: skip
