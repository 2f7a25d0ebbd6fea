"""Lifespans of tuples in an update sequence, and how many of them fit into one another. A tuple lives from its insert
to its delete; both ends are moments of the sequence, or before its first or after its last change. The largest number
of disjoint intervals inside a given one is found greedily, always taking the one that ends first; `Packing` computes
those steps for all intervals at once, in powers of two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.change_type import CHANGE_TYPE, WEIGHT, ChangeType, read_change_types, whole_weights
from freshet.errors import ChangeError
from freshet.state.arrays import Int64s


@dataclass(frozen=True, slots=True)
class Lifespans:
    """Closed intervals of moments: 0 is before all changes, `last` after all of them."""

    begin: Int64s
    end: Int64s

    def __len__(self) -> int:
        return len(self.begin)


NONE = Lifespans(np.empty(0, np.int64), np.empty(0, np.int64))


def lifespans(stream: Any, pauses: Sequence[int] = ()) -> tuple[dict[str, Lifespans], int]:
    """The lifespans of each table's tuples, and the number of changes. A row that occurs several times lives from its
    first copy to its last; one that is removed before it is inserted existed from the start. `pauses`: moments to leave
    free after each transaction, for other changes."""
    if isinstance(stream, (pa.Table, pa.RecordBatch)):
        whole = pa.Table.from_batches([stream]) if isinstance(stream, pa.RecordBatch) else stream
        return _of_table(whole)
    rows: dict[str, list[pa.Table]] = {}
    moments: dict[str, list[Int64s]] = {}
    signs: dict[str, list[Int64s]] = {}
    now = 0
    for i, transaction in enumerate(transactions_of(stream)):
        parts = {str(name).lower(): changes_of(given, str(name)) for name, given in transaction.items()}
        for sign in (-1, 1):  # as in the engine: deletes come first
            for name, (table, weights) in parts.items():
                chosen = np.flatnonzero(np.sign(weights) == sign)
                rows.setdefault(name, []).append(table.take(chosen))
                moments.setdefault(name, []).append(now + 1 + np.arange(len(chosen), dtype=np.int64))
                signs.setdefault(name, []).append(weights[chosen])
                now += len(chosen)
        now += pauses[i] if pauses else 0
    lives = {
        name: spans(
            identity(pa.concat_tables(rows[name])), np.concatenate(moments[name]), np.concatenate(signs[name]), now
        )
        for name in rows
    }
    return lives, now - sum(pauses)


def transactions_of(stream: Any) -> Iterator[Mapping[str, Any]]:
    for transaction in [stream] if isinstance(stream, Mapping) else stream:
        if not isinstance(transaction, Mapping):
            raise ChangeError(f"a transaction is a {type(transaction).__name__}; give dicts of table name to rows")
        yield transaction


def _of_table(table: pa.Table) -> tuple[dict[str, Lifespans], int]:
    rows, weights = changes_of(table, "")
    moments = 1 + np.arange(rows.num_rows, dtype=np.int64)
    return {"": spans(identity(rows), moments, weights, rows.num_rows)}, rows.num_rows


def changes_of(given: Any, name: str) -> tuple[pa.Table, Int64s]:
    """Rows without the column that says what they do, and their weights."""
    table = as_arrow(given)
    weights = np.ones(table.num_rows, np.int64)
    if WEIGHT in table.column_names and CHANGE_TYPE in table.column_names:
        raise ChangeError(f"rows have both {WEIGHT} and {CHANGE_TYPE}; keep one", name or None)
    if WEIGHT in table.column_names:
        weights = whole_weights(table.column(WEIGHT).combine_chunks(), name or None)
    elif CHANGE_TYPE in table.column_names:
        whole = [kind for kind in ChangeType if kind.names_removed_rows]
        weights = read_change_types(table.column(CHANGE_TYPE).combine_chunks(), name or None, among=whole).signs
    return table.drop_columns([c for c in (WEIGHT, CHANGE_TYPE) if c in table.column_names]), weights


def as_arrow(given: Any) -> pa.Table:
    """Rows in any of the forms `apply` takes."""
    if isinstance(given, pa.Table):
        return given
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    return pa.table(given) if hasattr(given, "__arrow_c_stream__") else pa.Table.from_pylist(list(given))


def identity(rows: pa.Table) -> Int64s:
    """A number for each row, equal where all values are."""
    numbers = np.zeros(rows.num_rows, np.int64)
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        try:
            codes = column.combine_chunks().dictionary_encode(null_encoding="encode")
        except pa.ArrowNotImplementedError:
            raise ChangeError(
                f"column {name} is {column.type}, by which rows cannot be distinguished; leave it out"
            ) from None
        indices = codes.indices if isinstance(codes, pa.DictionaryArray) else codes.combine_chunks().indices
        _, numbers = np.unique(numbers * (len(rows) + 1) + indices.to_numpy(), return_inverse=True)
    return numbers.astype(np.int64)


def spans(rows: Int64s, moments: Int64s, weights: Int64s, changes: int) -> Lifespans:
    """Where the number of copies of each row is above zero."""
    order = np.lexsort((moments, rows))
    rows, moments, weights = rows[order], moments[order], weights[order]
    if not len(rows):
        return Lifespans(rows, rows)
    first = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
    group = np.repeat(np.arange(len(first)), np.diff(np.r_[first, len(rows)]))
    total = np.cumsum(weights)
    held = total - (total[first] - weights[first])[group]
    initially = np.maximum(0, -np.minimum.reduceat(held, first))  # copies that must have existed from the start
    held += initially[group]
    before = held - weights
    last = np.r_[first[1:], len(rows)] - 1
    begins = (before <= 0) & (held > 0)
    ends = (before > 0) & (held <= 0)
    begin_row = np.r_[np.flatnonzero(initially > 0), group[begins]]
    begin = np.r_[np.zeros(int((initially > 0).sum()), np.int64), moments[begins]]
    end_row = np.r_[group[ends], np.flatnonzero(held[last] > 0)]
    end = np.r_[moments[ends], np.full(int((held[last] > 0).sum()), changes + 1)]
    by_begin, by_end = np.lexsort((begin, begin_row)), np.lexsort((end, end_row))
    return Lifespans(begin[by_begin], end[by_end])


def joined(parts: list[Lifespans]) -> Lifespans:
    if not parts:
        none = np.empty(0, np.int64)
        return Lifespans(none, none)
    return Lifespans(np.concatenate([p.begin for p in parts]), np.concatenate([p.end for p in parts]))


# Packing ----------------------------------------------------------------------------------------------------------


class Packing:
    """`steps[k][p]`: the moment after 2^k disjoint intervals, taken greedily from moment p on."""

    def __init__(self, spans: Lifespans, last: int) -> None:
        self.never = last + 2
        first_end = np.full(self.never + 1, self.never, np.int64)
        np.minimum.at(first_end, spans.begin, spans.end)
        step = np.minimum(np.minimum.accumulate(first_end[::-1])[::-1] + 1, self.never)
        step[self.never] = self.never
        self.steps = [step]
        while len(self.steps) < max(1, len(spans)).bit_length():
            self.steps.append(self.steps[-1][self.steps[-1]])

    def inside(self, spans: Lifespans) -> Int64s:
        """The largest number of disjoint intervals inside each of the given ones."""
        at, count = spans.begin.copy(), np.zeros(len(spans), np.int64)
        for k in reversed(range(len(self.steps))):
            further = self.steps[k][at]
            fits = (further < self.never) & (further - 1 <= spans.end)
            at[fits] = further[fits]
            count[fits] += 1 << k
        return count
