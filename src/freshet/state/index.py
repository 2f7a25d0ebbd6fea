"""An index: for each key, the chain of the slots whose rows have it.

Law: a slot is in one chain, that of the key under which it was added; a key exists exactly while its chain is not
empty. So finding the rows of a key costs one probe and one step for each row found, whatever the history of changes.
Links hold slot + 1; 0 is none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.arena import Scope
from freshet.state.arrays import Int64s
from freshet.state.kernel import kernel
from freshet.state.tuples import Slots, Tuples

_NEXT, _BEFORE = 0, 1


@kernel("void(i4[::1], i4[::1], i4[::1], i4[::1], i4[:,::1])")
def link_slots(keys: Any, slots: Any, heads: Any, key_of: Any, links: Any) -> None:
    """Puts each slot at the head of its key's chain."""
    for i in range(slots.size):
        s, k = slots[i], keys[i]
        head = heads[k]
        links[s, _NEXT], links[s, _BEFORE] = head, 0
        if head:
            links[head - 1, _BEFORE] = s + 1
        heads[k] = s + 1
        key_of[s] = k


@kernel("i8(i4[::1], i4[::1], i4[::1], i4[:,::1], i4[::1])")
def unlink_slots(slots: Any, heads: Any, key_of: Any, links: Any, emptied: Any) -> Any:
    """Removes slots from their chains; lists the keys whose chains are now empty, and returns their number."""
    found = 0
    for i in range(slots.size):
        s = slots[i]
        k, after, before = key_of[s], links[s, _NEXT], links[s, _BEFORE]
        if before:
            links[before - 1, _NEXT] = after
        else:
            heads[k] = after
        if after:
            links[after - 1, _BEFORE] = before
        if not heads[k]:
            emptied[found] = k
            found += 1
    return found


@kernel("i8(i8, i4[:,::1], i4[::1])")
def walk_chain(first: Any, links: Any, out: Any) -> Any:
    """Writes the slots of a chain, as many as fit; returns the link to the next one, 0 at the end."""
    at, i = first, 0
    while at and i < out.size:
        out[i] = at - 1
        at = np.int64(links[at - 1, _NEXT])
        i += 1
    return at if at else -i


class Index:
    """Slots by keys of `width` lanes."""

    def __init__(self, scope: Scope, width: int) -> None:
        self.keys = Tuples(scope.scope("keys"), width)
        self.heads = scope.array("heads", np.int32)  # by key
        self.key_of = scope.array("key", np.int32)  # by slot
        self.links = scope.array("links", np.int32, columns=2)

    def add(self, keys: Int64s, slots: Slots, room: int) -> None:
        """Slots under keys; `room`: no slot is beyond."""
        if not len(slots):
            return
        ids = self.keys.add(keys)
        self.heads.grow(len(self.keys.occupancy.data))
        self.key_of.grow(room)
        self.links.grow(room)
        link_slots(ids, slots, self.heads.data, self.key_of.data, self.links.data)

    def remove(self, slots: Slots) -> None:
        if not len(slots):
            return
        emptied = np.empty(len(slots), np.int32)
        found = unlink_slots(slots, self.heads.data, self.key_of.data, self.links.data, emptied)
        if found:
            self.keys.remove(emptied[:found])

    def find(self, key: Int64s) -> Slots:
        """The slots of one key, a row of lanes."""
        (found,) = self.keys.find(key)
        if found < 0:
            return np.empty(0, np.int32)
        parts, at, room = list[Slots](), int(self.heads.data[found]), 16
        while at > 0:
            out = np.empty(room, np.int32)
            at = int(walk_chain(at, self.links.data, out))
            parts.append(out if at > 0 else out[:-at])
            room *= 4
        return parts[0] if len(parts) == 1 else np.concatenate(parts)
