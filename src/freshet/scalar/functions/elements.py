"""What functions of arrays, structs and maps have in common: their arguments, and numbers that stand for elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Expression
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.coercion import common_type
from freshet.scalar.functions.nested_texts import shown_texts
from freshet.scalar.functions.nulls import Nulls
from freshet.scalar.functions.registry import refuse
from freshet.scalar.functions.rows import longest, spread
from freshet.scalar.nested import Lists, ends, parts_of
from freshet.scalar.types import Type
from freshet.state.arrays import Bools, Int64s

#: NULL if the first argument is, and also for others.
IF_FIRST_OR_ELSE = Nulls(lambda flags: True, lambda flags: flags[0])


def together(*columns: Column) -> tuple[Column, ...]:
    """Columns with one value for each row; a single value stands for all rows."""
    rows = longest(*columns)
    return tuple(spread(c, rows) for c in columns)


def one_type(name: str, args: Sequence[Expression]) -> tuple[Expression, ...]:
    """The arguments cast to their common type."""
    type = common_type([a.type for a in args])
    if type is None:
        raise refuse(name, args)
    return tuple(cast(a, type) for a in args)


def of_array(name: str, args: Sequence[Expression], *, ordered: bool = False) -> Type:
    """The type of the first argument's elements, which is an array."""
    items = args[0].type.items if args and args[0].type.name == "ARRAY" else None
    if items is None or (ordered and not items.is_ordered):
        raise refuse(name, args)
    return items


def with_element(name: str, args: tuple[Expression, ...]) -> tuple[Expression, Expression]:
    """An array and a value, cast to a common type of elements: text and other types have none here."""
    if len(args) != 2:
        raise refuse(name, args)
    items, value = of_array(name, args, ordered=True), args[1].type
    is_mixed = "VOID" not in (items.name, value.name) and (items.name == "STRING") != (value.name == "STRING")
    common = common_type((items, value))
    if common is None or is_mixed or value.name == "VOID":
        raise refuse(name, args)
    return cast(args[0], Type("ARRAY", items=common)), cast(args[1], common)


def numbered(*columns: Column) -> list[Int64s]:
    """A number for each value of columns of one type: in the order of values, the same for equal ones, and 0 for
    NULL."""
    parts = [parts_of(c) for c in columns]
    codes = pa.chunked_array(parts).combine_chunks().dictionary_encode()
    if isinstance(codes, pa.ChunkedArray):
        codes = codes.combine_chunks()
    values = codes.dictionary
    ranks = np.empty(len(values), np.int64)
    ranks[pc.sort_indices(values).to_numpy()] = np.arange(1, len(values) + 1)
    numbers = ranks[codes.indices.to_numpy(zero_copy_only=False)] if len(values) else np.empty(0, np.int64)
    bounds = np.cumsum([len(c) for c in columns])[:-1]
    made = np.split(numbers, bounds)
    for column, own in zip(columns, made, strict=True):
        if column.valid is not None:
            own[~column.valid] = 0
    return list(made)


def check_keys(maps: Lists, valid: Bools | None = None) -> None:
    """Refuses maps with a key that is NULL or occurs twice."""
    keys, rows = maps.columns[0], maps.rows
    (numbers,) = numbered(keys)
    known = np.ones(len(rows), np.bool_) if valid is None else valid[rows]
    missing = (numbers == 0) & known
    if missing.any():
        raise EvaluationError("a map with a NULL key; leave it out", int(rows[int(np.argmax(missing))]))
    places = np.lexsort((numbers, rows))
    again = (rows[places][1:] == rows[places][:-1]) & (numbers[places][1:] == numbers[places][:-1]) & known[places][1:]
    if again.any():
        place = int(places[1:][int(np.argmax(again))])
        shown = str(shown_texts(keys.take(np.array([place])))[0].as_py())[:100]
        raise EvaluationError(f"a map with key {shown} twice; give each key once", int(rows[place]))


def kept(lists: Lists, keep: Bools) -> Lists:
    """The lists with only some of their elements."""
    counts = np.bincount(lists.rows[keep], minlength=len(lists.offsets) - 1)
    return Lists(ends(counts.astype(np.int64)), tuple(c.take(np.flatnonzero(keep)) for c in lists.columns))


def arranged(lists: Lists, places: Int64s) -> Lists:
    """The lists with their elements in another order: `places` lists the elements of each row in turn."""
    return Lists(lists.offsets, tuple(c.take(places) for c in lists.columns))


def any_of(rows: Int64s, number: int) -> Bools:
    """Which of so many rows occur among the given ones."""
    found = np.zeros(number, np.bool_)
    found[rows] = True
    return found


def at(items: Column, places: Int64s, there: Bools, valid: Any) -> Column:
    """The element at a place for each row; NULL where there is none."""
    if not len(items):
        items = nothing(items.type, 1)
    made = items.take(np.where(there, places, 0))
    known = there if valid is None else there & valid
    known = known if made.valid is None else known & made.valid
    return Column(made.type, made.data, None if known.all() else known, made.hi, made.pool)


def nothing(type: Type, rows: int) -> Column:
    """NULLs."""
    valid = np.zeros(rows, np.bool_)
    if type.pooled:
        return Column(type, pa.nulls(rows, type.pooled), valid)
    return Column(type, np.zeros(rows, np.float64 if type.is_fraction else np.int64), valid)
