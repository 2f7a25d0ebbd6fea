"""XXH64, the hash that Spark's xxhash64 computes, of columns of numbers and texts.

Law: `hashes` holds a seed for each row; hashing a column replaces it by the hash of the row's value with that seed. So
the columns of a row are hashed one after the other, as Spark hashes them. It passes over NULL: the seed stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from freshet.state.arrays import BYTES, TEXT, Bools, Int64s
from freshet.state.kernel import as_int8, as_int32, as_int64, inlined, kernel
from freshet.state.strings import span

Hashes = npt.NDArray[np.uint64]

_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
)
_STRIPE = 32  # bytes, in four lanes
_MASK = np.uint64(0xFFFFFFFF)


@inlined
def _turned(x: Any, bits: Any) -> Any:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


@inlined
def _mixed(x: Any) -> Any:
    x = (x ^ (x >> np.uint64(33))) * _P2
    x = (x ^ (x >> np.uint64(29))) * _P3
    return x ^ (x >> np.uint64(32))


@inlined
def _round(state: Any, word: Any) -> Any:
    return _turned(state + word * _P2, 31) * _P1


@inlined
def _word(address: Any) -> Any:
    return np.uint64(as_int64(address)[0])


@inlined
def _half(address: Any) -> Any:
    return np.uint64(as_int32(address)[0]) & _MASK


@inlined
def _eight(hashed: Any, word: Any) -> Any:
    return _turned(hashed ^ _round(np.uint64(0), word), 27) * _P1 + _P4


@inlined
def _four(hashed: Any, word: Any) -> Any:
    return _turned(hashed ^ (word * _P1), 23) * _P2 + _P3


@inlined
def _text(at: Any, length: Any, seed: Any) -> Any:
    """The hash of bytes at an address."""
    end = at + length
    if length >= _STRIPE:
        a, b, c, d = seed + _P1 + _P2, seed + _P2, seed, seed - _P1
        while at <= end - _STRIPE:
            a, b = _round(a, _word(at)), _round(b, _word(at + 8))
            c, d = _round(c, _word(at + 16)), _round(d, _word(at + 24))
            at += _STRIPE
        hashed = _turned(a, 1) + _turned(b, 7) + _turned(c, 12) + _turned(d, 18)
        for lane in (a, b, c, d):
            hashed = (hashed ^ _round(np.uint64(0), lane)) * _P1 + _P4
    else:
        hashed = seed + _P5
    hashed += np.uint64(length)
    while at <= end - 8:
        hashed = _eight(hashed, _word(at))
        at += 8
    if at <= end - 4:
        hashed = _four(hashed, _half(at))
        at += 4
    while at < end:
        hashed = _turned(hashed ^ ((np.uint64(as_int8(at)[0]) & np.uint64(0xFF)) * _P5), 11) * _P1
        at += 1
    return _mixed(hashed)


@kernel("void(u8[::1], i8[::1], b1[::1], b1)")
def _numbers(hashes: Any, values: Any, valid: Any, short: Any) -> None:
    for i in range(hashes.size):
        if not valid[i]:
            continue
        if short:
            hashes[i] = _mixed(_four(hashes[i] + _P5 + np.uint64(4), np.uint64(values[i]) & _MASK))
        else:
            hashes[i] = _mixed(_eight(hashes[i] + _P5 + np.uint64(8), np.uint64(values[i])))


@kernel("void(u8[::1], i8, b1, i8, i8, b1[::1])")
def _texts(hashes: Any, offsets: Any, large: Any, texts: Any, first: Any, valid: Any) -> None:
    """`offsets` and `texts` are the addresses of an Arrow array's buffers, and `first` its first row in them."""
    for i in range(hashes.size):
        if valid[i]:
            begin, length = span(first + i, offsets, large)
            hashes[i] = _text(texts + begin, length, hashes[i])


def hash_numbers(hashes: Hashes, values: Int64s, valid: Bools, short: bool) -> None:
    """`short`: numbers of at most 4 bytes, which have another hash than those of 8."""
    _numbers(hashes, np.ascontiguousarray(values), np.ascontiguousarray(valid), short)


def hash_texts(hashes: Hashes, texts: pa.Array, valid: Bools) -> None:
    """`texts` is an array of strings or bytes."""
    _, offsets, data = texts.buffers()
    if len(texts):
        address = 0 if data is None else data.address
        _texts(hashes, offsets.address, texts.type in (TEXT, BYTES), address, texts.offset, np.ascontiguousarray(valid))
