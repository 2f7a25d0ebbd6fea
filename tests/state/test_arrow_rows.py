"""Rows read from Arrow's memory equal the same rows packed column by column."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from freshet.database.changes import _columns, _layout, pack_rows
from freshet.database.db import Database, inside
from freshet.state.arrow_rows import MOST_GIVEN, read_batch

SCHEMA = """CREATE TABLE t (
    a TINYINT, b SMALLINT, c INT, d BIGINT, e DATE, f TIMESTAMP, g DECIMAL(9, 2), h DECIMAL(38, 0))"""
TYPES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.decimal128(9, 2),
    pa.decimal128(38, 0),
]  # fmt: skip
LIMITS = [2**7, 2**15, 2**31, 2**63, 719_162, 719_162 * 86_400_000_000, 10**9, 10**38]  # dates from the year 1 on


@pytest.fixture(scope="module")
def db() -> Database:
    db = freshet.connect()
    db.execute(SCHEMA)
    return db


def _array(values: list[int], place: int) -> pa.Array:
    """A column of these bit patterns."""
    wide = place >= 6
    size = 16 if wide else TYPES[place].bit_width // 8
    data = b"".join(v.to_bytes(size, "little", signed=True) for v in values)
    return pa.Array.from_buffers(TYPES[place], len(values), [None, pa.py_buffer(data)])


@given(st.data())
def test_any_slice_is_read_as_its_columns_are(db: Database, data: Any) -> None:
    n = data.draw(st.integers(0, 6))
    arrays = []
    for place, limit in enumerate(LIMITS):
        values = data.draw(st.lists(st.integers(-limit + 1, limit - 1), min_size=n, max_size=n))
        array = _array(values, place)
        if data.draw(st.booleans()):  # a bitmap that has to be looked at
            array = pa.Array.from_buffers(TYPES[place], n, [pa.py_buffer(b"\xff"), array.buffers()[1]])
        arrays.append(array)
    weights = pa.array(data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n)), pa.int64())
    order = data.draw(st.permutations(range(9)))
    names = [*"abcdefgh", "_weight"]
    batch = pa.RecordBatch.from_arrays([[*arrays, weights][i] for i in order], [names[i] for i in order])
    start = data.draw(st.integers(0, n))
    batch = batch.slice(start, data.draw(st.integers(0, n - start)))
    table, schema = inside(db).state.core.tables["t"], db.catalog.table("t")
    assert schema is not None
    layout = _layout(table, schema, batch.schema)
    assert layout.direct is not None and layout.weight is not None
    read = read_batch(batch, layout.direct, layout.weight, table.width, True)
    assert read is not None
    plain = pack_rows(table, _columns(schema, layout, batch.columns, batch.num_rows), batch.num_rows)
    assert np.array_equal(read.rows, plain)
    assert read.weights.tolist() == batch.column("_weight").to_pylist()


@pytest.mark.parametrize("place", range(9))
def test_a_null_anywhere_takes_the_longer_way(db: Database, place: int) -> None:
    arrays: list[pa.Array] = [_array([1, 2], i) for i in range(8)] + [pa.array([1, 1], pa.int64())]
    nulls = pa.array([None, None], arrays[place].type)
    arrays[place] = pa.concat_arrays([arrays[place].slice(0, 1), nulls.slice(0, 1)])
    batch = pa.RecordBatch.from_arrays(arrays, [*"abcdefgh", "_weight"])
    table, schema = inside(db).state.core.tables["t"], db.catalog.table("t")
    assert schema is not None
    layout = _layout(table, schema, batch.schema)
    assert layout.direct is not None
    assert read_batch(batch, layout.direct, 8, table.width, True) is None
    assert read_batch(batch.slice(0, 1), layout.direct, 8, table.width, True) is not None


def test_a_weight_that_is_too_large_takes_the_longer_way(db: Database) -> None:
    table, schema = inside(db).state.core.tables["t"], db.catalog.table("t")
    assert schema is not None
    for weight, direct in ((MOST_GIVEN, True), (-MOST_GIVEN, True), (MOST_GIVEN + 1, False), (-MOST_GIVEN - 1, False)):
        arrays: list[pa.Array] = [_array([1], i) for i in range(8)] + [pa.array([weight], pa.int64())]
        batch = pa.RecordBatch.from_arrays(arrays, [*"abcdefgh", "_weight"])
        layout = _layout(table, schema, batch.schema)
        assert layout.direct is not None
        assert (read_batch(batch, layout.direct, 8, table.width, True) is not None) is direct


def test_texts_are_checked_unless_they_are_trusted() -> None:
    """A batch that might be invalid is not read; one that is not ASCII is read once it is known to be valid."""
    db = freshet.connect()
    db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, d DECIMAL(4, 2), s STRING, b BINARY)")
    table, schema = inside(db).state.core.tables["t"], db.catalog.table("t")
    assert schema is not None

    def texts(data: bytes, ends: list[int], kind: pa.DataType) -> pa.Array:
        size = np.int64 if kind in (pa.large_string(), pa.large_binary()) else np.int32
        buffers = [None, pa.py_buffer(np.array([0, *ends], size)), pa.py_buffer(data)]
        return pa.Array.from_buffers(kind, len(ends), buffers)

    def cases(kind: pa.DataType, raw: pa.DataType) -> list[tuple[pa.Array, bool]]:
        whole = [(b"abcdefghijkl", [3, 12]), (b"", [0, 0]), (b"an ASCII text, longer than a few words", [37, 38])]
        sound = [(texts(data, ends, kind), True) for data, ends in whole]
        broken = [("é" * 9, [1, 18]), ("a" * 20 + "é", [20, 22]), ("é", [2, 2])]
        other = [(texts(data.encode(), ends, kind), False) for data, ends in broken]
        back = [(texts(b"abcdefghijkl", [13, 12], kind), False), (texts(b"abcdef", [5, 4], raw), False)]
        return [*sound, *other, *back, (texts(b"\xff\xfe\xff", [1, 3], raw), True)]

    for kinds in ((pa.string(), pa.binary()), (pa.large_string(), pa.large_binary())):
        for array, direct in cases(*kinds):
            given = {kinds[0]: pa.array(["x", "y"], kinds[0]), kinds[1]: pa.array([b"x", b"y"], kinds[1])}
            given[array.type] = array
            columns = [pa.array([1, 2]), _decimals([1, -9999]), given[kinds[0]], given[kinds[1]]]
            batch = pa.RecordBatch.from_arrays(columns, ["id", "d", "s", "b"])
            layout = _layout(table, schema, batch.schema)
            assert layout.direct is not None
            read = read_batch(batch, layout.direct, -1, table.width, False)
            assert (read is not None) is direct
            if read is not None:
                found = table.unpack(read.rows, read.bases)
                assert [c.data.to_pylist() for c in found[2:]] == [given[kind].to_pylist() for kind in kinds]
    leap = texts(b"abcdefghijkl", [5, 5 - 2**63, -1, 12], pa.large_string())  # the difference of two offsets overflows
    four = [pa.array([1, 2, 3, 4]), _decimals([1] * 4), leap, pa.array([b"x"] * 4)]
    batch = pa.RecordBatch.from_arrays(four, ["id", "d", "s", "b"])
    layout = _layout(table, schema, batch.schema)
    assert layout.direct is not None and read_batch(batch, layout.direct, -1, table.width, False) is None
    for value in (10_000, -10_000, 2**64 + 1):
        columns = [pa.array([1]), _decimals([value]), pa.array(["x"]), pa.array([b"x"])]
        batch = pa.RecordBatch.from_arrays(columns, ["id", "d", "s", "b"])
        layout = _layout(table, schema, batch.schema)
        assert layout.direct is not None and read_batch(batch, layout.direct, -1, table.width, False) is None


def _decimals(values: list[int]) -> pa.Array:
    data = b"".join(v.to_bytes(16, "little", signed=True) for v in values)
    return pa.Array.from_buffers(pa.decimal128(4, 2), len(values), [None, pa.py_buffer(data)])
