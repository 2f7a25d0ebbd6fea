"""Tables, queries of every kind, and random transactions over tiny domains, for the tests of the Spark runner."""

from __future__ import annotations

import decimal
import random

import pyarrow as pa

DDL = """
CREATE TABLE r (id BIGINT PRIMARY KEY, a INT, b INT, v DECIMAL(10,2), d DOUBLE, s STRING);
CREATE TABLE t (id BIGINT PRIMARY KEY, b INT, c INT, w BIGINT);
CREATE TABLE u (c INT, e STRING);
"""
SCHEMAS = {
    "r": pa.schema([("id", pa.int64()), ("a", pa.int32()), ("b", pa.int32()), ("v", pa.decimal128(10, 2)),
                    ("d", pa.float64()), ("s", pa.string()), ("_weight", pa.int64())]),
    "t": pa.schema([("id", pa.int64()), ("b", pa.int32()), ("c", pa.int32()), ("w", pa.int64()),
                    ("_weight", pa.int64())]),
    "u": pa.schema([("c", pa.int32()), ("e", pa.string()), ("_weight", pa.int64())]),
}  # fmt: skip
VIEWS = {
    "plain": "SELECT r.a, t.c, r.s FROM r JOIN t ON r.b = t.b",
    "one_table": "SELECT a, s FROM r WHERE v > 3",
    "chain": "SELECT r.id, t.id AS tid, u.e FROM r JOIN t ON r.b = t.b JOIN u ON t.c = u.c",
    "same_key": "SELECT r.b, SUM(r.v) AS total, COUNT(*) AS n FROM r JOIN t ON r.b = t.b GROUP BY r.b",
    "other_key": "SELECT r.a, SUM(r.v) AS total, AVG(t.w) AS mean, AVG(r.v) AS dec, COUNT(t.w) AS n, "
    "MIN(r.s) AS least, MAX(t.w) AS most FROM r JOIN t ON r.b = t.b GROUP BY r.a",
    "doubles": "SELECT t.c, SUM(r.d) AS total, AVG(r.d) AS mean FROM r JOIN t ON r.b = t.b GROUP BY t.c",
    "products": "SELECT t.c, SUM(r.a * t.w) AS p, SUM(r.v * t.w - t.id) AS q, AVG(r.a * t.w) AS mean "
    "FROM r JOIN t ON r.b = t.b GROUP BY t.c",
    "path_totals": "SELECT x.b, COUNT(*) AS n, AVG(z.w) AS mean, SUM(y.w * z.w) AS p, SUM(r.d) AS d, AVG(r.d) AS e "
    "FROM t AS x JOIN t AS y ON x.c = y.b JOIN t AS z ON y.c = z.b JOIN r ON r.b = z.c GROUP BY x.b",
    "path_spreads": "SELECT x.b, STDDEV(z.w) AS s, VAR_POP(r.d) AS v, COUNT(*) AS n "
    "FROM t AS x JOIN t AS y ON x.c = y.b JOIN t AS z ON y.c = z.b JOIN r ON r.b = z.c GROUP BY x.b",
    "beside_a_comparison": "SELECT r.s, COUNT(*) AS n, SUM(u.c) AS total, VARIANCE(u.c) AS v "
    "FROM r JOIN t ON r.a < t.b JOIN u ON t.c = u.c GROUP BY r.s",
    "times_a_table": "SELECT r.a, COUNT(*) AS n, SUM(u.c) AS total FROM r, u GROUP BY r.a",
    "times_a_join": "SELECT COUNT(*) AS n, SUM(t.w) AS total, STDDEV(r.d) AS s FROM u, r, t WHERE r.b = t.b",
    "many_groups": "SELECT r.s, r.b, t.c, u.e, COUNT(*) AS n, SUM(r.v * t.w) AS p, AVG(r.d) AS mean, MAX(t.w) AS most "
    "FROM r JOIN t ON r.b = t.b JOIN u ON t.c = u.c GROUP BY r.s, r.b, t.c, u.e",
    "counted": "SELECT t.c, COUNT(DISTINCT r.a) AS n, SUM(r.v) AS total FROM r JOIN t ON r.b = t.b GROUP BY t.c",
    "only_distinct": "SELECT t.c, COUNT(DISTINCT r.a) AS n FROM r JOIN t ON r.b = t.b GROUP BY t.c",
    "having": "SELECT t.c, COUNT(*) AS n FROM r JOIN t ON r.b = t.b GROUP BY t.c HAVING COUNT(*) > 2",
    "total": "SELECT COUNT(*) AS n, SUM(v) AS total, AVG(a) AS mean FROM r WHERE a > 1",
    "filtered": "SELECT s, COUNT(*) FILTER (WHERE a > 1) AS n, SUM(v) FILTER (WHERE b = 1) AS total FROM r GROUP BY s",
    "distinct_rows": "SELECT DISTINCT r.a, t.c FROM r JOIN t ON r.b = t.b",
    "distinct_compared": "SELECT DISTINCT r.id, r.a, t.c FROM r JOIN t ON r.b = t.b AND r.a < t.w JOIN u ON u.c >= t.c",
    "distinct_sets": "SELECT DISTINCT r.a, t.c, t.w FROM r JOIN t ON r.a < t.w",
    "distinct_cycle": "SELECT DISTINCT x.b, u.e FROM t AS x JOIN t AS y ON x.c = y.b JOIN t AS z ON y.c = z.b "
    "AND z.c = x.b JOIN u ON u.c = x.b",
    "projected": "SELECT t.b, t.c FROM r JOIN t ON r.b = t.b JOIN u ON t.c = u.c",
    "projected_path": "SELECT y.b + 1 AS b, u.c FROM u JOIN t AS y ON y.c = u.c JOIN r ON r.b = y.b AND r.a > 0",
    "looked_up": "SELECT r.id, r.b, t.id AS tid FROM r JOIN t ON r.b = t.b "
    "EXCEPT SELECT r.id, r.b, t.id FROM r JOIN t ON r.b = t.b WHERE r.a > 1 AND t.c IN (SELECT c FROM u)",
    "distinct_key": "SELECT DISTINCT b FROM r WHERE EXISTS (SELECT 1 FROM t WHERE t.b = r.b)",
    "distinct_groups": "SELECT DISTINCT COUNT(*) AS n FROM r GROUP BY a",
    "semi": "SELECT id, s FROM r WHERE EXISTS (SELECT 1 FROM t JOIN u ON t.c = u.c WHERE t.b = r.b)",
    "anti": "SELECT id, a FROM r WHERE NOT EXISTS (SELECT 1 FROM t WHERE t.b = r.b AND t.w > 2)",
    "outer_join": "SELECT r.id, t.w FROM r LEFT JOIN t ON r.b = t.b",
    "outer_groups": "SELECT r.a, COUNT(t.w) AS n, SUM(t.w) AS total FROM r LEFT JOIN t ON r.b = t.b GROUP BY r.a",
    "self_join": "SELECT x.a, y.s FROM r AS x JOIN r AS y ON x.b = y.a",
    "three_hops": "SELECT x.id AS p, y.id AS q, z.id AS o "
    "FROM t AS x JOIN t AS y ON x.c = y.b JOIN t AS z ON y.c = z.b",
    "nested": "SELECT g.b, g.n, u.e FROM (SELECT b, COUNT(*) AS n FROM t GROUP BY b) AS g JOIN u ON g.n = u.c",
    "nested_twice": "SELECT n, COUNT(*) AS groups FROM (SELECT c, COUNT(*) AS n FROM t GROUP BY c) AS g GROUP BY n",
    "triangle": "SELECT x.id AS p, y.id AS q, z.id AS o "
    "FROM t AS x JOIN t AS y ON x.c = y.b JOIN t AS z ON y.c = z.b AND z.c = x.b",
    "cycle": "SELECT r.a, COUNT(*) AS n FROM r JOIN t ON r.b = t.b JOIN u ON u.c = t.c "
    "JOIN t AS y ON y.c = u.c AND y.b = r.a GROUP BY r.a",
    "bag": "SELECT u.e, COUNT(*) AS n FROM u GROUP BY u.e",
    "cross": "SELECT u.e, t.id FROM u, t WHERE t.w = 3",
    "compared": "SELECT r.id, t.id AS tid FROM r JOIN t ON r.b = t.b AND r.a < t.w",
    "compared_exists": "SELECT id, s FROM r WHERE EXISTS (SELECT 1 FROM t WHERE t.b = r.b AND t.w <> r.a)",
    "top": "SELECT id, v, s FROM r ORDER BY v DESC, id LIMIT 3",
    "top_groups": "SELECT a, SUM(v) AS total FROM r GROUP BY a ORDER BY total DESC NULLS LAST, a LIMIT 2 OFFSET 1",
    "top_each": "SELECT id, b, w FROM t QUALIFY ROW_NUMBER() OVER (PARTITION BY b ORDER BY w DESC NULLS LAST, id) <= 2",
    "ranked": "SELECT t.id, t.c, RANK() OVER (PARTITION BY t.c ORDER BY t.w NULLS FIRST) AS place, "
    "SUM(r.v) OVER (PARTITION BY t.c) AS total FROM t JOIN r ON r.b = t.b",
    "neighbours": "SELECT id, LAG(s) OVER (ORDER BY id) AS before, COUNT(*) OVER () AS n FROM r",
    "union_all": "SELECT b, a AS x FROM r UNION ALL SELECT b, c FROM t",
    "union": "SELECT b, a AS x FROM r UNION SELECT b, c FROM t",
    "except_all": "SELECT b FROM r EXCEPT ALL SELECT c FROM t",
    "intersect": "SELECT b, a AS x FROM r INTERSECT SELECT b, c FROM t",
    "full_join": "SELECT r.id, t.id AS tid, t.w FROM r FULL JOIN t ON r.b = t.c",
    "right_chain": "SELECT r.id, t.id AS tid, e FROM u RIGHT JOIN t ON t.c = u.c FULL JOIN r ON r.b = t.b AND r.a > 0",
    "rollup": "SELECT a, b, COUNT(*) AS n, SUM(v) AS total FROM r GROUP BY ROLLUP (a, b) HAVING COUNT(*) > 0",
    "spread": "SELECT t.c, STDDEV(r.d) AS s, VAR_POP(t.w) AS v, BOOL_AND(r.a > 0) AS every, BOOL_OR(r.a > 1) AS any_ "
    "FROM r JOIN t ON r.b = t.b GROUP BY t.c",
    "several_distinct": "SELECT t.c, COUNT(DISTINCT r.a) AS n, SUM(DISTINCT t.w) AS total, COUNT(DISTINCT r.s) AS m "
    "FROM r JOIN t ON r.b = t.b GROUP BY t.c",
    "gathered": "SELECT t.c, STRING_AGG(r.s, ', ' ORDER BY r.s) AS texts, ARRAY_AGG(r.v ORDER BY r.v) AS list "
    "FROM r JOIN t ON r.b = t.b GROUP BY t.c",
    "in_order": "SELECT t.c, MEDIAN(r.a) AS m, MAX_BY(r.a, r.id) AS last, BIT_XOR(r.a) AS bits, "
    "MODE() WITHIN GROUP (ORDER BY r.a) AS often, COVAR_POP(r.a, t.w) AS together "
    "FROM r JOIN t ON r.b = t.b GROUP BY t.c",
    "far_left": "SELECT r.id, t.id AS tid, u.e FROM r LEFT JOIN t ON r.b = t.b LEFT JOIN u ON u.c = t.c OR u.c = r.a",
    "less_alone": "SELECT COUNT(*) AS n FROM u JOIN t ON u.c < t.w",
    "no_others": "SELECT x.id FROM t AS x WHERE NOT EXISTS (SELECT 1 FROM t AS y WHERE y.b = x.b AND y.w > x.w)",
    "union_all_counted": "SELECT x, COUNT(*) AS n FROM (SELECT b AS x FROM r UNION ALL SELECT c FROM t UNION ALL "
    "SELECT n FROM (SELECT COUNT(*) AS n FROM t GROUP BY b) AS g) AS z GROUP BY x",
    "union_twice": "SELECT b FROM r UNION SELECT c FROM u UNION SELECT c FROM t",
    "except": "SELECT b FROM r EXCEPT SELECT c FROM u",
    "intersect_groups": "SELECT b, COUNT(*) AS n FROM t GROUP BY b INTERSECT SELECT c, COUNT(*) FROM u GROUP BY c",
    "intersect_all": "SELECT c FROM t INTERSECT ALL SELECT c FROM u",
    "read_in_order": "SELECT a, s FROM r ORDER BY v DESC, id",
    "later_rows": "SELECT s, a + 1 AS b FROM (SELECT s, a, id FROM r ORDER BY s, id DESC LIMIT 2 OFFSET 1) AS x",
    "running": "SELECT id, SUM(w) OVER (ORDER BY id) AS total FROM t",
    "near_keys": "SELECT id, "
    "COUNT(*) OVER (PARTITION BY b ORDER BY w DESC NULLS LAST RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS n, "
    "LAST_VALUE(w IGNORE NULLS) OVER (PARTITION BY b ORDER BY id) AS last, "
    "SUM(w) FILTER (WHERE c > 1) OVER (PARTITION BY b) AS some FROM t",
    "values_join": "SELECT t.id, x.name FROM t JOIN (VALUES (1, 'one'), (2, 'two')) AS x(c, name) ON t.c = x.c",
    "values_left": "SELECT x.c, COUNT(t.id) AS n FROM (VALUES (0), (1), (9)) AS x(c) "
    "LEFT JOIN t ON t.c = x.c GROUP BY x.c",
    "values_rows": "SELECT e FROM u UNION ALL VALUES ('always')",
    "no_table": "SELECT 7 AS x UNION SELECT c FROM u",
    "total_of_none": "SELECT COUNT(*) AS n, MAX(x) AS most "
    "FROM (SELECT DISTINCT r.a AS x FROM r JOIN t ON r.b = t.b) AS z",
    "above_average": "SELECT t.id FROM t WHERE t.w > (SELECT AVG(a) FROM r)",
    "few_of_many": "SELECT r.id FROM r WHERE r.a < (SELECT COUNT(*) FROM t WHERE t.b = r.b)",
    "not_in": "SELECT id FROM r WHERE b NOT IN (SELECT c FROM u)",
    "reached": "WITH RECURSIVE p(b, c) AS (SELECT b, c FROM t UNION SELECT p.b, t.c FROM p JOIN t ON p.c = t.b) "
    "SELECT p.b, COUNT(*) AS n, MAX(u.e) AS e FROM p LEFT JOIN u ON p.c = u.c GROUP BY p.b",
    "walks": "WITH RECURSIVE p(c, s, n) AS (SELECT a, s, 0 FROM r WHERE v > 1 UNION ALL "
    "SELECT t.c, p.s, n + 1 FROM p JOIN t ON t.b = p.c WHERE n < 2 AND EXISTS (SELECT 1 FROM u WHERE u.c = t.c)) "
    "SELECT c, s, n FROM p",
    "from_one": "WITH RECURSIVE p(a) AS (SELECT 1 UNION SELECT t.c FROM p JOIN t ON t.b = p.a) "
    "SELECT r.id, p.a FROM r LEFT JOIN p ON r.a = p.a",
    "numbers": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4) "
    "SELECT t.id, n.i FROM t JOIN n ON n.i <= t.c",
    "up_to_most": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < (SELECT MAX(w) FROM t)) "
    "SELECT i FROM n",
}


def transactions(seed: int, count: int) -> list[dict[str, list[tuple[object, ...]]]]:
    """Random changes over tiny domains: inserted and deleted rows of each table, weight last."""
    rng = random.Random(seed)
    held: dict[str, list[tuple[object, ...]]] = {name: [] for name in SCHEMAS}
    numbers = 0
    txs = []
    for _ in range(count):
        tx: dict[str, list[tuple[object, ...]]] = {}
        for name in SCHEMAS:
            changes: list[tuple[object, ...]] = []
            for _ in range(rng.randrange(0, 8)):
                if held[name] and rng.random() < 0.45:
                    changes.append((*held[name].pop(rng.randrange(len(held[name]))), -1))
                    continue
                numbers += 1
                pick = rng.randrange
                row: tuple[object, ...]
                if name == "r":
                    null = rng.random() < 0.15
                    d = rng.choice([0.1, -7.3, 3.5, 1e6])
                    row = (
                        numbers,
                        pick(3),
                        None if null else pick(4),
                        f"{pick(9)}.25",
                        d,
                        rng.choice(["x", "y", "zz"]),
                    )
                elif name == "t":
                    row = (numbers, pick(4), pick(4), None if rng.random() < 0.2 else pick(5))
                else:
                    row = (pick(4), rng.choice(["p", "q"]))
                held[name].append(row)
                changes.append((*row, 1))
            tx[name] = changes
        txs.append(tx)
    return txs


class Present:
    """The rows each table holds, for the oracle."""

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[object, ...]]] = {n: [] for n in SCHEMAS}

    def apply(self, tx: dict[str, list[tuple[object, ...]]]) -> dict[str, pa.Table]:
        for name, rows in tx.items():
            for *row, weight in rows:
                if weight > 0:  # type: ignore[operator]
                    self.rows[name].append(tuple(row))
                else:
                    self.rows[name].remove(tuple(row))
        return {n: arrow(n, [(*row, 1) for row in rows]) for n, rows in self.rows.items()}


def arrow(name: str, rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMAS[name])
    arrays = []
    for column, field in zip(columns, SCHEMAS[name], strict=True):
        values = [decimal.Decimal(str(v)) for v in column] if pa.types.is_decimal(field.type) else list(column)
        arrays.append(pa.array(values, field.type))
    return pa.table(arrays, schema=SCHEMAS[name])
