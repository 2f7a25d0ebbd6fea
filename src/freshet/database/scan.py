"""A query over one table or view: rows are looked up or enumerated, filtered, computed, sorted, limited.

Law: a row is in the answer exactly when all conditions hold on it. If the conditions fix the columns of a key, only the
rows with that key are read, otherwise all rows. If LIMIT has no order, or the rows already have it, enumeration ends
with the last row needed; if they are sorted first, no more of them are held than needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from freshet.budget import hold, look
from freshet.database.lookup import key_row
from freshet.engine.maintained import Maintained
from freshet.engine.sorted import first_places, sorted_places, whole
from freshet.engine.table import Table
from freshet.logical.query import AnyQuery, Field, Query, Sorted, TableSchema, TopK
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter
from freshet.scalar.expression import Call, ColumnRef, Expression, Literal, SortKey
from freshet.scalar.types import Type
from freshet.state.rows import repeated
from freshet.state.strings import StringPool

_BATCH = 65_536

Reader = Callable[[ColumnRef], Column]


@dataclass(frozen=True, slots=True)
class Scan:
    """`outputs` are the selected columns, followed by those that only `order` reads. `limit`: None means all rows."""

    source: TableSchema
    conditions: tuple[Expression, ...]
    outputs: tuple[Expression, ...]
    fields: tuple[Field, ...]
    order: tuple[SortKey, ...]
    offset: int
    limit: int | None

    @property
    def shown(self) -> int:
        return len(self.fields)

    def of_table(self, table: Table) -> Iterator[list[Column]]:
        """The answer over a stored table, whose rows are looked up by its primary key."""
        key = self._fixed(self.source.primary_key, table.pool)
        if key is not None:
            slots = np.empty(0, np.int32) if len(key) == 0 else table.tuples.find(key)
            return self.answer(self._of_slots(table, slots[slots >= 0]))
        return self.answer(self._of_slots(table, table.tuples.slots()))

    def of_view(self, view: Maintained, pool: StringPool) -> Iterator[list[Column]]:
        """The answer over a view, whose rows are looked up by its keys and indexes."""
        for finder in view.finders():
            key = self._fixed(finder.columns, pool)
            if key is not None:
                rows = finder.find(key) if len(key) else []
                return self.answer(self._of_columns(rows))
        ordered = view.unordered if self.order else view.batches
        return self.answer(part for columns in ordered(self._at_a_time()) for part in self._of_columns(columns))

    def _at_a_time(self) -> int:
        """Rows to enumerate at a time: no more than needed, if every row is in the answer."""
        if self.order or self.conditions or self.limit is None:
            return _BATCH
        return max(1, min(self.offset + self.limit, _BATCH))

    def _fixed(self, columns: Sequence[int], pool: StringPool) -> Any:
        """The key that the conditions fix, as one row of lanes; no row if no row can have it, None if they fix no
        key."""
        if not columns:
            return None
        fixed = equalities(self.conditions)
        if any(c not in fixed for c in columns):
            return None
        types = [fixed[c].type for c in columns]
        key = key_row(types, [fixed[c].value for c in columns], pool)
        return np.empty((0, 1), np.int64) if key is None else key

    # Rows --------------------------------------------------------------------------------------------------------

    def _of_slots(self, table: Table, slots: Any) -> Iterator[list[Column]]:
        step = self._at_a_time()
        for start in range(0, len(slots), step):
            look()
            part = slots[start : start + step]
            passed = part[evaluate_filter(self.conditions, table.reader(part), len(part))]
            if not len(passed):
                continue
            columns = [evaluate(o, table.reader(passed), len(passed)) for o in self.outputs]
            if table.weights is None or not table.counted:
                yield columns
                continue
            for places in repeated(table.weights.data[passed], _BATCH):
                yield [c.take(places) for c in columns]

    def _of_columns(self, columns: Sequence[Column]) -> Iterator[list[Column]]:
        rows = len(columns[0]) if columns else 0
        holds = evaluate_filter(self.conditions, lambda c: columns[c.column], rows)
        kept = int(np.count_nonzero(holds))
        if not kept:
            return
        if kept < rows:
            columns = [c.take(holds) for c in columns]
        yield [evaluate(o, lambda c: columns[c.column], kept) for o in self.outputs]

    # Order and LIMIT -----------------------------------------------------------------------------------------------

    def answer(self, parts: Iterator[list[Column]]) -> Iterator[list[Column]]:
        """The answer from the outputs of rows that satisfy the conditions."""
        last = None if self.limit is None else self.offset + self.limit
        if last == 0 or self.limit == 0:
            return
        yield from self._cut(self._sorted(parts, last) if self.order else parts, last)

    def _cut(self, parts: Iterator[list[Column]], last: int | None) -> Iterator[list[Column]]:
        """The rows at the positions from `offset` up to `last`; no part beyond these is requested."""
        seen = 0
        for columns in parts:
            rows = len(columns[0])
            begin, end = max(self.offset - seen, 0), rows if last is None else min(last - seen, rows)
            seen += rows
            if begin < end:
                places = np.arange(begin, end)
                yield [c if end - begin == rows else c.take(places) for c in columns[: self.shown]]
            if last is not None and seen >= last:
                return

    def _sorted(self, parts: Iterator[list[Column]], last: int | None) -> Iterator[list[Column]]:
        """Rows in order; if some are cut off, ties are broken by the selected columns, as in a view."""
        order = self.order
        if last is not None or self.offset:
            order += tuple(SortKey(i, False, True) for i in range(self.shown))
        held: list[list[Column]] = []
        rows = 0
        for columns in parts:
            hold(16 * len(columns) * len(columns[0]))
            held.append(columns)
            rows += len(columns[0])
            if last is not None and rows > 2 * max(last, _BATCH):
                held = [_first(held, order, last)]
                rows = len(held[0][0])
        if held:
            yield _first(held, order, last)


def _first(parts: Sequence[Sequence[Column]], order: Sequence[SortKey], last: int | None) -> list[Column]:
    columns = [whole([part[i] for part in parts]) for i in range(len(parts[0]))]
    places = sorted_places(columns, order) if last is None else first_places(columns, order, last)
    return [c.take(places) for c in columns]


def equalities(conditions: Sequence[Expression]) -> dict[int, Literal]:
    """The value that each column must equal, if equal values have equal lanes."""
    equal: dict[int, Literal] = {}
    for condition in conditions:
        if isinstance(condition, Call) and condition.name == "eq":
            for column, value in (condition.args, condition.args[::-1]):
                if isinstance(column, ColumnRef) and isinstance(value, Literal) and value.value is not None:
                    if _same_lanes(column.type, value.type):
                        equal[column.column] = value
    return equal


def _same_lanes(column: Type, value: Type) -> bool:
    """Padded text is compared without its trailing blanks."""
    if column.name == "STRING" and value.name == "STRING":
        return not (column.char or value.char)
    return column == value


def scan_of(query: AnyQuery) -> Scan | None:
    """The query as a scan, if it is one."""
    order: tuple[SortKey, ...] = ()
    offset, limit, select = 0, None, query
    if isinstance(query, Sorted):
        order, select = query.order, query.source
    elif isinstance(query, TopK):
        if query.partition or query.ties:
            return None
        order, offset, limit, select = query.order, query.offset, query.limit, query.source
    if not isinstance(select, Query) or select.grouping is not None or select.distinct:
        return None
    source = select.relations[0].source if len(select.relations) == 1 else None
    if not isinstance(source, TableSchema) or select.block.relations != (0,) or select.block.arms:
        return None
    conditions = (*select.block.predicates, *select.where)
    return Scan(source, conditions, select.outputs, query.fields, order, offset, limit)
