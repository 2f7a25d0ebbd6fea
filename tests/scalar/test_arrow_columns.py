"""Arrow to columns and back: exact for values that fit, refused with their row for those that do not."""

from __future__ import annotations

import datetime as dt
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshet.errors import EvaluationError
from freshet.scalar.arrow import from_arrow, to_arrow
from freshet.scalar.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Type,
    decimal,
)

CONTEXT = Context(prec=60)
SAMPLES: list[tuple[Type, list[Any]]] = [
    (BOOLEAN, [True, False, None]),
    (TINYINT, [-128, 127, None]),
    (SMALLINT, [1, None]),
    (INT, [2**31 - 1, None, -5]),
    (BIGINT, [2**63 - 1, -(2**63), None]),
    (FLOAT, [1.5, None, float("inf")]),
    (DOUBLE, [0.1, None, -0.0]),
    (STRING, ["a", None, "", "wörld"]),
    (DATE, [dt.date(1969, 12, 31), None, dt.date(2024, 2, 29)]),
    (TIMESTAMP, [dt.datetime(2024, 2, 29, 1, 2, 3, 4), None, dt.datetime(1900, 1, 1)]),
    (decimal(5, 2), [Decimal("123.45"), None, Decimal("-0.01")]),
    (decimal(38, 3), [Decimal("12345678901234567890123456789012345.678"), None, Decimal("-1.000")]),
    (decimal(38, 3), [Decimal("1.000"), Decimal("-1.000")]),
]


@pytest.mark.parametrize(("type", "values"), SAMPLES, ids=[str(t) for t, _ in SAMPLES])
def test_to_arrow_and_back(type: Type, values: list[Any]) -> None:
    array = pa.array(values, type.to_arrow())
    for given_array in (array, array[1:], pa.chunked_array([array[:1], array[1:]]), array[:0]):
        back = to_arrow(from_arrow(given_array, type))
        assert back.type == type.to_arrow()
        assert back.to_pylist() == given_array.to_pylist()
    known = from_arrow(pa.nulls(2), type).valid
    assert known is not None and known.tolist() == [False, False]


def test_narrow_decimals_have_no_upper_lane() -> None:
    wide = from_arrow(pa.array([Decimal(1), Decimal(10**30)], pa.decimal128(38, 0)), decimal(38, 0))
    assert wide.hi is not None
    assert from_arrow(pa.array([Decimal(1), Decimal(-7)], pa.decimal128(38, 0)), decimal(38, 0)).hi is None
    assert wide.take(np.array([1])).hi is not None


def test_64_bit_values_are_lent_and_writable() -> None:
    array = pa.array([1, 2, 3], pa.int64())
    column = from_arrow(array, BIGINT)
    assert column.data.flags.writeable and column.data.ctypes.data == array.buffers()[1].address
    assert to_arrow(column).buffers()[1].address == array.buffers()[1].address
    del array
    assert column.data.tolist() == [1, 2, 3]


@settings(max_examples=80, deadline=None)
@given(st.lists(st.one_of(st.none(), st.decimals(-(10**20), 10**20, places=6)), max_size=5), st.integers(0, 8))
def test_decimals_change_scale_like_python(values: list[Decimal | None], scale: int) -> None:
    target = decimal(38, scale)
    got = to_arrow(from_arrow(pa.array(values, pa.decimal128(30, 6)), target)).to_pylist()
    unit = Decimal(1).scaleb(-scale)
    assert got == [None if v is None else v.quantize(unit, "ROUND_HALF_UP", CONTEXT) for v in values]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-1e15, 1e15), min_size=1, max_size=5), st.integers(0, 4))
def test_doubles_become_decimals_by_their_text(values: list[float], scale: int) -> None:
    got = to_arrow(from_arrow(pa.array(values), decimal(38, scale))).to_pylist()
    unit = Decimal(1).scaleb(-scale)
    assert got == [Decimal(repr(v)).quantize(unit, "ROUND_HALF_UP", CONTEXT) for v in values]


OTHER_SHAPES: list[tuple[pa.Array, Type, list[Any]]] = [
    (pa.array([1, None], pa.int8()), BIGINT, [1, None]),
    (pa.array([1, 2], pa.uint64()), INT, [1, 2]),
    (pa.array([1.0, None]), INT, [1, None]),
    (pa.array([Decimal("3.00")]), INT, [3]),
    (pa.array([7], pa.int32()), decimal(5, 2), [Decimal("7.00")]),
    (pa.array([1.005]), decimal(5, 2), [Decimal("1.01")]),
    (pa.array([Decimal("1.235")]), decimal(5, 2), [Decimal("1.24")]),
    (pa.array([3], pa.int64()), DOUBLE, [3.0]),
    (pa.array([Decimal("0.1")]), DOUBLE, [0.1]),
    (pa.array(["a", "b", "a", None]).dictionary_encode(), STRING, ["a", "b", "a", None]),
    (pa.array(["a"], pa.large_string()), STRING, ["a"]),
    (pa.array([86_400_000], pa.date64()), DATE, [dt.date(1970, 1, 2)]),
    (pa.array([dt.datetime(2024, 1, 2)], pa.timestamp("ns")), DATE, [dt.date(2024, 1, 2)]),
    (pa.array([1], pa.timestamp("s")), TIMESTAMP, [dt.datetime(1970, 1, 1, 0, 0, 1)]),
    (pa.array([1], pa.timestamp("ms", "Europe/Paris")), TIMESTAMP, [dt.datetime(1970, 1, 1, 0, 0, 0, 1000)]),
    (pa.array([-1], pa.timestamp("ns")), TIMESTAMP, [dt.datetime(1969, 12, 31, 23, 59, 59, 999999)]),
    (pa.array([1], pa.date32()), TIMESTAMP, [dt.datetime(1970, 1, 2)]),
    (pa.array(["ab"]), Type("STRING", length=4, char=True), ["ab  "]),
    (pa.array(["abc   "]), Type("STRING", length=4), ["abc "]),
    (pa.array(pd.Series([1, None, 3])), INT, [1, None, 3]),
    (pa.array(pd.Series(pd.to_datetime(["2024-01-02"]))), TIMESTAMP, [dt.datetime(2024, 1, 2)]),
]


@pytest.mark.parametrize(("array", "type", "expected"), OTHER_SHAPES)
def test_other_shapes(array: pa.Array, type: Type, expected: list[Any]) -> None:
    assert to_arrow(from_arrow(array, type)).to_pylist() == expected


REFUSED: list[tuple[pa.Array, Type, int, str]] = [
    (pa.array([1, None, 3_000_000_000]), INT, 2, "3000000000 does not fit INT"),
    (pa.array([2**63], pa.uint64()), BIGINT, 0, "does not fit BIGINT"),
    (pa.array([300], pa.int16()), TINYINT, 0, "300 does not fit TINYINT"),
    (pa.array([1.0, 1.5]), INT, 1, "1.5 does not fit INT"),
    (pa.array([float("nan")], from_pandas=False), INT, 0, "nan does not fit INT"),
    (pa.array([Decimal("1.5")]), INT, 0, "1.5 does not fit INT"),
    (pa.array([1.0, 12345.6]), decimal(5, 2), 1, "12345.6 does not fit"),
    (pa.array([Decimal("1"), Decimal("1234")]), decimal(5, 2), 1, "1234 does not fit"),
    (pa.array([Decimal("999.999")]), decimal(5, 2), 0, "999.999 does not fit"),
    (pa.array([None, "7"]), INT, 1, "'7'"),
    (pa.array([7]), STRING, 0, "give text"),
    (pa.array(["2024-01-01"]), DATE, 0, "give dates"),
    (pa.array([1]), BOOLEAN, 0, "give booleans"),
    (pa.array(["ab", "abcde"]), Type("STRING", length=4), 1, "'abcde' has 5 characters"),
    (pa.array([dt.datetime(2024, 1, 2, 3)]), DATE, 0, "time of day"),
    (pa.array([1e300]), FLOAT, 0, "does not fit FLOAT"),
]


@pytest.mark.parametrize(("array", "type", "row", "reason"), REFUSED)
def test_what_does_not_fit_is_refused(array: pa.Array, type: Type, row: int, reason: str) -> None:
    with pytest.raises(EvaluationError) as e:
        from_arrow(array, type)
    assert reason in e.value.reason
    assert e.value.row == row
