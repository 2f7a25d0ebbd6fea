"""Contains the failure of a view: on a page, a query that has no answer or costs too much must not stop the others.

In a database a transaction that some view has no answer for is refused, since the rows may be at fault. On a page the
rows come from a stream and the queries from its visitors: the query is at fault, so the transaction is committed and
the view ends. After its failure the view ignores changes and has no answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence

from freshet.budget import Budget, unbudgeted
from freshet.engine.maintained import Maintained
from freshet.engine.table import Table
from freshet.engine.work import Work
from freshet.errors import EvaluationError, FreshetError, StateError
from freshet.scalar.column import Column
from freshet.state.arrays import Bools, Int64s
from freshet.state.rows import Rows, joined
from freshet.state.tuples import Slots

logger = logging.getLogger("freshet.web")


class Contained(Maintained):
    """`budget`: what the query may spend on one transaction."""

    def __init__(self, query: Maintained, budget: Budget) -> None:
        self.query, self.budget = query, budget
        self.failure: str | None = None
        self.scope = query.scope
        self.plan = query.plan
        self.pool = query.pool
        self.below, self.reads = query.below, query.reads
        self.steps = query.steps
        self.types = query.types
        self.width = query.width
        self.has_text = query.has_text
        self.delta_schema, self.no_delta, self.written = query.delta_schema, query.no_delta, query.written

    def _try(self, step: Callable[[], None]) -> None:
        if self.failure is not None:
            return
        try:
            with unbudgeted(), self.budget:  # only its own: the cost of others is not its fault
                step()
        except Exception as e:
            self.failure = reason_of(e)

    @property
    def relays(self) -> bool:
        return False

    def remove(self, table: Table, slots: Slots) -> None:
        self._try(lambda: self.query.remove(table, slots))

    def insert(self, table: Table, slots: Slots) -> None:
        self._try(lambda: self.query.insert(table, slots))

    def reweigh(self, table: Table, slots: Slots, before: Int64s) -> None:
        self._try(lambda: self.query.reweigh(table, slots, before))

    def finish(self) -> Rows:
        delta = joined([], self.width)

        def step() -> None:
            nonlocal delta
            delta = self.query.finish()

        self._try(step)
        self.budget.renew()
        return delta

    def batches(self, rows: int) -> Iterator[list[Column]]:
        self._check()
        return self.query.batches(rows)

    def unordered(self, rows: int) -> Iterator[list[Column]]:
        self._check()
        return self.query.unordered(rows)

    def count(self) -> int:
        self._check()
        return self.query.count()

    def _check(self) -> None:
        if self.failure is not None:
            raise StateError(f"the view has ended: {self.failure}")

    def load(self, tables: Sequence[Table]) -> None:
        self.query.load(tables)

    def close(self) -> None:
        self.query.close()

    def string_marks(self, marked: Bools) -> None:
        if self.failure is None:
            self.query.string_marks(marked)

    def statistics(self) -> list[tuple[int, int]]:
        return self.query.statistics()

    def work(self, counted: set[int] | None = None) -> Work:
        return self.query.work(counted)


def reason_of(error: Exception) -> str:
    """The reason shown for a failed view; errors that are not the fault of its query go to the log."""
    if isinstance(error, EvaluationError):
        return f"it has no answer: {error.reason}; guard the expression and create the view again"
    if isinstance(error, FreshetError):
        return str(error)
    if isinstance(error, MemoryError):
        return "the memory does not suffice for it; select less and create the view again"
    logger.error("a view failed", exc_info=error)
    return "something broke inside; the server's log says what"
