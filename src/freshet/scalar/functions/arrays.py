"""Arrays: making them, their elements, and what is asked of all elements of one.

Every step takes apart the arrays of a batch once and computes with the elements of all of them together.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow.compute as pc
from sqlglot import exp

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.bounds import check_sizes
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.elements import (
    any_of,
    arranged,
    at,
    kept,
    nothing,
    numbered,
    of_array,
    one_type,
    together,
    with_element,
)
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE, NEVER, Nulls
from freshet.scalar.functions.registry import Function, Step, declare, refuse
from freshet.scalar.functions.rows import both, every, first_bad, gather, text_of
from freshet.scalar.lists import join_texts
from freshet.scalar.nested import Lists, ends, lists_of, make_lists, parts_of, valid_of
from freshet.scalar.types import BIGINT, BOOLEAN, INT, STRING, VOID, Type, array_of
from freshet.state.arrays import Bools

_Checked = tuple[Expression, ...]


def _resolve_array(name: str, args: _Checked) -> Expression:
    values = one_type(name, args)
    return Call(array_of(values[0].type if values else VOID), name, values)


def _array(call: Call) -> Step:
    count = len(call.args)

    def step(*args: Column) -> Column:
        if not args:
            return make_lists(call.type, Lists(np.zeros(2, np.int64), (nothing(VOID, 0),)))
        columns = together(*args)
        rows = len(columns[0])
        places = np.arange(rows * count).reshape(count, rows).T.reshape(-1)
        return make_lists(call.type, Lists(np.arange(rows + 1) * count, (stacked(columns).take(places),)))

    return step


def stacked(columns: tuple[Column, ...]) -> Column:
    """The values of columns of one type after each other."""
    first, total = columns[0], sum(map(len, columns))
    starts = np.cumsum([0, *map(len, columns)])
    pieces = [(np.arange(a, b), c) for a, b, c in zip(starts, starts[1:], columns, strict=False)]
    return gather(first.type, pieces, total)


# One element ----------------------------------------------------------------------------------------------------


def resolve_item(name: str, args: _Checked) -> Expression:
    """a[i], GET, ELEMENT_AT and TRY_ELEMENT_AT of an array."""
    if len(args) != 2:
        raise refuse(name, args)
    items, index = of_array(name, args), args[1].type
    if not (index.is_integer or index.name == "VOID") or (name != "item" and index.name == "BIGINT"):
        raise refuse(name, args)
    return Call(items, f"array_{name}", (args[0], cast(args[1], BIGINT)))


def _item(call: Call) -> Step:
    from_one = call.name.endswith("element_at")
    fails = call.name in ("array_item", "array_element_at")

    def step(a: Column, index: Column) -> Column:
        a, index = together(a, index)
        lists, valid = lists_of(a), both(valid_of(a), index.valid)
        sizes, wanted = lists.sizes, index.data
        places = np.where(wanted < 0, sizes + wanted, wanted - 1) if from_one else wanted
        there = (places >= 0) & (places < sizes)
        if from_one:
            bad = first_bad(wanted == 0, valid)
            if bad >= 0:
                raise EvaluationError("an index of 0; the first element has index 1", bad)
        if fails:
            bad = first_bad(~there, valid)
            if bad >= 0:
                instead = "TRY_ELEMENT_AT" if from_one else "GET"
                size = f"{sizes[bad]} element{'' if sizes[bad] == 1 else 's'}"
                raise EvaluationError(f"no index {wanted[bad]} in an array of {size}; {instead} gives NULL", bad)
        return at(lists.items, lists.offsets[:-1] + places, there, valid)

    return step


# All elements -----------------------------------------------------------------------------------------------------


def _resolve_size(name: str, args: _Checked) -> Expression:
    if len(args) != 1 or args[0].type.name not in (("ARRAY",) if name == "array_size" else ("ARRAY", "MAP")):
        raise refuse(name, args)
    return Call(INT, "size", args)


def _size(call: Call) -> Step:
    return lambda a: Column(INT, lists_of(a).sizes, valid_of(a))


def _resolve_search(type: Type) -> Callable[[str, _Checked], Expression]:
    return lambda name, args: Call(type, name, with_element(name, args))


def _found(a: Column, value: Column) -> tuple[Lists, Bools, Bools | None]:
    """The elements, which of them equal the row's value, and where the array and the value are not NULL."""
    lists, valid = lists_of(a), both(valid_of(a), valid_of(value) if value.type.pooled else value.valid)
    elements, values = numbered(lists.items, value)
    return lists, (elements == values[lists.rows]) & (elements > 0), valid


def _contains(call: Call) -> Step:
    def step(a: Column, value: Column) -> Column:
        a, value = together(a, value)
        lists, same, valid = _found(a, value)
        rows = lists.rows
        found, unknown = any_of(rows[same], len(a)), np.zeros(len(a), np.bool_)
        if lists.items.valid is not None:
            unknown = any_of(rows[~lists.items.valid], len(a))
        return Column(BOOLEAN, found, both(valid, found | ~unknown) if unknown.any() else valid)

    return step


def _position(call: Call) -> Step:
    def step(a: Column, value: Column) -> Column:
        a, value = together(a, value)
        lists, same, valid = _found(a, value)
        places, first = np.flatnonzero(same), np.zeros(len(a), np.int64)
        rows = lists.rows[places]
        first[rows[::-1]] = (places - lists.offsets[rows] + 1)[::-1]  # the last assignment wins
        return Column(BIGINT, first, valid)

    return step


def _resolve_remove(name: str, args: _Checked) -> Expression:
    array, value = with_element(name, args)
    return Call(array.type, name, (array, value))


def _remove(call: Call) -> Step:
    def step(a: Column, value: Column) -> Column:
        a, value = together(a, value)
        lists, same, valid = _found(a, value)
        return make_lists(call.type, kept(lists, ~same), valid)

    return step


def _resolve_same(ordered: bool) -> Callable[[str, _Checked], Expression]:
    def resolve(name: str, args: _Checked) -> Expression:
        if len(args) != 1:
            raise refuse(name, args)
        of_array(name, args, ordered=ordered)
        return Call(args[0].type, name, args)

    return resolve


def _distinct(call: Call) -> Step:
    def step(a: Column) -> Column:
        lists = lists_of(a)
        (numbers,) = numbered(lists.items)
        order = np.lexsort((np.arange(len(numbers)), numbers, lists.rows))
        rows, sorted_numbers = lists.rows[order], numbers[order]
        is_first = np.ones(len(order), np.bool_)
        is_first[1:] = (rows[1:] != rows[:-1]) | (sorted_numbers[1:] != sorted_numbers[:-1])
        keep = np.zeros(len(order), np.bool_)
        keep[order[is_first]] = True
        return make_lists(call.type, kept(lists, keep), valid_of(a))

    return step


def _compact(call: Call) -> Step:
    def step(a: Column) -> Column:
        lists = lists_of(a)
        known = valid_of(lists.items) if lists.items.type.pooled else lists.items.valid
        return make_lists(call.type, lists if known is None else kept(lists, known), valid_of(a))

    return step


def _reverse(call: Call) -> Step:
    def step(a: Column) -> Column:
        lists = lists_of(a)
        places = lists.offsets[:-1][lists.rows] + lists.offsets[1:][lists.rows] - 1 - np.arange(len(lists.items))
        return make_lists(call.type, arranged(lists, places), valid_of(a))

    return step


def _resolve_sort(name: str, args: _Checked) -> Expression:
    if not 1 <= len(args) <= 2:
        raise refuse(name, args)
    of_array(name, args, ordered=True)
    ascending = args[1] if len(args) == 2 else Literal(BOOLEAN, 1)
    if not isinstance(ascending, Literal) or ascending.type != BOOLEAN or ascending.value is None:
        raise refuse(name, args)
    return Call(args[0].type, name, (args[0], ascending))


def _sort(call: Call) -> Step:
    ascending = isinstance(call.args[1], Literal) and bool(call.args[1].value)

    def step(a: Column, _: Column) -> Column:
        lists = lists_of(a)
        (numbers,) = numbered(lists.items)
        order = np.lexsort((numbers if ascending else -numbers, lists.rows))
        return make_lists(call.type, arranged(lists, order), valid_of(a))

    return step


def _resolve_extreme(name: str, args: _Checked) -> Expression:
    if len(args) != 1:
        raise refuse(name, args)
    return Call(of_array(name, args, ordered=True), name, args)


def _extreme(call: Call) -> Step:
    least = call.name == "array_min"

    def step(a: Column) -> Column:
        lists, valid = lists_of(a), valid_of(a)
        (numbers,) = numbered(lists.items)
        known, rows = np.flatnonzero(numbers > 0), lists.rows
        order = known[np.lexsort((-numbers[known] if least else numbers[known], rows[known]))]
        places, there = np.zeros(len(a), np.int64), any_of(rows[known], len(a))
        places[rows[order]] = order  # the last of each row wins
        return at(lists.items, places, there, valid)

    return step


def _resolve_slice(name: str, args: _Checked) -> Expression:
    if len(args) != 3 or any(not a.type.is_integer and a.type.name != "VOID" for a in args[1:]):
        raise refuse(name, args)
    of_array(name, args)
    return Call(args[0].type, name, (args[0], cast(args[1], INT), cast(args[2], INT)))


def _slice(call: Call) -> Step:
    def step(a: Column, start: Column, length: Column) -> Column:
        a, start, length = together(a, start, length)
        valid = both(valid_of(a), every((start, length)))
        bad = first_bad(start.data == 0, valid)
        if bad >= 0:
            raise EvaluationError("SLICE starts at 0; the first element has index 1", bad)
        bad = first_bad(length.data < 0, valid)
        if bad >= 0:
            raise EvaluationError(f"SLICE of {length.data[bad]} elements; the number must not be negative", bad)
        lists = lists_of(a)
        first = np.where(start.data < 0, lists.sizes + start.data, start.data - 1)
        place = np.arange(len(lists.items)) - lists.offsets[:-1][lists.rows]
        rows = lists.rows
        keep = (place >= first[rows]) & (place < first[rows] + length.data[rows]) & (first[rows] >= 0)
        return make_lists(call.type, kept(lists, keep), valid)

    return step


# Several arrays ---------------------------------------------------------------------------------------------------


def resolve_concat(name: str, args: _Checked) -> Expression:
    values = one_type(name, args)
    if not values or values[0].type.name != "ARRAY":
        raise refuse(name, args)
    return Call(values[0].type, "array_concat", values)


def _concat(call: Call) -> Step:
    def step(*args: Column) -> Column:
        columns = together(*args)
        valid = None
        for c in columns:
            valid = both(valid, valid_of(c))
        lists = [lists_of(c) for c in columns]
        sizes = sum((part.sizes for part in lists), np.zeros(len(columns[0]), np.int64))
        offsets, places, filled = ends(sizes), [], np.zeros(len(sizes), np.int64)
        for part in lists:
            rows = part.rows
            places.append(offsets[:-1][rows] + filled[rows] + np.arange(len(rows)) - part.offsets[:-1][rows])
            filled = filled + part.sizes
        pieces = [(own, part.items) for own, part in zip(places, lists, strict=True)]
        return make_lists(call.type, Lists(offsets, (gather(lists[0].items.type, pieces, int(offsets[-1])),)), valid)

    return step


def _resolve_add(name: str, args: _Checked) -> Expression:
    if len(args) != 2:
        raise refuse(name, args)
    items = of_array(name, args)
    value, _ = one_type(name, (args[1], Literal(items, None)))
    one = Call(array_of(value.type), "array", (value,))
    array = cast(args[0], one.type)
    return Call(one.type, "array_concat", (array, one) if name == "array_append" else (one, array))


def _resolve_flatten(name: str, args: _Checked) -> Expression:
    if len(args) != 1 or of_array(name, args).name != "ARRAY":
        raise refuse(name, args)
    return Call(of_array(name, args), name, args)


def _flatten(call: Call) -> Step:
    def step(a: Column) -> Column:
        outer, valid = lists_of(a), valid_of(a)
        known, inner = valid_of(outer.items), lists_of(outer.items)
        if known is not None:
            valid = both(valid, ~any_of(outer.rows[~known], len(a)))
        return make_lists(call.type, Lists(inner.offsets[outer.offsets], inner.columns), valid)

    return step


def _resolve_repeat(name: str, args: _Checked) -> Expression:
    if len(args) != 2 or not (args[1].type.is_integer or args[1].type.name == "VOID"):
        raise refuse(name, args)
    return Call(array_of(args[0].type), name, (args[0], cast(args[1], INT)))


def _repeat(call: Call) -> Step:
    def step(value: Column, times: Column) -> Column:
        value, times = together(value, times)
        counts = np.maximum(times.data, 0)
        counts = counts if times.valid is None else np.where(times.valid, counts, 0)
        sizes = pc.binary_length(parts_of(value)).to_numpy() * counts
        check_sizes("array_repeat", sizes, None, len(counts))
        rows = np.repeat(np.arange(len(counts)), counts)
        return make_lists(call.type, Lists(ends(counts), (value.take(rows),)), times.valid)

    return step


# Texts ------------------------------------------------------------------------------------------------------------


def _resolve_join(name: str, args: _Checked) -> Expression:
    if not 2 <= len(args) <= 3:
        raise refuse(name, args)
    if of_array(name, args).is_nested or any(not isinstance(a, Literal) for a in args[1:]):
        raise refuse(name, args)
    return Call(STRING, name, (cast(args[0], array_of(STRING)), *(cast(a, STRING) for a in args[1:])))


def _join(call: Call) -> Step:
    between, *instead = [str(a.value) for a in call.args[1:] if isinstance(a, Literal)]

    def step(a: Column, *_: Column) -> Column:
        lists, items = lists_of(a), lists_of(a).items
        missing = None if items.valid is None else ~items.valid
        texts = text_of(items)
        if missing is not None and instead:
            texts = texts.fill_null(instead[0])
        elif missing is not None:
            lists = kept(lists, ~missing)
            texts = text_of(lists.items)
        return Column(STRING, join_texts(texts, lists.sizes, between), valid_of(a))

    return step


_ARRAY, _WITH_VALUE = "an array", "an array and a value of the type of its elements"

declare(
    Function("array", "values of one type", _resolve_array, _array, parsed={exp.Array: ("expressions",)}, nulls=NEVER,
             nested=True, total=True),
    Function("array_item", strict=_item, nulls=IF_ANY_OR_ELSE, nested=True),
    Function("array_get", strict=_item, nulls=IF_ANY_OR_ELSE, nested=True, total=True),
    Function("array_element_at", strict=_item, nulls=IF_ANY_OR_ELSE, nested=True),
    Function("array_try_element_at", strict=_item, nulls=IF_ANY_OR_ELSE, nested=True),
    Function("get", "an array and an index, from 0 on", resolve_item, nested=True),
    Function("size", "an array or a map", _resolve_size, _size, also=("cardinality", "array_size"), nested=True,
             total=True),
    Function("array_contains", _WITH_VALUE, _resolve_search(BOOLEAN), _contains, nulls=IF_ANY_OR_ELSE, nested=True,
             total=True),
    Function("array_position", _WITH_VALUE, _resolve_search(BIGINT), _position, nested=True, total=True),
    Function("array_remove", _WITH_VALUE, _resolve_remove, _remove, nested=True, total=True),
    Function("array_distinct", _ARRAY, _resolve_same(True), _distinct, nested=True, total=True),
    Function("array_compact", _ARRAY, _resolve_same(False), _compact, nested=True, total=True),
    Function("array_reverse", _ARRAY, _resolve_same(False), _reverse, spelled=False, nested=True, total=True),
    Function("sort_array", "an array, and whether ascending: TRUE or FALSE", _resolve_sort, _sort, nested=True,
             total=True),
    Function("array_min", _ARRAY, _resolve_extreme, _extreme, nulls=IF_ANY_OR_ELSE, nested=True, total=True),
    Function("array_max", _ARRAY, _resolve_extreme, _extreme, nulls=IF_ANY_OR_ELSE, nested=True, total=True),
    Function("slice", "an array, the index to start at, and a number of elements", _resolve_slice, _slice, nested=True),
    Function("array_concat", "arrays of one type", resolve_concat, _concat, spelled=False, nested=True, total=True),
    Function("array_append", "an array and a value", _resolve_add, nested=True),
    Function("array_prepend", "an array and a value", _resolve_add, nested=True),
    Function("flatten", "an array of arrays", _resolve_flatten, _flatten, nulls=IF_ANY_OR_ELSE, nested=True,
             total=True),
    Function("array_repeat", "a value and how many times", _resolve_repeat, _repeat, nested=True, sized=True,
             nulls=Nulls(lambda flags: flags[1], lambda flags: flags[1])),
    Function("array_join", "an array, a separator, and a text for NULLs, the last two constant", _resolve_join, _join,
             nested=True, total=True),
)  # fmt: skip
