"""A select over a single query: the rows of that query pass through, and none are stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from freshet.engine.maintained import Maintained
from freshet.plans.model import QueryPlan
from freshet.scalar.evaluate import evaluate_filter
from freshet.scalar.expression import ColumnRef
from freshet.scalar.lanes import pack, unpack
from freshet.state.rows import Rows, added_up
from freshet.state.strings import StringPool


class Passing:
    """`wanted`: the columns that are passed on; only rows that satisfy the filter pass."""

    def __init__(self, query: Maintained, plan: QueryPlan, wanted: Sequence[ColumnRef], pool: StringPool) -> None:
        self.query, self.pool = query, pool
        self.filter, self.places = plan.nodes[0].filter, [c.column for c in wanted]

    def rows(self, rows: Rows) -> Rows:
        columns = unpack(rows.lanes, self.query.types, self.pool)
        weights = rows.weights
        if self.filter:
            holds = evaluate_filter(self.filter, lambda c: columns[c.column], len(rows))
            columns, weights = [c.take(holds) for c in columns], weights[holds]
        return Rows(pack([columns[i] for i in self.places], self.pool, len(weights)), weights)

    def answer(self) -> Iterator[Rows]:
        for rows in self.query.packed():
            yield self.rows(rows)

    def count(self) -> int:
        return sum(added_up(rows.weights) for rows in self.answer()) if self.filter else self.query.count()
