"""Values that nobody should give as a key, a parameter, a time or an option: each is taken or refused with one of the
errors that are documented, and none is read as another value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import freshet
from tests.fuzz.bad_input import COLUMNS, STRANGE

MORE = {"p": "INTERVAL DAY TO SECOND", "q": "INTERVAL YEAR TO MONTH"}
CONNECT: Any = freshet.connect
BEYOND = (
    dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=5))), dt.timedelta.max, dt.timedelta.min, 10**400,
    Decimal("1E+400"), Decimal("1E-400"), Decimal("sNaN"), Decimal(10**5000), np.array([1, 2]), np.array(5),
    np.datetime64(2**62, "s"), np.datetime64(1, "ns"), np.timedelta64(2**62, "D"), np.timedelta64(5, "ns"),
    pd.Timestamp.max, pd.Timedelta.max, "12:30", "2020-01-01T10:00+99:00",
)  # fmt: skip


def _answers(call: Callable[[], object]) -> None:
    with suppress(freshet.FreshetError):
        call()


@pytest.mark.parametrize("value", [*STRANGE, *BEYOND], ids=lambda value: type(value).__name__)
def test_keys_parameters_and_times(value: Any) -> None:
    db = freshet.connect()
    columns = {name: type_ for name, type_ in (COLUMNS | MORE).items() if not type_.startswith("ARRAY")}
    db.execute(f"CREATE TABLE t ({', '.join(f'{name} {type_}' for name, type_ in columns.items())})")
    view = db.create_view("v", "SELECT * FROM t")
    for name in columns:
        db.execute(f"CREATE INDEX ON v ({name})")
        _answers(partial(view.find, value, by=name))
        _answers(partial(view.find, (value,), by=name))
    _answers(lambda: value in view)
    _answers(lambda: db.query("SELECT ? AS a", [value]))
    _answers(lambda: db.query("SELECT 1 AS a LIMIT ?", [value]))
    _answers(lambda: db.query("SELECT i FROM t WHERE t = :a", {"a": value}))
    _answers(lambda: db.query("SELECT 1 AS a", value))
    _answers(lambda: db.advance(value))


@pytest.mark.parametrize(("value", "message"), [
    (dt.timedelta.max, "longer than an INTERVAL"), (pd.NaT, "NaT is not a time"),
    (BEYOND[0], "outside the years 1 to 9999"), (np.datetime64(2**62, "s"), "outside the years 1 to 9999"),
    (np.array([1, 2]), "of type ndarray, which no SQL type holds"),
])  # fmt: skip
def test_parameters_beyond_their_types(value: Any, message: str) -> None:
    with pytest.raises(freshet.SqlError, match=message):
        freshet.connect().query("SELECT ? AS a", [value])


def test_moments_of_numpy_by_any_unit() -> None:
    given = [
        np.datetime64("2024-01-02T03:04:05.000001", "ns"),
        np.timedelta64(1_500, "ms"),
        np.datetime64("2024-01-02"),
    ]
    (row,) = freshet.connect().query("SELECT ? AS a, ? AS b, ? AS c", given).to_pylist()
    assert row == {
        "a": dt.datetime(2024, 1, 2, 3, 4, 5, 1),
        "b": dt.timedelta(seconds=1.5),
        "c": dt.date(2024, 1, 2),
    }


@pytest.mark.parametrize("to", [pd.NaT, dt.timedelta.max, "\ud800", BEYOND[0]], ids=str)
def test_times_of_the_clock(to: Any) -> None:
    db = freshet.connect()
    with pytest.raises(freshet.ChangeError, match=r"is not a time|outside the years 1 to 9999"):
        db.advance(to)
    assert db.version == 0


def test_a_parameter_is_named_as_it_was_written() -> None:
    assert freshet.connect().query("SELECT ?, 1 + ?, ?", [1, 2, 3]).column_names == ["?", "1 + ?", "?_2"]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda db, view: db.query(None), freshet.SqlError, "SQL is a text, not None"),
    (lambda db, view: db.execute(b"SELECT 1"), freshet.SqlError, "SQL is a text, not X'"),
    (lambda db, view: db.create_view("w", None), freshet.SqlError, "SQL is a text, not None"),
    (lambda db, view: db.create_view(None, "SELECT 1 AS a"), freshet.SqlError, "None is no name of a view"),
    (lambda db, view: db.create_function(None, len, returns="INT"), freshet.SqlError, "None is not a name"),
    (lambda db, view: view.find(1, by=3), freshet.PlanError, "by is 3; give the name of a column"),
    (lambda db, view: view.at("1"), ValueError, "version is '1'; give the number of a version"),
    (lambda db, view: view.changes(since="x"), ValueError, "since is 'x'; give the number of a version"),
    (lambda db, view: next(view.batches("x")), ValueError, "a batch of 'x' rows"),
    (lambda db, view: view.subscribe(None), ValueError, "callback is None; give something that can be called"),
    (lambda db, view: db.execute("SELECT 1 AS a", seconds="x"), ValueError, "seconds is 'x'; give a number"),
    (lambda db, view: CONNECT(adapt="x"), ValueError, "adapt is 'x'; give True"),
    (lambda db, view: CONNECT(functions={"f": 5}), ValueError, "functions has 'f': 5; give names"),
])  # fmt: skip
def test_arguments_of_other_types(call: Any, error: type[Exception], message: str) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (a INT)")
    view = db.create_view("v", "SELECT a FROM t")
    with pytest.raises(error, match=message):
        call(db, view)


@pytest.mark.parametrize("moment", [np.datetime64(2**62, "s"), np.datetime64(2**62, "D"), np.datetime64(8030, "Y")])
def test_moments_of_numpy_beyond_the_years_are_not_wrapped_around(moment: np.datetime64) -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE t (d DATE, ts TIMESTAMP)")
    for column in ("d", "ts"):
        frame = pd.DataFrame({column: pd.Series([moment], dtype=object)})
        for rows in ([{column: moment}], frame):
            with pytest.raises(freshet.ChangeError, match=r"row 0: .* outside the years 1 to 9999"):
                db.apply({"t": rows})
