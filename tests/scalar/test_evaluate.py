"""Evaluation over batches: three-valued logic, rows that conditions keep away, errors and their rows, pools."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from freshet.aggregates import AGGREGATES
from freshet.errors import EvaluationError, SqlError, UnsupportedError
from freshet.scalar.arrow import from_arrow, to_arrow
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter, text_of
from freshet.scalar.expression import Call, ColumnRef, Expression, Literal, Reference
from freshet.scalar.functions import build, cast, common_type, nullable
from freshet.scalar.functions.compiled import fold_null
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
    VOID,
    Type,
    decimal,
)
from freshet.state.arena import Arena
from freshet.state.strings import StringPool


def table(**columns: tuple[Type, list[Any]]) -> tuple[dict[str, ColumnRef], Callable[[Reference], Column], int]:
    """References by name, the callback that serves them, and the number of rows."""
    made = [from_arrow(pa.array(values, t.to_arrow()), t) for t, values in columns.values()]
    refs = {n: ColumnRef(t, 0, i, n) for i, (n, (t, _)) in enumerate(columns.items())}
    return refs, lambda r: made[r.column], len(made[0])


def listed(expression: Expression, serve: Callable[[Reference], Column], rows: int) -> list[Any]:
    return list(to_arrow(evaluate(expression, serve, rows)).to_pylist())


def number(value: int, type: Type = INT) -> Literal:
    return Literal(type, value)


def test_three_valued_logic_over_all_pairs() -> None:
    pairs = list(itertools.product([True, False, None], repeat=2))
    refs, serve, rows = table(a=(BOOLEAN, [p[0] for p in pairs]), b=(BOOLEAN, [p[1] for p in pairs]))
    a, b = refs["a"], refs["b"]

    def both(x: bool | None, y: bool | None) -> bool | None:
        return False if x is False or y is False else None if x is None or y is None else True

    def either(x: bool | None, y: bool | None) -> bool | None:
        return True if x or y else None if x is None or y is None else False

    assert listed(build("and", [a, b]), serve, rows) == [both(*p) for p in pairs]
    assert listed(build("or", [a, b]), serve, rows) == [either(*p) for p in pairs]
    # The same with a right side that may fail, which is computed for the undecided rows only.
    risky = build("eq", [build("div", [number(1), build("if", [b, number(1), number(2)])]), number(1)])
    seen = [bool(p[1]) for p in pairs]
    expected = [both(p[0], s) for p, s in zip(pairs, seen, strict=True)]
    assert listed(build("and", [a, risky]), serve, rows) == expected
    expected = [either(p[0], s) for p, s in zip(pairs, seen, strict=True)]
    assert listed(build("or", [a, risky]), serve, rows) == expected
    assert listed(build("not_distinct", [a, b]), serve, rows) == [p[0] is p[1] for p in pairs]
    assert listed(build("distinct_from", [a, b]), serve, rows) == [p[0] is not p[1] for p in pairs]


def test_conditions_guard_divisions() -> None:
    refs, serve, rows = table(a=(INT, [10, 20, 30, None]), b=(INT, [2, 0, 5, 0]))
    a, b = refs["a"], refs["b"]
    quotient, safe = build("div", [a, b]), build("ne", [b, number(0)])
    with pytest.raises(EvaluationError) as e:
        evaluate(quotient, serve, rows)
    assert e.value.row == 1 and "division by zero" in e.value.reason
    assert listed(build("case", [safe, quotient, number(-1)]), serve, rows) == [5, -1, 6, -1]
    assert listed(build("if", [safe, quotient, a]), serve, rows) == [5, 20, 6, None]
    big = build("gt", [quotient, number(5)])
    assert listed(build("and", [safe, big]), serve, rows) == [False, False, True, False]
    assert listed(build("or", [build("eq", [b, number(0)]), big]), serve, rows) == [False, True, True, True]
    assert evaluate_filter([safe, big], serve, rows).tolist() == [False, False, True, False]
    assert listed(build("div", [a, build("nullif", [b, number(0)])]), serve, rows) == [5, None, 6, None]
    refs, serve, rows = table(a=(INT, [1, None]), b=(INT, [0, 3]))
    assert listed(build("coalesce", [refs["a"], build("div", [number(9), refs["b"]])]), serve, rows) == [1, 3]


def test_an_error_inside_a_branch_names_the_row_of_the_batch() -> None:
    refs, serve, rows = table(a=(INT, [1, 1, 7, 7]), b=(INT, [1, 0, 1, 0]))
    guarded = build("case", [build("eq", [refs["a"], number(7)]), build("div", [refs["a"], refs["b"]]), number(0)])
    with pytest.raises(EvaluationError) as e:
        evaluate(guarded, serve, rows)
    assert e.value.row == 3


def test_nulls_never_fail() -> None:
    top = 2**31 - 1
    refs, serve, rows = table(a=(INT, [None, top]), b=(INT, [top, 1]), s=(STRING, [None, "5"]))
    with pytest.raises(EvaluationError) as e:
        evaluate(build("add", [refs["a"], refs["b"]]), serve, rows)
    assert e.value.row == 1
    column = Column(INT, np.array([top, 1]), np.array([False, True]))
    plus = build("add", [refs["a"], number(top, INT)])
    with pytest.raises(EvaluationError):
        evaluate(plus, lambda r: Column(INT, np.array([top, 1])), rows)
    assert listed(build("add", [refs["a"], number(1)]), lambda r: column, 2) == [None, 2]
    assert listed(cast(refs["s"], INT), serve, rows) == [None, 5]


def test_case_without_else_coalesce_and_extremes() -> None:
    refs, serve, rows = table(a=(INT, [1, None, 3]), p=(decimal(5, 2), [None, None, 2]), s=(STRING, ["x", None, "z"]))
    a, p, s = refs["a"], refs["p"], refs["s"]
    assert listed(build("case", [build("gt", [a, number(2)]), s]), serve, rows) == [None, None, "z"]
    assert [str(x) for x in listed(build("coalesce", [p, a]), serve, rows)] == ["1.00", "None", "2.00"]
    assert [str(x) for x in listed(build("greatest", [p, a]), serve, rows)] == ["1.00", "None", "3.00"]
    assert [str(x) for x in listed(build("least", [p, a]), serve, rows)] == ["1.00", "None", "2.00"]
    assert listed(build("coalesce", [s, Literal(STRING, "-")]), serve, rows) == ["x", "-", "z"]
    assert listed(build("in", [a, number(1), Literal(VOID, None)]), serve, rows) == [True, None, None]
    assert listed(build("in", [a, number(1), number(3)]), serve, rows) == [True, None, True]


def test_empty_batches_and_constants() -> None:
    refs, serve, _ = table(a=(INT, []), s=(STRING, []))
    a, s = refs["a"], refs["s"]
    for expression in (
        build("add", [a, number(1)]),
        build("concat", [s, Literal(STRING, "x")]),
        build("case", [build("gt", [a, number(2)]), s, Literal(STRING, "y")]),
        build("coalesce", [a, number(3)]),
        build("substring", [s, a]),
        Literal(STRING, "constant"),
        cast(a, STRING),
        build("upper", [s]),
    ):
        assert len(evaluate(expression, serve, 0)) == 0
    assert evaluate_filter([build("gt", [a, number(2)])], serve, 0).tolist() == []
    assert listed(number(7), serve, 3) == [7, 7, 7]
    assert listed(Literal(STRING, None), serve, 2) == [None, None]
    assert evaluate_filter([Literal(BOOLEAN, 1)], serve, 2).tolist() == [True, True]
    assert evaluate_filter([], serve, 2).tolist() == [True, True]


@pytest.fixture
def pool() -> StringPool:
    return StringPool(Arena().scope("pool"))


def test_text_of_a_pool_compares_by_id(pool: StringPool, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = pool.intern(pa.array(["b", "a", "b", "c"]))
    column = Column(STRING, ids, np.array([True, True, True, False]), pool=pool)
    x, y = ColumnRef(STRING, 0, 0, "x"), ColumnRef(STRING, 0, 1, "y")
    other = Column(STRING, ids[::-1].copy(), pool=pool)

    def serve(r: Reference) -> Column:
        return column if r is x else other

    less = build("lt", [x, Literal(STRING, "b")])
    assert listed(less, serve, 4) == [False, True, False, None]
    assert listed(build("upper", [x]), serve, 4) == ["B", "A", "B", None]
    assert listed(build("case", [less, x, y]), serve, 4) == ["c", "a", "a", "b"]
    assert text_of(column).to_pylist() == ["b", "a", "b", None]
    with monkeypatch.context() as m:  # equality must not read characters
        m.setattr(StringPool, "text", None)
        assert evaluate(build("eq", [x, Literal(STRING, "b")]), serve, 4).data.tolist()[:3] == [1, 0, 1]
        assert evaluate(build("ne", [Literal(STRING, "zz"), x]), serve, 4).data.tolist()[:3] == [1, 1, 1]
        assert evaluate(build("eq", [x, y]), serve, 4).data.tolist()[:3] == [0, 0, 0]
        assert evaluate(build("in", [x, Literal(STRING, "a"), Literal(STRING, "q")]), serve, 4).data.tolist()[:3] == [
            0,
            1,
            0,
        ]


def test_char_is_padded_for_comparison() -> None:
    char = Type("STRING", length=5, char=True)
    refs, serve, rows = table(c=(char, ["ab", "abcde"]), s=(STRING, ["ab", "abcde"]))
    c, s = refs["c"], refs["s"]
    assert listed(c, serve, rows) == ["ab   ", "abcde"]
    assert listed(build("eq", [c, Literal(STRING, "ab")]), serve, rows) == [True, False]
    assert listed(build("eq", [Literal(STRING, "ab      "), c]), serve, rows) == [True, False]
    assert listed(build("in", [c, Literal(STRING, "x"), Literal(STRING, "ab")]), serve, rows) == [True, False]
    assert listed(build("eq", [c, s]), serve, rows) == [False, True]


def test_float_stays_32_bits_wide() -> None:
    refs, serve, rows = table(f=(FLOAT, [0.1, 3.0]), g=(FLOAT, [0.2, 7.0]))
    total = build("add", [refs["f"], refs["g"]])
    assert total.type == FLOAT
    assert listed(total, serve, rows) == [float(np.float32(0.1) + np.float32(0.2)), 10.0]
    assert build("add", [refs["f"], number(1)]).type == DOUBLE


def test_folding_and_refusals() -> None:
    assert build("add", [number(2), number(3)]) == Literal(INT, 5)
    assert build("substring", [Literal(STRING, "hello"), number(2), number(3)]) == Literal(STRING, "ell")
    assert cast(Literal(STRING, "2024-03-01"), DATE) == Literal(DATE, 19783)
    a = ColumnRef(INT, 0, 0, "a")
    assert cast(a, INT) is a
    assert cast(a, BIGINT) == Call(BIGINT, "cast", (a,))
    with pytest.raises(SqlError, match="division by zero"):
        build("div", [number(1), number(0)])
    with pytest.raises(SqlError, match=r"no function UPPER\(INT, INT\); UPPER takes text"):
        build("upper", [a, a])
    with pytest.raises(UnsupportedError, match="UPPER"):
        build("uper", [a])
    with pytest.raises(SqlError):
        cast(a, DATE)


def test_a_literal_does_not_cast_the_column_it_is_compared_with() -> None:
    p = ColumnRef(decimal(5, 2), 0, 0, "p")
    assert build("lt", [p, number(24)]) == Call(BOOLEAN, "lt", (p, Literal(decimal(5, 2), 2400)))


def test_like_escapes() -> None:
    refs, serve, rows = table(s=(STRING, ["50%", "500", "5_0", None]))
    s = refs["s"]
    assert listed(build("like", [s, Literal(STRING, "50!%"), Literal(STRING, "!")]), serve, rows) == [
        True,
        False,
        False,
        None,
    ]
    assert listed(build("like", [s, Literal(STRING, "5\\_%")]), serve, rows) == [False, False, True, None]
    with pytest.raises(SqlError, match="escapes"):
        build("like", [s, Literal(STRING, "a\\")])
    refs, serve, rows = table(s=(STRING, ["x", "ab"]), p=(STRING, [None, "a\\b"]))
    with pytest.raises(EvaluationError, match="escapes 'b'") as e:
        evaluate(build("like", [refs["s"], refs["p"]]), serve, rows)
    assert e.value.row == 1


def test_a_literal_null_decides_strict_functions() -> None:
    refs, serve, rows = table(s=(STRING, ["7", "x"]), a=(INT, [1, 2]))
    nothing = Literal(VOID, None)
    assert fold_null(build("concat", [refs["s"], nothing])) == Literal(STRING, None)
    assert fold_null(build("add", [refs["a"], nothing])) == Literal(INT, None)
    assert fold_null(build("eq", [refs["a"], nothing])) == Literal(BOOLEAN, None)
    assert listed(build("add", [refs["a"], nothing]), serve, rows) == [None, None]
    assert listed(build("not_distinct", [refs["a"], nothing]), serve, rows) == [False, False]
    assert listed(build("and", [build("gt", [refs["a"], number(1)]), nothing]), serve, rows) == [False, None]


def test_types_of_aggregates() -> None:
    assert AGGREGATES["count"].type([]) == BIGINT
    assert AGGREGATES["sum"].type([SMALLINT]) == BIGINT
    assert AGGREGATES["sum"].type([decimal(15, 2)]) == decimal(25, 2)
    assert AGGREGATES["sum"].type([decimal(35, 2)]) == decimal(38, 2)
    assert AGGREGATES["sum"].type([FLOAT]) == DOUBLE
    assert AGGREGATES["avg"].type([INT]) == DOUBLE
    assert AGGREGATES["avg"].type([decimal(15, 2)]) == decimal(19, 6)
    assert AGGREGATES["max"].type([STRING]) == STRING
    with pytest.raises(SqlError, match="SUM"):
        AGGREGATES["sum"].type([DATE])


def test_common_types() -> None:
    assert common_type([INT, BIGINT, SMALLINT]) == BIGINT
    assert common_type([INT, FLOAT]) == DOUBLE
    assert common_type([INT, decimal(5, 2)]) == decimal(12, 2)
    assert common_type([DATE, TIMESTAMP]) == TIMESTAMP
    assert common_type([VOID, DATE]) == DATE
    assert common_type([DATE, INT]) is None


def test_nullability() -> None:
    a, b = ColumnRef(INT, 0, 0, "a", nullable=False), ColumnRef(INT, 0, 1, "b")
    assert not nullable(build("add", [a, number(1)]))
    assert nullable(build("add", [a, b]))
    assert not nullable(build("coalesce", [b, a]))
    assert not nullable(build("is_null", [b]))
    assert nullable(build("case", [build("gt", [a, number(1)]), a]))
    assert not nullable(build("case", [build("gt", [b, number(1)]), a, number(0)]))
    assert nullable(build("nullif", [a, number(0)]))


values = st.one_of(st.none(), st.integers(-3, 3))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(values, values), max_size=6))
def test_a_filter_is_the_conjunction_row_by_row(pairs: list[tuple[int | None, int | None]]) -> None:
    refs, serve, rows = table(a=(INT, [p[0] for p in pairs]), b=(INT, [p[1] for p in pairs]))
    a, b = refs["a"], refs["b"]
    conditions = [
        build("ne", [b, number(0)]),
        build("ge", [build("div", [a, b]), number(0)]),
        build("or", [build("is_null", [a]), build("lt", [a, number(3)])]),
    ]
    expected = [
        x is not None and y is not None and y != 0 and int(x / y) >= 0 and x < 3 for x, y in pairs
    ]  # fmt: skip
    assert evaluate_filter(conditions, serve, rows).tolist() == expected
