"""Every function over typed arguments, compared with Spark's results (functions_spark.json): result type and value."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import freshet
from freshet.errors import EvaluationError, SqlError
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, text_of
from freshet.scalar.expression import ColumnRef, Expression, Literal
from freshet.scalar.functions import build, cast, try_cast
from freshet.scalar.functions.rows import constant, gather
from freshet.scalar.types import BINARY, STRING, Type, decimal, interval
from tests.scalar import spark_cases

CASES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("functions_spark.json").read_text())
for _case in CASES:  # timestamps without a zone have the type of the others, since the session's zone is UTC
    _case.update({"type": "TIMESTAMP"} if _case.get("type") == "TIMESTAMP_NTZ" else {})
#: Functions whose last digits are the C library's here and Java's there.
APPROXIMATE = {
    "exp", "expm1", "cbrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "hypot", "ln",
    "log", "log10", "log2", "log1p", "degrees", "radians", "asinh", "acosh", "atanh", "cot", "sec", "csc",
}  # fmt: skip


def parse_type(text: str) -> Type:
    if text.startswith("INTERVAL "):
        return interval(*text.removeprefix("INTERVAL ").split(" TO "))
    match = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", text)
    return decimal(int(match[1]), int(match[2])) if match else Type(text)


def value_of(kind: str, text: str | None) -> Literal:
    if kind == "INTERVAL":
        _, text, unit = str(text).replace("'", "").split()
        kind = f"INTERVAL {unit}"
    if kind == "UNIT":
        return Literal(STRING, text)
    if kind == "BINARY" and text is not None:
        return Literal(BINARY, bytes.fromhex(text))
    made = cast(Literal(STRING, text), parse_type(kind))
    assert isinstance(made, Literal)
    return made


def made(case: dict[str, Any], args: list[Expression]) -> Expression:
    if case["name"] == "try_cast":
        return try_cast(args[0], parse_type(case["to"]))
    return build(case["name"], args, type=parse_type(case["to"]) if "to" in case else None)


def answer(case: dict[str, Any]) -> tuple[str, str | None]:
    args: list[Expression] = []
    values = []
    for i, (kind, text, *is_literal) in enumerate(case["args"]):
        value = value_of(kind, text)
        values.append(constant(value))
        value = replace(value, written=bool(is_literal))
        args.append(value if is_literal else ColumnRef(value.type, 0, i, f"c{i}"))
    expression = made(case, args)
    written = _written(expression)
    column = evaluate(written, lambda c: values[c.column], 1)
    text = None if column.valid is not None and not column.valid[0] else text_of(column)[0].as_py()
    return str(expression.type), text


def _written(expression: Expression) -> Expression:
    return build("hex", (expression,)) if expression.type == BINARY else cast(expression, STRING)


def _reads_no_text(case: dict[str, Any]) -> bool:
    try:
        answer(case)
    except (SqlError, EvaluationError) as e:
        return "is not text in UTF-8; show it" in str(e)
    return False


def is_exempt(case: dict[str, Any]) -> bool:
    """Whether this is an intended difference from Spark."""
    kinds, texts = [a[0] for a in case["args"]], [a[1] for a in case["args"]]
    if case.get("to") == "TIMESTAMP" and kinds[0].startswith("DECIMAL(38"):
        return True  # Spark wraps around silently
    if case.get("to") == "TIMESTAMP" and texts[0] in ("9223372036854775807", "1234567890123.45"):
        return True  # outside the years 1 to 9999
    if case["name"] in ("negate", "negative") and kinds[0].startswith("DECIMAL(38"):
        return True  # Spark refuses a value that fits
    if str(case.get("to")).startswith("DECIMAL") and texts[0] in ("NaN", "Infinity", "-Infinity"):
        return True  # Spark returns NULL, ANSI or not
    if case["name"] in ("eq", "lt", "ge") and texts == [None, "2024-02-29"]:
        return True  # a literal that is not a number is refused when the query is bound, NULL column or not
    if case["name"] == "div" and "value" in case and case["value"] is not None and "DECIMAL" in str(kinds):
        quotient = Decimal(str(texts[0])) / Decimal(str(texts[1]))
        if abs(quotient) >= 2**63:
            return True  # Spark wraps around silently
    if "BINARY" in kinds and _reads_no_text(case):
        return True  # bytes that are not valid text are refused
    return case.get("to") == "STRING" and texts[0] == "123456789012345680"  # Java 17 does not always write the shortest


def same(got: object, expected: object, name: str = "") -> bool:
    """Doubles are the same when their values are, however many digits show it."""
    if got == expected or not (isinstance(got, tuple) and isinstance(expected, tuple)):
        return got == expected
    if got[0] != expected[0] or got[0] not in ("DOUBLE", "FLOAT") or None in (got[1], expected[1]):
        return False
    if name in APPROXIMATE:
        return bool(np.isclose(float(got[1]), float(expected[1]), rtol=1e-15, atol=1e-15, equal_nan=True))
    kind = np.float32 if got[0] == "FLOAT" else np.float64
    return bool(kind(got[1]) == kind(expected[1]))


@pytest.mark.parametrize("name", sorted({c["name"] for c in CASES}))
def test_function_agrees_with_spark(name: str) -> None:
    wrong = []
    for case in CASES:
        if case["name"] != name or is_exempt(case):
            continue
        expected = (case["type"], case["value"]) if "error" not in case else "error"
        try:
            got: object = answer(case)
        except (SqlError, EvaluationError):
            got = "error"
        if not same(got, expected, name):
            wrong.append((case["args"], case.get("to"), "expected", expected, case.get("error"), "got", got))
    assert not wrong, f"{len(wrong)} differ, first: " + "\n".join(map(str, wrong[:15]))


def test_batches_agree_with_spark() -> None:
    """The same cases, those of one function and argument types as the rows of one batch."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for case in CASES:
        if "error" not in case and not is_exempt(case):
            shape = [(a[0], a[1] if len(a) == 3 else None, len(a)) for a in case["args"]]
            groups.setdefault(str((case["name"], shape, case.get("to"))), []).append(case)
    batches = [g for g in groups.values() if len(g) > 1]
    assert len(batches) > 100
    for batch in batches:
        args: list[Expression] = []
        columns = []
        for i, (kind, text, *is_literal) in enumerate(batch[0]["args"]):
            values = [value_of(kind, c["args"][i][1]) for c in batch]
            rows = [constant(v) for v in values]
            columns.append(gather(values[0].type, [(np.array([r]), c) for r, c in enumerate(rows)], len(rows)))
            args.append(value_of(kind, text) if is_literal else ColumnRef(values[0].type, 0, i, f"c{i}"))
        expression = made(batch[0], args)
        written = evaluate(_written(expression), partial(_served, columns), len(batch))
        texts = text_of(written).to_pylist()
        known = [True] * len(batch) if written.valid is None else written.valid.tolist()
        for case, text, is_known in zip(batch, texts, known, strict=True):
            got = (str(expression.type), text if is_known else None)
            assert same(got, (case["type"], case["value"]), case["name"]), (case, got)


def _served(columns: list[Column], column: ColumnRef) -> Column:
    return columns[column.column]


@pytest.mark.parametrize("name", sorted({c["name"] for c in CASES}))
def test_function_is_read_from_sql(name: str) -> None:
    """Some cases of each function as the text of a view: the parser's nodes are bound to the right functions."""
    cases = [c for c in CASES if c["name"] == name and "error" not in c and not is_exempt(c) and c["value"] is not None]
    with_columns = [c for c in cases if any(len(a) == 2 for a in c["args"]) and "FLOAT" not in str(c["args"])]
    for case in with_columns[:: max(1, len(with_columns) // 3)][:3]:
        expression, fields = spark_cases.sql(name, case["args"], case.get("to"))
        db = freshet.connect()
        shown = f"HEX({expression})" if case["type"] == "BINARY" else f"CAST({expression} AS STRING)"
        columns = [f"c{i} {a[0]}" for i, a in enumerate(case["args"]) if len(a) == 2]
        db.execute(f"CREATE TABLE t ({', '.join(columns)})")
        view = db.create_view("v", f"SELECT {shown} AS x FROM t")
        db.execute(f"INSERT INTO t SELECT {fields}")
        (value,) = view.to_arrow()["x"].to_pylist()
        assert same((case["type"], value), (case["type"], case["value"]), name), (expression, value, case)
