"""Maps: making them, their entries, and the value of a key. The entries of a map stay in their order."""

from __future__ import annotations

import numpy as np

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression
from freshet.scalar.functions.arrays import resolve_item, stacked
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.coercion import common_type
from freshet.scalar.functions.elements import any_of, at, check_keys, nothing, numbered, one_type, together
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE, NEVER
from freshet.scalar.functions.registry import Function, Step, declare, refuse
from freshet.scalar.functions.rows import both
from freshet.scalar.nested import Lists, lists_of, make_lists, make_structs, valid_of
from freshet.scalar.types import BOOLEAN, VOID, Type, array_of, map_of, struct_of

_Checked = tuple[Expression, ...]


def _resolve_map(name: str, args: _Checked) -> Expression:
    if len(args) % 2:
        raise refuse(name, args)
    keys, values = one_type(name, args[::2]), one_type(name, args[1::2])
    kind = map_of(keys[0].type, values[0].type) if args else map_of(VOID, VOID)
    if not kind.parts[0].is_ordered:
        raise refuse(name, args)
    return Call(kind, name, tuple(a for pair in zip(keys, values, strict=True) for a in pair))


def _map(call: Call) -> Step:
    count = len(call.args) // 2

    def step(*args: Column) -> Column:
        if not args:
            return make_lists(call.type, Lists(np.zeros(2, np.int64), (nothing(VOID, 0), nothing(VOID, 0))))
        columns = together(*args)
        rows = len(columns[0])
        places = np.arange(rows * count).reshape(count, rows).T.reshape(-1)
        keys, values = stacked(columns[::2]).take(places), stacked(columns[1::2]).take(places)
        made = Lists(np.arange(rows + 1) * count, (keys, values))
        check_keys(made, None)
        return make_lists(call.type, made)

    return step


def _resolve_from_arrays(name: str, args: _Checked) -> Expression:
    if len(args) != 2 or any(a.type.name != "ARRAY" for a in args):
        raise refuse(name, args)
    keys, values = (a.type.parts[0] for a in args)
    if not keys.is_ordered:
        raise refuse(name, args)
    return Call(map_of(keys, values), name, args)


def _from_arrays(call: Call) -> Step:
    def step(keys: Column, values: Column) -> Column:
        keys, values = together(keys, values)
        valid, a, b = both(valid_of(keys), valid_of(values)), lists_of(keys), lists_of(values)
        differs = a.sizes != b.sizes
        differs = differs if valid is None else differs & valid
        if differs.any():
            row = int(np.argmax(differs))
            raise EvaluationError(f"{a.sizes[row]} keys and {b.sizes[row]} values; give one value for each key", row)
        if valid is not None:  # a list may stand where the other is NULL
            rows = np.flatnonzero(valid)
            sizes = np.zeros(len(keys), np.int64)
            sizes[rows] = a.sizes[rows]
            offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])
            made = Lists(offsets, (a.take(rows).items, b.take(rows).items))
        else:
            made = Lists(a.offsets, (a.items, b.items))
        check_keys(made, valid)
        return make_lists(call.type, made, valid)

    return step


def _of_map(name: str, args: _Checked, count: int = 1) -> tuple[Type, Type]:
    """The types of the first argument's keys and values."""
    if len(args) != count or args[0].type.name != "MAP":
        raise refuse(name, args)
    keys, values = args[0].type.parts
    return keys, values


def _resolve_keys(name: str, args: _Checked) -> Expression:
    return Call(array_of(_of_map(name, args)[0]), name, args)


def _resolve_values(name: str, args: _Checked) -> Expression:
    return Call(array_of(_of_map(name, args)[1]), name, args)


def _resolve_entries(name: str, args: _Checked) -> Expression:
    keys, values = _of_map(name, args)
    return Call(array_of(struct_of([("key", keys), ("value", values)])), name, args)


def _parts(call: Call) -> Step:
    def step(a: Column) -> Column:
        lists = lists_of(a)
        keys, values = lists.columns
        if call.name == "map_entries":
            assert call.type.items is not None
            part = make_structs(call.type.items, (keys, values), None, len(keys))
        else:
            part = keys if call.name == "map_keys" else values
        return make_lists(call.type, Lists(lists.offsets, (part,)), valid_of(a))

    return step


def _resolve_value(name: str, args: _Checked) -> Expression:
    """m[key], and MAP_CONTAINS_KEY: maps and keys with the common type of keys."""
    keys, values = _of_map(name, args, 2)
    common = common_type((keys, args[1].type))
    if common is None or args[1].type.name == "VOID":
        raise refuse(name, args)
    maps = cast(args[0], map_of(common, values)) if common != keys else args[0]
    is_value = name != "map_contains_key"
    return Call(values if is_value else BOOLEAN, "map_value" if is_value else name, (maps, cast(args[1], common)))


def _value(call: Call) -> Step:
    def step(a: Column, key: Column) -> Column:
        a, key = together(a, key)
        lists, valid = lists_of(a), both(valid_of(a), valid_of(key) if key.type.pooled else key.valid)
        keys, wanted = numbered(lists.columns[0], key)
        places = np.flatnonzero((keys == wanted[lists.rows]) & (keys > 0))
        rows = lists.rows[places]
        if call.name == "map_contains_key":
            return Column(BOOLEAN, any_of(rows, len(a)), valid)
        found = np.zeros(len(a), np.int64)
        found[rows] = places
        return at(lists.columns[1], found, any_of(rows, len(a)), valid)

    return step


def _resolve_item(name: str, args: _Checked) -> Expression:
    if len(args) == 2 and args[0].type.name == "MAP":
        return _resolve_value(name, args)
    return resolve_item(name, args)


_ELEMENT = "an array and an index, or a map and a key"

declare(
    Function("map", "keys and values in turn", _resolve_map, _map, nulls=NEVER, nested=True),
    Function("map_from_arrays", "an array of keys and one of values", _resolve_from_arrays, _from_arrays, nested=True),
    Function("map_keys", "a map", _resolve_keys, _parts, nested=True, total=True),
    Function("map_values", "a map", _resolve_values, _parts, nested=True, total=True),
    Function("map_entries", "a map", _resolve_entries, _parts, nested=True, total=True),
    Function("map_value", strict=_value, nulls=IF_ANY_OR_ELSE, nested=True, total=True),
    Function("map_contains_key", "a map and a key", _resolve_value, _value, nested=True, total=True),
    Function("item", _ELEMENT, _resolve_item, spelled=False, nested=True),
    Function("element_at", "an array and an index from 1 on, or a map and a key", _resolve_item, nested=True),
    Function("try_element_at", "an array and an index from 1 on, or a map and a key", _resolve_item, nested=True),
)  # fmt: skip
