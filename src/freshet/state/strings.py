"""The string pool: every distinct text once, named by a 64-bit id.

A text is its bytes: BINARY values are stored here, too, and only the users of ids know which is which. Two texts are
equal exactly when their ids are: keys, joins and distinct compare ids alone. Id 0 is the empty string and never freed.
The index (state/places) has 32 bits of hash with each id, so most lookups that miss end without touching the text.
References are not counted: all holders of ids mark them, and `sweep` frees the rest and compacts the bytes, without
changing surviving ids. A sweep costs O(used), so it runs only when half of the texts may be loose: O(1) amortized. A
text is loose from its addition on, unless its user reports that it is held (`held`), until it is released (`loosened`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from freshet.errors import TooMuchTextError
from freshet.interrupts import Deferred, deliver
from freshet.state.arena import Scope
from freshet.state.arrays import BYTES, TEXT, Bools, Int64s, is_bytes
from freshet.state.kernel import AHEAD, FAR, as_int8, as_int32, as_int64, inlined, kernel, prefetch
from freshet.state.places import (
    HEAD,
    HOMES,
    PER_ENTRY,
    clear,
    following,
    hash_of,
    home,
    make_index,
    narrow,
    put,
    put_all,
    widen,
)

_USED, _LIVE, _END, _FREE, _LOOSE, _, _WANTED = range(7)  # places in meta
_SLACK = 8  # bytes are copied by words, so a word may be read beyond the last text
_LEAST_SWEEP = 4096
_LEAST_BYTES = 1 << 18  # fewer texts, in fewer bytes, are not worth a sweep
_MOST_PATIENCE = 64
_AT_ONCE = 1 << 14  # texts the index makes room for at a time, at most


@inlined
def _tail(address: Any, length: Any) -> Any:
    """The last `length` < 8 bytes as one word, without reading beyond them."""
    if length >= 4:
        low = np.uint64(as_int32(address)[0] & 0xFFFFFFFF)
        return low | (np.uint64(as_int32(address + length - 4)[0] & 0xFFFFFFFF) << np.uint64(32))
    if length == 0:
        return np.uint64(0)
    word = np.uint64(as_int8(address)[0] & 0xFF) | (
        np.uint64(as_int8(address + (length >> 1))[0] & 0xFF) << np.uint64(8)
    )
    return word | (np.uint64(as_int8(address + length - 1)[0] & 0xFF) << np.uint64(16))


@inlined
def hash_bytes(address: Any, length: Any) -> Any:
    """32 well-mixed bits of `length` bytes at `address`."""
    h = np.uint64(0x9E3779B97F4A7C15) ^ np.uint64(length)
    at = address
    left = length
    while left >= 8:
        h = (h ^ np.uint64(as_int64(at)[0])) * np.uint64(0xD6E8FEB86659FD93)
        h ^= h >> np.uint64(32)
        at += 8
        left -= 8
    h = (h ^ _tail(at, left)) * np.uint64(0xA0761D6478BD642F)
    h ^= h >> np.uint64(29)
    h *= np.uint64(0xD6E8FEB86659FD93)
    return np.int64(h >> np.uint64(32))


@inlined
def same_bytes(a: Any, b: Any, length: Any) -> Any:
    left = length
    while left >= 8:
        if as_int64(a)[0] != as_int64(b)[0]:
            return False
        a += 8
        b += 8
        left -= 8
    return _tail(a, left) == _tail(b, left)


@inlined
def compare_texts(a: Any, b: Any, texts: Any, spans: Any) -> Any:
    """-1, 0 or 1 if the text of id `a` sorts before, with or after that of `b` by UTF-8 bytes. Takes the addresses of
    `pool.bytes.data` and `pool.offsets.data`, because numba counts references to arrays at every call."""
    if a == b:
        return 0
    at = as_int64(spans)
    p, q = texts + at[2 * a], texts + at[2 * b]
    length, other = at[2 * a + 1], at[2 * b + 1]
    for i in range(min(length, other)):
        x, y = as_int8(p)[i] & 0xFF, as_int8(q)[i] & 0xFF
        if x != y:
            return -1 if x < y else 1
    return -1 if length < other else 1


@inlined
def _place(hashed: Any, address: Any, length: Any, table: Any, spans: Any, base: Any) -> Any:
    """The position of the text in the table, or of the free place for it."""
    at = home(table, hashed)
    while table[at] != -1:
        entry = table[at]
        if hash_of(entry) == hashed:
            name = entry & 0xFFFFFFFF
            if spans[name, 1] == length and same_bytes(base + spans[name, 0], address, length):
                return at
        at = following(table, at)
    return at


@inlined
def span(row: Any, offsets: Any, large: Any) -> Any:
    """The start and length of the text of a row."""
    if large:
        begin = as_int64(offsets)[row]
        return begin, as_int64(offsets)[row + 1] - begin
    begin = np.int64(as_int32(offsets)[row])
    return begin, np.int64(as_int32(offsets)[row + 1]) - begin


@inlined
def _prefetch_texts(
    offsets: Any, large: Any, texts: Any, row: Any, end: Any, table: Any, spans: Any, data: Any, hashes: Any
) -> None:
    """Hashes the texts from `row` on, and prefetches what `_place` will read for them: places in the table, spans, then
    the texts found there."""
    for i in range(end - row):
        first, length = span(row + i, offsets, large)
        hashes[i] = hash_bytes(texts + first, length)
    if len(table) < FAR:
        return
    for i in range(end - row):
        prefetch(table.ctypes.data + 8 * home(table, hashes[i]))
    for i in range(end - row):
        entry = table[home(table, hashes[i])]
        if entry != -1:
            prefetch(spans.ctypes.data + 16 * (entry & 0xFFFFFFFF))
    for i in range(end - row):
        entry = table[home(table, hashes[i])]
        if entry != -1:
            first = data.ctypes.data + spans[entry & 0xFFFFFFFF, 0]
            prefetch(first)
            prefetch(first + 64)


@kernel("i8(i8, i8, b1, i8, i8, i8, i8[::1], i8[::1], i8[:,::1], u1[::1], i8[::1], i8[::1])")
def _intern(
    validity: Any,
    offsets: Any,
    large: Any,
    texts: Any,
    first: Any,
    start: Any,
    ids: Any,
    table: Any,
    spans: Any,
    data: Any,
    free: Any,
    meta: Any,
) -> Any:
    """Interns rows from `start` on and returns the first row without room (the number of rows if all have room)."""
    base = data.ctypes.data
    bound = table[HOMES] // PER_ENTRY
    hashes = np.empty(AHEAD, np.int64)
    for i in range(start, len(ids)):
        row = first + i
        if (i - start) % AHEAD == 0:
            end = min(row + AHEAD, first + len(ids))
            _prefetch_texts(offsets, large, texts, row, end, table, spans, data, hashes)
        if validity != 0 and (as_int8(validity)[row >> 3] >> (row & 7)) & 1 == 0:
            ids[i] = 0
            continue
        begin, length = span(row, offsets, large)
        if length == 0:
            ids[i] = 0
            continue
        address = texts + begin
        hashed = hashes[(i - start) % AHEAD]
        at = _place(hashed, address, length, table, spans, base)
        if table[at] != -1:
            ids[i] = table[at] & 0xFFFFFFFF
            continue
        end = meta[2]
        if meta[1] >= bound or end + length + 8 > len(data) or (meta[3] == 0 and meta[0] >= len(spans)):
            meta[6] = length
            return i
        if meta[3] > 0:
            meta[3] -= 1
            name = free[meta[3]]
        else:
            name = meta[0]
            meta[0] += 1
        for k in range(length):
            data[end + k] = as_int8(address)[k]
        spans[name, 0] = end
        spans[name, 1] = length
        table[at] = (hashed << 32) | name
        meta[2] = end + length
        meta[1] += 1
        meta[4] += 1
        ids[i] = name
    return len(ids)


@kernel("i8(i8, i8, i8[::1], i8[:,::1], u1[::1])")
def _find(address: Any, length: Any, table: Any, spans: Any, data: Any) -> Any:
    at = _place(hash_bytes(address, length), address, length, table, spans, data.ctypes.data)
    return table[at] & 0xFFFFFFFF if table[at] != -1 else -1


@kernel("i8(i8[::1], i8[:,::1], i8[::1])")
def _measure(ids: Any, spans: Any, offsets: Any) -> Any:
    total = 0
    for i in range(len(ids)):
        offsets[i] = total
        total += spans[ids[i], 1]
    offsets[len(ids)] = total
    return total


@kernel("void(i8[::1], i8[:,::1], u1[::1], i8[::1], u1[::1])")
def _copy_texts(ids: Any, spans: Any, data: Any, offsets: Any, out: Any) -> None:
    source, target = data.ctypes.data, out.ctypes.data
    for i in range(len(ids)):
        a, b = source + spans[ids[i], 0], target + offsets[i]
        for k in range(0, spans[ids[i], 1], 8):
            as_int64(b + k)[0] = as_int64(a + k)[0]


@kernel("void(b1[::1], i8[:,::1], u1[::1], u1[::1], i8[::1], i8[::1], i8[::1])")
def _sweep(marked: Any, spans: Any, data: Any, kept: Any, table: Any, free: Any, meta: Any) -> None:
    """Keeps marked ids, their texts packed into `kept`; a freed id has length -1 until it is used again."""
    table[HEAD:] = -1
    end, live, freed = 0, 0, 0
    for name in range(meta[0] - 1, 0, -1):
        if spans[name, 1] < 0 or not (name < len(marked) and marked[name]):
            spans[name, 1] = -1
            free[freed] = name
            freed += 1
    for name in range(1, meta[0]):
        length = spans[name, 1]
        if length < 0:
            continue
        begin = spans[name, 0]
        kept[end : end + length] = data[begin : begin + length]
        spans[name, 0] = end
        put(table, (hash_bytes(kept.ctypes.data + end, length) << 32) | name)
        end += length
        live += 1
    data[:end] = kept[:end]
    meta[1] = live
    meta[2] = end
    meta[3] = freed
    meta[4] = 0


class StringPool:
    """Texts by id. `offsets` holds start and length of each id's text within `bytes`."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._meta = scope.array("meta", np.int64)
        self.bytes = scope.array("bytes", np.uint8)
        self.offsets = scope.array("offsets", np.int64, columns=2)
        self._table = scope.array("places", np.int64, fill=-1)
        make_index(self._table)
        self._free = scope.array("free", np.int64)
        if self._meta.data[_USED] == 0:
            self._meta.data[_USED] = 1
        self._patience, self._swept = 1, 0  # the delay of the next sweep, and how many texts the last one left

    @property
    def used(self) -> int:
        """An upper bound on all ids."""
        return int(self._meta.data[_USED])

    @property
    def live(self) -> int:
        """The number of texts in the pool, except the empty one."""
        return int(self._meta.data[_LIVE])

    @property
    def text_bytes(self) -> int:
        """Bytes of all texts, those included that the next sweep will free."""
        return int(self._meta.data[_END])

    @property
    def nbytes(self) -> int:
        return self._scope.nbytes()

    def intern(self, texts: pa.Array) -> Int64s:
        """The id of each text, new ones added; 0 where the text is NULL."""
        kind = texts.type
        if kind in (_STRING, _BINARY):
            large = False
        elif kind in (TEXT, BYTES):
            large = True
        elif pa.types.is_dictionary(kind):
            return self._intern_dictionary(texts)
        else:
            return self.intern(texts.cast(BYTES if is_bytes(kind) else TEXT))
        rows = len(texts)
        ids = np.empty(rows, np.int64)
        if rows == 0:
            return ids
        validity, offsets, data = texts.buffers()
        bitmap = 0 if validity is None or texts.null_count == 0 else validity.address
        address = 0 if data is None else data.address
        done = 0
        while True:
            done = _intern(
                bitmap, offsets.address, large, address, texts.offset, done, ids,
                self._table.data, self.offsets.data, self.bytes.data, self._free.data, self._meta.data,
            )  # fmt: skip
            if done == rows:
                return ids
            self._make_room()

    def _intern_dictionary(self, texts: pa.DictionaryArray) -> Int64s:
        by_index = self.intern(texts.dictionary)
        if texts.null_count == 0:
            return np.asarray(by_index[texts.indices.to_numpy(zero_copy_only=False)])
        indices = texts.indices.fill_null(0).to_numpy(zero_copy_only=False)
        valid = texts.is_valid().to_numpy(zero_copy_only=False)
        return np.where(valid, by_index[indices], 0) if len(by_index) else np.zeros(len(texts), np.int64)

    def _make_room(self) -> None:
        meta = self._meta.data
        with Deferred():  # queries also add texts, and may be interrupted
            self.bytes.grow(int(meta[_END] + meta[_WANTED]) + _SLACK)
            self.offsets.grow(int(meta[_USED]) + 1)
            live = int(meta[_LIVE])
            if live >= self._table.data[HOMES] // PER_ENTRY:
                widen(self._table, live + min(max(live, 16), _AT_ONCE))
        deliver()

    def find(self, text: str | bytes) -> int:
        """The id of a text, -1 when the pool does not hold it."""
        if not text:
            return 0
        encoded = pa.py_buffer(text.encode() if isinstance(text, str) else text)
        return int(_find(encoded.address, encoded.size, self._table.data, self.offsets.data, self.bytes.data))

    def text(self, ids: Int64s, valid: Bools | None = None, kind: pa.DataType = TEXT) -> pa.Array:
        """The texts of ids, NULL where not `valid`, as TEXT or as BYTES."""
        offsets, out = self._texts(np.ascontiguousarray(ids), None)
        return pa.Array.from_buffers(kind, len(ids), [_bitmap(valid), pa.py_buffer(offsets), pa.py_buffer(out)])

    def encoded(self, id: int) -> bytes:
        """The text of one id."""
        start, length = self.offsets.data[id].tolist()
        return self.bytes.data[start : start + length].tobytes()

    def size(self, ids: Int64s) -> int:
        """The bytes of the texts of ids."""
        return int(self.offsets.data[ids, 1].sum())

    def strings(self, ids: Int64s, valid: Bools | None, kind: pa.DataType, most: int) -> pa.Array:
        """The same as plain strings or binaries; more than `most` bytes, of several texts, are a TooMuchTextError."""
        offsets, out = self._texts(np.ascontiguousarray(ids), most)
        buffers = [_bitmap(valid), pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
        return pa.Array.from_buffers(kind, len(ids), buffers)

    def _texts(self, ids: Int64s, most: int | None) -> tuple[Int64s, npt.NDArray[np.uint8]]:
        offsets = np.empty(len(ids) + 1, np.int64)
        total = _measure(ids, self.offsets.data, offsets)
        if most is not None and total > most and len(ids) > 1:
            raise TooMuchTextError(f"{total:,} bytes of text in one batch; take fewer rows")
        out = np.empty(total + _SLACK, np.uint8)
        _copy_texts(ids, self.offsets.data, self.bytes.data, offsets, out)
        return offsets, out

    @property
    def loose(self) -> int:
        """An upper bound on the number of unreferenced texts."""
        return int(self._meta.data[_LOOSE])

    def held(self, texts: int) -> None:
        """Reports that this many loose texts are now held."""
        self._meta.data[_LOOSE] -= texts

    def loosened(self, texts: int) -> None:
        """Reports that this many texts may no longer be held."""
        self._meta.data[_LOOSE] += texts

    def wants_sweep(self) -> bool:
        """Whether enough texts are loose for a sweep to pay. Rows that share texts release them repeatedly without
        freeing any, so each sweep that frees little doubles the wait for the next one, unless there are many new
        texts."""
        loose, live = self.loose, self.live
        if live < _LEAST_SWEEP and self.text_bytes < _LEAST_BYTES:
            return False
        enough = max((live + 1) // 2, _LEAST_SWEEP)
        return loose >= enough and (loose >= enough * self._patience or 2 * live > 3 * self._swept)

    def sweep(self, marked: Bools) -> None:
        """Frees every id that is not marked; `marked` is by id, ids beyond its end count as not marked."""
        before, loose = self.live, self.loose
        kept = np.zeros(self.used, np.bool_)
        kept[: len(marked)] = marked[: self.used]
        freed = int(np.count_nonzero((self.offsets.data[1 : self.used, 1] >= 0) & ~kept[1:]))
        self._swept = before - freed
        in_vain = 8 * freed < min(before, loose)
        self._patience = min(2 * self._patience, _MOST_PATIENCE) if in_vain else 1
        if not freed:
            self._meta.data[_LOOSE] = 0
            return
        self._free.grow(self.used)
        packed = np.empty(self.text_bytes, np.uint8)
        _sweep(kept, self.offsets.data, self.bytes.data, packed, self._table.data, self._free.data, self._meta.data)
        self._shrink()

    def _shrink(self) -> None:
        """Frees the memory beyond the last text and the last id, if it is most of it. Ids beyond that can be assigned
        again."""
        meta = self._meta.data
        lengths = self.offsets.data[: meta[_USED], 1]
        held = np.flatnonzero(lengths > 0)
        used = int(held[-1]) + 1 if len(held) else 1
        if 8 * used < meta[_USED]:
            free = self._free.data[: meta[_FREE]]
            free = free[free < used]
            self.offsets.data[used : meta[_USED]] = 0
            self._free.data[: len(free)] = free
            meta[_USED], meta[_FREE] = used, len(free)
            self.offsets.shrink(used + 1)
            self._free.shrink(used)
        if 8 * int(meta[_END]) < self.bytes.capacity:
            self.bytes.shrink(2 * int(meta[_END]) + _SLACK)
        if 8 * PER_ENTRY * int(meta[_LIVE]) < self._table.data[HOMES]:
            narrow(self._table, 2 * int(meta[_LIVE]))

    def mark(self) -> tuple[Int64s, int]:
        """Records the contents of the pool, for `undo`."""
        return self._meta.data[: _WANTED + 1].copy(), int(self._table.data[HOMES])

    def undo(self, mark: tuple[Int64s, int]) -> None:
        """Removes the texts added since the mark; there must be no sweep in between. Their places in the index were
        free before, so emptying them restores the index."""
        before, homes = mark
        meta, table = self._meta.data, self._table
        reused = self._free.data[meta[_FREE] : before[_FREE]]
        added = np.concatenate([reused, np.arange(before[_USED], meta[_USED])])
        if len(added):
            places = table.data[HEAD:]
            places[np.isin(places & 0xFFFFFFFF, added) & (places != -1)] = -1
            if table.data[HOMES] != homes:
                entries = places.copy()
                clear(table)
                put_all(table.data, entries)
        self.offsets.data[reused, 1] = -1
        self.offsets.data[before[_USED] : meta[_USED]] = 0
        self.bytes.data[before[_END] : meta[_END]] = 0
        meta[: _WANTED + 1] = before

    def reset(self) -> None:
        """Removes every text."""
        for array in (self._meta, self.bytes, self.offsets, self._free):
            array.reset()
        clear(self._table)
        self._meta.data[_USED] = 1


def _bitmap(valid: Bools | None) -> pa.Buffer | None:
    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))


_STRING, _BINARY = pa.string(), pa.binary()
