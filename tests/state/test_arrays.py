"""Arrays that go between Arrow and numpy without pandas."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.arrays import texts_of, values_of, whole_numbers

KINDS = {
    pa.bool_(): st.booleans(),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float64(): st.floats(allow_nan=False),
}


@pytest.mark.parametrize("kind", KINDS, ids=str)
@given(data=st.data())
def test_values(kind: pa.DataType, data: st.DataObject) -> None:
    """Of slices and chunks, too; the numpy array may be written."""
    values = data.draw(st.lists(KINDS[kind], max_size=20))
    start = data.draw(st.integers(0, len(values)))
    whole = pa.array(values, kind)
    for array in (whole, pa.chunked_array([whole[:start], whole[start:]], kind)):
        assert values_of(array[start:]).tolist() == values[start:]
        made = values_of(array)
        assert made.tolist() == values and made.flags.writeable and made.dtype == kind.to_pandas_dtype()


def test_values_with_nulls_are_refused() -> None:
    with pytest.raises(AssertionError):
        values_of(pa.array([1, None]))


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_texts(texts: list[str]) -> None:
    assert texts_of(texts).to_pylist() == texts


def test_whole_numbers() -> None:
    assert (
        whole_numbers([1, -(2**63)]).to_pylist() == whole_numbers(np.array([1, -(2**63)])).to_pylist() == [1, -(2**63)]
    )
    assert whole_numbers([]).to_pylist() == []
