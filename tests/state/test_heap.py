"""Plain texts against a dict of rows: from every Arrow form of text, compared, stored, packed together, in little
memory."""

from __future__ import annotations

from random import Random
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.state import heap as heaps
from freshet.state.arena import Arena
from freshet.state.heap import FullHeapError, Heap, read_texts, texts_at
from freshet.state.tuples import Tuples
from tests.state.test_strings import FORMS

TEXTS = st.one_of(
    st.sampled_from(["", "a", "1234567", "12345678", "12345679", "123456789", "x" * 40, "x" * 39 + "y"]),
    st.text(max_size=20), st.integers(0, 17).map(lambda n: "é" * n),
)  # fmt: skip
BATCH = st.lists(st.one_of(st.none(), TEXTS), min_size=1, max_size=12)
LANES = np.array([1], np.int64)


@given(st.lists(st.tuples(st.sampled_from(sorted(FORMS)), BATCH, st.randoms()), max_size=8))
def test_agrees_with_a_dict(steps: list[tuple[str, list[str | None], Random]]) -> None:
    scope = Arena().scope("t")
    heap, tuples, twin, key = Heap(scope), Tuples(scope, 2, 1), dict[int, str](), 0
    with patch.object(heaps, "_LEAST", 0):
        for form, values, random in steps:
            lanes = heap.add(FORMS[form](values))
            texts = [value or "" for value in values]
            assert heap.text(lanes, pa.large_string()).to_pylist() == texts
            assert heap.text(lanes, pa.large_string(), np.array([v is not None for v in values])).to_pylist() == values
            shuffled = random.sample(range(len(texts)), len(texts))
            different = heap.differ(lanes, lanes[shuffled]).tolist()
            assert different == [texts[i] != texts[j] for i, j in enumerate(shuffled)]
            tuples.add(np.stack([np.arange(key, key + len(values)), lanes], axis=1))
            twin |= dict(enumerate(texts, key))
            key += len(values)
            gone = [k for k in sorted(twin) if random.random() < 0.5]
            if gone:
                tuples.remove(tuples.find(np.array([[k, 0] for k in gone])))
            twin = {k: text for k, text in twin.items() if k not in gone}
            heap.tidy(tuples, LANES, len(gone))
            rows = tuples.lanes.data[tuples.slots()]
            held = heap.text(rows[:, 1], pa.large_string()).to_pylist()
            assert dict(zip(rows[:, 0].tolist(), held, strict=True)) == twin
            padded = sum((len(t.encode()) + 7) // 8 * 8 for t in twin.values() if len(t.encode()) > 7)
            assert heap.live(tuples, LANES) == padded <= heap.end
            assert not gone or heap.end <= 3 * padded or len(gone) <= len(twin)


@pytest.mark.parametrize("form", ["string", "large", "sliced"])
def test_texts_that_were_only_read(form: str) -> None:
    """Their lanes count bytes from a base, until the rows are stored."""
    texts = ["", "short", "a text of some length", None, "another one, and longer"] * 3
    array, rows = FORMS[form](texts), np.zeros((15, 2), np.int64)
    base = read_texts(array, rows, 1)
    assert base is not None
    assert texts_at(rows[:, 1], base, 1, pa.large_string()).to_pylist() == [t or "" for t in texts]
    heap = Heap(Arena().scope("t"))
    heap.store(rows, LANES, np.array([0, base], np.int64))
    del array
    assert heap.text(rows[:, 1], pa.large_string()).to_pylist() == [t or "" for t in texts]
    assert heap.end == 3 * (24 + 24)
    heap.undo(0)
    assert heap.end == 0


def test_a_full_heap_is_left_as_it_is() -> None:
    heap = Heap(Arena().scope("t"))
    lanes = heap.add(pa.array(["a text of some length"]))
    with patch.object(heaps, "_MOST", 30), pytest.raises(FullHeapError):
        heap.add(pa.array(["short", "another one"]))
    assert heap.end == 24 and heap.text(lanes, pa.large_string()).to_pylist() == ["a text of some length"]


def test_memory_is_given_back() -> None:
    arena = Arena()
    heap, tuples = Heap(arena.scope("t")), Tuples(arena.scope("t"), 2, 1)
    lanes = heap.add(pa.array([f"{i:050}" for i in range(20_000)]))
    slots = tuples.add(np.stack([np.arange(20_000), lanes], axis=1))
    before = heap.bytes.nbytes
    tuples.remove(slots[10:])
    heap.tidy(tuples, LANES, len(slots) - 10)
    assert heap.end == 560 and heap.bytes.nbytes < before / 100
    held = tuples.lanes.data[tuples.slots(), 1]
    assert heap.text(held, pa.large_string()).to_pylist() == [f"{i:050}" for i in range(10)]
