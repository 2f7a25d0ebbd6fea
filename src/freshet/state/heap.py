"""The heap of a table: texts that nothing compares across rows, each stored with its row only.

Law: such a text is called *plain*. A plain lane says where its text is, so equal texts may have different lanes, and a
plain text belongs to exactly one row: copying it costs as much as its bytes, and it is neither hashed nor looked up.
Lanes of plain texts are never positive, and ids of the pool (state/strings) are never negative, so each tells which it
is. 0 is the empty text, as in the pool. A text of up to 7 bytes is in the lane itself, so two lanes of which one is
short are equal exactly when their texts are.

    short:  -2**62 + length * 2**56 + bytes
    long:   -2**63 + length * 2**31 + place

The place of a long text counts words in the heap, or bytes from a base: rows that were only read have their texts where
the user's rows have them, until they are stored. Texts are appended; `tidy` packs those of the stored rows together
when half of the heap may be garbage, O(1) amortized for each byte added or row removed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from freshet.state.arena import Scope
from freshet.state.arrays import BYTES, TEXT, Bools, Int64s, is_bytes
from freshet.state.kernel import AHEAD, as_int8, as_int32, as_int64, inlined, kernel, prefetch
from freshet.state.strings import same_bytes, span
from freshet.state.tuples import Tuples

_LONG, _SHORT = -(2**63), -(2**62)
_PLACE = 2**31 - 1
_BYTES = 2**56 - 1
_MOST_SHORT = 7
_WORD = 8
_MOST = 2**34  # bytes of a heap: the places of words

_END, _KEPT, _GONE = range(3)  # places in meta: bytes used, bytes that the last `tidy` left, rows removed since
_LEAST = 1 << 18  # garbage bytes that are worth packing the others

#: In place of the lanes and bases of plain texts, for tables without any.
NO_LANES: Bools = np.empty(0, np.bool_)
NO_BASES: Int64s = np.empty(0, np.int64)


@inlined
def is_long(lane: Any) -> Any:
    return lane < _SHORT


@inlined
def _length(lane: Any) -> Any:
    if lane >= 0:
        return np.int64(0)
    if lane >= _SHORT:
        return (lane >> 56) & _MOST_SHORT
    return (lane >> 31) & _PLACE


@inlined
def address_of(lane: Any, base: Any, unit: Any) -> Any:
    """Where a long text begins."""
    return base + unit * (lane & _PLACE)


@inlined
def same_plain(a: Any, base: Any, unit: Any, b: Any, other: Any, other_unit: Any) -> Any:
    """Whether two plain lanes are of the same text."""
    if not is_long(a) or not is_long(b):
        return a == b
    length = _length(a)
    if length != _length(b):
        return False
    return same_bytes(address_of(a, base, unit), address_of(b, other, other_unit), length)


@inlined
def same_with_texts(
    lanes: Any, i: Any, heap: Any, unit: Any, rows: Any, j: Any, bases: Any, other_unit: Any, plain: Any
) -> Any:
    """Whether two rows are equal, of which the lanes in `plain` are of plain texts. `heap`: the base of the texts of
    the first, for each lane; `bases`: of those of the second."""
    for lane in range(rows.shape[1]):
        a, b = lanes[i, lane], rows[j, lane]
        if plain.size > 0 and plain[lane]:
            if not same_plain(a, heap[lane], unit, b, bases[lane], other_unit):
                return False
        elif a != b:
            return False
    return True


@inlined
def _short(address: Any, length: Any) -> Any:
    """Up to 7 bytes as a lane, without reading beyond them."""
    if length >= 4:
        low = np.int64(as_int32(address)[0]) & 0xFFFFFFFF
        word = low | ((np.int64(as_int32(address + length - 4)[0]) & 0xFFFFFFFF) << (8 * (length - 4)))
    else:
        word = np.int64(as_int8(address)[0]) & 0xFF
        word |= (np.int64(as_int8(address + (length >> 1))[0]) & 0xFF) << (8 * (length >> 1))
        word |= (np.int64(as_int8(address + length - 1)[0]) & 0xFF) << (8 * (length - 1))
    return _SHORT + (length << 56) + word


@inlined
def text_lane(texts: Any, begin: Any, length: Any, start: Any) -> Any:
    """The lane of the text that begins there, its place counted from `start`; 1 if that is too far."""
    if length == 0:
        return np.int64(0)
    if length <= _MOST_SHORT:
        return _short(texts + begin, length)
    if begin - start > _PLACE or length > _PLACE:
        return np.int64(1)
    return _LONG + (length << 31) + (begin - start)


@inlined
def _copy(source: Any, target: Any, length: Any) -> None:
    """Copies at least 8 bytes, and writes and reads no others."""
    for k in range(0, length - 7, 8):
        as_int64(target + k)[0] = as_int64(source + k)[0]
    as_int64(target + length - 8)[0] = as_int64(source + length - 8)[0]


@inlined
def _padded(length: Any) -> Any:
    return (length + 7) & ~np.int64(7)


@kernel("b1(i8, i8, b1, i8, i8, i8[:,::1], i8)")
def _read(validity: Any, offsets: Any, large: Any, texts: Any, first: Any, rows: Any, lane: Any) -> Any:
    """The lanes of the texts of an Arrow array from its row `first` on, the places counted from the text there. False
    if they are too far apart."""
    start, _ = span(first, offsets, large)
    for i in range(rows.shape[0]):
        row = first + i
        if validity != 0 and (as_int8(validity)[row >> 3] >> (row & 7)) & 1 == 0:
            rows[i, lane] = 0
            continue
        begin, length = span(row, offsets, large)
        rows[i, lane] = text_lane(texts, begin, length, start)
        if rows[i, lane] > 0:
            return False
    return True


@kernel("i8(i8[:,::1], i8[::1])")
def _room(rows: Any, lanes: Any) -> Any:
    """The bytes that the long texts of rows take in a heap."""
    total = np.int64(0)
    for j in range(rows.shape[0]):
        for k in range(lanes.size):
            lane = rows[j, lanes[k]]
            if is_long(lane):
                total += _padded(_length(lane))
    return total


@kernel("i8(i8[:,::1], i8[::1], i8[::1], u1[::1], i8)")
def _store(rows: Any, lanes: Any, bases: Any, heap: Any, end: Any) -> Any:
    """Copies the long texts of rows to the end of a heap, and makes their lanes point there. Returns the new end."""
    base = heap.ctypes.data
    for j in range(rows.shape[0]):
        for k in range(lanes.size):
            lane = rows[j, lanes[k]]
            if is_long(lane):
                length = _length(lane)
                _copy(address_of(lane, bases[lanes[k]], 1), base + end, length)
                rows[j, lanes[k]] = _LONG + (length << 31) + (end >> 3)
                end += _padded(length)
    return end


@kernel("i8(i8[::1], i8[::1])")
def _measure(values: Any, offsets: Any) -> Any:
    total = np.int64(0)
    for i in range(values.size):
        offsets[i] = total
        total += _length(values[i])
    offsets[values.size] = total
    return total


@kernel("void(i8[::1], i8, i8, i8[::1], u1[::1])")
def _texts(values: Any, base: Any, unit: Any, offsets: Any, out: Any) -> None:
    target = out.ctypes.data
    for i in range(values.size):
        lane = values[i]
        if is_long(lane):
            _copy(address_of(lane, base, unit), target + offsets[i], _length(lane))
        elif lane < 0:
            as_int64(target + offsets[i])[0] = lane & _BYTES  # the bytes beyond are those of the next texts


@kernel("void(i8[::1], i8[::1], i8, b1[::1])")
def _differ(values: Any, others: Any, base: Any, out: Any) -> None:
    for i in range(values.size):
        out[i] = not same_plain(values[i], base, _WORD, others[i], base, _WORD)


@kernel("i8(i8[:,::1], i1[::1], i8, i8[::1])")
def _live(rows: Any, occupied: Any, used: Any, lanes: Any) -> Any:
    """The bytes that the long texts of stored rows take."""
    total = np.int64(0)
    for slot in range(used):
        if occupied[slot]:
            for k in range(lanes.size):
                lane = rows[slot, lanes[k]]
                if is_long(lane):
                    total += _padded(_length(lane))
    return total


@kernel("void(i8[:,::1], i1[::1], i8, i8[::1], u1[::1], u1[::1])")
def _pack(rows: Any, occupied: Any, used: Any, lanes: Any, heap: Any, out: Any) -> None:
    """Copies the long texts of stored rows to `out`, and makes their lanes point there."""
    base, target, end = heap.ctypes.data, out.ctypes.data, np.int64(0)
    for slot in range(used):
        if slot + AHEAD < used:
            for k in range(lanes.size):
                lane = rows[slot + AHEAD, lanes[k]]
                if is_long(lane):
                    prefetch(address_of(lane, base, _WORD))
        if occupied[slot]:
            for k in range(lanes.size):
                lane = rows[slot, lanes[k]]
                if is_long(lane):
                    length = _length(lane)
                    source = address_of(lane, base, _WORD)
                    for word in range(0, length, 8):
                        as_int64(target + end + word)[0] = as_int64(source + word)[0]
                    rows[slot, lanes[k]] = _LONG + (length << 31) + (end >> 3)
                    end += _padded(length)


class FullHeapError(Exception):
    """There are no places for more texts."""


class Heap:
    """The plain texts of a table, in its scope of the arena."""

    def __init__(self, scope: Scope) -> None:
        self.bytes = scope.array("heap", np.uint8)
        self._meta = scope.array("heap_meta", np.int64)

    @property
    def end(self) -> int:
        """The bytes in use, garbage included."""
        return int(self._meta.data[_END])

    @property
    def address(self) -> int:
        return int(self.bytes.data.ctypes.data)

    def undo(self, end: int) -> None:
        """Removes the texts added since the end was there; no stored row may have one."""
        self._meta.data[_END] = end

    def store(self, rows: Int64s, lanes: Int64s, bases: Int64s) -> None:
        """Stores the texts of rows that were read. FullHeapError, before anything has changed, if there is no place."""
        room = int(_room(rows, lanes))
        if not room:
            return
        end = self.end
        if end + room > _MOST:
            raise FullHeapError
        self.bytes.grow(end + room)
        self._meta.data[_END] = _store(rows, lanes, bases, self.bytes.data, end)

    def add(self, texts: pa.Array) -> Int64s:
        """Stores texts and returns their lanes, 0 where a text is NULL. FullHeapError, as above."""
        if pa.types.is_dictionary(texts.type):
            texts = texts.dictionary_decode()
        if texts.type not in (TEXT, BYTES, pa.string(), pa.binary()):
            texts = texts.cast(BYTES if is_bytes(texts.type) else TEXT)
        rows = np.empty((len(texts), 1), np.int64)
        base = read_texts(texts, rows, 0)
        if base is None:
            raise FullHeapError
        self.store(rows, _FIRST, np.array([base], np.int64))
        return rows[:, 0].copy()

    def text(self, values: Int64s, kind: pa.DataType, valid: Bools | None = None) -> pa.Array:
        """The texts of lanes, NULL where not `valid`."""
        return texts_at(values, self.address, _WORD, kind, valid)

    def differ(self, values: Int64s, others: Int64s) -> Bools:
        """Which lanes are of different texts."""
        out = np.empty(len(values), np.bool_)
        _differ(np.ascontiguousarray(values), np.ascontiguousarray(others), self.address, out)
        return out

    def live(self, tuples: Tuples, lanes: Int64s) -> int:
        """The bytes of the texts of stored rows."""
        return int(_live(tuples.lanes.data, tuples.occupancy.data, tuples.used, lanes))

    def tidy(self, tuples: Tuples, lanes: Int64s, removed: int) -> None:
        """Frees the texts of removed rows, of which there are `removed` more, if there are many. Nobody but the stored
        rows may refer to texts."""
        meta = self._meta.data
        meta[_GONE] += removed
        if meta[_END] < _LEAST or (meta[_END] <= 2 * meta[_KEPT] + _LEAST and meta[_GONE] <= tuples.live):
            return
        live = self.live(tuples, lanes)
        if 2 * live <= meta[_END]:
            packed = np.empty(live, np.uint8)
            _pack(tuples.lanes.data, tuples.occupancy.data, tuples.used, lanes, self.bytes.data, packed)
            self.bytes.data[:live] = packed
            meta[_END] = live
            if 8 * live < self.bytes.capacity:
                self.bytes.shrink(2 * live)
        meta[_KEPT], meta[_GONE] = live, 0


_FIRST: Int64s = np.zeros(1, np.int64)


def read_texts(texts: pa.Array, rows: Int64s, lane: int) -> int | None:
    """Sets the lane of rows to texts that remain where they are, and returns their base; None if they are too far
    apart. `texts` is a plain array of strings or bytes."""
    if not len(texts):
        return 0
    large = texts.type in (TEXT, BYTES)
    validity, offsets, data = texts.buffers()
    bitmap = 0 if validity is None or texts.null_count == 0 else validity.address
    address = 0 if data is None else data.address
    if not _read(bitmap, offsets.address, large, address, texts.offset, rows, lane):
        return None
    kind = np.int64 if large else np.int32
    first = np.frombuffer(offsets, kind, 1, texts.offset * np.dtype(kind).itemsize)
    return int(address + int(first[0]))


def texts_at(values: Int64s, base: int, unit: int, kind: pa.DataType, valid: Bools | None = None) -> pa.Array:
    """The texts of lanes, whose places count units from the base."""
    values = np.ascontiguousarray(values)
    offsets = np.empty(len(values) + 1, np.int64)
    out = np.empty(int(_measure(values, offsets)) + _WORD, np.uint8)
    _texts(values, base, unit, offsets, out)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(offsets), pa.py_buffer(out)])
