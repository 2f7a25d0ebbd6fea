"""Converts changes by key with a sequence to whole-row changes, on the one shard that stores the key.

Law: the greatest of all changes of a key determines its row: by sequence; at the same sequence a row over a removal; of
two rows the greater one, column by column in the order of the table, NULL least. The greatest of a set depends neither
on the order in which its members arrive nor on how often each arrives. So the shard stores, for every key it has ever
received, the greatest change so far: the row with its sequence, or, where it is a removal, the key with its sequence
(`gone`). It never forgets either, and a change that is not greater than the stored one is a no-op.

With `retain`, a row that has expired counts as a removal with its sequence, so the shard keeps the key in place of the
row. Of rows with the same sequence the one that expires last is the greatest, so that it does not matter either whether
another has expired when it comes.

It does not check whether a key existed before a change, because earlier changes may still arrive. An insert is an
upsert here, and a removal may precede what it removes.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from freshet.database.change_type import ChangeTypes
from freshet.engine.table import Table
from freshet.scalar.arrow import to_arrow
from freshet.scalar.column import Column
from freshet.scalar.lanes import pack, unpack
from freshet.scalar.types import STRING
from freshet.spark.block import Signed
from freshet.spark.clock import expired
from freshet.spark.job import Normalized
from freshet.state.arena import Arena
from freshet.state.arrays import Bools, Int64s
from freshet.state.enumeration import consolidate
from freshet.state.tuples import Slots, Tuples

_NEVER = np.iinfo(np.int64).min

logger = logging.getLogger("freshet.spark")


@dataclass(slots=True)
class Keyed:
    """A table stored by key: its rows and the deleted keys, each with the sequence as last column."""

    known: Normalized
    table: Table
    gone: Table


@dataclass(slots=True)
class NormalizedChanges:
    """The effect of keyed changes: on the stored rows, on the deleted keys, and, without sequence, on the table."""

    stored: Signed
    gone: Signed
    passed: Signed


def normalize(keyed: Keyed, rows: Signed, now: int | None = None) -> NormalizedChanges:
    """The last two columns of the rows are the code of their `ChangeType` and their sequence; `now`: the clock."""
    table, gone = keyed.table, keyed.gone
    adds, moments = ChangeTypes(rows.columns[-2].data).signs > 0, rows.columns[-1].data
    adds &= ~expired(table.retention, rows, now)
    over = np.empty(0, np.int32) if now is None else table.overdue(now)
    columns = [*rows.columns[:-2], rows.columns[-1]]
    lanes = pack([columns[i] for i in table.order], table.pool, len(rows))
    gone_lanes = pack([columns[i] for i in (*table.primary_key, -1)], gone.pool, len(rows))
    slots, missed = table.tuples.find(lanes), gone.tuples.find(gone_lanes)

    known = np.maximum(_moments(table, slots), _moments(gone, missed))
    if (late := int((moments < known).sum())) > 0:
        logger.info("freshet: %s late changes of %s are ignored", late, keyed.known.table)
    there = (slots >= 0) & ~np.isin(slots, over)
    conflicting = (moments == known) & adds & there
    conflicting[conflicting] = (lanes[conflicting] != table.tuples.lanes.data[slots[conflicting]]).any(axis=1)
    newer = (moments > known) | ((moments == known) & adds & ~there)

    # The remaining changes are compared with each other and with stored rows of the same sequence.
    chosen, held = np.flatnonzero(newer | conflicting), np.unique(slots[conflicting])
    lanes = np.concatenate([lanes[chosen], table.tuples.lanes.data[held]])
    gone_lanes = gone_lanes[chosen]
    adds = np.concatenate([adds[chosen], np.ones(len(held), np.bool_)])
    moments = np.concatenate([moments[chosen], _moments(table, held)])
    slots = np.concatenate([slots[chosen], held])
    missed = np.concatenate([missed[chosen], np.full(len(held), -1, missed.dtype)])
    best = _greatest(table, lanes, moments, adds)

    old, new = best[slots[best] >= 0], best[adds[best]]
    over = np.setdiff1d(over, slots[old])  # rows that expire, and are not replaced
    stored = _change(table, table.tuples.lanes.data[np.concatenate([slots[old], over])], lanes[new])
    back, left = best[missed[best] >= 0], best[~adds[best]]
    there_no_more = table.columns(over)
    keys = pack([there_no_more[i] for i in (*table.primary_key, -1)], gone.pool, len(over))
    ended = _change(gone, gone.tuples.lanes.data[missed[back]], np.concatenate([gone_lanes[left], keys]))
    return NormalizedChanges(stored, ended, _without_sequence(stored, table))


def _moments(table: Table, slots: Slots) -> Int64s:
    """The sequence of each row's last change; the least value if there is no row."""
    lane, _, _ = table.lane(len(table.fields) - 1)
    found: Int64s = np.where(slots >= 0, table.tuples.lanes.data[np.maximum(slots, 0), lane], _NEVER)
    return found


def _greatest(table: Table, lanes: Int64s, moments: Int64s, adds: Bools) -> Int64s:
    """The greatest change of each key."""
    width = table.tuples.key_lanes
    keys = Tuples(Arena().scope("keys"), width).add(np.ascontiguousarray(lanes[:, :width]))
    order = np.lexsort((adds, moments, keys))
    tied = (keys[order][1:] == keys[order][:-1]) & (moments[order][1:] == moments[order][:-1])
    tied &= adds[order][1:] & adds[order][:-1]
    if tied.any() and (lanes[order[1:][tied]] != lanes[order[:-1][tied]]).any():
        order = np.lexsort((_ranks(table, lanes), adds, moments, keys))
    last = np.ones(len(order), np.bool_)
    last[:-1] = keys[order][1:] != keys[order][:-1]
    return order[last]


def _ranks(table: Table, lanes: Int64s) -> Int64s:
    """The rank of each row by when it expires, then by its values in the order of the table's columns."""
    found = unpack(lanes, table.types, table.pool)
    values = [_sortable(found[table.place[i]]) for i in range(len(table.fields))]
    columns = [part for v in values for part in (v.is_valid(), v)]  # NULL first
    if table.retention is not None:
        time = values[table.retention.column]
        columns = [time.is_null(), time, *columns]  # rows without a time never expire
    named = pa.table(columns, [str(i) for i in range(len(columns))])
    ranks = np.empty(len(lanes), np.int64)
    ranks[np.asarray(pc.sort_indices(named, [(name, "ascending") for name in named.column_names]))] = np.arange(
        len(lanes)
    )
    return ranks


def _sortable(column: Column) -> pa.Array:
    """The values; texts for types that are stored as text."""
    if column.type.name == "STRING":
        column = Column(STRING, column.data, column.valid, None, column.pool)
    return to_arrow(column)


def _change(table: Table, old: Int64s, new: Int64s) -> Signed:
    """Deleted and inserted rows as columns, without rows that are equal in both."""
    lanes, weights = np.concatenate([old, new]), np.repeat(np.array([-1, 1]), [len(old), len(new)])
    chosen = np.empty(len(weights), np.int64)
    chosen = chosen[: consolidate(lanes, weights, chosen)]
    found = unpack(lanes[chosen], table.types, table.pool)
    return Signed([found[table.place[i]] for i in range(len(table.fields))], weights[chosen])


def _without_sequence(rows: Signed, table: Table) -> Signed:
    """The change of the table itself: a row with only a new sequence has not changed."""
    columns, weights = rows.columns[:-1], rows.weights.copy()
    chosen = np.empty(len(rows), np.int64)
    chosen = chosen[: consolidate(pack(columns, table.pool, len(rows)), weights, chosen)]
    return Signed([c.take(chosen) for c in columns], weights[chosen])
