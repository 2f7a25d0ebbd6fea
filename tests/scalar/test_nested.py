"""Nested values as bytes: they come back as they were, equal values are equal bytes, and bytes sort as values do."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.errors import EvaluationError
from freshet.scalar import types
from freshet.scalar.arrow import from_arrow, to_arrow
from freshet.scalar.column import Column
from freshet.scalar.nested import fields_of, lists_of, make_lists
from freshet.scalar.types import Type, array_of, map_of, struct_of
from freshet.state.arena import Arena
from freshet.state.strings import StringPool

LEAVES: dict[Type, st.SearchStrategy[Any]] = {
    types.BOOLEAN: st.booleans(),
    types.TINYINT: st.integers(-128, 127),
    types.INT: st.integers(-(2**31), 2**31 - 1),
    types.BIGINT: st.integers(-(2**63), 2**63 - 1),
    types.DOUBLE: st.floats(),
    types.STRING: st.text(st.sampled_from("ab\0\x01\xff\u20ac"), max_size=3),
    types.BINARY: st.binary(max_size=3),
    types.DATE: st.dates(dt.date(1, 1, 2)),
    types.decimal(10, 2): st.integers(-(10**10) + 1, 10**10 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    types.decimal(38, 3): st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal((n < 0, _digits(n), -3))),
}


def _digits(n: int) -> tuple[int, ...]:
    return tuple(map(int, str(abs(n))))


def _types() -> st.SearchStrategy[Type]:
    def wider(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
        names = st.sampled_from(["a", "b c", "d"])
        fields = st.lists(st.tuples(names, inner), min_size=1, max_size=3, unique_by=lambda f: f[0])
        return inner.map(array_of) | fields.map(struct_of)

    return st.recursive(st.sampled_from(list(LEAVES)), wider, max_leaves=4).filter(lambda t: t.is_nested)


def _values(type: Type) -> st.SearchStrategy[Any]:
    if type.name == "ARRAY":
        return st.none() | st.lists(_values(type.parts[0]), max_size=3)
    if type.name == "STRUCT":
        return st.none() | st.fixed_dictionaries({name: _values(t) for name, t in type.fields})
    return st.none() | LEAVES[type]


def _key(value: Any, type: Type) -> Any:
    """A key by which Python sorts values as Spark does: NULL first, NaN last, shorter lists before longer ones."""
    if value is None:
        return (0,)
    if type.name == "ARRAY":
        return (1, [_key(v, type.parts[0]) for v in value])
    if type.name == "STRUCT":
        return (1, [_key(value[name], t) for name, t in type.fields])
    if isinstance(value, float):
        return (1, math.isnan(value), 0.0 if math.isnan(value) else value)
    return (1, value.encode() if isinstance(value, str) else value)


@given(_types().flatmap(lambda t: st.tuples(st.just(t), st.lists(_values(t), min_size=1, max_size=6))))
def test_values_come_back_and_sort(drawn: tuple[Type, list[Any]]) -> None:
    type, values = drawn
    column = from_arrow(pa.array(values, type.to_arrow()), type)
    back = to_arrow(column)
    assert back.type == type.to_arrow()
    assert [_key(v, type) for v in back.to_pylist()] == [_key(v, type) for v in values]
    made = [(b, _key(v, type)) for b, v in zip(column.data.to_pylist(), values, strict=True) if v is not None]
    for b, key in made:
        for other, its in made:
            assert (b < other) == (key < its) and (b == other) == (key == its)


@given(_types().flatmap(lambda t: st.tuples(st.just(t), st.lists(_values(t), min_size=1, max_size=6))))
def test_values_of_the_pool_are_taken_apart_once(drawn: tuple[Type, list[Any]]) -> None:
    type, values = drawn
    pool = StringPool(Arena().scope("pool"))
    plain = from_arrow(pa.array(values * 3, type.to_arrow()), type)
    valid = np.array([v is not None for v in values * 3])
    column = Column(type, pool.intern(plain.data), valid, pool=pool)
    assert to_arrow(column).equals(to_arrow(plain)) or "nan" in repr(values)


def test_maps_keep_the_order_of_their_entries() -> None:
    type = map_of(types.STRING, array_of(types.INT))
    values: list[Any] = [[("b", [1, None]), ("a", None)], [], None, [("", [])]]
    assert to_arrow(from_arrow(pa.array(values, type.to_arrow()), type)).to_pylist() == values


@pytest.mark.parametrize(
    ("array", "type", "words", "row"),
    [
        (pa.array([[1], [2, 300]]), array_of(types.TINYINT), "300 does not fit TINYINT", 1),
        (pa.array([{"a": 1, "c": 2}]), struct_of([("a", types.INT)]), "no field c", 0),
        (pa.array([1]), array_of(types.INT), "is not a value of ARRAY<INT>; give lists", 0),
        (
            pa.array([[], [(1, 2), (1, 3)]], pa.map_(pa.int32(), pa.int32())),
            map_of(types.INT, types.INT),
            "a map with key 1 twice",
            1,
        ),
    ],
)
def test_what_does_not_fit_names_its_row(array: pa.Array, type: Type, words: str, row: int) -> None:
    with pytest.raises(EvaluationError) as caught:
        from_arrow(array, type)
    assert words in caught.value.reason and caught.value.row == row


def test_slices_and_views_of_arrow_are_read() -> None:
    type = array_of(types.INT)
    whole = pa.array([[9], [1, 2], None, [3]], pa.list_(pa.int32()))
    for array in (whole, whole.cast(pa.large_list(pa.int64()))):
        assert to_arrow(from_arrow(array[1:], type)).to_pylist() == [[1, 2], None, [3]]
    views = pa.ListViewArray.from_arrays(pa.array([9, 2, None, 0]), pa.array([0, 1, 0, 2]), pa.array([1, 2, 3]))
    assert to_arrow(from_arrow(views[1:], type)).to_pylist() == [[3], None, [1, 2]]
    fixed = pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2))
    assert to_arrow(from_arrow(fixed[1:], type)).to_pylist() == [None, [3, 4]]
    pairs = pa.array([[(1, 2)], None, [(3, 4)]], pa.map_(pa.int32(), pa.int32()))
    assert to_arrow(from_arrow(pairs[1:], map_of(types.INT, types.INT))).to_pylist() == [None, [(3, 4)]]


def test_lists_of_some_rows() -> None:
    column = from_arrow(pa.array([[1, 2], None, [], [3]], pa.list_(pa.int32())), array_of(types.INT))
    some = lists_of(column).take(np.array([3, 0, 3]))
    assert some.offsets.tolist() == [0, 1, 3, 4] and some.items.data.tolist() == [3, 1, 2, 3]
    assert some.rows.tolist() == [0, 1, 1, 2]
    assert to_arrow(make_lists(array_of(types.INT), some)).to_pylist() == [[3], [1, 2], [3]]


def test_fields_of_missing_structs_are_null() -> None:
    type = struct_of([("a", types.INT), ("b", types.STRING)])
    column = from_arrow(pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": ""}], type.to_arrow()), type)
    a, b = fields_of(column)
    assert to_arrow(a).to_pylist() == [1, None, None] and to_arrow(b).to_pylist() == ["x", None, ""]
