"""The aggregate operator against recomputation in plain Python, after every transaction: its answer, and the sum of its
deltas. Small domains, so that groups become empty and reappear, and values repeat."""

from __future__ import annotations

import math
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.engine.aggregate import Aggregate
from freshet.errors import EvaluationError, StateError
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression
from freshet.scalar.types import BIGINT, BOOLEAN, DOUBLE, STRING, Type, decimal
from freshet.state.arena import Arena
from freshet.state.strings import StringPool
from tests.engine.plain import column, normal, plain

NARROW, WIDE = decimal(9, 2), decimal(25, 3)
TYPES = [STRING, DOUBLE, BIGINT, NARROW, WIDE, BOOLEAN]  # the input's columns
DOMAIN: list[list[Any]] = [
    [None, "", "a", "b", "éa"],
    [None, 0.0, -0.0, 0.1, 0.2, -1e30, 1e30, math.nan, math.inf, -math.inf],
    [None, 0, 1, -7, 2**62, -(2**62)],
    [None, 0, 1, 5, -199, 99999],
    [None, 0, 1, -1, 10**24, -(10**24) + 1],
    [None, 0, 1],
]
STR, DBL, INT_, NAR, WID, BOO = (ColumnRef(t, 0, i, f"c{i}") for i, t in enumerate(TYPES))
Row = tuple[Any, ...]


def ref(column: ColumnRef) -> tuple[Expression, ...]:
    return (column,)


def place(argument: Expression) -> int:
    assert isinstance(argument, ColumnRef)
    return argument.column


CALLS = [
    AggregateCall("count", (), BIGINT),
    AggregateCall("count", (INT_, STR), BIGINT),
    AggregateCall("count", (), BIGINT, filter=BOO),
    AggregateCall("sum", ref(NAR), decimal(19, 2)),
    AggregateCall("avg", ref(NAR), decimal(13, 6)),
    AggregateCall("avg", ref(INT_), DOUBLE, filter=BOO),
    AggregateCall("sum", ref(WID), decimal(35, 3)),
    AggregateCall("avg", ref(WID), decimal(29, 7)),
    AggregateCall("sum", ref(DBL), DOUBLE),
    AggregateCall("avg", ref(DBL), DOUBLE),
    *(AggregateCall(f, ref(c), c.type) for f in ("min", "max") for c in (STR, DBL, INT_, NAR, WID, BOO)),
    AggregateCall("count", (STR, DBL), BIGINT, distinct=True),
    AggregateCall("sum", ref(NAR), decimal(19, 2), distinct=True),
    AggregateCall("avg", ref(DBL), DOUBLE, distinct=True, filter=BOO),
]


def double_sum(values: list[float]) -> float:
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    if any(math.isinf(v) for v in values):
        return next(v for v in values if math.isinf(v))
    return float(sum((Fraction(v) for v in values), Fraction(0)))


def half_up(value: Fraction) -> int:
    with localcontext() as context:
        context.prec = 200
        return int((Decimal(value.numerator) / Decimal(value.denominator)).quantize(Decimal(1), ROUND_HALF_UP))


def recompute(call: AggregateCall, rows: list[Row]) -> Any:
    if call.filter is not None:
        rows = [r for r in rows if r[place(call.filter)]]
    if not call.args:
        return len(rows)
    picked = [tuple(r[place(a)] for a in call.args) for r in rows]
    picked = [p for p in picked if None not in p]
    if call.distinct:
        picked = list({tuple(normal(a.type, v) for a, v in zip(call.args, p, strict=True)): p for p in picked}.values())
    if call.function == "count":
        return len(picked)
    values: list[Any] = [p[0] for p in picked]
    if not values:
        return None
    argument = call.args[0].type
    if call.function in ("min", "max"):
        order = (lambda v: v.encode()) if argument.name == "STRING" else (lambda v: (math.isnan(v), v))
        best = (min if call.function == "min" else max)(values, key=order)
        return normal(argument, best)
    total = double_sum(values) if argument.is_fraction else sum(values)
    if call.function == "sum":
        return normal(call.type, total)
    if call.type.name == "DECIMAL":
        return half_up(Fraction(total) * 10 ** (call.type.scale - argument.scale) / len(values))
    return normal(call.type, float(total) / len(values))


def answer(keys: list[int], rows: Counter[Row]) -> Counter[Row]:
    groups: dict[Row, list[Row]] = {} if keys else {(): []}
    for row in rows.elements():
        groups.setdefault(tuple(normal(TYPES[k], row[k]) for k in keys), []).append(row)
    return Counter(key + tuple(recompute(c, members) for c in CALLS) for key, members in groups.items())


def feed(aggregate: Aggregate, keys: list[int], changes: list[tuple[Row, int]]) -> None:
    columns = [column(t, [r[i] for r, _ in changes]) for i, t in enumerate(TYPES)]
    flag = columns[5]
    keep = (flag.data == 1) & (True if flag.valid is None else flag.valid)
    aggregate.apply(
        [columns[k] for k in keys],
        [[columns[place(a)] for a in c.args] for c in CALLS],
        [None if c.filter is None else keep for c in CALLS],
        np.array([w for _, w in changes], np.int64),
    )


def add_flushed(aggregate: Aggregate, emitted: Counter[Row]) -> None:
    """Adds the flushed delta to `emitted`, refusing rows that cancel out."""
    columns, weights = aggregate.flush()
    delta = plain(columns)
    assert len(set(zip(delta, weights.tolist(), strict=True))) == len(delta)
    assert len(set(delta)) == len(delta), "a row both retracted and emitted"
    for row, weight in zip(delta, weights.tolist(), strict=True):
        emitted[row] += weight


ROWS = st.tuples(*(st.sampled_from(d) for d in DOMAIN))
#: A transaction: batches of (row, copies to add) or (index of a present row, None) to remove.
TRANSACTION = st.lists(
    st.lists(st.one_of(st.tuples(ROWS, st.integers(1, 2)), st.tuples(st.integers(0, 50), st.none())), max_size=6),
    max_size=3,
)


@given(st.sampled_from([[], [0], [1], [4, 0], [0, 1, 2, 3, 5]]), st.lists(TRANSACTION, max_size=5))
def test_agrees_with_recomputation(keys: list[int], transactions: list[Any]) -> None:
    arena = Arena()
    pool = StringPool(arena.scope("pool"))
    aggregate = Aggregate(arena.scope("a"), pool, [TYPES[k] for k in keys], CALLS, grand_total=not keys)
    rows: Counter[Row] = Counter()
    emitted: Counter[Row] = Counter()
    for transaction in [[], *transactions]:
        for batch in transaction:
            changes: list[tuple[Row, int]] = []
            for what, copies in batch:
                if copies is None:
                    present = list(rows.elements())
                    if present:
                        changes.append((present[what % len(present)], -1))
                        rows[changes[-1][0]] -= 1
                else:
                    changes.append((what, copies))
                    rows[what] += copies
            feed(aggregate, keys, changes)
        add_flushed(aggregate, emitted)
        rows = +rows
        expected = answer(keys, rows)
        assert +emitted == expected and min(emitted.values(), default=0) >= 0
        assert Counter(r for b in aggregate.batches(2) for r in plain(b)) == expected
        assert aggregate.count() == len(expected)
    feed(aggregate, keys, [(r, -n) for r, n in rows.items()])
    add_flushed(aggregate, emitted)
    assert +emitted == answer(keys, Counter())
    marked = np.zeros(pool.used, np.bool_)
    aggregate.string_marks(marked)
    assert not marked[1:].any()


def simple(call: AggregateCall, key_types: Sequence[Type] = (BIGINT,)) -> Aggregate:
    arena = Arena()
    return Aggregate(arena.scope("a"), StringPool(arena.scope("p")), key_types, [call], grand_total=False)


def give(aggregate: Aggregate, type: Type, rows: list[tuple[Any, Any, int]]) -> None:
    keys, values = column(BIGINT, [r[0] for r in rows]), column(type, [r[1] for r in rows])
    aggregate.apply([keys], [[values]], [None], np.array([r[2] for r in rows], np.int64))


@pytest.mark.parametrize(
    ("type", "result", "edge"),
    [
        (BIGINT, BIGINT, 2**63 - 1),
        (decimal(8, 2), decimal(18, 2), 10**18 - 1),
        (decimal(28, 0), decimal(38, 0), 10**38 - 1),
    ],
)
def test_sum_overflow_is_an_error_that_can_be_taken_back(type: Type, result: Type, edge: int) -> None:
    aggregate = simple(AggregateCall("sum", (ColumnRef(type, 0, 1, "x"),), result))
    give(aggregate, type, [(1, edge, 1)])
    assert plain(aggregate.flush()[0]) == [(1, edge)]
    give(aggregate, type, [(1, 1, 1), (2, 5, 1)])
    with pytest.raises(EvaluationError, match="SUM does not fit"):
        aggregate.flush()
    give(aggregate, type, [(1, 1, -1), (2, 5, -1)])
    assert len(aggregate.flush()[1]) == 0
    give(aggregate, type, [(1, -1, 1), (1, edge, 2**40), (1, edge, -(2**40))])
    assert plain(aggregate.flush()[0]) == [(1, edge), (1, edge - 1)]


def test_bigint_reaches_its_least_value_and_no_further() -> None:
    aggregate = simple(AggregateCall("sum", (ColumnRef(BIGINT, 0, 1, "x"),), BIGINT))
    give(aggregate, BIGINT, [(1, -(2**62), 2)])
    assert plain(aggregate.flush()[0]) == [(1, -(2**63))]
    give(aggregate, BIGINT, [(1, -1, 1)])
    with pytest.raises(EvaluationError):
        aggregate.flush()


def test_average_of_more_rows_than_32_bits_count() -> None:
    type = decimal(20, 1)
    aggregate = simple(AggregateCall("avg", (ColumnRef(type, 0, 1, "x"),), decimal(24, 5)))
    give(aggregate, type, [(1, 10**15 + 7, 2**40 + 1), (1, -3, 2**33)])
    total, count = (10**15 + 7) * (2**40 + 1) - 3 * 2**33, 2**40 + 1 + 2**33
    assert plain(aggregate.flush()[0]) == [(1, half_up(Fraction(total * 10**4, count)))]


def test_a_group_below_zero_is_refused() -> None:
    aggregate = simple(AggregateCall("count", (ColumnRef(BIGINT, 0, 1, "x"),), BIGINT))
    give(aggregate, BIGINT, [(1, None, -1)])
    with pytest.raises(StateError, match="lost more rows"):
        aggregate.flush()


@pytest.mark.parametrize("keys", [[], [0], [2, 1]])
def test_reset_removes_everything(keys: list[int]) -> None:
    arena = Arena()
    pool = StringPool(arena.scope("pool"))
    aggregate = Aggregate(arena.scope("a"), pool, [TYPES[k] for k in keys], CALLS, grand_total=not keys)
    feed(aggregate, keys, FIRST)
    aggregate.flush()
    aggregate.reset()
    assert aggregate.count() == 0 and list(aggregate.batches(10)) == []
    feed(aggregate, keys, FIRST[5:15])
    emitted: Counter[Row] = Counter()
    add_flushed(aggregate, emitted)
    assert emitted == answer(keys, sum((Counter({r: w}) for r, w in FIRST[5:15]), Counter()))


def test_one_group_without_keys_is_not_a_grand_total() -> None:
    aggregate = simple(AggregateCall("count", (), BIGINT), key_types=())
    assert len(aggregate.flush()[1]) == 0
    aggregate.apply([], [[]], [None], np.array([2, 1]))
    assert plain(aggregate.flush()[0]) == [(3,)]
    aggregate.apply([], [[]], [None], np.array([-3]))
    columns, weights = aggregate.flush()
    assert plain(columns) == [(3,)] and weights.tolist() == [-1] and aggregate.count() == 0


CONTINUE = """
import sys
from collections import Counter
sys.path.insert(0, sys.argv[2])
from tests.engine.test_aggregate import *
from tests.engine.test_aggregate import FIRST, SECOND
arena = Arena(sys.argv[1])
aggregate = Aggregate(arena.scope("a"), StringPool(arena.scope("pool")), [STRING], CALLS, grand_total=False)
emitted = Counter(r for b in aggregate.batches(3) for r in plain(b))
feed(aggregate, [0], SECOND)
add_flushed(aggregate, emitted)
rows = Counter()
for r, w in FIRST + SECOND:
    rows[r] += w
assert +emitted == answer([0], +rows), "continued state"
arena.flush()
"""
FIRST = [(tuple(d[(i * 7 + k) % len(d)] for k, d in enumerate(DOMAIN)), 1 + i % 2) for i in range(40)]
SECOND = [(r, -w) for r, w in FIRST[::3]] + [(("new text", 1e-300, 5, 1, 2, 1), 1)]


def test_another_process_attaches_and_goes_on(tmp_path: Path) -> None:
    arena = Arena(tmp_path)
    aggregate = Aggregate(arena.scope("a"), StringPool(arena.scope("pool")), [STRING], CALLS, grand_total=False)
    feed(aggregate, [0], FIRST)
    emitted: Counter[Row] = Counter()
    add_flushed(aggregate, emitted)
    assert emitted == answer([0], sum((Counter({r: w}) for r, w in FIRST), Counter()))
    arena.flush()
    command = [sys.executable, "-c", CONTINUE, str(tmp_path), str(Path(__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
