"""Arrow arrays of any type over any bytes: valid ones, sliced ones, and those with invalid offsets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.fuzz.choices import Choices

_FIXED = (
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(),
    pa.float32(), pa.float64(), pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"),
    pa.timestamp("ns"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "+02:00"), pa.time32("s"), pa.time64("ns"),
    pa.duration("us"), pa.decimal128(5, 2), pa.decimal128(10, 2), pa.decimal128(38, 10), pa.decimal128(7, -2),
    pa.decimal256(50, 3), pa.decimal32(9, 1), pa.decimal64(18, 2), pa.bool_(), pa.binary(4),
)  # fmt: skip
_TEXTS = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
#: Bit patterns of values: small ones, ends of types, the days and seconds around the years there are.
_WORDS = (
    0, 1, -1, 5, 127, 128, 2**31 - 1, 2**31, -(2**31), 2**63 - 1, -(2**63), 19_000, 2_932_896, 2_932_897, -719_163,
    86_400_000, 253_402_300_799, 253_402_300_800, 253_402_300_800_000, 253_402_300_800_000_000, 10**15, 10**18,
    -(10**17), 0x3FF8000000000000, 0x7FF0000000000000, 0x7FF8000000000000, 0x47EFFFFFE0000000, 0x7F800000, 0x3C00,
    12_345, 10**37, 10**38,
)  # fmt: skip
_BYTES = (
    b"", b"a", b"abc", b"abcd", "é😀".encode(), b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"a\0b", b"\x80",
    b"\xf4\x90\x80\x80",
)  # fmt: skip


def strange_array(choices: Choices, rows: int, near: Sequence[pa.DataType] | None = None) -> pa.Array:
    """An array of this many rows, often of one of some types; if pyarrow refuses to create it, a simpler one."""
    before, after = choices.pick((0, 0, 1, 9)), choices.pick((0, 0, 3))
    try:
        made = _array(choices, before + rows + after, near)
        made = made.slice(before, rows)
        made.validate()  # errors that pyarrow detects itself, in a table at the latest
        return made
    except (pa.ArrowException, ValueError, OverflowError):
        return pa.array([choices.below(3) for _ in range(rows)], pa.int64())


def _array(choices: Choices, n: int, near: Sequence[pa.DataType] | None) -> pa.Array:
    if near is not None and choices.chance(60):
        type_ = choices.pick(near)
        return _text(choices, type_, n) if type_ in _TEXTS else _fixed(choices, type_, n)
    kind = choices.below(20)
    if kind < 10:
        return _fixed(choices, choices.pick(_FIXED), n)
    if kind < 14:
        return _text(choices, choices.pick(_TEXTS), n)
    if kind < 16:
        return _dictionary(choices, n)
    return _rare(choices, n)


def _bitmap(choices: Choices, n: int) -> Any:
    if choices.chance(60):
        return None
    return pa.py_buffer(bytes(choices.pick((0xFF, 0, 0x55, 0xFE)) for _ in range(n // 8 + 1)))


def _fixed(choices: Choices, type_: pa.DataType, n: int) -> pa.Array:
    if pa.types.is_boolean(type_):
        data = bytes(choices.below(256) for _ in range(n // 8 + 1))
    else:
        size = type_.bit_width // 8
        mask = (1 << (8 * size)) - 1
        data = b"".join((choices.pick(_WORDS) & mask).to_bytes(size, "little") for _ in range(n))
    return pa.Array.from_buffers(type_, n, [_bitmap(choices, n), pa.py_buffer(data)])


def _text(choices: Choices, type_: pa.DataType, n: int) -> pa.Array:
    large = type_ in (pa.large_string(), pa.large_binary())
    sound = [b for b in _BYTES if _is_utf8(b)]
    parts = [choices.pick(_BYTES if choices.chance(15) else sound) for _ in range(n)]
    offsets = np.cumsum([0, *map(len, parts)]).astype(np.int64 if large else np.int32)
    if choices.chance(8):
        offsets[choices.below(n + 1)] = choices.pick((-1, 0, 1, 2**31 - 1, 1000))
    return pa.Array.from_buffers(type_, n, [_bitmap(choices, n), pa.py_buffer(offsets), pa.py_buffer(b"".join(parts))])


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _dictionary(choices: Choices, n: int) -> pa.Array:
    values = choices.pick((
        pa.array(["a", "b", None]), pa.array(["a", "bc"], pa.string_view()), pa.array([1, 2, 3]), pa.array([1.5, None]),
        pa.array(["x"], pa.large_string()), _text(choices, pa.string(), 3), pa.array([True, False]),
    ))  # fmt: skip
    most = len(values) + (1 if choices.chance(10) else 0)
    indices = pa.array(
        [None if choices.chance(10) else choices.below(most) for _ in range(n)], choices.pick((pa.int8(), pa.int64()))
    )
    return pa.DictionaryArray.from_arrays(indices, values, safe=False)


def _rare(choices: Choices, n: int) -> pa.Array:
    numbers = [choices.below(3) for _ in range(n)]
    ends = pa.array(range(1, n + 1), pa.int32())
    return choices.pick((
        pa.nulls(n), pa.array(["a"] * n, pa.string_view()), pa.array(["😀" * 9] * n, pa.string_view()),
        pa.array([[x] for x in numbers]), pa.array([{"a": x} for x in numbers]), pa.array([b"x"] * n, pa.binary_view()),
        pa.array([[("a", x)] for x in numbers], pa.map_(pa.string(), pa.int64())),
        pa.RunEndEncodedArray.from_arrays(ends, pa.array(numbers)) if n else pa.nulls(0),
        pa.RunEndEncodedArray.from_arrays(ends, pa.array(["a"] * n)) if n else pa.nulls(0),
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array(numbers, pa.int8())), pa.array([b"0" * 16] * n, pa.uuid()),
        pa.UnionArray.from_sparse(pa.array([0] * n, pa.int8()), [pa.array(numbers)]),
        pa.array([(1, 2, 3)] * n, pa.month_day_nano_interval()),
    ))  # fmt: skip
