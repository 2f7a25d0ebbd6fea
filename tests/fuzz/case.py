"""One case: tables, a query, and transactions. After each the view and the sum of its deltas equal DuckDB's answer.

The view is made before the first rows or after some, and may move to another join tree between two transactions; at the
end a second one is made over all rows, and has the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import duckdb
import pyarrow as pa

import freshet
from freshet.plans import build_plan
from tests.fuzz.choices import Choices, shrunk
from tests.fuzz.dialect import for_duckdb
from tests.fuzz.grammar import Grammar
from tests.fuzz.tables import Transaction, random_tables, random_transaction
from tests.oracle import RunningSum, in_order, oracle_connection, same_bag
from tests.recase import CASES, recased


class NoOracleError(Exception):
    """DuckDB cannot answer."""


def expected(sql: str, tables: dict[str, pa.Table]) -> pa.Table:
    connection = oracle_connection()
    for name, table in tables.items():
        connection.register(name, table)
    try:
        return connection.execute(sql).to_arrow_table()
    except duckdb.Error as e:
        oracle_connection.cache_clear()
        raise NoOracleError(f"{type(e).__name__}: {e}") from e


@dataclass
class Outcome:
    kind: str  # agreed, refused, no oracle, failed
    why: str = ""
    sql: str = ""
    ddl: list[str] = field(default_factory=list)
    stream: list[Transaction] = field(default_factory=list)
    made: list[int] = field(default_factory=list)

    def told(self) -> str:
        rows = [f"  {number}: {tx.changes}" for number, tx in enumerate(self.stream)]
        return "\n".join([*(f"  {d};" for d in self.ddl), f"  {self.sql}", *rows, self.why])


def run_case(choices: Choices) -> Outcome:
    outcome = Outcome("agreed")
    try:
        _run(choices, outcome)
    except freshet.UnsupportedError as e:
        outcome.kind, outcome.why = "refused", e.reason
    except NoOracleError as e:
        outcome.kind, outcome.why = "no oracle", str(e)
    except Exception as e:  # whatever it is, the case failed, and is worth a shorter one
        outcome.kind, outcome.why = "failed", f"{type(e).__name__}: {e}"
    outcome.made = choices.made
    return outcome


def _run(choices: Choices, outcome: Outcome) -> None:
    tables = random_tables(choices)
    outcome.ddl = [t.ddl for t in tables]
    grammar = Grammar(choices, tables)
    sql = grammar.statement()
    oracle = for_duckdb(sql)
    if choices.chance(30):
        sql = recased(sql, choices.pick(CASES), choices.below(1_000))
    outcome.sql = sql
    db = freshet.connect()
    for ddl in outcome.ddl:
        db.execute(ddl)

    def change() -> freshet.Transaction:
        outcome.stream.append(random_transaction(choices, tables))
        return db.apply(outcome.stream[-1].arrow(tables))

    if choices.chance(50):
        change()
    view = db.create_view("v", sql)
    sums = RunningSum(view.to_arrow())
    for _ in range(2 + choices.below(4)):
        tx = change()
        answer = view.to_arrow()
        in_order(answer, grammar.order)
        same_bag(answer, expected(oracle, {t.name: t.arrow() for t in tables}))
        sums.add(tx.deltas["v"])
        sums.equals(answer)
        if choices.chance(30):
            _move(db, {t.name: (1.0, 0.0, 100.0)[choices.below(3)] for t in tables})
            sums.equals(view.to_arrow())
        assert view.count() == answer.num_rows, f"count() is {view.count()}, the answer has {answer.num_rows} rows"
    late = RunningSum(db.create_view("late", sql).to_arrow())
    late.equals(view.to_arrow())


def _move(db: freshet.Database, changes: dict[str, float]) -> None:
    """The view to the plan it would have for these numbers of changes."""
    view = db.view("v")
    plan = freshet.Plan(view.plan.sql, build_plan(db.catalog.views["v"], changes))
    if plan != view.plan:
        db._views.move("v", plan, "")
        assert view.following.chosen.failed is None, view.following.chosen.failed


def shortest(failed: Outcome, tries: int = 300) -> Outcome:
    """The smallest case found that fails like this one."""

    def fails(made: list[int]) -> bool:
        found = run_case(Choices(made=made))
        return found.kind == "failed" and _sort_of(found) == _sort_of(failed)

    return run_case(Choices(made=shrunk(failed.made, fails, tries)))


def _sort_of(outcome: Outcome) -> str:
    return outcome.why.split(":")[0]
