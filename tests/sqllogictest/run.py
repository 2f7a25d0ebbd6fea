"""Runs sqllogictest files: every query is a view that was created before the rows it reads.

Two passes over a file. The first finds which tables each query reads. The second runs the statements, each as a
transaction; as soon as the tables of a query exist, before any rows are inserted into them, it becomes a view. At the
position of its record, the view's answer is compared with the record's. A query that Freshet refuses is counted as
unsupported, with the reason, and so are queries that depend on a refused statement, and those on which engines
disagree: division, which may or may not round for integers.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import sqlglot
from sqlglot import exp

import freshet
from freshet.database.db import inside
from tests.sqllogictest.answers import difference
from tests.sqllogictest.generate import generated
from tests.sqllogictest.order import in_order
from tests.sqllogictest.records import Query, Record, Statement, records

_CHANGES_NO_ROWS = re.compile(r"\s*(CREATE\s+(UNIQUE\s+)?INDEX|DROP\s+INDEX|REINDEX|ANALYZE|PRAGMA)\b", re.I)


@dataclass
class Report:
    passed: int = 0
    unsupported: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def add(self, other: Report) -> None:
        self.passed += other.passed
        self.unsupported += other.unsupported
        self.failed += other.failed

    def line(self) -> str:
        return f"{self.passed} passed, {self.unsupported.total()} unsupported, {len(self.failed)} failed"


def run_text(text: str, name: str) -> Report:
    return _Run(name, list(records(text))).run()


def _tables(sql: str) -> set[str]:
    """The names a text reads or writes."""
    try:
        parsed = [node for node in sqlglot.parse(sql, dialect="spark") if node is not None]
    except sqlglot.errors.SqlglotError:
        return set()
    return {t.name.lower() for node in parsed for t in node.find_all(exp.Table)}


class _Run:
    def __init__(self, name: str, records: list[Record]) -> None:
        self.name, self.records, self.db, self.report = name, records, freshet.connect(), Report()
        self.reads = {i: _tables(r.sql) for i, r in enumerate(records) if isinstance(r, Query)}
        self.broken: set[str] = set()  # tables and views that a refused statement left in another state
        self.views: dict[int, str] = {}  # query records that are views, or why they are not

    def run(self) -> Report:
        self._register(0)
        for at, record in enumerate(self.records):
            if isinstance(record, Statement):
                self._statement(at, record)
            elif isinstance(record, Query):
                self._query(at, record)
            else:
                self.report.unsupported[f"record {record.words.split()[0]}"] += 1
        return self.report

    # Statements ---------------------------------------------------------------------------------------------------

    def _statement(self, at: int, record: Statement) -> None:
        names, kind = _tables(record.sql), record.sql.split()[0].upper() if record.sql.split() else ""
        if kind == "DROP":
            self._forget(names)
        try:
            self._execute(at, record)
        except freshet.FreshetError as error:
            if record.fails:
                self.report.passed += 1
            else:
                self.broken |= set() if _CHANGES_NO_ROWS.match(record.sql) else names
                self.report.unsupported[_reason(error)] += 1
            return
        if record.fails:
            self._fail(record, "ran, and should have failed")
            return
        self.report.passed += 1
        if kind == "CREATE":
            self.broken -= names
            self._register(at + 1)

    def _execute(self, at: int, record: Statement) -> None:
        sql = record.sql
        if sql.split()[:2] and [w.upper() for w in sql.split()[:2]] == ["CREATE", "VIEW"]:
            sql = "CREATE MATERIALIZED VIEW" + sql.split("VIEW" if "VIEW" in sql else "view", 1)[1]
        try:
            self.db.execute(sql)
        except freshet.ChangeError as error:
            if "a view has no answer" not in str(error):
                raise
            for number in [n for n, state in self.views.items() if state == "view"]:
                self.db.execute(f"DROP VIEW q{number}")
                del self.views[number]
            self.db.execute(sql)
            self._register(at + 1)  # those without an answer over these rows are refused one by one

    # Queries ------------------------------------------------------------------------------------------------------

    def _register(self, start: int) -> None:
        """Creates views of the queries from a record on whose tables all exist, and still exist at their turn."""
        gone: set[str] = set()
        for at in range(start, len(self.records)):
            record = self.records[at]
            if isinstance(record, Statement) and record.sql.split()[:1] and record.sql.split()[0].upper() == "DROP":
                gone |= _tables(record.sql)
            if not isinstance(record, Query) or at in self.views or self.reads[at] & gone:
                continue
            if all(self._exists(name) for name in self.reads[at]):
                self.views[at] = self._view(at, record)

    def _exists(self, name: str) -> bool:
        return name in inside(self.db).state.core.tables or name in self.db.views

    def _view(self, at: int, record: Query) -> str:
        if _divides(record.sql):
            return "division, of which engines differ"
        try:
            self.db.create_view(f"q{at}", record.sql)
        except (freshet.SqlError, freshet.ChangeError) as error:
            return _reason(error)
        return "view"

    def _forget(self, names: set[str]) -> None:
        """Drops the views over a table or view that is about to be dropped; those whose turn is over are not needed."""
        for at, state in list(self.views.items()):
            if self.reads[at] & names and state == "view":
                self.db.execute(f"DROP VIEW q{at}")
                self.views[at] = "dropped"

    def _query(self, at: int, record: Query) -> None:
        missing = sorted(name for name in self.reads[at] if not self._exists(name))
        state = self.views.get(at)
        if self.reads[at] & self.broken or missing:
            self.report.unsupported["reads what a refused statement should have made"] += 1
        elif state != "view":
            if state is None and not self.reads[at]:
                state = self._view(at, record)
            self.report.unsupported[state or "not a view"] += 1
        else:
            answer = self.db.view(f"q{at}").to_arrow()
            rows = list(zip(*(c.to_pylist() for c in answer.columns), strict=True))
            self._compare(record, rows, answer.column_names)
            self.db.execute(f"DROP VIEW q{at}")  # its turn is over
            self.views[at] = "dropped"

    def _compare(self, record: Query, rows: list[tuple[Any, ...]], names: Sequence[str]) -> None:
        whole = True
        if record.hashed is not None and record.sort == "nosort":
            rows, whole = in_order(record.sql, rows, names)
        elif record.sort == "nosort":
            ordered, total = in_order(record.sql, rows, names)
            if total and ordered != rows:
                self._fail(record, "rows are not in the order that ORDER BY says")
                return
        wrong = difference(record, rows)
        if wrong is None:
            self.report.passed += 1
        elif not whole:
            self.report.unsupported["values hashed in an order that the query leaves open"] += 1
        else:
            self._fail(record, wrong)

    def _fail(self, record: Statement | Query, what: str) -> None:
        self.report.failed.append(f"{self.name}:{record.line}: {what}\n    " + record.sql.replace("\n", "\n    "))


def _divides(sql: str) -> bool:
    try:
        return sqlglot.parse_one(sql, dialect="spark").find(exp.Div) is not None
    except sqlglot.errors.SqlglotError:
        return False


def _reason(error: freshet.FreshetError) -> str:
    return str(getattr(error, "reason", error)).split(";")[0][:80]


def _given(files: list[Path]) -> Iterator[tuple[str, str]]:
    for given in files:
        for path in sorted(given.rglob("*.test")) if given.is_dir() else [given]:
            yield str(path), path.read_text()


def main() -> int:
    parser = argparse.ArgumentParser(description="Run sqllogictest files against Freshet.")
    parser.add_argument("files", nargs="*", type=Path, help=".test files, or folders of them")
    parser.add_argument("--generated", type=int, default=0, help="how many files to generate, with SQLite's answers")
    parser.add_argument("--seed", type=int, default=0, help="of the first file that is generated")
    options, total = parser.parse_args(), Report()
    for name, text in chain(
        _given(options.files), map(generated, range(options.seed, options.seed + options.generated))
    ):
        report = run_text(text, name)
        print(f"{name}: {report.line()}", flush=True)
        total.add(report)
    for reason, times in total.unsupported.most_common(20):
        print(f"  unsupported {times:>6}  {reason}")
    for failure in total.failed:
        print(f"FAILED {failure}")
    print(total.line())
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
