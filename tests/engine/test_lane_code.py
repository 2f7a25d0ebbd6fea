"""Expressions as steps over lanes, compared with their evaluation column by column."""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import freshet
from freshet.engine.lane_code import LaneCode
from freshet.errors import EvaluationError
from freshet.plans.model import QueryPlan
from freshet.scalar.arrow import from_arrow
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate
from freshet.scalar.expression import Expression, walk
from freshet.scalar.lanes import NULLS, layout, pack, unpack, value_lanes
from freshet.scalar.types import Type
from freshet.state.arena import Arena
from freshet.state.lane_code import pack_registers, run_code
from freshet.state.strings import StringPool

COLUMNS = "k BIGINT, i INT, p DECIMAL(12,2), q DECIMAL(30,4), d DATE, e DATE, s STRING, t STRING"
EXPRESSIONS = (
    "k + i", "k - 1", "k * i", "p * (1 - p)", "p + q", "q - p", "p * i", "q * p", "-k", "-q", "k = i", "k <> i",
    "p < q",
    "p >= q", "d <= e", "d > e", "s = t", "s <> t", "k IS NULL", "q IS NOT NULL", "NOT (k < i)",
    "k < i AND d < e", "k < i OR d < e OR p = q", "COALESCE(k, 3)", "COALESCE(q, 0)", "CAST(k AS INT)",
    "CAST(i AS DECIMAL(14,3))", "CAST(p AS DECIMAL(20,4))", "k + CAST(i AS BIGINT) * 2", "(k - i) * (k + i) < 100",
)  # fmt: skip
BIG = 2**63 - 1
NUMBERS = st.sampled_from((0, 1, -1, 7, 2**31, -(2**31) - 1, BIG, -BIG - 1)) | st.integers(-BIG, BIG)


def wide(digits: int) -> st.SearchStrategy[int]:
    most = 10**digits - 1
    return st.sampled_from((0, 1, -1, most, -most)) | st.integers(-most, most)


VALUES = st.tuples(
    NUMBERS, st.integers(-(2**31), 2**31 - 1), wide(12), wide(30), st.integers(-9, 9), st.integers(-9, 9),
    st.sampled_from("ab"), st.sampled_from("ab"),
)  # fmt: skip
ROWS = st.lists(st.tuples(VALUES, st.integers(0, 255)), min_size=1, max_size=5)


def bound() -> tuple[list[Expression], list[Type]]:
    """The expressions over the table's columns, and the types of these."""
    db = freshet.connect()
    db.execute(f"CREATE TABLE r ({COLUMNS})")
    db.create_view("v", f"SELECT {', '.join(f'{e} AS c{i}' for i, e in enumerate(EXPRESSIONS))} FROM r")
    root = db.view("v").plan.root
    assert isinstance(root, QueryPlan)
    return list(root.outputs), [f.type for f in root.relations[0].fields]


BOUND, TYPES = bound()
POOL = StringPool(Arena().scope("pool"))
TEXTS = dict(zip("ab", POOL.intern(pa.array(["a", "b"])).tolist(), strict=True))


def id_of(text: str) -> int:
    return int(TEXTS[text])


def column(i: int, values: list[Any], valid: Any) -> Column:
    kind = TYPES[i]
    if kind.name == "STRING":
        return Column(kind, np.array([TEXTS[v] for v in values], np.int64), valid, None, POOL)
    if kind.name == "DECIMAL":
        with localcontext(prec=40):
            digits = [Decimal(v).scaleb(-kind.scale) if ok else None for v, ok in zip(values, valid, strict=True)]
        return from_arrow(pa.array(digits, kind.to_arrow()), kind)
    return Column(kind, np.array(values, np.int64), valid)


@settings(deadline=None)
@given(ROWS)
def test_as_evaluated(rows: list[tuple[tuple[Any, ...], int]]) -> None:
    n = len(rows)
    valid = np.array([[not nulls >> i & 1 for i in range(len(TYPES))] for _, nulls in rows])
    columns = [column(i, [v[i] for v, _ in rows], np.ascontiguousarray(valid[:, i])) for i in range(len(TYPES))]
    packed = pack(columns, POOL, n)
    read = unpack(packed, TYPES, POOL)
    firsts, nulls = layout(TYPES), value_lanes(TYPES)
    at = np.arange(n, dtype=np.int32)
    for e in BOUND:
        code = LaneCode(lambda c: (firsts[c.column], nulls + c.column // NULLS, c.column % NULLS), id_of)
        registers = code.add([e])
        assert registers is not None, e
        low, high = np.empty((len(code), n), np.int64), np.empty((len(code), n), np.int64)
        null = np.empty((len(code), n), np.bool_)
        fits = run_code(code.array().ravel(), len(code), packed.ravel(), packed.shape[1], at, low, high, null)
        try:
            wanted = evaluate(e, lambda c: read[c.column], n)
        except EvaluationError:
            assert not fits, e
            continue
        if not fits:  # it may refuse what it cannot do in 64 bits by 64, and nothing else
            assert any(x.type.lanes == 2 for x in walk(e)), e
            continue
        found = np.empty((n, e.type.lanes + 1), np.int64)
        fields = np.array([registers[0], e.type.lanes], np.int64)
        pack_registers(fields, 1, e.type.lanes, low, high, null, found, 0)
        assert (found == pack([wanted], POOL, n)).all(), e


def test_unsupported_expressions_are_left_to_evaluation() -> None:
    db = freshet.connect()
    db.execute(f"CREATE TABLE r ({COLUMNS})")
    for written in ("k / 2", "UPPER(s)", "CAST(k AS STRING)", "CASE WHEN k > 1 THEN i END", "p % 2", "s < 'a'"):
        root = db.create_view("v", f"SELECT {written} AS c FROM r").plan.root
        assert isinstance(root, QueryPlan)
        code = LaneCode(lambda c: (0, -1, 0), id_of)
        assert code.add(root.outputs) is None and len(code) == 0, written
        db.execute("DROP VIEW v")
