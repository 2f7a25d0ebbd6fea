"""Rows that nested queries change while an update sequence runs: tuples of the join trees that read them.

They can only be found by executing the sequence, so the plan is run over it, and each select records the changes of the
queries below it. These changes come at the end of a transaction, each at a moment of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from freshet.database.changes import resolve
from freshet.database.lifespans import Lifespans, changes_of, spans, transactions_of
from freshet.engine.maintained import Maintained
from freshet.engine.operators import maintain
from freshet.engine.query import Select
from freshet.engine.table import RowChange, Table
from freshet.logical.query import TableSchema
from freshet.plans.model import AnyPlan, QueryPlan, SortPlan, inputs, schemas
from freshet.state.arena import Arena
from freshet.state.arrays import Int64s
from freshet.state.rows import Rows
from freshet.state.strings import StringPool

#: A select, identified by the path of input numbers that leads to it, and one of its relations.
Place = tuple[tuple[int, ...], int]

#: For each select and nested query: moment, row and weight of each change.
NestedChanges = dict[tuple[int, int], list[tuple[int, Int64s, int]]]


@dataclass
class NestedRows:
    """`pauses`: how many rows nested queries change after each transaction. `spans`: the lifespans of these rows."""

    pauses: list[int] = field(default_factory=list)
    spans: dict[Place, Lifespans] = field(default_factory=dict)


def fed_rows(stream: Any, plan: AnyPlan) -> NestedRows:
    """The fed rows of a sequence that can be read again, if some join of the plan reads a query."""
    if isinstance(stream, (pa.Table, pa.RecordBatch)) or not any(map(_joins_queries, _plans(plan))):
        return NestedRows()
    return _Run(plan).all(stream)


def _plans(plan: AnyPlan) -> Iterator[AnyPlan]:
    yield plan
    for _, below in inputs(plan):
        yield from _plans(below)


def _joins_queries(plan: AnyPlan) -> bool:
    return isinstance(plan, QueryPlan) and len(plan.nodes) > 1 and any(inputs(plan))


class _Run:
    def __init__(self, plan: AnyPlan) -> None:
        arena = Arena()
        pool = StringPool(arena.scope("text"))
        self.schemas = {s.name.lower(): s for s in schemas(plan)}
        self.tables = {
            name: Table(arena.scope(f"table{i}"), s.fields, s.primary_key, pool)
            for i, (name, s) in enumerate(self.schemas.items())
        }
        self.kept = maintain(arena.scope("view"), plan, self.tables, pool)
        self.kept.load([])
        self.nested_changes: NestedChanges = {}
        self.places: dict[Place, tuple[int, int]] = {}
        self.now = 0
        self._listen(plan, self.kept, ())

    def _listen(self, plan: AnyPlan, kept: Maintained, path: tuple[int, ...]) -> None:
        if isinstance(plan, SortPlan):
            (source,) = kept.below
            return self._listen(plan.source, source, (*path, 0))
        queries = kept.reads or kept.below
        if isinstance(plan, QueryPlan) and isinstance(kept, Select):
            kept.listener = lambda query, rows: self._record((id(kept), id(query)), rows)
            nested = [i for i, r in enumerate(plan.relations) if not isinstance(r.source, TableSchema)]
            for relation, query in zip(nested, queries, strict=True):
                self.places[path, relation] = (id(kept), id(query))
        for i, ((_, below), query) in enumerate(zip(inputs(plan), queries, strict=True)):
            self._listen(below, query, (*path, i))

    def _record(self, place: tuple[int, int], rows: Rows) -> None:
        for at in np.argsort(rows.weights > 0, kind="stable"):  # deletes come first
            self.now += 1
            self.nested_changes.setdefault(place, []).append((self.now, rows.lanes[at].copy(), int(rows.weights[at])))

    def all(self, stream: Any) -> NestedRows:
        transactions = [
            {str(name).lower(): rows for name, rows in t.items() if str(name).lower() in self.tables}
            for t in transactions_of(stream)
        ]
        sizes = [sum(len(changes_of(rows, name)[1]) for name, rows in t.items()) for t in transactions_of(stream)]
        self._apply({name: _initial(name, transactions) for name in self.tables})
        self.nested_changes, self.now = _begun(self.nested_changes), 0
        pauses = []
        for transaction, size in zip(transactions, sizes, strict=True):
            self.now += size
            before = self.now
            self._apply(transaction)
            pauses.append(self.now - before)
        return NestedRows(
            pauses, {place: self._spans(self.nested_changes.get(key, [])) for place, key in self.places.items()}
        )

    def _apply(self, transaction: dict[str, Any]) -> None:
        changes = [
            (self.tables[name], resolve(self.tables[name], self.schemas[name], rows))
            for name, rows in transaction.items()
            if len(rows)
        ]
        for table, change in changes:
            self._take(table, change)
        for table, change in changes:
            slots = table.add(change)
            if len(slots):
                self.kept.insert(table, slots)
        self.kept.finish()

    def _take(self, table: Table, change: RowChange) -> None:
        if len(change.removed):
            self.kept.remove(table, change.removed)
            table.remove(change)
        if len(change.changed):
            self.kept.reweigh(table, change.changed, table.reweigh(change))

    def _spans(self, nested_changes: list[tuple[int, Int64s, int]]) -> Lifespans:
        if not nested_changes:
            return spans(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int64), self.now)
        _, ids = np.unique(np.stack([row for _, row, _ in nested_changes]), axis=0, return_inverse=True)
        moments, weights = (np.array([h[i] for h in nested_changes], np.int64) for i in (0, 2))
        return spans(ids.reshape(-1).astype(np.int64), moments, weights, self.now)


def _begun(nested_changes: NestedChanges) -> NestedChanges:
    """The rows before the sequence began, at moment 0."""
    return {place: [(0, row, weight) for _, row, weight in rows] for place, rows in nested_changes.items()}


def _initial(name: str, transactions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows that the sequence removes before it inserts them: they existed from the start."""
    held: Counter[tuple[Any, ...]] = Counter()
    least: dict[tuple[Any, ...], int] = {}
    columns: list[str] = []
    for transaction in transactions:
        if name in transaction:
            table, weights = changes_of(transaction[name], name)
            columns = table.column_names
            values = zip(*(table.column(c).to_pylist() for c in columns), strict=True)
            for row, weight in sorted(zip(values, weights.tolist(), strict=True), key=lambda change: change[1]):
                held[row] += weight
                least[row] = min(least.get(row, 0), held[row])
    return [dict(zip(columns, row, strict=True), _weight=-low) for row, low in least.items() if low < 0]
