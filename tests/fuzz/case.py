"""One case: tables, a query, and transactions. After each the view and the sum of its deltas equal DuckDB's answer, or
SQLite's if DuckDB has none or the other two disagree with it. If a value does not fit its type there, the transaction
is refused here. The view is created before the first rows or after some, and may switch to another plan between two
transactions. Views that have queries in common with it come and go meanwhile. At the end a second one is created over
all rows, with nothing in common, and has the same answer.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import sqlglot

import freshet
from freshet.database.db import inside
from freshet.plans import build_plan
from freshet.plans.build import Rewrites
from freshet.plans.document import MADE_WITH
from tests.fuzz import reading
from tests.fuzz.choices import Choices, shrunk
from tests.fuzz.grammar import BARE, Grammar
from tests.fuzz.question import NoOracleError, NoValueError, OraclesDifferError, Question
from tests.fuzz.tables import TableModel, Transaction, random_tables, random_transaction
from tests.oracle import RunningSum, in_order
from tests.recase import CASES, recased

PLANNING = 2.0  # seconds of processor time that a query may take to be planned


#: Sums of several columns of joined tables are checked by bounds that may lie further apart than any row's value.
MAY_NOT_FIT = "a value inside SUM may not fit"


@dataclass
class Outcome:
    kind: str  # agreed, refused, no oracle, oracles differ, failed
    why: str = ""
    sql: str = ""
    ddl: list[str] = field(default_factory=list)
    stream: list[Transaction] = field(default_factory=list)
    made: list[int] = field(default_factory=list)

    def report(self) -> str:
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
    except OraclesDifferError as e:
        outcome.kind, outcome.why = "oracles differ", str(e)
    except Exception as e:  # any error: the case failed, and is shrunk
        outcome.kind, outcome.why = "failed", f"{type(e).__name__}: {e}"
    outcome.made = choices.made
    return outcome


def _run(choices: Choices, outcome: Outcome) -> None:
    timed, tables = choices.chance(20), random_tables(choices)
    for table in tables if timed else ():
        table.columns.append(("t", "d"))
    outcome.ddl = [t.ddl for t in tables]
    grammar = Grammar(choices, tables)
    grammar.expressions.timed, grammar.expressions.python = timed, choices.chance(20)
    text = grammar.statement()
    sql, qualified = re.sub(rf"\w+{BARE}\.", "", text), text.replace(BARE, "")
    oracle = Question.of(qualified.replace("PY_", ""), tables)
    if choices.chance(30):
        sql = recased(sql, choices.pick(CASES), choices.below(1_000))
    outcome.sql = sql
    db = freshet.connect()
    for ddl in outcome.ddl:
        db.execute(ddl)
    db.create_function("py_abs", lambda x: pc.abs_checked(x.cast(pa.int64())), returns="BIGINT")
    db.create_function("py_upper", pc.utf8_upper, returns="STRING")
    _check_planning(sql, db.catalog)

    def change() -> freshet.Transaction | freshet.PendingTransaction | None:
        """A transaction; None if it is refused because a value does not fit."""
        before = {t.name: list(t.rows) for t in tables}
        outcome.stream.append(random_transaction(choices, tables))
        changes = outcome.stream[-1].arrow(tables)
        try:
            if choices.chance(20):
                _rolled_back(db, changes)
            if choices.chance(30):
                done = _in_steps(db, changes, lambda seen: oracle.check(seen, tables))
                if done is not None:
                    return done
            return db.apply(changes, deltas=not choices.chance(15))
        except freshet.ChangeError as e:
            try:
                oracle.answer(tables, schema)
            except NoValueError:
                pass
            else:
                if MAY_NOT_FIT not in str(e):
                    raise
            for t in tables:
                t.rows = before[t.name]
            return None

    def advance() -> freshet.Transaction:
        """The clock moves on, over the days that dates are of."""
        step = datetime.timedelta(hours=choices.pick((1, 24, 36, 29 * 24)))
        oracle.clock.time = max(oracle.clock.time, datetime.datetime(2023, 12, 31)) + step
        outcome.stream.append(Transaction({"clock": [((oracle.clock.time,), 1)]}))
        return db.advance(oracle.clock.time)

    view = db.create_view("v", sql)
    schema = view.to_arrow().schema
    if choices.chance(50):
        db.execute("DROP VIEW v")
        change()
        made = _made(db, sql, oracle, tables, schema)
        if made is None:
            return
        view = made
    if choices.chance(30):
        reading.index(choices, db)
    sums, alike = RunningSum(view.to_arrow()), Alike(choices, db, sql)
    for _ in range(2 + choices.below(4)):
        tx = advance() if timed and choices.chance(50) else change()
        if tx is None:
            continue
        answer = view.to_arrow()
        in_order(answer, grammar.order)
        oracle.check(answer, tables)
        if not len(tx.deltas):  # it was applied without
            sums = RunningSum(answer)
            alike.begin_again()
            continue
        sums.add(tx.deltas["v"])
        sums.equals(answer)
        alike.check(tx, sums, answer.num_rows)
        alike.come_and_go()
        if choices.chance(50):
            reading.check_reads(choices, db, answer)
        if choices.chance(30):
            _move(db, {t.name: (1.0, 0.0, 100.0)[choices.below(3)] for t in tables}, choices.pick(MADE_WITH))
            sums.equals(view.to_arrow())
        assert view.count() == answer.num_rows, f"count() is {view.count()}, the answer has {answer.num_rows} rows"
    inside(db).state.core.sharing.enabled = False
    late = RunningSum(db.create_view("late", sql).to_arrow())
    late.equals(view.to_arrow())
    for way in (reading.handing_over(), nullcontext()):
        with way:
            asked = db.query(sql)
        if _takes_any(sql):
            assert asked.num_rows == view.count(), f"a one-off query has {asked.num_rows} rows, not {view.count()}"
        else:
            late.equals(asked)
            in_order(asked, grammar.order)


def _takes_any(sql: str) -> bool:
    """Whether a one-off query may return other rows than the view: it has LIMIT or OFFSET, and no order."""
    query = sqlglot.parse_one(sql, dialect="spark").args
    return bool(query.get("limit") or query.get("offset")) and not query.get("order")


class Alike:
    """Views that read the case's query: the same once more, the number of its rows, and a join of it with itself."""

    FORMS = ("{}", "SELECT COUNT(*) AS n FROM ({}) AS x", "SELECT x.n FROM {0} AS x JOIN {0} AS y ON x.n = y.n")
    COUNT = "(SELECT COUNT(*) AS n FROM ({}) AS x)"

    def __init__(self, choices: Choices, db: freshet.Database, sql: str) -> None:
        self.choices, self.db, self.sql = choices, db, sql
        self.sums: dict[int, RunningSum] = {}

    def come_and_go(self) -> None:
        if not self.choices.chance(40):
            return
        form = self.choices.below(len(self.FORMS))
        if form in self.sums:
            del self.sums[form]
            self.db.execute(f"DROP VIEW alike{form}")
            return
        text = self.FORMS[form].format(self.COUNT.format(self.sql) if form == 2 else self.sql)
        try:
            view = self.db.create_view(f"alike{form}", text)
        except freshet.FreshetError:  # two columns of the same name, for example
            return
        self.sums[form] = RunningSum(view.to_arrow())

    def begin_again(self) -> None:
        """Called after a transaction without deltas."""
        for form in self.sums:
            self.sums[form] = RunningSum(self.db.view(f"alike{form}").to_arrow())

    def check(self, tx: Any, whole: RunningSum, rows: int) -> None:
        for form, total in self.sums.items():
            total.add(tx.deltas[f"alike{form}"])
            answer = self.db.view(f"alike{form}").to_arrow()
            total.equals(answer)
            if form == 0:
                whole.equals(answer)
            else:
                assert answer.to_pydict() == {"n": [rows]}, f"{answer.to_pydict()} of {rows} rows"


def _rolled_back(db: freshet.Database, changes: dict[str, pa.Table]) -> None:
    """A transaction that leaves no trace."""
    view = db.views.get("v")
    before = None if view is None else RunningSum(view.to_arrow())
    try:
        with db.transaction() as tx:
            for name, rows in changes.items():
                tx.apply({name: rows})
            raise InterruptedError
    except (InterruptedError, freshet.ChangeError):
        pass
    if view is not None and before is not None:
        before.equals(view.to_arrow())


def _in_steps(
    db: freshet.Database, changes: dict[str, pa.Table], check: Callable[[pa.Table], None]
) -> freshet.PendingTransaction | None:
    """The same transaction table by table, which reads its own writes, unlike other threads; None if some step has no
    value."""
    view = db.views.get("v")
    before = None if view is None else RunningSum(view.to_arrow())
    try:
        with db.transaction() as tx:
            for name, rows in changes.items():
                tx.apply({name: rows})
                if view is not None and before is not None:
                    before.equals(reading.seen_by_others(view))
            if view is not None:
                check(tx.query("SELECT * FROM v"))
    except freshet.ChangeError:
        return None
    return tx


def _made(
    db: freshet.Database, sql: str, oracle: Question, tables: list[TableModel], schema: pa.Schema
) -> freshet.View | None:
    """The view over existing rows; None if it is refused because a value does not fit."""
    try:
        return db.create_view("v", sql)
    except freshet.FreshetError as e:
        try:
            oracle.answer(tables, schema)
        except NoValueError:
            return None
        if MAY_NOT_FIT in str(e):
            return None
        raise


def _check_planning(sql: str, catalog: freshet.Catalog) -> None:
    start = time.process_time()
    freshet.plan(sql, catalog)
    took = time.process_time() - start
    assert took < PLANNING, f"planning took {took:.1f} s of processor time"


def _move(db: freshet.Database, changes: dict[str, float], rewrites: Rewrites) -> None:
    """Switches the view to the plan for these numbers of changes, as this version or an earlier one makes it."""
    view = db.view("v")
    plan = freshet.Plan(view.plan.sql, build_plan(db.catalog.views["v"], changes, rewrites=rewrites))
    if plan != view.plan:
        inside(db).views.move("v", plan, "")
        assert inside(view).following.chosen.failed is None, inside(view).following.chosen.failed


def shortest(failed: Outcome, tries: int = 300) -> Outcome:
    """The smallest case found that fails like this one."""

    def fails(made: list[int]) -> bool:
        outcome = run_case(Choices(made=made))
        return outcome.kind == "failed" and _sort_of(outcome) == _sort_of(failed)

    return run_case(Choices(made=shrunk(failed.made, fails, tries)))


def _sort_of(outcome: Outcome) -> str:
    return outcome.why.split(":")[0]
