"""Writes queries_spark.json: Spark's answers (ANSI mode, UTC) to whole queries over small tables, with the types. Run
it manually with PySpark installed, `python -m tests.sql.spark_queries`; the tests read only the file it writes. Queries
that Spark refuses, or that fail, are recorded with the error. The queries are in tests/sql/asked, one module per area.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.sql.asked import (
    calls,
    converted,
    decimals,
    derived,
    intervals,
    patterns,
    recursive,
    rows,
    sessions,
    unreached,
    windows,
    words,
)
from tests.sql.asked import (
    json as json_texts,
)

QUERIES = {"windows": windows.QUERIES, "rows": rows.QUERIES, "unreached": unreached.QUERIES,
           "intervals": intervals.QUERIES, "patterns": patterns.QUERIES, "decimals": decimals.QUERIES,
           "derived": derived.QUERIES, "calls": calls.QUERIES, "converted": converted.QUERIES,
           "recursive": recursive.QUERIES, "sessions": sessions.QUERIES,
           "json": json_texts.QUERIES, "words": words.QUERIES}  # fmt: skip
#: Table → its columns, and its rows as VALUES has them.
TABLES = {
    "t": (
        "id INT, a INT, v INT, f DOUBLE, d DATE",
        """(1, 1, 10, 1.0D, DATE'2024-01-01'), (2, 2, 20, DOUBLE('NaN'), DATE'2024-01-02'),
        (3, 4, NULL, DOUBLE('Infinity'), DATE'2024-02-01'), (4, NULL, 40, NULL, NULL),
        (5, 2, 50, -1.5D, DATE'2024-01-31'), (6, NULL, 60, DOUBLE('-Infinity'), DATE'2023-12-31')""",
    ),
    "m": (
        "id INT, t1 TIMESTAMP, t2 TIMESTAMP, d1 DATE, d2 DATE, n INT",
        """(1, TIMESTAMP'2024-01-31 10:00:00', TIMESTAMP'2024-01-30 23:30:15.5', DATE'2024-03-01', DATE'2024-02-28', 3),
        (2, TIMESTAMP'2024-01-01 00:00:00', TIMESTAMP'2024-01-02 00:00:00', DATE'2024-01-01', DATE'2025-01-01', -2),
        (3, NULL, TIMESTAMP'2024-01-02 00:00:00', DATE'2024-01-01', NULL, 0),
        (4, TIMESTAMP'1969-12-31 23:59:59.999999', TIMESTAMP'2024-01-02 00:00:00', DATE'2024-01-01', DATE'2024-01-01',
         NULL)""",
    ),
    "dec": (
        "ti TINYINT, i INT, b BIGINT, d DECIMAL(5,2), e DECIMAL(20,0), w DECIMAL(38,18), s STRING",
        "(1, 3, 5000000, 12.35, 123456789012, 1.123456789, '4'), (-1, 9, 2, -0.01, 3, 1000.5, '2')",
    ),
    "ev": (
        "id INT, k INT, ts TIMESTAMP, d DATE, x INT",
        """(1, 1, TIMESTAMP'2024-02-29 12:00:00', DATE'2024-02-29', 1),
        (2, 1, TIMESTAMP'2024-02-29 12:05:00', DATE'2024-03-01', 2),
        (3, 2, TIMESTAMP'2024-02-29 12:05:00', DATE'2024-03-01', 3),
        (4, 1, TIMESTAMP'2024-02-29 12:10:00.000001', DATE'2024-03-02', 4),
        (5, 2, TIMESTAMP'2024-02-29 12:08:00', DATE'2024-03-05', NULL),
        (6, NULL, TIMESTAMP'2024-02-29 12:30:00', NULL, 6),
        (7, NULL, TIMESTAMP'2024-02-29 12:33:00', DATE'2024-03-05', 7), (8, 2, NULL, DATE'1969-12-31', 8)""",
    ),
    "words": ("id INT, s STRING", words.ROWS),
    "js": ("id INT, s STRING", json_texts.ROWS),
    "p": (
        "x INT, y INT, s STRING",
        "(1, 1, 'a'), (1, 2, 'b'), (2, NULL, 'c'), (NULL, 1, 'd'), (NULL, NULL, 'e'), (3, 4, NULL)",
    ),
}


def ask(spark: Any, query: str) -> dict[str, object]:
    try:
        answer = spark.sql(query)
        kinds = [f.dataType.simpleString() for f in answer.schema.fields]
        named = answer.toDF(*(f"c{i}" for i in range(len(kinds))))
        rows = named.selectExpr(*(f"CAST(c{i} AS STRING)" for i in range(len(kinds)))).collect()
    except Exception as e:
        condition = getattr(e, "getCondition", getattr(e, "getErrorClass", lambda: None))()
        return {"sql": query, "error": condition or type(e).__name__}
    return {"sql": query, "types": kinds, "rows": sorted((list(r) for r in rows), key=str)}


def main() -> None:
    """Runs only the queries on Spark that are not in the file yet; `--again` runs all."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    write(lambda query: ask(spark, query), spark.sql)


def write(answer: Any, define: Any) -> None:
    path = Path(__file__).with_name("queries_spark.json")
    recorded: dict[str, dict[str, object]] = {}
    if "--again" not in sys.argv and path.exists():
        recorded = {r["sql"]: r for part in json.loads(path.read_text()).values() for r in part}
    for name, (columns, values) in TABLES.items():
        names = [c.split()[0] for c in columns.split(", ")]
        kinds = ", ".join(
            f"CAST({n} AS {c.split(' ', 1)[1]}) AS {n}" for n, c in zip(names, columns.split(", "), strict=True)
        )
        define(f"CREATE OR REPLACE TEMP VIEW {name} AS SELECT {kinds} FROM VALUES {values} AS r({', '.join(names)})")
    parts = []
    for area, queries in QUERIES.items():
        records = [recorded.get(q) or answer(q) for q in dict.fromkeys(queries)]
        lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in records)
        parts.append(f"{json.dumps(area)}: [\n{lines}\n]")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
