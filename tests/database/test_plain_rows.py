"""Few rows of Python's own values, compared with the same rows given as Arrow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import freshet
from freshet.database.plain_rows import MOST_ROWS, PlainRows
from tests.oracle import same_bag

DDL = "CREATE TABLE t (i INT NOT NULL, b BIGINT, p DECIMAL(6,2), w DECIMAL(30,4), d DATE, s STRING)"
NAMES = "ibpwds"

WHOLE = st.sampled_from((0, 1, -1, True, 1.0, 2**31, 2**63 - 1, 2**63, np.int64(3), "4", None))
DECIMALS = st.sampled_from(
    (0, 7, 10**4, Decimal("1.50"), Decimal("-9999.99"), Decimal("1.234"), Decimal("1E+3"), Decimal("NaN"),
     Decimal("12345678901234567890.1234"), "2.5", 1.5, None)
)  # fmt: skip
DATES = st.sampled_from((dt.date(2024, 2, 29), dt.date(1, 1, 1), dt.datetime(2024, 1, 1, 5), "2024-01-01", 5, None))
TEXTS = st.sampled_from(("", "one", "Grüße", "\ud800", b"one", 3, None))
ROW = st.tuples(WHOLE, WHOLE, DECIMALS, DECIMALS, DATES, TEXTS)


def outcome(rows: list[Any], native: bool, ddl: str = DDL, before: Sequence[Any] = ()) -> Any:
    db = freshet.connect()
    db.execute(ddl)
    db.create_view("v", "SELECT * FROM t")
    db.apply({"t": list(before)})
    try:
        if native:
            db.apply({"t": rows})
        else:
            with patch.object(PlainRows, "read", lambda self, rows: None):
                db.apply({"t": rows})
    except freshet.ChangeError as e:
        return str(e)
    return db.view("v").to_arrow()


@settings(deadline=None)
@given(st.lists(ROW, min_size=1, max_size=3), st.booleans(), st.none() | st.sampled_from((1, 2, True, 1.0, None)))
def test_as_arrow_reads_them(rows: list[tuple[Any, ...]], dicts: bool, weight: Any) -> None:
    given: list[Any] = list(rows)
    if dicts:
        given = [dict(zip(NAMES, row, strict=True)) for row in rows]
        if weight is not None:
            given = [{**row, "_weight": weight} for row in given]
    plain, arrow = outcome(given, True), outcome(given, False)
    if isinstance(plain, str) or isinstance(arrow, str):
        assert plain == arrow
    else:
        same_bag(plain, arrow)


KEYED = "CREATE TABLE t (s STRING, w DECIMAL(30,4), b BIGINT NOT NULL, d DATE, PRIMARY KEY (s, b))"
STORED = [("a", None, 1, dt.date(2024, 1, 1)), ("a", Decimal("10.5"), 2, None), ("b", Decimal(7), 1, None)]
KINDS = ("insert", "delete", "update_preimage", "update_postimage", "upsert", "other", None, 1)


@st.composite
def fed(draw: st.DrawFn) -> dict[str, Any]:
    row: dict[str, Any] = {"s": draw(st.sampled_from("abc")), "b": draw(st.sampled_from((1, 2, 3)))}
    if draw(st.booleans()):
        row["w"] = draw(st.sampled_from((None, Decimal("10.5"), 7, Decimal("1.23456"))))
    if draw(st.booleans()):
        row["d"] = draw(st.sampled_from((None, dt.date(2024, 1, 1))))
    extra: dict[str, Any] = draw(st.sampled_from(({}, {}, {}, {"s": None}, {"x": 1}, {"_weight": 1})))
    return {**row, **extra, "_change_type": draw(st.sampled_from(KINDS[:5])) if draw(st.integers(0, 9)) else KINDS[-1]}


@settings(deadline=None)
@given(st.lists(fed(), min_size=1, max_size=4), st.booleans())
def test_feeds_as_arrow_reads_them(rows: list[dict[str, Any]], keyed: bool) -> None:
    ddl = KEYED if keyed else KEYED.replace(", PRIMARY KEY (s, b)", "")
    plain, arrow = outcome(rows, True, ddl, STORED), outcome(rows, False, ddl, STORED)
    if isinstance(plain, str) or isinstance(arrow, str):
        assert plain == arrow
    else:
        same_bag(plain, arrow)


@pytest.mark.parametrize(
    "row",
    [
        {"s": "a", "b": 1, "_change_type": "delete"},
        {"s": "a", "b": 2, "w": Decimal("10.5"), "_change_type": "update_preimage"},
        {"s": "a", "b": 2, "w": 3, "d": None, "_change_type": "upsert"},
        {"s": "z", "b": 2, "w": 3, "d": None, "_change_type": "insert"},
    ],
)
def test_plain_feeds_are_read(row: Any) -> None:
    db = freshet.connect()
    db.execute(KEYED)
    db.apply({"t": STORED})
    with patch("freshet.database.changes.as_batch", side_effect=AssertionError):
        db.apply({"t": [row]})


@pytest.mark.parametrize(
    "row",
    [
        {"i": 1, "b": 2, "p": 3, "w": 4, "d": dt.date(2024, 1, 1), "s": "one"},
        (1, None, Decimal("1.5"), 10**20, None, None),
        {"i": 1, "b": 2, "p": 3, "w": 4, "d": None, "s": "one", "_weight": 2},
    ],
)
def test_plain_rows_are_read(row: Any) -> None:
    """The short way is taken: otherwise the test above compares one way with itself."""
    db = freshet.connect()
    db.execute(DDL)
    with patch("freshet.database.changes.as_batch", side_effect=AssertionError):
        db.apply({"t": [row]})
        with pytest.raises(AssertionError):
            db.apply({"t": [row] * (MOST_ROWS + 1)})
