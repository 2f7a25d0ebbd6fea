"""Passes anything that Arrow, pandas, polars and Python can hold, valid or not, to `db.apply`, for columns of every
type.

Law: rows are either accepted, and then read back with the same values, or refused with a ChangeError; after a refusal
the database, including its pool of text, is unchanged. Child processes apply the rows, so that an invalid memory access
is a failure of one case.

    python -m tests.fuzz.bad_input --seed 7 --calls 20000
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

import freshet
from freshet.database.db import Database, inside
from freshet.errors import ChangeError
from tests.fuzz.choices import Choices
from tests.fuzz.contained import WrongError, contained
from tests.fuzz.strange_arrays import strange_array

COLUMNS = {
    "k": "TINYINT", "i": "INT", "l": "BIGINT", "f": "FLOAT", "x": "DOUBLE", "n": "DECIMAL(10,2)", "w": "DECIMAL(38,10)",
    "b": "BOOLEAN", "s": "STRING", "v": "VARCHAR(3)", "d": "DATE", "t": "TIMESTAMP", "y": "BINARY",
    "a": "ARRAY<INT>",
}  # fmt: skip
#: Values of Python, from plain to strange.
VALUES: tuple[Any, ...] = (
    None, 0, 1, -1, 127, 128, 2**31, 2**63, -(2**63), True, False, 0.0, -0.0, 1.0, 1.5, 1e300, math.nan, math.inf,
    -math.inf, Decimal("1.25"), Decimal("0.005"), "", "a", "abcd", "12", "1.5", "2020-01-01", "\0", "😀", b"a", b"\xff",
    b"", dt.date(2020, 1, 1), dt.date.max, dt.date.min, dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 23, 59),
    dt.datetime.max, dt.time(1), dt.timedelta(1), [], [1], {"a": 1},
)  # fmt: skip
_ENDLESS: list[Any] = [1]
_ENDLESS.append(_ENDLESS)
#: And those that polars does not take at all.
STRANGE: tuple[Any, ...] = (
    *VALUES, bytearray(b"a"), memoryview(b"ab"), memoryview(b"abcd")[::2], np.bytes_(b"a"),
    10**30, 10**5000, Decimal("NaN"), Decimal("Infinity"), Decimal(10) ** 40, "\ud800", np.int8(1),
    dt.datetime(2020, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=2))), np.float32(1.5), np.bool_(True), np.str_("a"),
    np.datetime64("2020-01-01"), np.datetime64("NaT"), np.datetime64("2020-01-01T10:00:00.000000001"),
    np.datetime64(2**62, "s"), np.datetime64(2**40, "D"), pd.NaT, pd.NA,
    pd.Timestamp("2020-01-01"), pd.Timedelta(1), {}, (), set(), 1j, object(), int, ...,
    _ENDLESS, [_ENDLESS], {"a": _ENDLESS}, (1, None), [1.5], ["1"], {1}, range(2), np.array([1, 2]), [[1]], [2**31],
)  # fmt: skip


def _of(*kinds: type) -> tuple[Any, ...]:
    return tuple(v for v in VALUES if v is None or type(v) in kinds)


_NUMBERS = (pa.int8(), pa.int64(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(10, 2), pa.decimal256(50, 3))
_STRINGS = (pa.string(), pa.large_string())
_BYTES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(3))
_TIMES = (pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns", "+02:00"))
#: Types and values that a column often takes.
_NEAR = {
    **dict.fromkeys(("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(10,2)", "DECIMAL(38,10)"), _NUMBERS),
    **dict.fromkeys(("STRING", "VARCHAR(3)"), _STRINGS), **dict.fromkeys(("DATE", "TIMESTAMP"), _TIMES),
    "BOOLEAN": (pa.bool_(),), "BINARY": _BYTES,
}  # fmt: skip
_LIKELY = {
    **dict.fromkeys(("TINYINT", "INT", "BIGINT"), _of(int)), **dict.fromkeys(("FLOAT", "DOUBLE"), _of(int, float)),
    **dict.fromkeys(("DECIMAL(10,2)", "DECIMAL(38,10)"), _of(int, Decimal)),
    **dict.fromkeys(("STRING", "VARCHAR(3)"), _of(str)), "BOOLEAN": _of(bool), "DATE": _of(dt.date, dt.datetime),
    "TIMESTAMP": _of(dt.date, dt.datetime), "BINARY": _of(bytes),
}  # fmt: skip


@dataclass(frozen=True)
class Given:
    """The input rows, and their plain values by column; None if only a refusal is correct."""

    rows: Any
    what: str

    def __str__(self) -> str:
        return self.what


@cache
def database() -> Database:
    db = freshet.connect()
    db.execute(f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, type_ in COLUMNS.items())})")
    db.create_view("answer", "SELECT * FROM t")
    db.create_view("texts", "SELECT s, COUNT(*) AS n FROM t GROUP BY s")
    db.apply({"t": [{"s": "stays", "l": 1}]})
    return db


def draw(choices: Choices) -> Given:
    form = choices.pick(("arrow", "arrow", "arrow", "dicts", "dicts", "pandas", "polars"))
    names = choices.some(list(COLUMNS), 1, 3)
    rows = 1 + choices.below(4)
    if choices.chance(5):
        names.append(choices.pick(("_weight", "_change_type", "nothing", "K", names[0])))
    if form == "arrow":
        arrays = [strange_array(choices, rows, _NEAR.get(COLUMNS.get(name, ""))) for name in names]
        shown = ", ".join(f"{n}: {a.type} {_shown(a)}" for n, a in zip(names, arrays, strict=True))
        made: Any = pa.Table.from_arrays(arrays, names=names)
        if choices.chance(30):
            made = made.to_batches()[0] if made.num_rows else made
        elif choices.chance(30):
            made = pa.concat_tables([made, made])
        return Given(made, f"{type(made).__name__} of {rows} rows, {shown}")
    pool = VALUES if form == "polars" else STRANGE
    likely = [_LIKELY.get(COLUMNS.get(name, ""), VALUES) if choices.chance(50) else pool for name in names]
    values = [[choices.pick(some) for _ in range(rows)] for some in likely]
    what = f"{form} of " + ", ".join(f"{n}: {_brief(v)}" for n, v in zip(names, values, strict=True))
    if form == "dicts":
        return Given([dict(zip(names, row, strict=True)) for row in zip(*values, strict=True)], what)
    try:
        if form == "pandas":
            series = [pd.Series(v, dtype=object if choices.chance(50) else None) for v in values]
            frame = pd.concat(series, axis=1)
            frame.columns = pd.Index(names)
            return Given(frame, what)
        return Given(pl.DataFrame({n: pl.Series(v, strict=False) for n, v in zip(names, values, strict=True)}), what)
    except Exception:  # pandas and polars do not take everything either
        return Given(choices.pick(STRANGE), "a value instead of rows: " + what)


def _brief(values: list[Any]) -> str:
    return "[" + ", ".join("10**5000" if isinstance(v, int) and v > 10**100 else ascii(v) for v in values) + "]"


def _shown(array: pa.Array) -> str:
    try:
        array.validate(full=True)
        return _brief(array.to_pylist())
    except Exception as e:
        return f"not sound: {str(e)[:60]}"


def run(given: Given) -> str:
    db = database()
    before = (
        db.version,
        inside(db).state.core.pool.live,
        db.view("answer").count(),
        db.view("texts").to_arrow().num_rows,
    )
    try:
        tx = db.apply({"t": given.rows})
    except ChangeError as e:
        if len(str(e)) > 1_000:
            raise WrongError(f"the message has {len(str(e))} characters") from None
        after = (
            db.version,
            inside(db).state.core.pool.live,
            db.view("answer").count(),
            db.view("texts").to_arrow().num_rows,
        )
        if before != after:
            raise WrongError(f"refused, but {before} became {after}") from e
        return "refused"
    try:
        _check(given.rows, tx.deltas["answer"])
    finally:
        db.execute("DELETE FROM t WHERE s IS DISTINCT FROM 'stays'")
    return "taken"


def _check(rows: Any, delta: pa.Table) -> None:
    """Accepted rows equal the input, including their multiplicity."""
    try:
        given = [{str(name).lower(): value for name, value in row.items()} for row in _as_dicts(rows)]
    except (OverflowError, ValueError):
        return  # moments that Arrow holds and Python does not
    rows_added = delta.to_pylist()
    if any(w.get("_weight", 1) != 1 or "_change_type" in w or any(v is pd.NaT for v in w.values()) for w in given):
        return
    want = sorted(repr([_wanted(type_, row.get(name)) for name, type_ in COLUMNS.items()]) for row in given)
    got = sorted(repr([row[name] for name in COLUMNS]) for row in rows_added for _ in range(row["_weight"]))
    if want != got:
        pairs = [f"given {w}, found {g}" for w, g in zip(want, got, strict=False) if w != g]
        raise WrongError(pairs[0] if pairs else f"{len(want)} rows given, {len(got)} found")


def _as_dicts(rows: Any) -> list[dict[str, Any]]:
    if isinstance(rows, (pa.Table, pa.RecordBatch)):
        return list(rows.to_pylist())
    if isinstance(rows, pd.DataFrame):
        return [
            {name: None if _is_nan(v) else v for name, v in zip(rows.columns, row, strict=True)}
            for row in rows.itertuples(index=False, name=None)
        ]
    return list(rows.to_dicts()) if isinstance(rows, pl.DataFrame) else list(rows)


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, Decimal)) and math.isnan(value)


def _wanted(type_: str, value: Any) -> Any:
    """The value as a column of the type returns it; NaN is also NULL in pandas."""
    if isinstance(value, np.generic):
        value = value.astype("M8[us]").item() if isinstance(value, np.datetime64) else value.item()
    if value is None or value is pd.NA or value is pd.NaT:
        return None
    if type_ == "FLOAT":
        return float(np.float32(value)) + 0.0
    if type_ == "DOUBLE":
        return float(value) + 0.0
    if type_.startswith("DECIMAL"):
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        scale = Decimal(1).scaleb(-2 if type_ == "DECIMAL(10,2)" else -10)
        rounded = exact.quantize(scale, ROUND_HALF_UP, Context(prec=60))
        return rounded if rounded else abs(rounded)
    if type_ in ("TINYINT", "INT", "BIGINT"):
        return int(value)
    if type_ == "DATE":
        return value.date() if isinstance(value, dt.datetime) else value
    if type_ == "TIMESTAMP":
        return _utc(value)
    if type_ == "BINARY":
        return bytes(value)
    if type_ == "ARRAY<INT>":
        return [_wanted("INT", v) for v in value]
    if type_ in ("STRING", "VARCHAR(3)"):
        return bytes(value).decode() if isinstance(value, (bytes, bytearray, memoryview)) else str(value)
    return value


def _utc(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time())
    if isinstance(value, pd.Timestamp):
        value = value.to_pydatetime(warn=False)
    moment: dt.datetime = value
    return moment if moment.tzinfo is None else moment.astimezone(dt.UTC).replace(tzinfo=None)


if __name__ == "__main__":
    sys.exit(contained("tests.fuzz.bad_input", "Rows that nobody should give.", draw, run))
