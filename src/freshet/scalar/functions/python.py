"""Functions that users write in Python, over Arrow arrays.

Law: a function is called with each distinct row of arguments of a batch once, and must give the same value for the same
arguments every time: what a view holds is taken back by computing it again. Its calls carry the function itself, so
that each database has its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.errors import EvaluationError, FreshetError, brief
from freshet.scalar.arrow import from_arrow, to_arrow
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.nulls import Nulls
from freshet.scalar.functions.registry import Function, Step
from freshet.scalar.functions.rows import longest, spread
from freshet.scalar.types import Type
from freshet.state.arrays import Int64s


@dataclass(frozen=True, slots=True, eq=False)
class RunningCall:
    function: str


class _Running(threading.local):
    """The call of a function that this thread is executing: meanwhile state may be half changed (state_lock.py)."""

    call: RunningCall | None = None


running = _Running()
_ANY_NULL = Nulls(lambda flags: True, lambda flags: False)


@dataclass(frozen=True, slots=True, eq=False)
class PythonFunction:
    """`body` takes one Arrow array for each argument, of one length, and gives as many values."""

    name: str
    body: Callable[..., Any]
    returns: Type
    deterministic: bool = True

    @property
    def is_table(self) -> bool:
        """Whether its values are rows, so that it can be called in FROM."""
        return self.returns.name == "ARRAY" and self.returns.parts[0].name == "STRUCT"

    def call(self, args: Sequence[Expression]) -> PythonCall:
        return PythonCall(self.returns, self.name, tuple(args), self)

    def values(self, arguments: Sequence[pa.Array]) -> pa.Array:
        before, running.call = running.call, RunningCall(self.name)
        try:
            return self._values(arguments)
        finally:
            running.call = before

    def _values(self, arguments: Sequence[pa.Array]) -> pa.Array:
        rows, wanted = len(arguments[0]), self.returns.to_arrow()
        found = self.body(*arguments)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if self.is_table:
            found = _rows(found, [name for name, _ in self.returns.parts[0].fields])
        made = found.cast(wanted) if isinstance(found, pa.Array) else pa.array(found, wanted, from_pandas=True)
        if len(made) != rows:
            raise ValueError(f"it gave {len(made):,} values for {rows:,} rows")
        return made


def _rows(found: Any, names: list[str]) -> Any:
    """The values of a table function, with the columns checked: a cast would make those of other names NULL."""
    if not isinstance(found, pa.Array):
        return [rows if rows is None else [_named(row, names) for row in rows] for rows in found]
    items = found.type.value_type if pa.types.is_list(found.type) or pa.types.is_large_list(found.type) else None
    given = [field.name for field in items] if items is not None and pa.types.is_struct(items) else None
    if given != names:
        raise ValueError(f"it gave {found.type}, not lists of structs of {', '.join(names)}")
    return found


def _named(row: Any, names: list[str]) -> dict[str, Any]:
    """A row as a dict; a tuple has its values in the order of the columns."""
    if isinstance(row, tuple) and len(row) == len(names):
        return dict(zip(names, row, strict=True))
    if not isinstance(row, dict) or sorted(row) != sorted(names):
        raise ValueError(f"it gave the row {brief(row)} for the columns {', '.join(names)}")
    return row


@dataclass(frozen=True, slots=True)
class PythonCall(Call):
    """The function is not part of what is written down of a plan."""

    function: PythonFunction = field(repr=False)

    def of(self, args: tuple[Expression, ...]) -> PythonCall:
        return self.function.call(args)

    @property
    def record(self) -> Function:
        return Function(self.name, strict=_step, nulls=_ANY_NULL)


def _step(call: Call) -> Step:
    assert isinstance(call, PythonCall)
    function = call.function

    def step(*columns: Column) -> Column:
        rows = longest(*columns)
        arrays = [to_arrow(spread(c, rows)) for c in columns]
        firsts, places = _distinct(arrays, rows)
        distinct = [a.take(pa.array(firsts)) for a in arrays]
        computed = _computed(function, distinct)
        try:
            made = from_arrow(computed, function.returns)
        except FreshetError as e:
            raise EvaluationError(
                f"function {function.name} returned values that are not {function.returns}: {e}"
            ) from e
        return made.take(places)

    return step


def _computed(function: PythonFunction, distinct: Sequence[pa.Array]) -> pa.Array:
    try:
        return function.values(distinct)
    except Exception as whole:
        for row in range(len(distinct[0])):
            try:
                function.values([a.slice(row, 1) for a in distinct])
            except Exception as e:
                given = ", ".join(brief(a[row].as_py()) for a in distinct)
                raise EvaluationError(
                    f"function {function.name} fails for the row ({given}): {_described(e)}", row
                ) from e
        raise EvaluationError(
            f"function {function.name} fails for {len(distinct[0]):,} rows: {_described(whole)}"
        ) from whole


def _described(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _distinct(arrays: Sequence[pa.Array], rows: int) -> tuple[Int64s, Int64s]:
    """The first row with each combination of values, NULL equal to NULL, and where each row finds its own."""
    numbers: Int64s = np.zeros(rows, np.int64)
    for array in arrays:
        codes = array.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
        pairs = numbers * (int(codes.max(initial=0)) + 1) + codes
        numbers = np.unique(pairs, return_inverse=True)[1].reshape(-1).astype(np.int64)
    _, firsts, places = np.unique(numbers, return_index=True, return_inverse=True)
    return firsts.astype(np.int64), places.reshape(-1).astype(np.int64)
