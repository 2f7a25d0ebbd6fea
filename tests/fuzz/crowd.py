"""Dozens of random queries at a time, as views of one database that share tables, transactions and nested queries.

This tries fewer things with each query than `run`, and far more queries: what goes wrong for one query in thousands is
found here first. Views that make a transaction fail, because some value does not fit, are dropped.

    python -m tests.fuzz.crowd --seed 7 --rounds 20
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections import Counter

import freshet
from tests.fuzz.case import MAY_NOT_FIT
from tests.fuzz.choices import Choices
from tests.fuzz.grammar import BARE, Grammar
from tests.fuzz.question import NoOracleError, NoValueError, OraclesDifferError, Question
from tests.fuzz.tables import TableModel, random_tables, random_transaction
from tests.oracle import RunningSum


class Crowd:
    """The views of one database. `failed`: the queries that went wrong, each with the reason."""

    def __init__(self, seed: int) -> None:
        self.choices = Choices(seed=seed)
        self.tables = random_tables(self.choices)
        for table in self.tables:
            table.columns = [(name, kind) for name, kind in table.columns if kind not in "wv"]  # rarely fit
        self.db = freshet.connect()
        for table in self.tables:
            self.db.execute(table.ddl)
        self.views: dict[str, tuple[str, Question, RunningSum]] = {}
        self.outcomes, self.failed = Counter[str](), dict[str, str]()

    def define(self, queries: int) -> None:
        for _ in range(queries):
            text = Grammar(self.choices, self.tables).statement()
            sql = re.sub(rf"\w+{BARE}\.", "", text)
            name = f"v{sum(self.outcomes.values())}"
            try:
                view = self.db.create_view(name, sql)
            except (freshet.UnsupportedError, freshet.ChangeError):
                self.outcomes["refused"] += 1
                continue
            question = Question.of(text.replace(BARE, ""), self.tables)
            self.views[name] = sql, question, RunningSum(view.to_arrow())
            self.outcomes["views"] += 1

    def change(self) -> None:
        before = {table.name: list(table.rows) for table in self.tables}
        tx = random_transaction(self.choices, self.tables)
        while True:
            try:
                done = self.db.apply(tx.arrow(self.tables))
                break
            except freshet.ChangeError as e:
                if not self._dropped(str(e)):
                    self.failed.setdefault(str(e), "no view has a value that does not fit")
                    for table in self.tables:
                        table.rows = before[table.name]
                    return
        for name in list(self.views):
            self._check(name, done)

    def _dropped(self, why: str) -> int:
        """Drops the views that have no answer, or perhaps none."""
        wrong = []
        for name, (sql, question, _) in self.views.items():
            try:
                question.answer(self.tables, self.db.view(name).to_arrow().schema)
            except NoValueError:
                wrong.append(name)
            except NoOracleError:
                wrong.append(name)
            else:
                if MAY_NOT_FIT in why and "SUM" in sql:
                    wrong.append(name)
        for name in wrong:
            self._drop(name, "dropped")
        return len(wrong)

    def _drop(self, name: str, outcome: str) -> None:
        del self.views[name]
        self.db.execute(f"DROP VIEW {name}")
        self.outcomes[outcome] += 1

    def _check(self, name: str, tx: freshet.Transaction) -> None:
        sql, question, total = self.views[name]
        view = self.db.view(name)
        answer = view.to_arrow()
        try:
            total.add(tx.deltas[name])
            total.equals(answer)
            question.check(answer, self.tables)
        except AssertionError as e:
            self.failed.setdefault(sql, str(e))
            self._drop(name, "failed")
        except (NoOracleError, OraclesDifferError, NoValueError):
            self._drop(name, "no oracle")


def run_round(seed: int, queries: int = 40, transactions: int = 4) -> tuple[Counter[str], list[str]]:
    crowd = Crowd(seed)
    crowd.define(queries // 2)
    for _ in range(transactions):
        crowd.change()
        crowd.define(queries // (2 * transactions))
    crowd.change()
    return crowd.outcomes, [f"{sql}\n  {_described(crowd.tables)}{why}" for sql, why in crowd.failed.items()]


def _described(tables: list[TableModel]) -> str:
    return "".join(f"{table.ddl}; {table.rows}\n  " for table in tables)


def main() -> int:
    options = argparse.ArgumentParser(description="Random queries, dozens at a time in one database.")
    options.add_argument("--rounds", type=int, default=100, help="databases, each with 40 queries")
    options.add_argument("--seed", type=int, default=1, help="of the first round; each next one is one more")
    given = options.parse_args()
    total, wrong = Counter[str](), 0
    for seed in range(given.seed, given.seed + given.rounds):
        start = time.process_time()
        outcomes, failed = run_round(seed)
        total += outcomes
        wrong += len(failed)
        for text in failed:
            print(f"FAILED with seed {seed}: {text}\n", flush=True)
        print(f"seed {seed}: {dict(total)}, {time.process_time() - start:.0f} s", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
