"""Random calls of functions, extreme arguments included, compared with Spark's answers: type, value or refusal.

    python -m tests.fuzz.functions_spark --seed 7 --calls 5000

Intended differences are in `is_documented`, with the reason, and in docs/sql.md.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from typing import Any

import freshet
from freshet.errors import EvaluationError, SqlError, UnsupportedError
from freshet.scalar.expression import Literal
from freshet.scalar.functions import cast
from freshet.scalar.types import MICROS, MONTHS, STRING, VOID
from tests.fuzz.choices import Choices
from tests.fuzz.function_calls import FunctionCall, draw
from tests.scalar import spark_cases
from tests.scalar.test_functions_spark import answer, is_exempt, same

_BATCH = 16
_LONGEST = 200  # characters of a text that is sent to Spark
#: Names that SQL does not write as functions.
_UNWRITTEN = {
    "case", "single", "only_row", "plus_interval", "dayofweek_iso", "yearofweek", "seconds", "distinct_from",
    "is_not_null", "starts_with", "ends_with", "square", "trim", "ltrim", "rtrim", "not_distinct", "try_mod",
    "nulls_first_lt", "try_to_timestamp_ntz",
}  # fmt: skip
_OUTSIDE = re.compile(r"[+-]|0000|\d{5,}-")
Record = dict[str, Any]


def as_case(call: FunctionCall) -> spark_cases.Case | None:
    """The first row of a call in the form of a Spark query; None if there is none."""
    if call.rows == 0 or call.name in _UNWRITTEN:
        return None
    args: list[spark_cases.Argument] = []
    for a in call.args:
        if a.type in (MONTHS, MICROS, VOID) or a.type.length is not None:
            return None
        value = Literal(a.type, a.values[0])
        text = _text(value)
        if text is not None and (len(text) > _LONGEST or "\0" in text):
            return None
        plain = a.type.name in ("INT", "STRING", "BINARY") and text is not None
        args.append([str(a.type), text, "literal"] if a.is_literal and plain else [str(a.type), text])
    if (
        (call.to is not None and call.to.length is not None)
        or not args
        or (call.name in ("and", "or") and len(args) > 2)
    ):
        return None
    if all(len(a) == 3 for a in args):
        args[0].pop()  # a case has a column
    return call.name, args, None if call.to is None else str(call.to)


def _text(value: Literal) -> str | None:
    if isinstance(value.value, bytes):
        return value.value.hex().upper()
    shown = cast(value, STRING)
    assert isinstance(shown, Literal)
    return None if shown.value is None else str(shown.value)


def is_documented(case: Record, got: object) -> bool:
    """Whether this is an intended difference from Spark."""
    if got == "error" and any(text is None for _, text, *_ in case["args"]):
        return True  # a literal without a value is refused even if it is combined only with NULLs
    if got == "error" and case.get("type") in ("DATE", "TIMESTAMP") and _OUTSIDE.match(str(case["value"])):
        return True  # years other than 1 to 9999
    return is_exempt(case)


def compare(record: Record) -> str:
    """The comparison of the answers to one case: "same", "both refuse", "documented", "not supported", or the
    difference."""
    if record.get("type") == "TIMESTAMP_NTZ":  # the session's zone is UTC
        record["type"] = "TIMESTAMP"
    expected: object = (record["type"], record["value"]) if "error" not in record else "error"
    try:
        got: object = answer(record)
    except UnsupportedError:
        return "not supported"
    except (SqlError, EvaluationError) as e:
        if str(e).startswith("no function "):
            return "types refused"
        got, why = "error", str(e)
    else:
        why = ""
    if same(got, expected, record["name"]):
        return "both refuse" if got == "error" else "same"
    if is_documented(record, got):
        return "documented"
    shown = [*record["args"], record.get("to")]
    return f"DIFFERS {record['name']} {shown}: Spark {expected} {record.get('error', '')}, here {got} {why}"


def main() -> int:
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser(description="Functions called with extreme arguments, compared with Spark.")
    parser.add_argument("--calls", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    freshet.connect()
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in (("spark.sql.ansi.enabled", "true"), ("spark.sql.session.timeZone", "UTC"),
                       ("spark.driver.memory", "2g")):  # fmt: skip
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    counts: Counter[str] = Counter()
    asked: list[spark_cases.Case] = []
    for seed in range(given.seed, given.seed + given.calls):
        case = as_case(draw(Choices(seed=seed), nested=False))
        asked += [] if case is None else [case]
        if len(asked) == _BATCH or (asked and seed == given.seed + given.calls - 1):
            for record in spark_cases.ask(spark, asked):
                kind = compare(record)
                counts[kind.split(" ")[0] if kind.startswith("DIFFERS") else kind] += 1
                if kind.startswith("DIFFERS"):
                    print(kind, flush=True)
            asked = []
    print(f"{sum(counts.values())} cases: {dict(counts)}")
    return 1 if counts["DIFFERS"] else 0


if __name__ == "__main__":
    sys.exit(main())
