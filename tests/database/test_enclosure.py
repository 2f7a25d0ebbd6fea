"""λ against brute force: the largest number of disjoint lifespans inside each, tried out over all subsets."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import freshet
from freshet.database.lifespans import Lifespans, lifespans

Span = tuple[int, int]


def most_disjoint(spans: list[Span], inside: Span) -> int:
    """By trying every subset, the largest first."""
    fitting = sorted({s for s in spans if inside[0] <= s[0] and s[1] <= inside[1]})
    for size in range(len(fitting), 0, -1):
        for chosen in combinations(fitting, size):
            if all(a[1] < b[0] for a, b in pairwise(chosen)):
                return size
    return 0


def naive_lifespans(changes: list[tuple[str, int, int]]) -> dict[str, list[Span]]:
    """Of (table, row, ±1), one change a moment; each row held 0 or 1 times."""
    last = len(changes) + 1
    begun: dict[tuple[str, int], int] = {}
    spans: dict[str, list[Span]] = {}
    for moment, (table, row, weight) in enumerate(changes, 1):
        if weight > 0:
            begun[table, row] = moment
        else:
            spans.setdefault(table, []).append((begun.pop((table, row), 0), moment))
    for (table, _), start in begun.items():
        spans.setdefault(table, []).append((start, last))
    return spans


@st.composite
def sequences(draw: st.DrawFn, tables: str = "ab") -> list[tuple[str, int, int]]:
    """Rows that are inserted and deleted; those of some first changes may exist from the start."""
    changes: list[tuple[str, int, int]] = []
    present: dict[tuple[str, int], bool] = {}
    for _ in range(draw(st.integers(1, 12))):
        table, row = draw(st.sampled_from(tables)), draw(st.integers(0, 3))
        known = present.get((table, row))
        comes = draw(st.booleans()) if known is None else not known
        present[table, row] = comes
        changes.append((table, row, 1 if comes else -1))
    return changes


def stream(changes: list[tuple[str, int, int]]) -> list[dict[str, Any]]:
    return [{t: [{"x": x, "_weight": w}]} for t, x, w in changes]


def pairs(spans: Lifespans) -> list[Span]:
    return sorted(zip(spans.begin.tolist(), spans.end.tolist(), strict=True))


@given(sequences())
def test_sequence(changes: list[tuple[str, int, int]]) -> None:
    naive = naive_lifespans(changes)
    lives, count = lifespans(stream(changes))
    assert count == len(changes)
    assert {t: pairs(s) for t, s in lives.items()} == {t: sorted(s) for t, s in naive.items()}
    every = [s for spans in naive.values() for s in spans]
    expected = sum(most_disjoint(every, s) for s in every) / len(every)
    assert freshet.enclosure(stream(changes)).sequence == pytest.approx(expected)


def effective(span: Span, below: list[Span]) -> tuple[Span, Span]:
    """Definition 6.3: cut off at the first deletion below, begun at the last insertion below."""
    begin, end = span
    deletions = [e for _, e in below if e > begin]
    insertions = [b for b, _ in below if b < end]
    return (begin, min([end, *deletions])), (max([begin, *insertions]), end)


PLANS = {
    "a over b": ("a", "b", "SELECT a.x FROM a WHERE EXISTS (SELECT * FROM b WHERE b.x = a.x)"),
    "b over a": ("b", "a", "SELECT b.x FROM b WHERE EXISTS (SELECT * FROM a WHERE b.x = a.x)"),
}
DDL = "CREATE TABLE a (x BIGINT); CREATE TABLE b (x BIGINT); CREATE TABLE c (x BIGINT); CREATE TABLE d (x BIGINT)"


@pytest.mark.parametrize("name", PLANS)
@given(changes=sequences())
def test_tree_of_two(name: str, changes: list[tuple[str, int, int]]) -> None:
    above, below, sql = PLANS[name]
    naive = naive_lifespans(changes)
    parents, children = naive.get(above, []), naive.get(below, [])
    expected = max(sum(most_disjoint(children, s) for s in parents) / (len(parents) + len(children)), 1.0)
    assert freshet.enclosure(stream(changes), freshet.plan(sql, DDL)).tree == pytest.approx(expected)


TREES = {
    "c over a over b": (
        {"c": ["a", "b"], "a": ["b"], "b": []},
        """SELECT c.x FROM c WHERE EXISTS (SELECT * FROM a WHERE a.x = c.x
           AND EXISTS (SELECT * FROM b WHERE b.x = a.x))""",
    ),
    "c over a and d, a over b": (
        {"c": ["a", "b", "d"], "a": ["b"], "b": [], "d": []},
        """SELECT c.x FROM c WHERE EXISTS (SELECT * FROM a WHERE a.x = c.x
           AND EXISTS (SELECT * FROM b WHERE b.x = a.x)) AND EXISTS (SELECT * FROM d WHERE d.x = c.x)""",
    ),
    "c over a over b over d": (
        {"c": ["a", "b", "d"], "a": ["b", "d"], "b": ["d"], "d": []},
        """SELECT c.x FROM c WHERE EXISTS (SELECT * FROM a WHERE a.x = c.x AND EXISTS (SELECT * FROM b WHERE b.x = a.x
           AND EXISTS (SELECT * FROM d WHERE d.x = b.x)))""",
    ),
}


def tree_average(below: dict[str, list[str]], naive: dict[str, list[Span]]) -> float:
    """λ_T by definition 6.4: the most disjoint effective lifespans of tuples below, inside each lifespan."""
    lives = {t: naive.get(t, []) for t in below}
    spans = {t: [e for s in lives[t] for e in effective(s, [b for u in below[t] for b in lives[u]])] for t in below}
    inside = sum(most_disjoint([e for u in below[t] for e in spans[u]], s) for t in below for s in lives[t])
    return max(inside / sum(map(len, lives.values())), 1.0)


@pytest.mark.parametrize("name", TREES)
@given(changes=sequences("abcd"))
def test_tree(name: str, changes: list[tuple[str, int, int]]) -> None:
    below, sql = TREES[name]
    kept = [c for c in changes if c[0] in below]
    assume(kept)
    measured = freshet.enclosure(stream(kept), freshet.plan(sql, DDL))
    assert measured.tree == pytest.approx(tree_average(below, naive_lifespans(kept)))


def test_tuples_that_count_twice() -> None:
    """Each tuple of a loses its child and later gets another one: under every tuple of c its first effective lifespan
    changes a counter, and so does its second."""
    n = 5
    staying = [("c", i, 1) for i in range(12)]
    losing = [c for i in range(n) for c in (("a", i, 1), ("b", i, -1))]
    gaining = [c for i in range(n) for c in (("b", 10 + i, 1), ("a", i, -1))]
    changes = [*staying, *losing, *gaining, *(("c", i, -1) for i in range(12)), *(("b", 10 + i, -1) for i in range(n))]
    below, sql = TREES["c over a over b"]
    measured = freshet.enclosure(stream(changes), freshet.plan(sql, DDL))
    assert measured.tree == 12 * 2 * n / (12 + 3 * n) == tree_average(below, naive_lifespans(changes))


def test_named_sequences() -> None:
    inserts = pa.table({"x": range(50)})
    assert freshet.enclosure(inserts).sequence == 1
    fifo = [(x, w) for i in range(50) for x, w in ([(i - 10, -1)] if i >= 10 else []) + [(i, 1)]]
    window = pa.table({"x": [x for x, _ in fifo], "_weight": [w for _, w in fifo]})
    assert freshet.enclosure(window).sequence == 1
    one_row_flickers: list[dict[str, int]] = [{"x": i} for i in range(20)] + [
        {"x": 99, "_weight": w} for _ in range(20) for w in (1, -1)
    ]
    hard = pa.Table.from_pylist([{"_weight": 1, **r} for r in one_row_flickers])
    assert freshet.enclosure(hard).sequence == (20 * 20 + 20) / 40


def test_copies_and_change_types() -> None:
    rows: list[dict[str, Any]] = [
        {"x": 1},
        {"x": 1},
        {"x": 1, "_change_type": "delete"},
        {"x": 1, "_change_type": "delete"},
    ]
    table = pa.Table.from_pylist([{"_change_type": "insert", **r} for r in rows])
    assert freshet.enclosure(table).tuples == 1
    with pytest.raises(freshet.ChangeError, match="give at least one"):
        freshet.enclosure([])
    with pytest.raises(freshet.PlanError, match="does not say which table"):
        freshet.enclosure(table, freshet.plan("SELECT x FROM a", DDL))
    with pytest.raises(freshet.ChangeError, match="a transaction is a int"):
        freshet.enclosure([3])


def test_a_query_without_tables() -> None:
    plan = freshet.plan("SELECT 1 AS a", "CREATE TABLE t (a INT)")
    assert freshet.enclosure([{"t": [{"a": 1}]}], plan).trees == ()
