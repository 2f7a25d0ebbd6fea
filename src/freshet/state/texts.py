"""Texts compared and rewritten a column at a time: LIKE, REPLACE, LPAD, LEVENSHTEIN, and their hashes.

A column is given as the addresses of its 64-bit offsets and of its bytes, valid UTF-8, and a step of 1, or 0 where one
text stands for all rows. Steps are counted if there may be more of them than bytes of text; a kernel that runs out of
steps returns the current row, otherwise -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import as_int8, as_int64, inlined, kernel
from freshet.state.regex import character
from freshet.state.strings import hash_bytes

#: Tokens of a LIKE pattern that are not characters: any one character, and any number of characters.
ANY, MANY = -1, -2


@inlined
def text_at(row: Any, offsets: Any, data: Any, step: Any) -> Any:
    """The address and length of a row's text."""
    begin = as_int64(offsets)[row * step]
    return data + begin, as_int64(offsets)[row * step + 1] - begin


@kernel("i8(i8, i8, i8, b1[::1], i8[::1], i8[::1], i4[::1], i8, b1[::1])")
def like(
    offsets: Any, data: Any, step: Any, valid: Any, which: Any, begins: Any, tokens: Any, steps: Any, out: Any
) -> Any:
    """Whether each row's text is like the pattern `which` says: tokens from begins[p] to begins[p + 1]. Where a pattern
    does not go on, only its last MANY can have taken too little: the text is tried from one character further."""
    for row in range(len(out)):
        out[row] = False
        if len(valid) > 0 and not valid[row]:
            continue
        text, length = text_at(row, offsets, data, step)
        p, end = begins[which[row]], begins[which[row] + 1]
        at, many, again = np.int64(0), np.int64(-1), np.int64(0)
        while True:
            steps -= 1
            if p < end and tokens[p] == MANY:
                many, again = p, at
                p += 1
                if p == end:  # whatever is left
                    at = length
                continue
            if at == length:
                break
            c, size = character(text, at)
            if p < end and (tokens[p] == ANY or tokens[p] == c):
                p += 1
                at += size
                continue
            if many < 0:
                break
            if steps < 0:
                return row
            again += character(text, again)[1]
            p, at = many + 1, again
        out[row] = p == end and at == length
    return -1


@inlined
def _same(a: Any, b: Any, length: Any) -> Any:
    """The number of equal leading bytes."""
    same = 0
    while same < length and as_int8(a)[same] == as_int8(b)[same]:
        same += 1
    return same


@inlined
def _copy(source: Any, length: Any, target: Any) -> None:
    for i in range(length):
        as_int8(target)[i] = as_int8(source)[i]


@kernel("i8(i8, i8, i8, i8, i8, i8, i8, i8, i8, b1[::1], i8, i8[::1], i8)")
def replace(
    offsets: Any, data: Any, step: Any, old_offsets: Any, old_data: Any, old_step: Any, new_offsets: Any,
    new_data: Any, new_step: Any, valid: Any, steps: Any, sizes: Any, out: Any,
) -> Any:  # fmt: skip
    """How many bytes each row's text has with every `old` in it replaced by `new`. Where `out` is not 0 the texts are
    written there, one after the other. The empty text is in none."""
    for row in range(len(sizes)):
        sizes[row] = 0
        if len(valid) > 0 and not valid[row]:
            continue
        text, length = text_at(row, offsets, data, step)
        old, old_length = text_at(row, old_offsets, old_data, old_step)
        new, new_length = text_at(row, new_offsets, new_data, new_step)
        at, size = np.int64(0), np.int64(0)
        while at < length:
            same = np.int64(0)
            if old_length > 0 and at + old_length <= length:
                same = _same(text + at, old, old_length)
                steps -= same
                if steps < 0:
                    return row
            if same == old_length and old_length > 0:
                if out != 0:
                    _copy(new, new_length, out + size)
                size += new_length
                at += old_length
            else:
                if out != 0:
                    as_int8(out + size)[0] = as_int8(text + at)[0]
                size += 1
                at += 1
        sizes[row] = size
        if out != 0:
            out += size
    return -1


@inlined
def _bytes_of(text: Any, length: Any, characters: Any) -> Any:
    """The bytes of so many first characters of a text, and how many of them it lacks."""
    at = np.int64(0)
    while at < length and characters > 0:
        at += character(text, at)[1]
        characters -= 1
    return at, characters


@kernel("void(i8, i8, i8, i8[::1], i8, i8, i8, b1[::1], b1, i8[::1], i8)")
def pad(
    offsets: Any, data: Any, step: Any, widths: Any, fill_offsets: Any, fill_data: Any, fill_step: Any, valid: Any,
    left: Any, sizes: Any, out: Any,
) -> None:  # fmt: skip
    """How many bytes each row's text has, cut to so many characters or filled up to them (one width for each row or
    for all). Where `out` is not 0 the texts are written there, one after the other. Nothing fills nothing up."""
    for row in range(len(sizes)):
        sizes[row] = 0
        if len(valid) > 0 and not valid[row]:
            continue
        text, length = text_at(row, offsets, data, step)
        fill, fill_length = text_at(row, fill_offsets, fill_data, fill_step)
        size, missing = _bytes_of(text, length, max(widths[row if len(widths) > 1 else 0], 0))
        fills, rest = np.int64(0), np.int64(0)
        if missing > 0 and fill_length > 0:
            _, lacking = _bytes_of(fill, fill_length, fill_length)
            fills = missing // (fill_length - lacking)
            rest, _ = _bytes_of(fill, fill_length, missing % (fill_length - lacking))
        sizes[row] = size + fills * fill_length + rest
        if out != 0:
            if not left:
                _copy(text, size, out)
                out += size
            for _ in range(fills):
                _copy(fill, fill_length, out)
                out += fill_length
            _copy(fill, rest, out)
            out += rest
            if left:
                _copy(text, size, out)
                out += size


@inlined
def _characters(text: Any, length: Any, out: Any) -> Any:
    at, count = np.int64(0), 0
    while at < length:
        c, size = character(text, at)
        out[count] = c
        count += 1
        at += size
    return count


@kernel("i8(i8, i8, i8, i8, i8, i8, b1[::1], i8[::1], i8, i8, i8[::1])")
def levenshtein(
    a_offsets: Any, a_data: Any, a_step: Any, b_offsets: Any, b_data: Any, b_step: Any, valid: Any, most: Any,
    longest: Any, steps: Any, out: Any,
) -> Any:  # fmt: skip
    """How many characters are inserted, deleted or replaced between each row's texts, of at most `longest` bytes; -1
    where more than `most` (one for each row or for all; none: any number): only diagonals within that distance are
    computed."""
    x, y = np.empty(longest, np.int32), np.empty(longest, np.int32)
    line = np.empty(longest + 1, np.int64)
    for row in range(len(out)):
        out[row] = 0
        if len(valid) > 0 and not valid[row]:
            continue
        text, length = text_at(row, a_offsets, a_data, a_step)
        m = _characters(text, length, x)
        text, length = text_at(row, b_offsets, b_data, b_step)
        n = _characters(text, length, y)
        bound = np.int64(m + n)
        if len(most) > 0:
            bound = min(bound, most[row if len(most) > 1 else 0])
        if bound < 0 or abs(m - n) > bound:
            out[row] = -1
            continue
        far = bound + 1  # represents all distances that are too large
        for j in range(n + 1):
            line[j] = min(j, far)
        for i in range(1, m + 1):
            low: Any = max(1, i - bound)
            high: Any = min(n, i + bound)
            steps -= max(high - low + 1, 0)
            if steps < 0:
                return row
            before = line[low - 1]  # of the line before, one to the left
            line[low - 1] = min(i, far) if low == 1 else far
            for j in range(low, high + 1):
                above = line[j] if j < i + bound else far
                if x[i - 1] == y[j - 1]:
                    line[j] = before
                else:
                    line[j] = min(min(before, above), line[j - 1]) + 1
                before = above
        out[row] = line[n] if line[n] <= bound else -1
    return -1


@kernel("void(i8, i8, u8[::1])")
def hash_texts(offsets: Any, data: Any, out: Any) -> None:
    """The hash of each row's text, the same in every process."""
    for row in range(len(out)):
        text, length = text_at(row, offsets, data, 1)
        out[row] = np.uint64(hash_bytes(text, length))
