"""LIKE, REPLACE and LEVENSHTEIN compared with their twins, written in Python without a thought of speed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate
from freshet.scalar.expression import ColumnRef, Expression, Literal
from freshet.scalar.functions import build
from freshet.scalar.types import INT, STRING
from freshet.state.arrays import TEXT

TEXTS = st.one_of(st.none(), st.text("abé😀", max_size=5))


def called(name: str, *columns: list[Any], literals: bool = False) -> list[Any]:
    """A function over columns, or over the literals that are their only values."""
    args: list[Expression] = []
    read: list[Column] = []
    for i, values in enumerate(columns):
        type_ = STRING if any(isinstance(v, str) for v in values) or all(v is None for v in values) else INT
        args.append(Literal(type_, values[0]) if literals and i else ColumnRef(type_, 0, i, "c"))
        valid = np.array([v is not None for v in values])
        data: Any = pa.array([v or "" for v in values], TEXT) if type_ is STRING else np.array([v or 0 for v in values])
        read.append(Column(type_, data, None if valid.all() else valid))
    made = evaluate(build(name, args), lambda c: read[c.column], len(columns[0]))
    result = made.data.to_pylist() if made.type is STRING else made.data.tolist()
    known = [True] * len(result) if made.valid is None else made.valid.tolist()
    return [v if ok else None for v, ok in zip(result, known, strict=True)]


def strictly(twin: Callable[..., Any], *columns: list[Any]) -> list[Any]:
    return [None if None in row else twin(*row) for row in zip(*columns, strict=True)]


def like(text: str, pattern: str) -> int:
    regex = "".join({"%": ".*", "_": "."}.get(c, re.escape(c)) for c in pattern)
    return int(re.fullmatch(regex, text, re.DOTALL) is not None)


def levenshtein(a: str, b: str, most: int = 100) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], before if x == y else 1 + min(before, row[j], row[j - 1])
    return row[-1] if row[-1] <= most else -1


@given(st.lists(st.tuples(TEXTS, st.one_of(st.none(), st.text("ab_%é", max_size=5))), min_size=1, max_size=6))
def test_like(rows: list[tuple[str | None, str | None]]) -> None:
    texts, patterns = [list(column) for column in zip(*rows, strict=True)]
    assert called("like", texts, patterns) == strictly(like, texts, patterns)
    same = [patterns[0]] * len(texts)
    assert called("like", texts, same, literals=True) == strictly(like, texts, same)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=6))
def test_replace(rows: list[tuple[str | None, str | None, str | None]]) -> None:
    def twin(text: str, old: str, new: str) -> str:
        return text.replace(old, new) if old else text

    columns = [list(column) for column in zip(*rows, strict=True)]
    assert called("replace", *columns) == strictly(twin, *columns)
    same = [columns[0], *([c[0]] * len(rows) for c in columns[1:])]
    assert called("replace", *same, literals=True) == strictly(twin, *same)


@given(st.lists(st.tuples(TEXTS, TEXTS, st.one_of(st.none(), st.integers(-1, 6))), min_size=1, max_size=6))
def test_levenshtein(rows: list[tuple[str | None, str | None, int | None]]) -> None:
    a, b, most = [list(column) for column in zip(*rows, strict=True)]
    assert called("levenshtein", a, b) == strictly(levenshtein, a, b)
    assert called("levenshtein", a, b, [0, *most][1:]) == strictly(levenshtein, a, b, most) or set(most) == {None}


@pytest.mark.parametrize(
    ("name", "columns"),
    [
        ("like", (["a" * 100_000], ["%" + "a" * 40_000 + "b%"])),
        ("replace", (["a" * 200_000], ["a" * 50_000 + "b"], ["x"])),
        ("levenshtein", (["a" * 30_000], ["b" * 30_000])),
        ("substring_index", (["a" * 200_000], ["a" * 50_000], [100_000])),
    ],
)
def test_steps_that_are_a_product_of_sizes_are_refused(name: str, columns: tuple[list[Any], ...]) -> None:
    with pytest.raises(EvaluationError, match=rf"{name.upper()} takes more than [\d,]+ steps for 2 rows; ") as refused:
        called(name, *(["a" if isinstance(column[0], str) else 1, *column] for column in columns))
    assert refused.value.row == 1


def test_a_greatest_distance_saves_the_steps() -> None:
    assert called("levenshtein", ["a" * 30_000], ["b" + "a" * 30_000], [3]) == [1]
