"""Sequences made for a wanted λ have it, also when measured by brute force, and can be applied."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from freshet.database.db import inside
from freshet.database.lifespans import lifespans
from tests.database.test_enclosure import most_disjoint, pairs

DDL = "CREATE TABLE a (x BIGINT, y STRING); CREATE TABLE b (x BIGINT); CREATE TABLE c (x BIGINT)"
SQL = "SELECT a.x, a.y FROM a JOIN b ON a.x = b.x JOIN c ON a.x = c.x"


def rows(a: int, b: int, c: int = 0) -> dict[str, pa.Table]:
    return {
        "a": pa.table({"x": range(a), "y": [str(i % 3) for i in range(a)]}),
        "b": pa.table({"x": range(b)}),
        "c": pa.table({"x": pa.array(range(c), pa.int64())}),
    }


def applied(stream: Any) -> freshet.Database:
    db = freshet.connect()
    db.execute(DDL)
    for transaction in stream:
        db.apply(transaction)
    return db


@pytest.mark.parametrize("wanted", [1, 1.01, 1.5, 2, 3.7, 10, 99.9, 1_000])
def test_measured(wanted: float) -> None:
    stream = list(freshet.enclosure_stream(rows(3_000, 500, 1), wanted, fleeting={"b": 1}, seed=3))
    measured = freshet.enclosure(stream)
    assert measured.sequence == pytest.approx(wanted, abs=0.51 / measured.tuples)
    assert measured.tuples >= 3_501


@pytest.mark.parametrize("wanted", [1, 2.5, 300])
def test_several_fleeting_rows(wanted: float) -> None:
    """A round of more rows than a transaction takes is still one round."""
    stream = list(freshet.enclosure_stream(rows(4_000, 9, 4), wanted, fleeting={"b": 7, "c": 2}, size=4))
    assert max(sum(t.num_rows for t in tx.values()) for tx in stream) == 4
    measured = freshet.enclosure(stream)
    assert measured.sequence == pytest.approx(wanted, abs=0.51 / measured.tuples)


@given(st.integers(1, 5), st.integers(1, 5), st.floats(1, 2.4), st.integers(0, 9))
def test_brute_force(a: int, b: int, wanted: float, seed: int) -> None:
    try:
        stream = list(freshet.enclosure_stream(rows(a, b), wanted, fleeting={"b": 1}, size=2, seed=seed))
    except freshet.ChangeError:
        assert wanted >= 1 + (a + b - 1)
        return
    spans, _ = lifespans(stream)
    every = [s for each in spans.values() for s in pairs(each)]
    assert sum(most_disjoint(every, s) for s in every) / len(every) == pytest.approx(wanted, abs=0.51 / len(every))
    db = applied(stream)
    assert db.tuples() == a + b - 1


def test_one_row_of_every_table_by_default() -> None:
    stream = list(freshet.enclosure_stream(rows(50, 50, 50), 5))
    db = applied(stream)
    assert db.tuples() == 147
    assert freshet.enclosure(stream).sequence == pytest.approx(5, abs=0.01)
    other = list(freshet.enclosure_stream(rows(50, 50, 50), 5, seed=1))
    assert other != stream and freshet.enclosure(other).sequence == pytest.approx(5, abs=0.01)


def test_a_join_pays_for_it() -> None:
    """One fleeting row that all staying rows join: counters changed for each change grow as λ does."""
    paid = {}
    for wanted in (1, 10, 100):
        db = freshet.connect()
        db.execute("CREATE TABLE a (x BIGINT, y BIGINT); CREATE TABLE b (x BIGINT)")
        view = db.create_view("v", "SELECT a.y FROM a WHERE EXISTS (SELECT * FROM b WHERE a.x = b.x)")
        given_rows = {"a": pa.table({"x": [1] * 2_000, "y": range(2_000)}), "b": pa.table({"x": [1]})}
        for transaction in freshet.enclosure_stream(given_rows, wanted):
            db.apply(transaction)
        paid[wanted] = inside(view).operator.work().counters / db.changes
    assert paid[10] > 4 * paid[1] and paid[100] > 7 * paid[10]


def test_refusals() -> None:
    with pytest.raises(freshet.ChangeError, match="it is 1 or more"):
        freshet.enclosure_stream(rows(3, 3), 0.5)
    with pytest.raises(freshet.ChangeError, match="reach less than 4; let more rows stay"):
        freshet.enclosure_stream(rows(3, 1), 9, fleeting={"b": 1})
    with pytest.raises(freshet.ChangeError, match="the tables are a, b, c"):
        freshet.enclosure_stream(rows(3, 1), 2, fleeting={"d": 1})
    with pytest.raises(freshet.ChangeError, match="2 fleeting rows of b, which has 1"):
        freshet.enclosure_stream(rows(3, 1), 2, fleeting={"b": 2})
    with pytest.raises(freshet.ChangeError, match="occurs twice") as e:
        freshet.enclosure_stream({"a": [{"x": 1}, {"x": 2}, {"x": 1}]}, 1)
    assert (e.value.table, e.value.row) == ("a", 2)
