"""Queries that are asked once: a view made, read and thrown away."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from freshet.budget import given, hold
from freshet.database.access import Access
from freshet.database.aside import Reading, read
from freshet.database.reading import BATCH, as_schema
from freshet.engine.core import tables_of
from freshet.engine.maintained import Outlet
from freshet.engine.operators import maintain
from freshet.engine.table import Table
from freshet.errors import ChangeError, EvaluationError
from freshet.logical.query import AnyQuery
from freshet.plans import Plan, build_plan
from freshet.scalar.arrow import to_batches
from freshet.sql.parse import bind_all
from freshet.sql.source import Statement
from freshet.state.arena import Arena
from freshet.state.strings import StringPool


class Asking:
    def __init__(self, access: Access) -> None:
        self._access, self._state = access, access.state

    def ask(self, statement: Statement) -> pa.Table:
        """A statement that changes nothing; it is bound to what there is when it is answered."""

        def begin() -> Reading[pa.Table]:
            self._access.check_open()
            (query,) = bind_all([statement], self._state.catalog)
            assert isinstance(query, AnyQuery)
            return self._asking(query)

        return read(self._state, begin)

    def answer(self, query: AnyQuery) -> pa.Table:
        """The answer to a query that is part of a change."""
        return read(self._state, lambda: self._asking(query))

    def _asking(self, query: AnyQuery) -> Reading[pa.Table]:
        plan, core = Plan("", build_plan(query, self._state.row_counts())), self._state.core
        return Reading(
            sorted(tables_of(plan.root)),
            None,
            lambda: self._answered(plan, core.tables, core.pool),
            lambda aside: self._answered(plan, aside.core.tables, aside.core.pool),
        )

    def _answered(self, plan: Plan, tables: Mapping[str, Table], pool: StringPool) -> pa.Table:
        memory = self._state.memory
        with memory.lend():
            arena, operator = Arena(memory=memory), None
            try:
                operator = maintain(arena.scope("query"), plan.root, tables, pool, Outlet(open=False))
                operator.load([tables[n] for n in sorted(tables_of(plan.root))])
                schema, batches = as_schema(plan.root.fields), list[pa.RecordBatch]()
                for columns in operator.batches(BATCH):
                    for batch in to_batches(columns, schema):
                        given(batch.num_rows)
                        hold(batch.nbytes)
                        batches.append(batch)
                return pa.Table.from_batches(batches, schema)
            except EvaluationError as e:
                remedy = "correct the rows, or guard the expression"
                raise ChangeError(f"the query has no answer: {e.reason}; {remedy}") from e
            except SystemError as e:  # how numba gives an exception that a signal handler has raised
                raise (e.__cause__ or e) from None
            finally:
                if operator is not None:
                    operator.close()
                arena.release()
