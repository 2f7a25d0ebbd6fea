"""The comparison every other test relies on must itself be able to fail."""

from __future__ import annotations

import datetime
import decimal

import pyarrow as pa
import pytest

from benchmarks.tpch import official
from tests.oracle import RunningSum, duckdb_answer, same_bag

D = decimal.Decimal


def table(*rows: tuple[object, ...], types: list[pa.DataType] | None = None) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)]
    arrays = [pa.array(c, types[i] if types else None) for i, c in enumerate(columns)]
    return pa.table(arrays, names=[f"c{i}" for i in range(len(arrays))])


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (table((1,), (2,)), table((2,), (1,))),
        (table((D("1.50"),)), table((D("1.5000"),))),
        (table((D(7),)), table((7,))),
        (table((1.0,)), table((1.0 + 1e-12,))),
        (table((float("nan"), None)), table((float("nan"), None))),
        (table((D("2.3333"),)), table((2.33333333,))),
        (table((datetime.date(2020, 2, 3),)), table((datetime.datetime(2020, 2, 3),))),
        (table(("a", 1.0), ("a", 2.0)), table(("a", 2.0), ("a", 1.0))),
    ],
)
def test_equal_bags(left: pa.Table, right: pa.Table) -> None:
    same_bag(left, right)
    same_bag(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (table((1,)), table((1,), (1,))),
        (table((1,), (2,)), table((1,), (1,))),
        (table((D("1.50"),)), table((D("1.51"),))),
        (table((1.0,)), table((1.0001,))),
        (table((D("2.3333"),)), table((2.3335,))),
        (table((None, 1), (2, 1)), table((2, 1), (2, 1))),
        (table((float("nan"),)), table((1.0,))),
        (table(("a", 1.0), ("b", 2.0)), table(("a", 2.0), ("b", 1.0))),
        (table((1, 2)), table((1,))),
    ],
)
def test_unequal_bags(left: pa.Table, right: pa.Table) -> None:
    for a, b in ((left, right), (right, left)):
        with pytest.raises(AssertionError):
            same_bag(a, b)


def delta(*rows: tuple[object, ...]) -> pa.Table:
    return table(*rows).rename_columns(["a", "_weight"])


def test_running_sum_follows_its_deltas() -> None:
    total = RunningSum(table((5,)))
    total.add(delta((5, -1), (7, 2)))
    total.equals(table((7,), (7,)))
    with pytest.raises(AssertionError, match="sum of its deltas"):
        total.equals(table((7,)))


@pytest.mark.parametrize("rows", [[(1, 0)], [(1, 1), (1, 1)]])
def test_running_sum_refuses_deltas_that_are_not_consolidated(rows: list[tuple[int, int]]) -> None:
    with pytest.raises(AssertionError):
        RunningSum().add(delta(*rows))


def test_running_sum_keeps_negative_rows() -> None:
    total = RunningSum()
    total.add(delta((1, -1)))
    with pytest.raises(AssertionError):
        total.equals(delta((1, 1)).drop_columns(["_weight"]).slice(0, 0))


def test_official_query_texts(tpch: dict[str, pa.Table]) -> None:
    assert duckdb_answer(official(6), tpch).num_rows == 1
    assert "l_shipdate" in official(1)
