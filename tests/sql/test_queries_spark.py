"""Whole queries as views, compared with Spark's answers (queries_spark.json): types, values, and refusals. Every row is
inserted twice and deleted once before the answer is compared, and every second query is in lower case.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import freshet
from tests.oracle import RunningSum
from tests.sql.spark_queries import TABLES

RECORDS: dict[str, list[dict[str, Any]]] = json.loads(Path(__file__).with_name("queries_spark.json").read_text())
PARTS = 4
#: Spark refuses to widen the fields of rows that have names: those of columns have them, those of literals do not.
ROW_OF_COLUMNS = re.compile(r"\(x, y\) \S+( \w+)* \(.*(1L, 1|2, NULL)\)", re.IGNORECASE)


def lowered(sql: str) -> str:
    """The text in lower case, except for quoted parts."""
    return "".join(p if p[0] in "'`" else p.lower() for p in re.findall(r"'[^']*'|`[^`]*`|[^'`]+", sql))


def answer(sql: str) -> tuple[list[str], list[list[str | None]]]:
    """The types of a view, and its rows as text."""
    db = freshet.connect()
    read = [n for n in TABLES if re.search(rf"\b{n}\b", sql, re.IGNORECASE)]
    for name in read:
        db.execute(f"CREATE TABLE {name} ({TABLES[name][0]})")
    view = db.create_view("v", sql)
    assert freshet.Plan.from_json(view.plan.to_json()) == view.plan
    sums = RunningSum(view.to_arrow())
    for name in read:
        columns = [c.split()[0] for c in TABLES[name][0].split(", ")]
        everything = db.create_view(f"all_{name}", f"SELECT * FROM {name}")
        for _ in range(2):
            values = f"SELECT * FROM VALUES {TABLES[name][1]} AS r({', '.join(columns)})"
            sums.add(db.execute(f"INSERT INTO {name} {values}").deltas["v"])
        kept = everything.to_arrow()
        half = kept.group_by(columns).aggregate([]).select(columns) if kept.num_rows else kept
        gone = half.append_column("_weight", pa.array([-1] * half.num_rows, pa.int64()))
        sums.add(db.apply({name: gone}).deltas["v"])
    shown = view.to_arrow()
    sums.equals(shown)
    names = [f"c{i}" for i in range(shown.num_columns)]
    texts = ", ".join(f"CAST({n} AS STRING) AS {n}" for n in names)
    text = db.create_view("texts", f"SELECT {texts} FROM ({sql}) AS x({', '.join(names)})").to_arrow()
    rows = zip(*(c.to_pylist() for c in text.columns), strict=True)
    return [str(f.type).lower().replace(": ", ":").replace(", ", ",") for f in view.plan.root.fields], sorted(
        map(list, rows), key=str
    )


def same(types: list[str], rows: list[list[str | None]], expected: list[list[str | None]]) -> bool:
    """Doubles are the same when they are as near as two orders of adding them up."""
    if len(rows) != len(expected):
        return False
    for row, other in zip(rows, expected, strict=True):
        for kind, x, y in zip(types, row, other, strict=True):
            if x == y or (kind == "double" and x and y and np.isclose(float(x), float(y), 1e-12, 0, equal_nan=True)):
                continue
            return False
    return True


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("area", RECORDS)
def test_view_agrees_with_spark(area: str, part: int) -> None:
    wrong: list[tuple[Any, ...]] = []
    for number, record in list(enumerate(RECORDS[area]))[part::PARTS]:
        sql = lowered(record["sql"]) if number % 2 else record["sql"]
        try:
            types, rows = answer(sql)
        except freshet.FreshetError as e:
            if "error" not in record:
                wrong.append((sql, "refused", str(e)))
            continue
        if "error" in record:
            if record["error"].endswith("_DIFF_TYPES") and ROW_OF_COLUMNS.search(sql):
                continue
            wrong.append((sql, "answered", record["error"]))
        elif types != record["types"] or not same(types, rows, record["rows"]):
            wrong.append((sql, types, rows, "expected", record["types"], record["rows"]))
    assert not wrong, f"{len(wrong)} differ, first:\n" + "\n".join(map(str, wrong[:10]))
