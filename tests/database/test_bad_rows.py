"""Invalid rows: refused with table, row, column and remedy, and nothing changes; and valid rows in rare forms, which
are accepted. `python -m tests.fuzz.bad_input` tests many more."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import freshet
from freshet.database.db import Database, inside
from freshet.scalar import arrow

CALLS = 2_000
VIEW = pa.string_view()


class Evil:
    def __repr__(self) -> str:
        raise RuntimeError("no")


def texts(offsets: list[int], data: bytes, type_: pa.DataType | None = None) -> pa.Array:
    """Strings over any bytes, at any offsets."""
    type_ = type_ or pa.string()
    places = np.array(offsets, np.int64 if type_ == pa.large_string() else np.int32)
    return pa.Array.from_buffers(type_, len(offsets) - 1, [None, pa.py_buffer(places), pa.py_buffer(data)])


def coded(places: list[int], values: pa.Array) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(places), values, safe=False)


@pytest.fixture
def db() -> Database:
    db = freshet.connect()
    db.execute("""CREATE TABLE t (l BIGINT, s STRING, v VARCHAR(3), d DATE, ts TIMESTAMP, x DOUBLE, n DECIMAL(10,2),
                  b BOOLEAN)""")
    db.create_view("answer", "SELECT * FROM t")
    db.apply({"t": [{"s": "stays"}]})
    return db


REFUSED: list[tuple[Any, str]] = [
    ([{"d": dt.datetime(2020, 1, 1, 23, 59)}], "row 0: d: .* has a time of day"),
    ([{"d": dt.date(2020, 1, 1)}, {"d": dt.datetime(2020, 1, 1, 1)}], "row 1: d: .* has a time of day"),
    ([{"d": 5}], "row 0: d is 5, not a value of DATE"),
    ([{"ts": dt.date(2020, 1, 1)}, {"ts": 127}], "row 1: ts is 127, not a value of TIMESTAMP"),
    (pa.table({"d": pa.array([0, 3_000_000], pa.int32()).cast(pa.date32())}), "row 1: d: a DATE outside the years"),
    (pa.table({"d": pa.array([-800_000], pa.int32()).cast(pa.date32())}), "row 0: d: a DATE outside the years"),
    *((pa.table({"ts": pa.array([0, 2**62], pa.timestamp(unit))}), "row 1: ts: a TIMESTAMP outside the years")
      for unit in ("s", "ms", "us")),
    (pd.DataFrame({"ts": [dt.date(2020, 1, 1), dt.datetime.max, 5]}), "row 2: ts is 5"),
    ([{"l": 10**5000}], "row 0: l is a number of 16,610 bits, not a value of BIGINT"),
    ([{"x": 10**5000}], "row 0: x is a number of 16,610 bits"),
    ([{"n": 1}, {"n": Decimal("Infinity")}], r"row 1: n is Decimal\('Infinity'\)"),
    ([{"n": Decimal("NaN")}], r"row 0: n is Decimal\('NaN'\)"),
    ([{"l": np.datetime64("2020-01-01")}], "row 0: l is np.datetime64.*, not a value of BIGINT"),
    ([{"l": np.datetime64("2020-01-01")}, {"l": np.bool_(True)}], "row 0: l is"),
    (pd.Series([1], name="l"), "rows are a Series; give"),
    (pl.Series("l", [1]), "rows are a Series; give"),
    (pl.DataFrame({"l": pl.Series([1], dtype=pl.Int128)}), "the DataFrame has no Arrow form .*; cast its columns"),
    (pd.DataFrame({"l": [1, "a", None]}), "row 1: l: 'a' .* is not a value of BIGINT"),
    (pd.DataFrame({"s": ["a", 1]}), "row 1: s is 1, not a value of STRING; give text"),
    (pd.DataFrame([[1, 2]], columns=["l", "l"]), "'l' is given twice"),
    ([{"s": "a"}, {"s": "\ud800"}], r"row 1: s is '\\ud800', not a value of STRING"),
    ([{"\ud800": 1}], "is not a column; the table has l, s"),
    ([{"l": Evil()}], "row 0: l is a Evil"),
    ([{}], "row 0: the row is an empty dict"),
    (pa.table({"s": texts([0, 1, 2], b"a\xff")}), "row 1: s is not a valid string .*UTF8"),
    (pa.table({"s": texts([0, 1, 2], b"a\xff", pa.large_string())}), "row 1: s is not a valid large_string"),
    (pa.table({"v": texts([0, 1, 2], b"a\xff")}), "row 1: v is not a valid string"),
    (pa.table({"s": pa.chunked_array([pa.array(["b"]), texts([0, 1, 2], b"a\xff")])}), "row 2: s is not a valid"),
    (pa.table({"s": coded([0, 1], texts([0, 1, 2], b"a\xff"))}), "s is not a valid dictionary"),
    (pa.table({"s": texts([0, 3, 1, 4], b"abcd")}), "s is not a valid string .*non-monotonic"),
    (pa.table({"s": texts([0, 300, 4], b"abcd")}), "s is not a valid string .*out of bounds"),
    (pa.table({"s": coded([0, 7], pa.array(["a"]))}), "row 1: s is not a valid dictionary"),
    (pa.table({"l": coded([0, -1], pa.array([1]))}), "row 1: l is not a valid dictionary"),
    (pa.table({"l": [[1]]}), r"row 0: l: \[1\] \(list"),
    (pa.table({"s": [{"a": 1}]}), "row 0: s: .*struct"),
    (pa.table({"n": pa.array([Decimal(1), Decimal(10) ** 50], pa.decimal256(60, 0))}), "row 1: n: .* 38 digits"),
    (pa.Table.from_arrays([pa.array([1])] * 3, ["l", "_weight", "_weight"]), "_weight is given twice"),
    *(([{"l": 1, "_weight": 1}, {"l": 1, "_weight": w}], "row 1: _weight is .*, not a whole number")
      for w in ("1", True, dt.datetime(2020, 1, 1), Decimal(1), 10**30)),
    ([{"l": 1, "_weight": 1.5}], "row 0: _weight is 1.5, not a whole number"),
    *((pa.table({"l": [1], "_weight": pa.array([w], kind)}), "_weight is .*, not whole numbers")
      for w, kind in (("1", pa.string()), (True, pa.bool_()), (1, pa.timestamp("us")), (1, pa.date32()))),
]  # fmt: skip


def test_lists_without_end_and_very_deep_ones(db: Database) -> None:
    endless: list[Any] = []
    endless.append(endless)
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    db.execute("CREATE TABLE lists (a ARRAY<INT>, s STRUCT<x: INT>)")
    for value in (endless, deep, {"x": endless}, {"x": deep}, (deep,)):
        for rows in ([{"l": value}], [{"n": value}]):
            with pytest.raises(freshet.ChangeError, match=r"row 0: . is .*, not a value of .*; give numbers"):
                db.apply({"t": rows})
        for lists in ([{"a": value}], [{"s": value}], [(value, value)], pd.DataFrame({"a": [value]})):
            with pytest.raises(freshet.ChangeError, match=r"row 0: . is .*, not a value of .*; give"):
                db.apply({"lists": lists})
    assert db.query("SELECT COUNT(*) AS n FROM lists").to_pylist() == [{"n": 0}]


@pytest.mark.parametrize(("rows", "says"), REFUSED)
def test_invalid_input_is_refused_and_changes_nothing(db: Database, rows: Any, says: str) -> None:
    before = db.version, inside(db).state.core.pool.live, db.view("answer").to_arrow()
    with pytest.raises(freshet.ChangeError, match=says) as refused:
        db.apply({"t": rows})
    assert str(refused.value).startswith("table t") and len(str(refused.value)) < 400
    assert (db.version, inside(db).state.core.pool.live) == before[:2] and db.view("answer").to_arrow().equals(
        before[2]
    )


TAKEN: list[tuple[Any, str, list[Any]]] = [
    ([{"d": dt.datetime(2020, 1, 1)}, {"d": dt.date(2020, 1, 2)}], "d", [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]),
    ([{"d": np.datetime64("2020-01-01")}, {"d": None}], "d", [None, dt.date(2020, 1, 1)]),
    ([{"ts": np.datetime64("2020-01-01T10:00")}, {"ts": dt.date(2020, 1, 1)}], "ts",
     [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 10)]),
    (pd.DataFrame({"ts": [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 23, 59)]}), "ts",
     [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, 23, 59)]),
    (pa.table({"ts": pa.array([253_402_300_799], pa.timestamp("s"))}), "ts", [dt.datetime(9999, 12, 31, 23, 59, 59)]),
    (pd.DataFrame({"l": pd.arrays.SparseArray([0, 1])}), "l", [0, 1]),
    (pd.DataFrame({"s": pd.Categorical(["a", "b", "a"])}), "s", ["a", "a", "b"]),
    (pl.DataFrame({"s": pl.Series(["a", "b"], dtype=pl.Categorical)}), "s", ["a", "b"]),
    (pa.table({"s": pa.DictionaryArray.from_arrays([0, 1], pa.array(["a", "b"], VIEW))}), "s", ["a", "b"]),
    (pa.table({"s": pa.chunked_array([pa.array([t]).dictionary_encode() for t in "ab"])}), "s", ["a", "b"]),
    (pa.table({"s": pa.chunked_array([pa.array([t], VIEW) for t in "ab"])}), "s", ["a", "b"]),
    (pa.table({"l": pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8])}), "l", [7, 7, 8]),
    (pa.table({"b": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, 0], pa.int8()))}), "b", [False, True]),
    (pa.table({"l": pa.nulls(1)}), "l", [None]),
    (pa.table({"l": range(9), "s": list("abcdefghi")}).slice(3, 2), "s", ["d", "e"]),
    ([{"n": 1}, {"n": Decimal("1.255")}], "n", [Decimal("1.00"), Decimal("1.26")]),
    (pa.table({"n": pa.array([Decimal(1200)], pa.decimal128(5, -2))}), "n", [Decimal("1200.00")]),
    ([{"l": 1, "_weight": np.int8(2)}], "l", [1, 1]),
]  # fmt: skip


@pytest.mark.parametrize(("rows", "column", "values"), TAKEN)
def test_rare_forms_are_taken(db: Database, rows: Any, column: str, values: list[Any]) -> None:
    (added,) = [db.apply({"t": rows}).deltas["answer"]]
    read = [row[column] for row in added.to_pylist() for _ in range(row["_weight"])]
    assert sorted(read, key=lambda v: (v is not None, v)) == values


def test_moments_read_from_memory_are_within_the_supported_years() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (d DATE, ts TIMESTAMP)")
    given = pa.array([0, 2_932_897], pa.int32()).cast(pa.date32()), pa.array([0, 0], pa.timestamp("us"))
    with pytest.raises(freshet.ChangeError, match="row 1: d: a DATE outside the years 1 to 9999"):
        db.apply({"t": pa.table(list(given), ["d", "ts"])})
    db.apply({"t": pa.table([given[0][:1], given[1][:1]], ["d", "ts"])})
    assert db.execute("SELECT * FROM t").to_pylist() == [{"d": dt.date(1970, 1, 1), "ts": dt.datetime(1970, 1, 1)}]


def test_random_rows_are_taken_or_refused() -> None:
    arguments = ["-m", "tests.fuzz.bad_input", "--seed", "0", "--calls", str(CALLS)]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert done.returncode == 0 and f"{CALLS} calls" in done.stdout, done.stdout + done.stderr


def test_much_text_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """As beyond 2 GiB, with a smaller limit."""
    monkeypatch.setattr(arrow, "MOST_TEXT", 100)
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT, s STRING)")
    for name, sql in (("plain", "SELECT k, s FROM t"), ("made", "SELECT k, UPPER(s) AS s FROM t"),
                      ("lists", "SELECT k, ARRAY_AGG(s) AS s FROM t GROUP BY k")):  # fmt: skip
        db.create_view(name, sql)
    rows = [{"k": k, "s": letter * 40} for k, letter in enumerate("abcdefgh")]
    tx = db.apply({"t": rows})
    for name in ("plain", "made", "lists"):
        delta, answer = tx.deltas[name], db.view(name).to_arrow()
        assert delta.column("s").num_chunks > 1 and answer.column("s").num_chunks > 1
        assert [b.num_rows for b in db.view(name).batches(3)] == [b.num_rows for b in db.view(name).batches(3)]
        assert {r["k"]: r["s"] for r in delta.to_pylist()} == {r["k"]: r["s"] for r in answer.to_pylist()}
    assert {r["k"]: r["s"] for r in db.view("plain").to_arrow().to_pylist()} == {r["k"]: r["s"] for r in rows}
    assert db.execute("SELECT s FROM t WHERE k = 1")["s"].to_pylist() == ["b" * 40]


def test_a_text_no_string_array_can_hold_is_refused(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "_LONGEST_TEXT", 10)
    for rows in ([{"s": "short"}, {"s": "x" * 11}], pa.table({"s": pa.array(["a", "x" * 11], pa.large_string())})):
        with pytest.raises(freshet.ChangeError, match="row 1: s: a text of 11 bytes; the limit is 10"):
            db.apply({"t": rows})
