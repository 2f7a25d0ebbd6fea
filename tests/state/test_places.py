"""The index that grows one home at a time: every entry is found, after any inserts, deletes and wrap-arounds."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from freshet.state import arena as arenas
from freshet.state import pages, places
from freshet.state.arena import Arena, Growable
from freshet.state.places import HEAD, HOMES, MASK, PER_ENTRY
from freshet.state.strings import StringPool
from freshet.state.tuples import Tuples


def check_law(table: Growable, entries: int) -> None:
    """The head, and for each entry: no empty place between its home and it."""
    data = table.data.tolist()
    homes, mask = data[HOMES], data[MASK]
    assert mask & (mask + 1) == 0
    assert mask // 2 < homes <= mask + 1 <= 2 * len(data)
    assert homes <= len(data) - HEAD
    places = [at for at in range(HEAD, len(data)) if data[at] != -1]
    assert len(places) == entries
    for at in places:
        home = (data[at] >> 32) & 0xFFFFFFFF & mask
        home = HEAD + (home if home < homes else home & (mask >> 1))
        while home != at:
            assert data[home] != -1
            home = home + 1 if home + 1 < len(data) else HEAD


@pytest.mark.parametrize("slack", [1, 30])  # one place is always empty, where searches end
def test_inserted_and_deleted_rows(monkeypatch: pytest.MonkeyPatch, slack: int) -> None:
    monkeypatch.setattr(places, "SLACK", slack)
    for seed in range(20):
        chance, held = random.Random(seed), dict[int, int]()
        tuples = Tuples(Arena().scope("t"), 2, 1)
        # Rows are added without asking for room in good time, so that the index is full and runs over its end.
        monkeypatch.setattr(places, "PER_ENTRY", chance.choice([1, 1, PER_ENTRY]))
        for _ in range(60):
            if held and chance.random() < 0.4:
                keys = chance.sample(list(held), 1 + chance.randrange(len(held)) // 2)
                tuples.remove(np.array([held.pop(k) for k in keys], np.int32))
            else:
                keys = [chance.randrange(10_000) for _ in range(1 + chance.randrange(20))]
                slots = tuples.add(np.array([[k, 7] for k in keys], np.int64))
                for key, slot in zip(keys, slots.tolist(), strict=True):
                    assert held.setdefault(key, slot) == slot
            check_law(tuples.table, len(held))
        keys = list(range(0, 10_000, 7)) + list(held)
        at = tuples.find(np.array([[k, 0] for k in keys], np.int64))
        assert at.tolist() == [held.get(k, -1) for k in keys]


def test_added_and_removed_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "SLACK", 1)
    chance = random.Random(3)
    for _ in range(10):
        pool, ids = StringPool(Arena().scope("p")), dict[str, int]()
        for _ in range(30):
            texts = [f"text {chance.randrange(3_000)}" for _ in range(chance.randrange(1, 60))]
            mark = pool.mark()
            new = pool.intern(pa.array(texts)).tolist()
            what = chance.random()
            if what < 0.3:
                pool.undo(mark)
            else:
                ids.update(zip(texts, new, strict=True))
            if what > 0.8:
                marked = np.zeros(pool.used, np.bool_)
                ids = {text: id for text, id in ids.items() if chance.random() < 0.7}
                marked[list(ids.values())] = True
                pool.sweep(marked)
            check_law(pool._table, pool.live)
            assert np.count_nonzero(pool.offsets.data[1 : pool.used, 1] >= 0) == pool.live
        for number in range(3_000):
            assert pool.find(f"text {number}") == ids.get(f"text {number}", -1)


def test_no_row_pays_for_all_others() -> None:
    """Homes that are opened for one more row, at any size."""
    tuples, opened = Tuples(Arena().scope("t"), 1), [0]
    for n in range(5_000):
        tuples.add(np.array([[n]], np.int64))
        opened.append(int(tuples.table.data[HOMES]))
    assert max(b - a for a, b in pairwise(opened[1:])) <= PER_ENTRY


def test_a_large_array_grows_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "_LARGE", 4096)
    for fill in (0, -1):
        array = Arena().array("a", np.int64, columns=2, fill=fill)
        array.grow(1_000)
        array.data[:1_000] = np.arange(1_000)[:, None]
        before, address, sizes = array.data, array.data.ctypes.data, []
        for rows in range(1_000, 100_000, 999):
            array.grow(rows)
            assert array.data.ctypes.data == address
            sizes.append(array.capacity)
        assert (array.data[:1_000] == np.arange(1_000)[:, None]).all()
        assert (array.data[1_000:] == fill).all()
        assert before.ctypes.data == address
        steps = [b - a for a, b in pairwise(sizes)]
        assert max(steps) * 16 <= arenas._STEP  # so that no step costs more than another
        array.match(array.capacity + 1)
        assert array.capacity == sizes[-1] + 1


def test_arrays_of_one_length_grow_at_different_times() -> None:
    """At no row does more than a part of them grow, small ones and large ones."""
    arena = Arena()
    arrays = [arena.array(f"a{i}", np.int64) for i in range(40)]
    grown = []
    for rows in range(1, 200_000):
        before = [a.capacity for a in arrays]
        for array in arrays:
            array.grow(rows)
        grown.append(sum(a.capacity > was for a, was in zip(arrays, before, strict=True)))
    assert max(grown[1_000:]) <= 20
    assert max(grown[10_000:]) <= 10


def test_where_the_system_gives_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pages, "_preparing", pages._Preparing())
    monkeypatch.setattr("threading.Thread.start", refused)
    array = Arena().array("a", np.int64, fill=-1)
    for rows in range(100_000, 2_000_000, 30_000):
        array.grow(rows)
        array.data[rows - 1] = rows
    assert pages._preparing._thread is None and array.data[99_999] == 100_000


def test_where_the_system_gives_no_range(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arenas, "_LARGE", 4096)
    monkeypatch.setattr(pages, "reserve", lambda nbytes: None)
    array = Arena().array("a", np.int64, fill=-1)
    for rows in (1_000, 5_000, 9_000):
        array.grow(rows)
        array.data[rows - 1] = rows
    assert [int(array.data[rows - 1]) for rows in (1_000, 5_000, 9_000)] == [1_000, 5_000, 9_000]
    monkeypatch.undo()
    array = Arena().array("b", np.int64)
    with pytest.raises(MemoryError, match="this machine has"):
        array.grow(1 << 50)
    assert array.capacity == 64
