"""The tree of counters: kernels that keep a join tree's tuples alive and live, one relation's changes at a time.

Laws, for node e with children c1..cm, tuple s of e, and edge keys k(s):
    support(c, k) = number of alive tuples of c under k; on an edge with a comparison, of those that compare with s
    counter(s)    = number of counting edges of s that hold: support > 0 (inner, semi) or = 0 (anti), never left
    alive(s)      = s is present, counter(s) is full and every assertion of e agrees
    live(s)       = alive(s), and s is at the root or some live parent has its key (and compares with it)
Under each key, the chain of children holds the alive ones, and the chain of parents all of them, the live ones first:
so both directions can be walked without meeting a dead end (state/comparison says how where values are compared). Live
marks are kept for nodes that have output children; for a leaf, being live is seen from the first parent under its key.

A tree is a table of addresses (state/tree_table). Links and heads hold slot + 1, so that zeroed memory is an empty
tree. A generalized node has no rows of its own: its tuples are the keys its children share, so on its edges the
parent's slot is the key itself.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from freshet.state.chains import link_back, link_child, parent_key, prefetch_tuples, unlink_child, unlink_parent
from freshet.state.comparison import (
    CHILDREN,
    PARENTS,
    change_child,
    change_parent,
    has_support,
    prefetch_compared,
    prefetch_order,
)
from freshet.state.kernel import AHEAD, as_int32, as_int64, inlined, kernel, prefetch
from freshet.state.live import mark_live, unmark_live
from freshet.state.sorted_chain import append, value_at
from freshet.state.tree_table import (
    ABSENT,
    ALIVE,
    ANTI,
    APART,
    BEFORE,
    CHECK_COLUMNS,
    CHECK_STEPS,
    CHECKS,
    CHECKS_END,
    CHILD_HEAD,
    COUNTED,
    COUNTER,
    FLIPPED,
    FULL,
    KEY_BYTES,
    KEY_COLUMNS,
    KEYS,
    LEFT,
    LINK_BYTES,
    LIVE,
    PARENT_HEAD,
    PARENT_LINKS,
    PRESENT,
    STATUS,
    SUPPORT,
    child_ids_of,
    child_links_of,
    column,
    compares,
    counter_of,
    first_child,
    has_output_children,
    head_of,
    is_far,
    is_output,
    keyed_by_slot,
    keys_of,
    kind_of,
    lanes_of,
    next_in,
    next_sibling,
    parent_ids_of,
    parent_links_of,
    parent_of,
    parent_values_of,
    status_of,
    width_of,
)  # fmt: skip


@inlined
def follow(t: Any, checks: Any, row: Any, start: Any, s: Any) -> Any:
    """Lane address reached from tuple s along one path of an assertion; every edge on it has at most one child."""
    at = np.int64(s)
    node = np.int64(-1)
    for i in range(CHECK_STEPS):
        c = checks[row * CHECK_COLUMNS + start + i]
        if c < 0:
            break
        at = head_of(keys_of(t, c), parent_key(t, c, at), CHILD_HEAD)
        node = c
    if node < 0:
        node = checks[row * CHECK_COLUMNS + start + CHECK_STEPS + 1]
    lane = checks[row * CHECK_COLUMNS + start + CHECK_STEPS]
    return lanes_of(t, node)[at * width_of(t, node) + lane]


@inlined
def agrees(t: Any, checks: Any, e: Any, s: Any) -> Any:
    """Whether the values reached along both paths of each assertion of e are equal."""
    for row in range(column(t, e, CHECKS), column(t, e, CHECKS_END)):
        if follow(t, checks, row, 0, s) != follow(t, checks, row, CHECK_STEPS + 2, s):
            return False
    return True


@inlined
def take_places(t: Any, e: Any, tuples: Any) -> None:
    """Appends new tuples that did not become live to their chains of parents."""
    c = first_child(t, e)
    while c >= 0:
        if not keyed_by_slot(t, c) and not compares(t, c):
            keys, links = keys_of(t, c), parent_links_of(t, c)
            ids = parent_ids_of(t, c)
            for j in range(tuples.size):
                s = np.int64(tuples[j])
                if links[2 * s + BEFORE] == APART and ids[s] >= 0:
                    link_back(keys, links, np.int64(ids[s]), s)
        c = next_sibling(t, c)


@inlined
def enter_level(t: Any, checks: Any, e: Any, slots: Any) -> Any:
    """Inserts new tuples into node e; returns those that are alive. These are not in their chains of parents until
    `carry` determines whether they are live."""
    status, counter = status_of(t, e), counter_of(t, e)
    full, first = column(t, e, FULL), first_child(t, e)
    out = np.empty(slots.size, np.int32)
    n = 0
    for j in range(slots.size):
        if j % AHEAD == 0:
            prefetch_tuples(t, e, slots, j)
            prefetch_order(t, e, PARENTS, slots, j)
        s = np.int64(slots[j])
        held = 0
        c = first
        while c >= 0:
            k = parent_key(t, c, s)
            supported = False
            if k >= 0 and compares(t, c):
                change_parent(t, c, k, s, True)
                supported = has_support(t, c, k, value_at(parent_values_of(t, c), s))
            elif k >= 0:
                parent_links_of(t, c)[2 * s + BEFORE] = APART
                supported = keys_of(t, c)[KEY_COLUMNS * k + SUPPORT] > 0
            kind = kind_of(t, c)
            if kind == ANTI:
                held += not supported
            elif kind != LEFT:
                held += supported
            c = next_sibling(t, c)
        status[s] = PRESENT
        counter[s] = held
        if held == full and agrees(t, checks, e, s):
            out[n] = s
            n += 1
        else:
            c = first
            while c >= 0:
                k = parent_key(t, c, s)
                if k >= 0 and not compares(t, c):
                    keys, links = keys_of(t, c), parent_links_of(t, c)
                    link_back(keys, links, k, s)
                c = next_sibling(t, c)
    return out[:n]


@inlined
def go_out(t: Any, e: Any, slots: Any) -> None:
    """Removes dead tuples from node e."""
    status, counter = status_of(t, e), counter_of(t, e)
    for j in range(slots.size):
        if j % AHEAD == 0:
            prefetch_order(t, e, PARENTS, slots, j)
        s = np.int64(slots[j])
        c = first_child(t, e)
        while c >= 0:
            k = parent_key(t, c, s)
            if k >= 0 and compares(t, c):
                change_parent(t, c, k, s, False)
            elif k >= 0:
                unlink_parent(keys_of(t, c), parent_links_of(t, c), k, s)
            c = next_sibling(t, c)
        status[s] = ABSENT
        counter[s] = 0


@inlined
def find_members(t: Any, e: Any, slots: Any) -> Any:
    status = status_of(t, e)
    members, alive = np.empty(slots.size, np.int32), np.empty(slots.size, np.int32)
    n, m = 0, 0
    for j in range(slots.size):
        if j % AHEAD == 0:
            prefetch_tuples(t, e, slots, j)
        s = slots[j]
        if status[s] >= PRESENT:
            members[n] = s
            n += 1
        if status[s] >= ALIVE:
            alive[m] = s
            m += 1
    return members[:n], alive[:m]


@inlined
def prefetch_parents(t: Any, c: Any, alone: Any, flipped: Any, j: Any, n: Any) -> None:
    """Prefetches the first parent of c under each flipped key from j on (or the flipped parents themselves)."""
    p, stop = parent_of(t, c), min(j + AHEAD, n)
    keys = column(t, c, KEYS)
    if not is_far(t, p):
        return
    if not alone:
        for i in range(j, stop):
            prefetch(keys + KEY_BYTES * np.int64(flipped[i]))
    for i in range(j, stop):
        s = np.int64(flipped[i]) if alone else head_of(as_int32(keys), np.int64(flipped[i]), PARENT_HEAD)
        prefetch(column(t, p, STATUS) + s)
        prefetch(column(t, p, COUNTER) + s)
        prefetch(column(t, c, PARENT_LINKS) + LINK_BYTES * s)


@inlined
def recount(t: Any, checks: Any, c: Any, flipped: Any, n: Any, step: Any, work: Any) -> Any:
    """Moves by `step` the counters of all parents of c under flipped keys (of the flipped parents themselves on an edge
    with a comparison); returns those that now change between dead and alive. The only step that can cost more than its
    input: what enclosureness bounds."""
    p = parent_of(t, c)
    status, counter = status_of(t, p), counter_of(t, p)
    full = column(t, p, FULL)
    alone = keyed_by_slot(t, c) or compares(t, c)
    keys, links = keys_of(t, c), parent_links_of(t, c)
    out = np.empty(max(16, n), np.int32)
    m, counted = 0, 0
    for j in range(n):
        if j % AHEAD == 0:
            prefetch_parents(t, c, alone, flipped, j, n)
        s = np.int64(flipped[j])
        if not alone:
            s = head_of(keys, s, PARENT_HEAD)
        while s >= 0:
            counter[s] += step
            counted += 1
            changes = (counter[s] == full and agrees(t, checks, p, s)) if step > 0 else status[s] >= ALIVE
            if changes:
                out = append(out, m, s)
                m += 1
            s = np.int64(-1) if alone else next_in(links, s)
    work[COUNTED] += counted
    return out[:m]


@inlined
def carry(t: Any, checks: Any, e: Any, changed: Any, sign: Any, stop: Any, own: Any, work: Any) -> Any:
    """Makes tuples of e alive (sign 1) or dead (sign -1) and propagates flips up the tree. `own`: they are inserted or
    deleted themselves, rather than changed by tuples below.

    Stops before marking anything at node `stop` (-1: never), and before an anti edge, which reverses the sign; returns
    (node, sign, tuples) still to be marked there, or node -1, then the child node of a left edge whose keys flipped, or
    -1, and those keys (parents, on an edge with a comparison)."""
    first_node, first_changed = e, changed
    log = np.empty(max(16, 2 * changed.size), np.int32)
    marks = np.empty((16, 2), np.int64)  # levels passed: node, end of its tuples in the log
    levels, logged = 0, 0
    none = np.empty(0, np.int32)
    pending, pending_sign, waiting = np.int64(-1), np.int64(0), none
    left, left_keys = np.int64(-1), none
    while changed.size > 0:
        if not own or levels > 0:  # the caller has prefetched tuples that are inserted or deleted themselves
            for j in range(0, changed.size, AHEAD):
                prefetch_tuples(t, e, changed, j)
        if sign > 0:
            status = status_of(t, e)
            if logged + changed.size > log.size:
                bigger = np.empty(2 * (logged + changed.size), np.int32)
                bigger[:logged] = log[:logged]
                log = bigger
            for j in range(changed.size):
                status[changed[j]] = ALIVE
                log[logged + j] = changed[j]
            logged += changed.size
        else:
            unmark_live(t, e, changed, own and levels == 0)
        if levels == marks.shape[0]:
            longer = np.empty((2 * levels, 2), np.int64)
            longer[:levels] = marks
            marks = longer
        marks[levels, 0] = e
        marks[levels, 1] = logged
        levels += 1
        if parent_of(t, e) < 0:
            break
        keys, ids = keys_of(t, e), child_ids_of(t, e)
        links = child_links_of(t, e)
        flipped = np.empty(max(16, changed.size), np.int32)
        n = 0
        if compares(t, e):
            for j in range(changed.size):
                if j % AHEAD == 0:
                    prefetch_compared(t, e, CHILDREN, changed, j)
                s = np.int64(changed[j])
                k = np.int64(ids[s])
                if k >= 0:
                    flipped, n = change_child(t, e, k, s, sign > 0, flipped, n)
        elif sign > 0:
            for j in range(changed.size):
                s = np.int64(changed[j])
                k = np.int64(ids[s])
                if k >= 0:
                    link_child(keys, links, k, s)
                    if keys[KEY_COLUMNS * k + SUPPORT] == 0:
                        flipped[n] = k
                        n += 1
                    keys[KEY_COLUMNS * k + SUPPORT] += 1
        else:
            for j in range(changed.size):
                s = np.int64(changed[j])
                k = np.int64(ids[s])
                if k >= 0:
                    unlink_child(keys, links, k, s)
                    if keys[KEY_COLUMNS * k + SUPPORT] == 1:
                        flipped[n] = k
                        n += 1
                    keys[KEY_COLUMNS * k + SUPPORT] -= 1
        work[FLIPPED] += n
        if n == 0:
            break
        kind = kind_of(t, e)
        if kind == LEFT:
            left, left_keys = np.int64(e), flipped[:n].copy()
            break
        step = -sign if kind == ANTI else sign
        changed = recount(t, checks, e, flipped, n, step, work)
        e = parent_of(t, e)
        if kind == ANTI or e == stop:
            if changed.size > 0:
                pending, pending_sign, waiting = np.int64(e), np.int64(step), changed
            break
    if sign > 0:
        for level in range(levels - 1, -1, -1):
            node = marks[level, 0]
            if is_output(t, node) and has_output_children(t, node):
                mark_live(t, node, log, marks[level - 1, 1] if level > 0 else 0, marks[level, 1])
        if own:
            take_places(t, first_node, first_changed)
    return pending, pending_sign, waiting, left, left_keys


@kernel("i4[::1](i8, i8, i8, i4[::1])")
def enter(tree: Any, assertions: Any, e: Any, slots: Any) -> Any:
    return enter_level(as_int64(tree), as_int64(assertions), e, slots)


@kernel("void(i8, i8, i4[::1])")
def leave(tree: Any, e: Any, slots: Any) -> None:
    go_out(as_int64(tree), e, slots)


@kernel("UniTuple(i4[::1], 2)(i8, i8, i4[::1])")
def members_of(tree: Any, e: Any, slots: Any) -> Any:
    """The tuples that are in node e, and those of them that are alive."""
    return find_members(as_int64(tree), e, slots)


@kernel("Tuple((i8, i8, i4[::1], i8, i4[::1]))(i8, i8, i8, i4[::1], i8, i8, b1, i8[::1])")
def rise(tree: Any, assertions: Any, e: Any, changed: Any, sign: Any, stop: Any, own: Any, work: Any) -> Any:
    return carry(as_int64(tree), as_int64(assertions), e, changed, sign, stop, own, work)


@kernel("void(i8, i8, i8, i4[::1], i8, i8[::1])")
def change_unseen(tree: Any, assertions: Any, e: Any, slots: Any, sign: Any, work: Any) -> None:
    """Inserts or deletes tuples of node e, with all consequences, without reporting the tuples that change."""
    t, checks = as_int64(tree), as_int64(assertions)
    node, way, own = np.int64(e), np.int64(sign), True
    if sign > 0:
        members, tuples = slots, enter_level(t, checks, e, slots)
    else:
        members, tuples = find_members(t, e, slots)
    while node >= 0 and tuples.size > 0:
        node, way, tuples, _, _ = carry(t, checks, node, tuples, way, np.int64(-1), own, work)
        own = False
    if sign < 0:
        go_out(t, e, members)


@kernel("i4[::1](i8, i8, i4[::1])")
def live_parents(tree: Any, c: Any, flipped: Any) -> Any:
    """The live parents of node c under flipped keys, or among flipped parents on an edge with a comparison."""
    t = as_int64(tree)
    status = status_of(t, parent_of(t, c))
    alone = keyed_by_slot(t, c) or compares(t, c)
    out = np.empty(16, np.int32)
    n = 0
    for j in range(flipped.size):
        s = np.int64(flipped[j])
        if not alone:
            s = head_of(keys_of(t, c), s, PARENT_HEAD)
        while s >= 0 and status[s] == LIVE:
            out = append(out, n, s)
            n += 1
            s = np.int64(-1) if alone else next_in(parent_links_of(t, c), s)
    return out[:n]
