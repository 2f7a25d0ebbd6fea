"""Nested values as bytes: where their parts are, and what those hold.

Law: the bytes of two values compare as the values do, so equal values are equal bytes. A part is the byte NULL_PART, or
VALUE_PART and its body. The body of a number is its digits, the most significant first, with the sign bit flipped; that
of a text is its bytes, with 0 written as 0, 255, ended by 0, 0; that of a list or map is its parts, ended by END; that
of a struct is its parts. A body does not say its type: `program` does, a line for each type in it from the outermost
on, with its kind, the bytes of a number or the number of a struct's fields, and the number of lines of the type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import as_int8, inlined, kernel

END, NULL_PART, VALUE_PART = range(3)
NUMBER, BYTES_OF_TEXT, LIST, STRUCT = range(4)
DEEPEST = 30  # levels of a type


@inlined
def _after_text(data: Any, at: Any) -> Any:
    while True:
        if as_int8(data)[at] == 0:
            if as_int8(data)[at + 1] == 0:
                return at + 2
            at += 1
        at += 1


@inlined
def _after(data: Any, at: Any, program: Any, node: Any, stack: Any) -> Any:
    """Where the body of the type at line `node` ends. The stack has the types that are entered: line, line of the next
    part, and how many parts remain of a struct."""
    depth = 0
    current = node
    while True:
        kind = program[current, 0]
        if kind == NUMBER:
            at += program[current, 1]
        elif kind == BYTES_OF_TEXT:
            at = _after_text(data, at)
        else:
            stack[depth, 0] = current
            stack[depth, 1] = current + 1
            stack[depth, 2] = program[current, 1]
            depth += 1
        current = -1
        while depth > 0 and current < 0:
            top = stack[depth - 1]
            if program[top[0], 0] == STRUCT:
                if top[2] == 0:
                    depth -= 1
                    continue
                top[2] -= 1
            elif as_int8(data)[at] == END:
                at += 1
                depth -= 1
                continue
            elif top[1] == top[0] + program[top[0], 2]:
                top[1] = top[0] + 1  # the first part of the next element
            part = top[1]
            top[1] += program[part, 2]
            at += 1
            if as_int8(data)[at - 1] == VALUE_PART:
                current = part
        if current < 0:
            return at


@kernel("i8(i8, i8[::1], i8[:,::1], i8[::1], i8[:,::1])")
def split(data: Any, starts: Any, program: Any, offsets: Any, spans: Any) -> Any:
    """Counts the parts of lists, maps or structs whose bodies are at `starts`, -1 for NULL, which has none; returns how
    many there are. Unless `spans` is empty, it gets where the body of each part begins and ends; -1 if it is NULL."""
    stack = np.empty((DEEPEST + 1, 3), np.int64)
    is_struct = program[0, 0] == STRUCT
    last = program[0, 2]
    writes = len(spans) > 0
    found = 0
    for row in range(len(starts)):
        offsets[row] = found
        at = starts[row]
        if at < 0:
            continue
        part = 1
        while part < last if is_struct else as_int8(data)[at] != END:
            if part == last:
                part = 1
            at += 1
            if as_int8(data)[at - 1] == VALUE_PART:
                end = _after(data, at, program, part, stack)
                if writes:
                    spans[found, 0] = at
                    spans[found, 1] = end
                at = end
            elif writes:
                spans[found, 0] = -1
                spans[found, 1] = -1
            found += 1
            part += program[part, 2]
    offsets[len(starts)] = found
    return found


@kernel("void(i8, i8[::1], i8, b1, i8[::1])")
def read_numbers(data: Any, starts: Any, width: Any, signed: Any, out: Any) -> None:
    """The numbers of `width` bytes at `starts`; 0 where there is none (-1)."""
    for i in range(len(starts)):
        at = starts[i]
        value = np.int64(0)
        if at >= 0:
            value = np.int64(as_int8(data)[at])
            if signed:
                value ^= -128  # the flipped sign bit, and the sign above it
            else:
                value &= 0xFF
            for k in range(1, width):
                value = (value << 8) | (np.int64(as_int8(data)[at + k]) & 0xFF)
        out[i] = value


@kernel("i8(i8, i8[:,::1], b1, i8[::1], u1[::1])")
def read_bytes(data: Any, spans: Any, is_text: Any, offsets: Any, out: Any) -> Any:
    """The bodies within `spans`, those of texts as their bytes. Returns how many bytes they have, and unless `out` is
    empty puts them there."""
    writes = len(out) > 0
    total = 0
    for i in range(len(spans)):
        offsets[i] = total
        at, end = spans[i, 0], spans[i, 1]
        if at < 0:
            continue
        if is_text:
            end -= 2
        while at < end:
            byte = as_int8(data)[at]
            if writes:
                out[total] = byte & 0xFF
            total += 1
            at += 2 if is_text and byte == 0 else 1
    offsets[len(spans)] = total
    return total
