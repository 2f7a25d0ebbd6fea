"""Changes by key and in sequence, turned into whole-row changes on the one shard that keeps the key.

The table is stored with the sequence of each row's last change, and beside it stand the keys that are gone, with the
sequence of their removal. A change with a lower sequence than its key's is late: something newer was applied already,
so it is ignored. Of the keys that are gone the latest are remembered, as many as there are rows, and at least
`LEAST_GONE`.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from freshet.arrow import to_arrow
from freshet.changes import SIGNS
from freshet.column import Int64s
from freshet.engine.lanes import pack, unpack
from freshet.engine.table import Table
from freshet.errors import ChangeError
from freshet.spark.block import Signed, joined
from freshet.spark.job import Normalized
from freshet.state.arena import Arena
from freshet.state.enumeration import consolidate
from freshet.state.tuples import Slots, Tuples

LEAST_GONE = 10_000
_NEVER = np.iinfo(np.int64).min
_UPSERT = list(SIGNS).index("upsert")

logger = logging.getLogger("freshet.spark")


@dataclass(slots=True)
class Keyed:
    """A table kept by key: its rows and the keys that are gone, each with the sequence as last column."""

    known: Normalized
    table: Table
    gone: Table


@dataclass(slots=True)
class Whole:
    """What keyed changes do: to the stored rows, to the keys that are gone, and, without sequence, to the table."""

    stored: Signed
    gone: Signed
    passed: Signed


def normalize(keyed: Keyed, rows: Signed, refused: dict[int, str] | None = None) -> Whole:
    """The last two columns of the rows say what each does (its place in KINDS) and when; within one moment removals
    come first. Bad ones are added to `refused`, row and reason; without it they are errors."""
    table, gone = keyed.table, keyed.gone
    kinds, moments = rows.columns[-2].data, rows.columns[-1].data
    columns = [*rows.columns[:-2], rows.columns[-1]]
    lanes = pack([columns[i] for i in table.order], table.pool, len(rows))
    gone_lanes = pack([columns[i] for i in (*table.primary_key, -1)], gone.pool, len(rows))
    slots, missed = table.tuples.find(lanes), gone.tuples.find(gone_lanes)

    late = moments < np.maximum(_moments(table, slots), _moments(gone, missed))
    if late.any():
        logger.info("freshet: %s late changes of %s are ignored", int(late.sum()), keyed.known.table)
        return _without(keyed, rows, np.flatnonzero(~late), refused)

    width = table.tuples.key_lanes
    keys = Tuples(Arena().scope("keys"), width).add(np.ascontiguousarray(lanes[:, :width]))
    adds = np.array(list(SIGNS.values()), np.int64)[kinds] > 0
    order = np.lexsort((np.arange(len(rows)), adds, moments, keys))
    starts = np.ones(len(rows), np.bool_)
    starts[1:] = keys[order][1:] != keys[order][:-1]
    ends = np.roll(starts, -1)
    there = np.where(starts, slots[order] >= 0, np.roll(adds[order], 1))
    bad = (adds[order] & (kinds[order] != _UPSERT) & there) | (~adds[order] & ~there)
    if bad.any():
        if refused is None:
            row = int(order[bad].min())
            raise _refusal(keyed, lanes[row], bool(adds[row]), row)
        for row in order[bad].tolist():
            refused[row] = _refusal(keyed, lanes[row], bool(adds[row]), row).reason
        # Without them every change finds the table as it did: a refused one leaves its key as it was.
        return _without(keyed, rows, np.sort(order[~bad]), None)

    old, new = order[starts & (slots[order] >= 0)], order[ends & adds[order]]
    stored = _change(table, table.tuples.lanes.data[slots[old]], lanes[new])
    back, left = order[starts & (missed[order] >= 0)], order[ends & ~adds[order]]
    ended = _change(gone, gone.tuples.lanes.data[missed[back]], gone_lanes[left])
    return Whole(stored, _trimmed(keyed, ended, len(new) - len(old)), _without_sequence(stored, table))


def _without(keyed: Keyed, rows: Signed, kept: Int64s, refused: dict[int, str] | None) -> Whole:
    """The same for some of the rows."""
    own: dict[int, str] | None = None if refused is None else {}
    found = normalize(keyed, rows.take(kept), own)
    if refused is not None and own is not None:
        refused.update({int(kept[row]): reason for row, reason in own.items()})
    return found


def _moments(table: Table, slots: Slots) -> Int64s:
    """The sequence of each row's last change; before all others where there is no row."""
    found: Int64s = np.where(slots >= 0, table.columns(np.maximum(slots, 0))[-1].data, _NEVER)
    return found


def _change(table: Table, old: Int64s, new: Int64s) -> Signed:
    """Rows that go and rows that come, as columns, what is equal in both left out."""
    lanes, weights = np.concatenate([old, new]), np.repeat(np.array([-1, 1]), [len(old), len(new)])
    chosen = np.empty(len(weights), np.int64)
    chosen = chosen[: consolidate(lanes, weights, chosen)]
    found = unpack(lanes[chosen], table.types, table.pool)
    return Signed([found[table.place[i]] for i in range(len(table.fields))], weights[chosen])


def _without_sequence(rows: Signed, table: Table) -> Signed:
    """The change of the table itself: a row that only got another sequence did not change."""
    columns, weights = rows.columns[:-1], rows.weights.copy()
    chosen = np.empty(len(rows), np.int64)
    chosen = chosen[: consolidate(pack(columns, table.pool, len(rows)), weights, chosen)]
    return Signed([c.take(chosen) for c in columns], weights[chosen])


def _trimmed(keyed: Keyed, change: Signed, more: int) -> Signed:
    """The change of the keys that are gone, with the oldest forgotten when there are too many."""
    gone = keyed.gone
    most = max(keyed.table.tuples.live + more, LEAST_GONE)
    count = gone.tuples.live + int(change.weights.sum())
    if count <= most + most // 4:
        return change
    leaving = change.take(np.flatnonzero(change.weights < 0))
    taken = gone.tuples.find(pack(leaving.columns, gone.pool, len(leaving)))
    held = gone.columns(np.setdiff1d(gone.tuples.slots(), taken))
    oldest = np.argsort(held[-1].data, kind="stable")[: count - most]
    forgotten = Signed([c.take(oldest) for c in held], np.full(len(oldest), -1, np.int64))
    return joined([change, forgotten], gone.types)


def _refusal(keyed: Keyed, lanes: Int64s, twice: bool, row: int) -> ChangeError:
    table = keyed.table
    stored = unpack(lanes.reshape(1, -1), table.types, table.pool)
    key = ", ".join(
        f"{table.fields[i].name}={to_arrow(stored[table.place[i]])[0].as_py()!r}" for i in table.primary_key
    )
    if twice:
        reason = f"a second row with primary key ({key}); remove the first, or send it as an upsert"
    else:
        reason = f"deletes primary key ({key}), which the table does not hold; delete only what was inserted"
    return ChangeError(reason, keyed.known.table, row)
