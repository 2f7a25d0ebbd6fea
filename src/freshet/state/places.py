"""Open addressing that grows by one home at a time: the index of tuples and texts.

An index is an array of 64-bit words: a head of two, then places. A place is empty (-1) or holds an entry: 32 bits of
hash, then 32 of a slot. An entry's *home* is the place given by its hash; the entry is there or further on, without an
empty place in between, wrapping around the end of the array.

Law: with `homes` homes in use, of which N is the greatest power of two below, a hash belongs to its last bits modulo
2N where that is a home, else modulo N. One home more therefore takes its entries from one other home alone (this is
linear hashing), so an index of any size grows by a few steps for each row that comes, and no row pays for all others.
An index has three homes an entry, so that those not parted yet are at most two thirds full.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.arena import Growable
from freshet.state.kernel import inlined, kernel

HOMES, MASK, HEAD = 0, 1, 2  # words of the head: homes in use, 2N - 1; places begin after them
LEAST = 32  # homes of a new index
PER_ENTRY = 3
SLACK = 30  # places beyond the last home, before entries wrap around to the first


@inlined
def home(table: Any, h: Any) -> Any:
    """The home of the 32-bit hash `h`."""
    mask = table[MASK]
    at = h & mask
    # Without a branch: whether a home has been parted is as random as the hash, and a wrong guess costs a miss.
    return (at & (mask >> np.int64(at >= table[HOMES]))) + HEAD


@inlined
def following(table: Any, at: Any) -> Any:
    """The place after this one."""
    at += 1
    return at if at < table.size else HEAD


@inlined
def hash_of(entry: Any) -> Any:
    return (entry >> 32) & 0xFFFFFFFF


@inlined
def put(table: Any, entry: Any) -> None:
    """Stores a new entry."""
    at = home(table, hash_of(entry))
    while table[at] != -1:
        at = following(table, at)
    table[at] = entry


@inlined
def take_out(table: Any, at: Any) -> None:
    """Empties a place; later entries move nearer to their homes if possible."""
    places, hole = table.size - HEAD, at
    at = following(table, at)
    while table[at] != -1:
        from_home, from_hole = at - home(table, hash_of(table[at])), at - hole
        from_home += places if from_home < 0 else 0
        from_hole += places if from_hole < 0 else 0
        if from_home >= from_hole:  # the hole lies between its home and here
            table[hole] = table[at]
            hole = at
        at = following(table, at)
    table[hole] = -1


@inlined
def put_again(table: Any, at: Any) -> None:
    """Stores the entries from `at` to the next empty place again, because their homes have changed."""
    while table[at] != -1:
        entry = table[at]
        table[at] = -1
        put(table, entry)
        at = following(table, at)


@kernel("void(i8[::1], i8)")
def open_homes(table: Any, homes: Any) -> None:
    """Increases the homes in use to `homes`; there must be that many places."""
    while table[HOMES] < homes:
        if table[HOMES] > table[MASK]:
            table[MASK] = 2 * table[MASK] + 1
        parted = table[HOMES] & (table[MASK] >> 1)
        table[HOMES] += 1
        put_again(table, parted + HEAD)


@kernel("void(i8[::1])")
def unwrap(table: Any) -> None:
    """Moves entries that have wrapped around back to the end, after places were added there."""
    put_again(table, HEAD)


@kernel("void(i8[::1], i8[::1])")
def put_all(table: Any, entries: Any) -> None:
    for entry in entries:
        if entry != -1:
            put(table, entry)


def make_index(table: Growable) -> None:
    """Initializes an array, filled with -1, as an index, if it is not one yet."""
    if table.data[HOMES] == -1:
        table.data[HOMES], table.data[MASK] = LEAST, LEAST - 1


def widen(table: Growable, entries: int) -> None:
    """Makes homes for that many entries. If memory fails, nothing has changed."""
    homes = PER_ENTRY * entries
    if homes <= table.data[HOMES]:
        return
    if HEAD + homes + SLACK > table.capacity:
        table.grow(HEAD + homes + SLACK)
        unwrap(table.data)
    open_homes(table.data, homes)


def narrow(table: Growable, entries: int) -> None:
    """Frees the homes beyond those that `entries` entries need."""
    homes = max(PER_ENTRY * entries, LEAST)
    if HEAD + homes + SLACK > table.capacity // 2:
        return
    kept = table.data[HEAD:][table.data[HEAD:] != -1]
    table.shrink(HEAD + homes + SLACK)
    table.data[HOMES], table.data[MASK] = homes, (1 << (homes - 1).bit_length()) - 1
    clear(table)
    put_all(table.data, kept)


def clear(table: Growable) -> None:
    """Empties every place."""
    table.data[HEAD:] = -1
