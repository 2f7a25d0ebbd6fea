"""Regular expressions over columns of text, in time linear in the text: all paths through a program are followed at
once (Pike).

A program is rows of (operation, x, y): read a character of set x; go on at the next instruction or, less preferred, at
another; and so on. Law: at each character at most one thread is at each instruction, the most preferred one that
reached it. So the cost of a character is at most the length of the program, and the match found is the one that a
backtracking engine would find: the leftmost and, of those that begin there, the most preferred. Spans are in bytes of
valid UTF-8.

Look-around is a condition on a place (`LOOK`): for each place of a text it is known before the search whether its
pattern matches from there on, or up to there. What matches from a place on is found by one walk from the end to the
begin, by a program that reads the pattern backwards; what matches up to a place, by trying the few places at which it
can begin. These are counted in UTF-16, as in Java, where the second half of a character may be one of them.

Every step of a thread is counted; a kernel that runs out of steps returns the current row, otherwise -1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.kernel import as_int8, as_int64, inlined, kernel

#: SET x: a character of set x. FORK x, y: on at x and, less preferred, at y. JUMP x. SAVE x: the position into slot x.
#: BEGIN, END: the ends of the text. DOLLAR: its end, or before a line end that ends it. MATCH. EDGE x: where a word
#: begins or ends, or where x is 0 anywhere else. LOOK x, y: where look-around x matches, or where y is 0 does not.
#: Places are relative.
SET, FORK, JUMP, SAVE, BEGIN, END, DOLLAR, MATCH, EDGE, LOOK = range(10)

_PROGRAM = "i8[:,::1], b1[:,::1], i8[::1], i8[:,::1], b1[::1], i8, i8[:,::1]"


@inlined
def byte_at(address: Any, i: Any) -> Any:
    return np.int64(as_int8(address)[i]) & 0xFF


@inlined
def character(address: Any, at: Any) -> Any:
    """The character at a byte, and how many bytes it has."""
    lead = byte_at(address, at)
    if lead < 0x80:
        return lead, 1
    second = byte_at(address, at + 1) & 0x3F
    if lead < 0xE0:
        return (lead & 0x1F) << 6 | second, 2
    third = byte_at(address, at + 2) & 0x3F
    if lead < 0xF0:
        return (lead & 0x0F) << 12 | second << 6 | third, 3
    return (lead & 0x07) << 18 | second << 12 | third << 6 | (byte_at(address, at + 3) & 0x3F), 4


@inlined
def _last_line(address: Any, length: Any) -> Any:
    """Where the line end that ends a text begins; -1 where none does. \\r\\n is one."""
    if length == 0:
        return -1
    last = byte_at(address, length - 1)
    if last == 0x0A:
        return length - 2 if length > 1 and byte_at(address, length - 2) == 0x0D else length - 1
    if last == 0x0D:
        return length - 1
    if last == 0x85 and byte_at(address, length - 2) == 0xC2:
        return length - 2
    if (last == 0xA8 or last == 0xA9) and byte_at(address, length - 2) == 0x80:
        if byte_at(address, length - 3) == 0xE2:
            return length - 3
    return -1


@inlined
def _in_word(byte: Any) -> Any:
    """Whether a byte is a letter or digit of ASCII, or _."""
    lower = byte | 0x20
    return 0x61 <= lower <= 0x7A or 0x30 <= byte <= 0x39 or byte == 0x5F


@inlined
def _is_edge(address: Any, at: Any, length: Any) -> Any:
    """Whether just one of the characters before and after a place belongs to a word."""
    before = at > 0 and _in_word(byte_at(address, at - 1))
    return before != (at < length and _in_word(byte_at(address, at)))


@inlined
def _holds(set_: Any, c: Any, ascii_: Any, starts: Any, ranges: Any) -> Any:
    if c < 128:
        return ascii_[set_, c]
    low, high = starts[set_], starts[set_ + 1]
    while low < high:
        middle = (low + high) >> 1
        if ranges[middle, 1] < c:
            low = middle + 1
        else:
            high = middle
    return low < starts[set_ + 1] and ranges[low, 0] <= c


@inlined
def _enter(
    address: Any, pc: Any, at: Any, length: Any, line: Any, code: Any, held: Any, seen: Any, now: Any, stack: Any,
    slots: Any, threads: Any, kept: Any, count: Any,
) -> Any:  # fmt: skip
    """Appends the reading instructions reachable from `pc` to the `count` existing threads, each with the slots of the
    path to it. A stack entry is a place to go on at or, below zero, a slot to set back."""
    stack[0, 0] = pc
    top, steps = 1, 0
    while top > 0:
        top -= 1
        pc = stack[top, 0]
        if pc < 0:
            slots[-1 - pc] = stack[top, 1]
            continue
        while True:
            if seen[pc] == now:
                break
            seen[pc] = now
            steps += 1
            operation = code[pc, 0]
            if operation in (SET, MATCH):
                threads[count] = pc
                for s in range(len(slots)):
                    kept[count, s] = slots[s]
                count += 1
                break
            if operation == FORK:
                stack[top, 0] = pc + code[pc, 2]
                top += 1
                pc += code[pc, 1]
            elif operation == JUMP:
                pc += code[pc, 1]
            elif operation == SAVE:
                slot = code[pc, 1]
                stack[top, 0] = -1 - slot
                stack[top, 1] = slots[slot]
                top += 1
                slots[slot] = at
                pc += 1
            elif operation == BEGIN:
                if at != 0:
                    break
                pc += 1
            elif operation == END:
                if at != length:
                    break
                pc += 1
            elif operation == EDGE:
                if _is_edge(address, at, length) != (code[pc, 1] != 0):
                    break
                pc += 1
            elif operation == LOOK:
                if held[code[pc, 1], at] != (code[pc, 2] != 0):
                    break
                pc += 1
            else:
                if at != length and at != line:
                    break
                pc += 1
    return count, steps


@inlined
def _matches(code: Any, threads: Any, count: Any) -> Any:
    """Whether one of the threads has read all of its pattern."""
    for i in range(count):
        if code[threads[i], 0] == MATCH:
            return True
    return False


@inlined
def _look_ahead(
    address: Any, length: Any, line: Any, first: Any, code: Any, ascii_: Any, starts: Any, ranges: Any, held: Any,
    seen: Any, stack: Any, threads: Any, kept: Any, state: Any, out: Any,
) -> Any:  # fmt: skip
    """At which places a pattern matches what follows; the program at `first` reads it backwards."""
    none = stack[:0, 0]
    count, side, at = 0, 0, length
    state[0] += 1
    while True:
        count, steps = _enter(
            address, first, at, length, line, code, held, seen, state[0], stack, none, threads[side], kept[side], count
        )
        out[at] = _matches(code, threads[side], count)
        state[1] -= steps + count + 1
        if at == 0 or state[1] < 0:
            return
        at -= 1
        while byte_at(address, at) & 0xC0 == 0x80:
            at -= 1
        c, _ = character(address, at)
        state[0] += 1
        entered, other = 0, 1 - side
        for i in range(count):
            pc = threads[side, i]
            if code[pc, 0] == SET and _holds(code[pc, 1], c, ascii_, starts, ranges):
                entered, steps = _enter(
                    address, pc + 1, at, length, line, code, held, seen, state[0], stack, none, threads[other],
                    kept[other], entered,
                )  # fmt: skip
                state[1] -= steps
        side, count = other, entered


@inlined
def _reaches(
    address: Any, begin: Any, end: Any, length: Any, line: Any, first: Any, code: Any, ascii_: Any, starts: Any,
    ranges: Any, held: Any, seen: Any, stack: Any, threads: Any, kept: Any, state: Any,
) -> Any:  # fmt: skip
    """Whether a pattern matches from one place exactly up to another. A place within the bytes of a character stands
    for the second half of it in UTF-16."""
    none = stack[:0, 0]
    at, side = begin, 0
    state[0] += 1
    count, steps = _enter(
        address, first, at, length, line, code, held, seen, state[0], stack, none, threads[side], kept[side], 0
    )
    state[1] -= steps + 1
    while at < end and count > 0:
        if byte_at(address, at) & 0xC0 == 0x80:
            c, size = character(address, at - 1)
            c, size = 0xDC00 | (c & 0x3FF), size - 1
        else:
            c, size = character(address, at)
        at += size
        state[0] += 1
        entered, other = 0, 1 - side
        for i in range(count):
            pc = threads[side, i]
            if code[pc, 0] == SET and _holds(code[pc, 1], c, ascii_, starts, ranges):
                entered, steps = _enter(
                    address, pc + 1, at, length, line, code, held, seen, state[0], stack, none, threads[other],
                    kept[other], entered,
                )  # fmt: skip
                state[1] -= steps
        side, count = other, entered
        state[1] -= count + 1
    return at == end and _matches(code, threads[side], count)


@inlined
def _looked(
    address: Any, length: Any, line: Any, looks: Any, code: Any, ascii_: Any, starts: Any, ranges: Any, seen: Any,
    stack: Any, threads: Any, kept: Any, state: Any,
) -> Any:  # fmt: skip
    """At which places each look-around matches; one may contain those before it. `looks`: whether it looks behind, its
    program, and how many characters it reads at least and at most."""
    held = np.zeros((len(looks), length + 1 if len(looks) > 0 else 0), np.bool_)
    for k in range(len(looks)):
        behind, first, least, most = looks[k]
        if not behind:
            _look_ahead(
                address, length, line, first, code, ascii_, starts, ranges, held, seen, stack, threads, kept, state,
                held[k],
            )  # fmt: skip
            continue
        for end in range(length + 1):
            if state[1] < 0:
                return held
            if end < length and byte_at(address, end) & 0xC0 == 0x80:
                continue
            begin, units = end, 0
            while units <= most:
                if units >= least and _reaches(
                    address, begin, end, length, line, first, code, ascii_, starts, ranges, held, seen, stack, threads,
                    kept, state,
                ):  # fmt: skip
                    held[k, end] = True
                    break
                if begin == 0:
                    break
                units += 1
                if begin < end and byte_at(address, begin) & 0xC0 == 0x80:
                    begin -= 1  # from the second half of a character to its first
                    continue
                begin -= 1
                while byte_at(address, begin) & 0xC0 == 0x80:
                    begin -= 1
                if byte_at(address, begin) >= 0xF0:
                    begin += 1
    return held


@inlined
def _search(
    address: Any, length: Any, line: Any, at: Any, code: Any, held: Any, ascii_: Any, starts: Any, ranges: Any,
    leads: Any, seen: Any, stack: Any, slots: Any, threads: Any, kept: Any, found: Any, state: Any,
) -> Any:  # fmt: skip
    """Whether there is a match at or after a byte; its slots in `found`. `state` has the mark of instructions visited
    at this character, and the steps left."""
    matched, count, side = False, 0, 0
    while True:
        if count == 0:
            if matched:
                return True
            if len(leads) > 0:
                while at < length and not leads[byte_at(address, at)]:
                    at += 1
                if at == length:
                    return False
            state[0] += 1
        steps = 0
        if not matched:  # one more thread, which begins here; it is preferred least
            slots[:] = -1
            count, steps = _enter(
                address,
                0,
                at,
                length,
                line,
                code,
                held,
                seen,
                state[0],
                stack,
                slots,
                threads[side],
                kept[side],
                count,
            )
        state[1] -= steps + count + 1
        if state[1] < 0:
            return False
        c, size = -1, 1
        if at < length:
            c, size = character(address, at)
        state[0] += 1
        entered, other = 0, 1 - side
        for i in range(count):
            pc = threads[side, i]
            if code[pc, 0] == MATCH:
                matched = True
                found[:] = kept[side, i]
                break
            if c >= 0 and _holds(code[pc, 1], c, ascii_, starts, ranges):
                slots[:] = kept[side, i]
                entered, steps = _enter(
                    address, pc + 1, at + size, length, line, code, held, seen, state[0], stack, slots, threads[other],
                    kept[other], entered,
                )  # fmt: skip
                state[1] -= steps
        if at >= length:
            return matched
        at += size
        side, count = other, entered


@inlined
def _scratch(n: Any, slots: Any) -> Any:
    seen = np.zeros(n, np.int64)
    stack = np.empty((3 * n + 2, 2), np.int64)
    return seen, stack, np.empty(slots, np.int64), np.empty((2, n), np.int64), np.empty((2, n, slots), np.int64)


@inlined
def _text(row: Any, offsets: Any, data: Any) -> Any:
    begin = as_int64(offsets)[row]
    length = as_int64(offsets)[row + 1] - begin
    return data + begin, length, _last_line(data + begin, length)


@kernel(f"i8(i8, i8, b1[::1], {_PROGRAM}, i8, i8[:,::1])")
def first_matches(
    offsets: Any, data: Any, valid: Any, code: Any, ascii_: Any, starts: Any, ranges: Any, leads: Any, slots: Any,
    looks: Any, steps: Any, out: Any,
) -> Any:  # fmt: skip
    """The slots of each valid row's first match, -1 where there is none."""
    seen, stack, now, threads, kept = _scratch(len(code), slots)
    state = np.array([0, steps])
    for row in range(len(out)):
        out[row] = -1
        if len(valid) > 0 and not valid[row]:
            continue
        address, length, line = _text(row, offsets, data)
        held = _looked(address, length, line, looks, code, ascii_, starts, ranges, seen, stack, threads, kept, state)
        found = _search(
            address, length, line, 0, code, held, ascii_, starts, ranges, leads, seen, stack, now, threads, kept,
            out[row], state,
        )  # fmt: skip
        if state[1] < 0:
            return row
        if not found:
            out[row] = -1
    return -1


@kernel(f"i8(i8, i8, b1[::1], {_PROGRAM}, i8, i8[::1], i8, i8[:,::1], i8, i8[::1], i8)")
def all_matches(
    offsets: Any, data: Any, valid: Any, code: Any, ascii_: Any, starts: Any, ranges: Any, leads: Any, slots: Any,
    looks: Any, steps: Any, counts: Any, most: Any, pieces: Any, texts: Any, sizes: Any, out: Any,
) -> Any:  # fmt: skip
    """How many matches each valid row has, and how many bytes it has with each match replaced by `pieces`: the bytes of
    `texts` from x to y or, where y is below zero, what lies between slots x and x + 1. Where `out` is not 0 the rows so
    replaced are written there, one after the other. The search goes on where a match ended; after an empty one, a
    character further. A row of more than `most` bytes is not searched to its end."""
    seen, stack, now, threads, kept = _scratch(len(code), slots)
    state, found = np.array([0, steps]), np.empty(slots, np.int64)
    for row in range(len(counts)):
        counts[row], sizes[row] = 0, 0
        if len(valid) > 0 and not valid[row]:
            continue
        address, length, line = _text(row, offsets, data)
        held = _looked(address, length, line, looks, code, ascii_, starts, ranges, seen, stack, threads, kept, state)
        at, last, size = 0, 0, 0
        while at <= length and size <= most and _search(
            address, length, line, at, code, held, ascii_, starts, ranges, leads, seen, stack, now, threads, kept,
            found, state,
        ):  # fmt: skip
            counts[row] += 1
            size = _copied(address, last, found[0], out, size)
            for p in range(len(pieces)):
                x, y = pieces[p]
                if y >= 0:
                    size = _copied(texts, x, y, out, size)
                elif found[x + 1] >= 0:
                    size = _copied(address, found[x], found[x + 1], out, size)
            at = last = found[1]
            if at == found[0]:
                at += character(address, at)[1] if at < length else 1
        if state[1] < 0:
            return row
        sizes[row] = _copied(address, last, length, out, size)
        if out != 0:
            out += sizes[row]
    return -1


@inlined
def _copied(address: Any, begin: Any, end: Any, out: Any, size: Any) -> Any:
    """Copies bytes behind those already there, if anything is written; returns how many there are then."""
    if out != 0:
        for i in range(begin, end):
            as_int8(out)[size + i - begin] = as_int8(address)[i]
    return size + end - begin


@kernel("void(i8, i8, i8[::1], i8[::1], u1[::1])")
def copy_spans(offsets: Any, data: Any, begins: Any, sizes: Any, out: Any) -> None:
    """So many bytes of each row's text from a byte on, one after the other."""
    at = 0
    for row in range(len(sizes)):
        address = data + as_int64(offsets)[row] + begins[row]
        for i in range(sizes[row]):
            out[at + i] = as_int8(address)[i]
        at += sizes[row]


@kernel("void(i8, i8, i8[::1], i8[::1])")
def count_characters(offsets: Any, data: Any, ends: Any, out: Any) -> None:
    """How many characters of each row's text lie before a byte; -1 where that is below zero."""
    for row in range(len(out)):
        address = data + as_int64(offsets)[row]
        out[row] = min(ends[row], 0)
        for i in range(ends[row]):
            out[row] += (byte_at(address, i) & 0xC0) != 0x80
