"""Writes nested_spark.json: Spark's values (ANSI mode, UTC) of expressions over arrays, structs and maps.

Run it manually with PySpark installed, `python -m tests.scalar.nested_cases`; the tests read only the file it writes.
Each expression is computed for every row of ROWS, as text; "error" where Spark refuses the row, or the expression.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

COLUMNS = {
    "id": "INT", "a": "ARRAY<INT>", "b": "ARRAY<STRING>", "s": "STRUCT<x: INT, y: STRING>", "m": "MAP<STRING, INT>",
    "r": "ARRAY<STRUCT<x: INT, y: STRING>>", "n": "ARRAY<ARRAY<INT>>", "d": "ARRAY<DOUBLE>", "t": "STRING", "i": "INT",
}  # fmt: skip
ROWS = [
    (
        "1, array(3, NULL, 1, 3), array('a', 'b,', NULL, 'a'), struct(1, 'p'), map('k', 1, 'j', NULL), "
        "array(struct(2, 'z'), struct(1, NULL), NULL), array(array(1), array(), array(2, NULL)), "
        "array(1.5D, 0.0D, double('NaN'), NULL), 'a,b,,c', 1"
    ),
    "2, array(), array(), struct(NULL, NULL), map(), array(), array(), array(), '', 0",
    "3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    (
        "4, array(7), array('long text', ''), struct(-5, ''), map('', -1), array(struct(7, 'q')), "
        "array(array(9), NULL), "
        "array(double('-Infinity')), 'x1y22z', -1"
    ),
]
EXPRESSIONS = [
    "a[0]", "a[i]", "get(a, i)", "get(a, 2)", "element_at(a, 1)", "element_at(a, i)", "try_element_at(a, -1)",
    "b[0] || '!'", "m['k']", "m[t]", "element_at(m, 'j')", "try_element_at(m, 'none')", "map_contains_key(m, 'k')",
    "s.x", "s.y", "s.x + 1", "r.x", "r[0].y", "r.y[0]", "n[0][0]", "get(n, 2)[1]",
    "size(a)", "size(m)", "cardinality(b)", "array_size(n)",
    "array_contains(a, 3)", "array_contains(a, 2)", "array_contains(b, 'b,')", "array_contains(a, i)",
    "array_contains(d, double('NaN'))", "array_contains(d, 0.0D)", "array_contains(r, struct(7, 'q'))",
    "array_contains(a, 3L)", "array_contains(n, array(9))", "array_contains(b, 1)", "array_contains(a, '1')",
    "array_position(a, 3)", "array_position(a, 1)", "array_position(b, 'none')", "array_remove(a, 3)",
    "array_distinct(a)", "array_distinct(b)", "array_distinct(d)", "array_distinct(r)", "array_compact(a)",
    "array_min(a)", "array_max(a)", "array_min(d)", "array_max(d)", "array_max(b)", "array_min(r)", "array_max(n)",
    "sort_array(a)", "sort_array(a, false)", "sort_array(b)", "sort_array(d)", "sort_array(r)", "sort_array(n, false)",
    "slice(a, 1, 2)", "slice(a, -2, 2)", "slice(a, -3, 1)", "slice(a, i, 1)", "slice(a, 2, 100)", "slice(a, 1, -1)",
    "a || a", "concat(a, array(i))", "concat(b, array('x'), b)", "array_append(a, i)", "array_prepend(a, i)",
    "array_append(a, 2L)", "flatten(n)", "reverse(a)", "reverse(b)", "array_repeat(i, 2)", "array_repeat(t, i)",
    "array_repeat(a, 2)", "array_join(b, '-')", "array_join(a, ',', 'none')", "array_join(d, ' ')",
    "array(i, 2, NULL)", "array(a, array(i))", "array(t, 'u')", "array(1, 2.5)", "array(1, 2L, 3.5D)", "array()",
    "struct(i, t)", "struct(i AS p, s.y AS q)", "named_struct('p', a, 'q', s)", "struct(i + 1, a[0])",
    "struct(s.x, s.y) = s", "map('p', i, 'q', 2)", "map(i, t)", "map(t, i)", "map_from_arrays(b, a)",
    "map_from_arrays(array(1, 2), array('x', 'y'))", "map_from_arrays(array(1, 2), array(i))",
    "map_keys(m)", "map_values(m)", "map_entries(m)",
    "split(t, ',')", "split(t, '[0-9]+')", "size(split(t, ','))", "split(t, ',', -1)",
    "a = array(7)", "a <=> NULL", "a < array(4)", "a IN (array(7), array(3, NULL, 1, 3))", "s = struct(1, 'p')",
    "s > struct(0, 'z')", "a IS NULL", "coalesce(a, array(-1))", "if(i > 0, a, array())", "nullif(a, array(7))",
    "greatest(a, array(3))", "least(b, array('a'))", "CASE WHEN i = 1 THEN s END",
    "cast(a AS ARRAY<STRING>)", "cast(b AS ARRAY<INT>)", "cast(s AS STRUCT<p: STRING, q: STRING>)",
    "cast(m AS MAP<STRING, DOUBLE>)", "cast(a AS STRING)", "cast(s AS STRING)", "cast(m AS STRING)",
    "cast(r AS STRING)", "cast(d AS STRING)", "typeof(r)", "typeof(m)", "typeof(array(1, NULL))",
    "transform(a, x -> x + 1)", "transform(a, (x, k) -> x * k + i)", "transform(b, x -> upper(x) || t)",
    "transform(r, x -> x.y)", "transform(n, x -> transform(x, y -> y + size(x)))", "transform(a, x -> array(x, i))",
    "transform(a, x -> 10 / x)", "transform(a, x -> 10 / (x - 1))", "transform(a, x -> s)", "transform(a, x -> 1)",
    "filter(a, x -> x > 1)", "filter(a, x -> x IS NULL)", "filter(b, x -> x LIKE '%a%')", "filter(r, x -> x.x > i)",
    "filter(a, (x, k) -> k < 2)", "filter(filter(a, x -> x > 1), x -> x < 7)", "filter(n, x -> size(x) > 0)",
    "exists(a, x -> x > 6)", "exists(a, x -> x > 2)", "exists(a, x -> x IS NULL)", "exists(b, x -> x = t)",
    "forall(a, x -> x > 0)", "forall(a, x -> x > 2)", "forall(b, x -> length(x) > 0)",
    "aggregate(a, 0, (acc, x) -> acc + coalesce(x, 0))", "aggregate(a, 0, (acc, x) -> acc + x)",
    "aggregate(a, i, (acc, x) -> acc + coalesce(x, i), acc -> acc * 10)", "reduce(b, '', (acc, x) -> acc || x)",
    "aggregate(a, array(0), (acc, x) -> acc || array(x))", "aggregate(a, 0L, (acc, x) -> x)", "exists(a, x -> x)",
    "aggregate(a, struct(0 AS n, 0 AS s), (p, x) -> struct(p.n + 1 AS n, p.s + coalesce(x, 0) AS s), p -> p.s)",
    "map_filter(m, (k, v) -> v IS NULL)", "transform_values(m, (k, v) -> k || coalesce(v, 0))",
    "size(filter(split(t, ','), x -> x <> ''))", "aggregate(transform(a, x -> 10 / x), 0.0D, (p, x) -> p + x)",
    "m = m", "a + 1", "upper(a)", "s.nope", "i.x", "a[t]", "size(i)", "map_keys(a)", "flatten(a)", "sort_array(m)",
]  # fmt: skip

#: A view that queries read too.
TIMES = "SELECT id, CAST(i * 60 AS TIMESTAMP) AS ts FROM t"
QUERIES = [
    "SELECT id, e FROM t LATERAL VIEW explode(a) x AS e",
    "SELECT id, pos, col FROM t LATERAL VIEW OUTER posexplode(a) q",
    "SELECT id, key, value FROM t, LATERAL explode(m)",
    "SELECT * FROM (SELECT id, m FROM t), LATERAL posexplode(m) AS q(p, k, v)",
    "SELECT id, q.x, q.y FROM t LATERAL VIEW inline(r) q",
    "SELECT id, q.x, q.y FROM t LATERAL VIEW OUTER inline(r) q",
    "SELECT id, explode(a) FROM t WHERE id > 1",
    "SELECT explode_outer(b) AS e, id + 1 AS n FROM t",
    "SELECT id, posexplode(b) AS (p, e) FROM t ORDER BY e LIMIT 2",
    "SELECT inline_outer(r), id FROM t",
    "SELECT DISTINCT explode(m) FROM t",
    "SELECT id, explode(a) AS x, explode(b) AS y FROM t",
    "SELECT e, COUNT(*) AS n, SUM(id) AS s FROM t LATERAL VIEW explode(a) AS e GROUP BY e HAVING COUNT(*) > 0",
    "SELECT id, p, j FROM t LATERAL VIEW explode(n) AS o LATERAL VIEW posexplode(o) AS p, j",
    "SELECT o.id, p.id AS other, e FROM t AS o JOIN t AS p ON o.id > p.id LATERAL VIEW explode(concat(o.a, p.a)) AS e",
    "SELECT o.id, p.id AS other, e FROM t AS o LEFT JOIN t AS p ON o.i = p.id LATERAL VIEW explode(p.a) AS e",
    "SELECT o.id, p.id AS other, e FROM t AS o LEFT JOIN t AS p ON o.i = p.id LATERAL VIEW OUTER explode(p.a) AS e",
    "SELECT o.id, p.id AS other, e FROM t AS o LEFT JOIN t AS p ON o.i = p.id LATERAL VIEW explode(o.a) AS e",
    "SELECT x.e, p.id FROM t CROSS JOIN LATERAL explode(a) AS x(e) LEFT JOIN t AS p ON p.id = x.e",
    "SELECT id FROM t AS q WHERE EXISTS (SELECT 1 FROM t AS p LATERAL VIEW explode(p.a) AS e WHERE e = q.id)",
    "SELECT id, (SELECT SUM(e) FROM t AS p LATERAL VIEW explode(p.a) AS e WHERE p.id = q.id) AS total FROM t AS q",
    "SELECT id FROM t WHERE id IN (SELECT explode(a) FROM t)",
    "SELECT id, col FROM t LATERAL VIEW explode(split(t, ',')) q",
    "SELECT * FROM explode(array(1, 2)) AS z(q)",
    "SELECT explode(array('x', NULL))",
    "SELECT e FROM t LATERAL VIEW explode(array(1, 2)) AS e",
    "SELECT size(filter(a, x -> x > 1)) AS n, COUNT(*) AS c FROM t GROUP BY size(filter(a, x -> x > 1))",
    "SELECT q.id, (SELECT COUNT(*) FROM t AS p WHERE exists(p.a, x -> x > 2) AND p.id > q.id) AS n FROM t AS q",
    "SELECT o.id, p.id AS other FROM t AS o JOIN t AS p ON exists(o.a, x -> x = p.id)",
    "SELECT q.id FROM t AS q WHERE size(filter(q.a, x -> x > 1)) IN (SELECT size(filter(p.a, x -> x < 5)) FROM t AS p)",
    "SELECT o.id, p.id AS other FROM t AS o LEFT JOIN t AS p ON o.i = p.id WHERE NOT exists(p.a, x -> x = o.id)",
    "SELECT id, sort_array(collect_list(x)) AS l FROM (SELECT id, explode(filter(a, y -> y > 0)) x FROM t) GROUP BY id",
    "SELECT * FROM (SELECT id, i, t FROM t) PIVOT (SUM(id) FOR i IN (1, 0, NULL AS none))",
    "SELECT * FROM (SELECT i, t FROM t) PIVOT (COUNT(*) AS n, MAX(t) FOR i IN (1 AS one, -1))",
    "SELECT * FROM (SELECT id, i, t FROM t) PIVOT (COUNT(DISTINCT t) FOR (i, id) IN ((1, 1), (0, 2) AS two)) AS p",
    "SELECT * FROM (SELECT i % 2 AS k, id, t FROM t) PIVOT (FIRST(t) FOR id IN (1, 2, 3)) WHERE k IS NOT NULL",
    "SELECT * FROM (SELECT id, i, t FROM t) UNPIVOT (v FOR k IN (id, i AS other))",
    "SELECT * FROM (SELECT id, i, t FROM t) UNPIVOT INCLUDE NULLS (v FOR k IN (id AS `the id`, i)) AS u",
    "SELECT k, SUM(v) AS s FROM (SELECT id, i, t FROM t) UNPIVOT ((v, w) FOR k IN ((id, t), (i, t) AS x)) GROUP BY k",
    "SELECT window.start, window.end, COUNT(*) AS n FROM times GROUP BY window(ts, '2 minutes')",
    "SELECT window(ts, '5 minutes', '2 minutes', '30 seconds') AS w, id FROM times",
    "SELECT window_time(w) AS at, n FROM (SELECT window AS w, SUM(id) AS n FROM times GROUP BY window(ts, '1 day'))",
    "SELECT id, e FROM t LATERAL VIEW explode(a) AS e UNION ALL SELECT id, 0 FROM t",
    "SELECT id, e, ROW_NUMBER() OVER (PARTITION BY id ORDER BY p) AS n FROM t LATERAL VIEW posexplode(a) AS p, e",
]


def table() -> str:
    casts = ", ".join(f"CAST(c{i} AS {kind}) AS {name}" for i, (name, kind) in enumerate(COLUMNS.items()))
    rows = ", ".join(f"({row})" for row in ROWS)
    return f"SELECT {casts} FROM VALUES {rows} AS v({', '.join(f'c{i}' for i in range(len(COLUMNS)))})"


def main() -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    spark.sql(table()).cache().createOrReplaceTempView("t")
    spark.sql(TIMES).createOrReplaceTempView("times")

    def ask(expression: str, where: str) -> list[str | None]:
        sql = f"SELECT CAST({expression} AS STRING) FROM t WHERE {where} ORDER BY id"
        return [row[0] for row in spark.sql(sql).collect()]

    answers: dict[str, list[Any]] = {}
    for expression in EXPRESSIONS:
        try:
            answers[expression] = ask(expression, "true")
        except Exception:
            answers[expression] = []
            for row in range(1, len(ROWS) + 1):
                try:
                    answers[expression] += ask(expression, f"id = {row}")
                except Exception:
                    answers[expression].append("error")
    for query in QUERIES:
        answer = spark.sql(query)
        names = [f"c{i}" for i in range(len(answer.columns))]
        shown = answer.toDF(*names).selectExpr(*(f"CAST({name} AS STRING)" for name in names))
        rows = [list(row) for row in shown.collect()]
        answers[query] = [answer.columns, sorted(rows, key=str)]
    Path(__file__).with_name("nested_spark.json").write_text(json.dumps(answers, indent=0) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
