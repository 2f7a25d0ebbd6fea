"""The string pool against a dict: same text, same id, through sweeps and from every Arrow form of text."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from freshet.state.arena import Arena
from freshet.state.strings import StringPool

TEXTS = st.one_of(st.sampled_from(["", "a", "b", "12345678", "123456789", "x" * 40]), st.text(max_size=20))
BATCH = st.lists(st.one_of(st.none(), TEXTS), max_size=12)
FORMS = {
    "string": lambda v: pa.array(v, pa.string()),
    "large": lambda v: pa.array(v, pa.large_string()),
    "dictionary": lambda v: pa.array(v, pa.string()).dictionary_encode(),
    "view": lambda v: pa.array(v, pa.string_view()),
    "sliced": lambda v: pa.array(["zz", *v, "zz"], pa.string()).slice(1, len(v)),
}


@given(st.lists(st.tuples(st.sampled_from(sorted(FORMS)), BATCH, st.booleans(), st.randoms()), max_size=8))
def test_agrees_with_a_dict(steps: list[tuple[str, list[str | None], bool, Random]]) -> None:
    pool = StringPool(Arena().scope("pool"))
    twin: dict[str, int] = {"": 0}
    for form, values, sweep, random in steps:
        ids = pool.intern(FORMS[form](values))
        for value, given_id in zip(values, ids.tolist(), strict=True):
            assert given_id == (0 if value is None else twin.setdefault(value, given_id))
        assert len(set(twin.values())) == len(twin)
        assert pool.text(ids).to_pylist() == [value or "" for value in values]
        if sweep:
            kept = {t for t in sorted(twin) if random.random() < 0.5} | {""}
            marked = np.zeros(pool.used, np.bool_)
            marked[[twin[t] for t in kept]] = True
            pool.sweep(marked)
            for text in set(twin) - kept:
                assert pool.find(text) == -1
            twin = {t: i for t, i in twin.items() if t in kept}
        assert pool.live == len(twin) - 1
        for text, known in twin.items():
            assert pool.find(text) == known
        assert pool.text(np.array(list(twin.values()), np.int64)).to_pylist() == list(twin)


def test_freed_ids_are_used_again_and_bytes_do_not_grow() -> None:
    pool = StringPool(Arena().scope("pool"))
    for turn in range(50):
        pool.intern(pa.array([f"{turn}-{i}" for i in range(1000)]))
        pool.sweep(np.zeros(pool.used, np.bool_))
        assert pool.live == 0 and pool.used <= 1001
    assert pool.bytes.capacity <= 16384


def test_a_sweep_is_wanted_after_as_many_additions_as_survivors() -> None:
    pool = StringPool(Arena().scope("pool"))
    pool.intern(pa.array([str(i) for i in range(10_000)]))
    assert pool.wants_sweep()
    pool.sweep(np.ones(pool.used, np.bool_))
    pool.intern(pa.array([str(i) for i in range(19_999)]))
    assert not pool.wants_sweep()
    pool.intern(pa.array(["another"]))
    assert pool.wants_sweep()


def test_nulls_by_mask_and_no_rows() -> None:
    pool = StringPool(Arena().scope("pool"))
    ids = pool.intern(pa.array(["x", "y"]))
    assert pool.text(ids, np.array([True, False])).to_pylist() == ["x", None]
    assert pool.text(ids[:0]).to_pylist() == [] and len(pool.intern(pa.array([], pa.string()))) == 0
    assert pool.intern(pa.array([None, None], pa.string()).dictionary_encode()).tolist() == [0, 0]


@pytest.mark.parametrize("again", [1, 3])
def test_attaches_to_a_directory(tmp_path: Path, again: int) -> None:
    texts = [f"text {i % 777}" for i in range(3000)]
    ids = StringPool(Arena(tmp_path).scope("pool")).intern(pa.array(texts))
    for _ in range(again):
        pool = StringPool(Arena(tmp_path).scope("pool"))
        assert (pool.intern(pa.array(texts)) == ids).all() and pool.live == 777


def test_sweeps_that_free_nothing_become_rarer() -> None:
    pool = StringPool(Arena().scope("text"))
    ids = pool.intern(pa.array([f"text {i}" for i in range(10_000)]))
    pool.held(10_000)
    marked = np.zeros(pool.used, np.bool_)
    marked[ids] = True
    waits = []
    for _ in range(4):  # deletes rows whose texts other rows share
        waits.append(0)
        while not pool.wants_sweep():
            pool.loosened(1_000)
            waits[-1] += 1
        pool.sweep(marked)
    assert waits == [5, 10, 20, 40]
    pool.intern(pa.array([f"other {i}" for i in range(10_000)]))  # many new texts without references
    assert pool.wants_sweep()
    pool.sweep(marked)
    assert pool.live == 10_000
    pool.loosened(5_000)
    assert pool.wants_sweep()


def test_few_short_texts_are_not_swept_and_few_long_ones_are() -> None:
    pool = StringPool(Arena().scope("text"))
    pool.intern(pa.array(["AIR", "RAIL", "SHIP"]))
    pool.loosened(1_000_000)
    assert not pool.wants_sweep()
    pool.intern(pa.array(["x" * 300_000]))
    assert pool.wants_sweep()
