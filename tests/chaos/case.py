"""One case: a database in a folder, a model of it, and a series of steps, most of which fail in some way.

After every step the tables equal the model's, and every view equals DuckDB's answer over them and the sum of its
subscriber's deltas. A step that is interrupted, or during which the process dies, leaves the state before it or the
state after it; one that is refused leaves the state before it. Damaged bytes may lose versions, but never cause a wrong
answer: the opened or recovered state is that of some version.
"""

from __future__ import annotations

import copy
import re
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

import freshet
from freshet.database import transactions
from freshet.database.db import inside
from freshet.database.recover import recover
from freshet.durable import store as stores
from freshet.state import heap, strings
from tests.chaos.machine import Killed, dies, full_disk, interrupted, limited
from tests.fuzz.choices import Choices, shrunk
from tests.fuzz.grammar import Grammar
from tests.fuzz.question import NoOracleError, OraclesDifferError, Question
from tests.fuzz.tables import TableModel, random_row, random_tables, random_transaction
from tests.inner import store_of
from tests.oracle import RunningSum, same_bag


@dataclass
class State:
    version: int = 0
    tables: dict[str, TableModel] = field(default_factory=dict)
    views: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    kind: str = "agreed"
    why: str = ""
    script: list[str] = field(default_factory=list)
    made: list[int] = field(default_factory=list)
    faults: Counter[str] = field(default_factory=Counter)

    def report(self) -> str:
        return "\n".join([*(f"  {line}" for line in self.script), self.why])


def run_case(choices: Choices) -> Outcome:
    outcome = Outcome()
    folder = Path(tempfile.mkdtemp(prefix="freshet-chaos-"))
    case = Case(choices, folder / "db", outcome)
    try:
        repacked = choices.pick([1 << 16, 1, 1])  # slots from which tables are repacked when most rows are deleted
        sweep = choices.pick([4096, 1])
        with (
            patch.object(stores, "_LEAST", choices.pick([4 << 20, 2_000])),
            patch.object(stores, "_PIECE", choices.pick([256, 1])),
            patch.object(stores, "_SHARE", choices.pick([4, 1])),
            patch.object(transactions, "_REPACKED", repacked),
            patch.object(strings, "_LEAST_SWEEP", sweep),
            patch.object(heap, "_LEAST", choices.pick([1 << 18, 0])),
        ):
            case.run()
    except NoOracleError as e:
        outcome.kind, outcome.why = "no oracle", str(e)
    except OraclesDifferError as e:
        outcome.kind, outcome.why = "oracles differ", str(e)
    except Exception as e:
        outcome.kind, outcome.why = "failed", f"{type(e).__name__}: {e}"
    finally:
        case.abandon()
        shutil.rmtree(folder, ignore_errors=True)
    outcome.made = choices.made
    return outcome


def shortest(failed: Outcome, tries: int = 300) -> Outcome:
    """The smallest case found that fails like this one."""

    def fails(made: list[int]) -> bool:
        outcome = run_case(Choices(made=made))
        return outcome.kind == "failed" and outcome.why.split(":")[0] == failed.why.split(":")[0]

    return run_case(Choices(made=shrunk(failed.made, fails, tries)))


def says(error: Exception, words: str) -> None:
    assert words in str(error), error


class Case:
    def __init__(self, choices: Choices, folder: Path, outcome: Outcome) -> None:
        self.choices, self.folder, self.outcome = choices, folder, outcome
        self.level = choices.pick(["fsync", "os", "none"])
        self.history = [State()]  # every state there was, the last one now
        self.safe = 0  # the first of them a crash may lead to, at level "none"
        self.damaged = False
        self.numbers = 0
        self.db: freshet.Database | None = None
        self.sums: dict[str, RunningSum] = {}
        self.heard: dict[str, int] = {}
        self.published_to: dict[str, list[freshet.Transaction]] = {}

    @property
    def now(self) -> State:
        return self.history[-1]

    def run(self) -> None:
        self.open()
        for model in random_tables(self.choices):
            self.step(self.new_table(model), nullcontext())
        for _ in range(5 + self.choices.below(10)):
            what = self.choices.below(20)
            if what < 12:
                self.step(self.change(), self.fault())
            elif what < 13:
                self.refused_change()
            elif what < 14:
                self.left_open()
            elif what < 15:
                self.readers()
            elif what < 17:
                self.reopen()
            elif what < 19:
                self.crash()
            else:
                self.damage()

    # Steps ----------------------------------------------------------------------------------------------------

    def change(self) -> tuple[str, State, Callable[[freshet.Database], object]]:
        what = self.choices.below(10)
        after = copy.deepcopy(self.now)
        if what == 9 and after.views:
            name = self.choices.pick(list(after.views))
            del after.views[name]
            return f"DROP VIEW {name}", after, lambda db: db.execute(f"DROP VIEW {name}")
        if what == 8 and len(after.tables) > 1:
            name = self.choices.pick(list(after.tables))
            del after.tables[name]
            sql = f"DROP TABLE {name}"
            if self.choices.chance(50):
                sql += " CASCADE"
                after.views = {view: text for view, text in after.views.items() if not re.search(rf"\b{name}\b", text)}
            return sql, after, lambda db: db.execute(sql)
        if what == 7:
            return self.new_table(random_tables(self.choices)[0])
        if what >= 4 and after.tables:
            self.numbers += 1
            name = f"v{self.numbers}"
            after.views[name] = sql = Grammar(self.choices, list(after.tables.values())).statement()
            return f"CREATE MATERIALIZED VIEW {name} AS {sql}", after, lambda db: db.create_view(name, sql)
        tx = random_transaction(self.choices, list(after.tables.values()))
        after.version += 1
        changes = tx.arrow(list(self.now.tables.values()))
        return f"apply {tx.changes}", after, lambda db: db.apply(changes)

    def new_table(self, model: TableModel) -> tuple[str, State, Callable[[freshet.Database], object]]:
        after = copy.deepcopy(self.now)
        self.numbers += 1
        model.name = f"t{self.numbers}"
        after.tables[model.name] = model
        return model.ddl, after, lambda db: db.execute(model.ddl)

    def fault(self) -> AbstractContextManager[None]:
        what = self.choices.below(11)
        if what < 4:
            return nullcontext()
        if what < 6:
            after, part = self.choices.below(4), self.choices.below(101)
            return self.recorded("killed", f"at call {after}, {part} % of it done", dies(after, part))
        if what < 8:
            room = self.choices.pick([0, 1, 40, 200, 1_000])
            return self.recorded("full disk", f"with {room} bytes left", full_disk(room))
        if self.choices.chance(40):
            room = self.choices.pick([0, 100, 300, 1_000, 3_000, 10_000, 30_000])
            assert self.db is not None
            return self.recorded("memory limit", f"with {room} bytes left", limited(inside(self.db).state.memory, room))
        at = 1 + self.choices.below(self.choices.pick([300, 3_000, 30_000]))
        return self.recorded("interrupted", f"at bytecode {at}", interrupted(at))

    def recorded(self, fault: str, how: str, made: AbstractContextManager[None]) -> AbstractContextManager[None]:
        self.outcome.faults[fault] += 1
        self.outcome.script.append(f"{fault} {how}, during:")
        return made

    def step(
        self, change: tuple[str, State, Callable[[freshet.Database], object]], fault: AbstractContextManager[None]
    ) -> None:
        text, after, run = change
        db = self.db
        assert db is not None
        self.outcome.script.append(text)
        died, whole = False, False
        try:
            with fault:
                run(db)
            whole = True
        except freshet.SqlError:  # the query is refused, which is not tested here
            pass
        except freshet.StateError as e:
            says(e, "free space")
        except freshet.BudgetError as e:
            says(e, "memory_limit")
            self.outcome.faults["memory limit reached"] += 1
        except freshet.PlanError as e:
            says(e, "CASCADE")
        except freshet.ChangeError as e:
            says(e, "no answer")
        except KeyboardInterrupt:
            self.outcome.faults["interrupts raised"] += 1
        except Killed:
            died = True
            self.abandon()
            self.open()
            db = self.db
        assert db is not None
        if not died or self.level != "none":
            before = self.now
            self.history.append(after)
            if not whole and not self.is_at(db, after):
                self.history[-1] = before
            self.check()
        else:
            self.history.append(after)
            self.find(self.safe)
        for name in list(self.now.views):
            if name not in self.sums:
                self.subscribe(name)

    def refused_change(self) -> None:
        """A bad row among good ones."""
        tables = [t for t in self.now.tables.values() if t.keyed or t.rows]
        if not tables:
            return
        table = self.choices.pick(tables)
        row = random_row(self.choices, table)
        rows: list[dict[str, Any]] = [
            {name: value for (name, _), value in zip(table.columns, row, strict=True)}
            | {"_weight": -len(table.rows) - 3}
        ]
        self.outcome.script.append(f"refused: {table.name} {rows}")
        assert self.db is not None
        for bad in (rows, [{"nothing": 1}], [{"a": "x"}]):
            try:
                self.db.apply({table.name: bad})
            except freshet.ChangeError:
                continue
            raise AssertionError(f"{bad} was not refused")
        self.check()

    def left_open(self) -> None:
        """A thread that ends in the middle of a transaction has changed nothing, and no other thread waits for it."""
        db = self.db
        tx = random_transaction(self.choices, copy.deepcopy(list(self.now.tables.values())))
        self.outcome.faults["thread ended in a transaction"] += 1
        self.outcome.script.append(f"a thread ends after BEGIN, apply {tx.changes}")
        assert db is not None
        changes = tx.arrow(list(self.now.tables.values()))

        def leave() -> None:
            db.execute("BEGIN")
            with suppress(freshet.ChangeError):
                db.apply(changes)

        thread = threading.Thread(target=leave)
        thread.start()
        thread.join()
        self.check()

    def readers(self) -> None:
        """Another one that writes is refused, one that reads sees this version."""
        self.outcome.script.append("readers")
        try:
            freshet.connect(self.folder)
        except freshet.StateError as e:
            says(e, "in use by process")
        else:
            raise AssertionError("a second writer was let in")
        if self.now.views:
            self.past(self.choices.pick(list(self.now.views)))
        if self.level == "none":
            return
        with freshet.connect(self.folder, read_only=True) as reader:
            self.compare(reader, self.now)

    def past(self, name: str) -> None:
        """The changes since some version lead from its answer to that of today."""
        assert self.db is not None
        view = self.db.view(name)
        since = inside(view).made + self.choices.below(self.db.version - inside(view).made + 1)
        try:
            total = RunningSum(view.at(since))
            with view.changes(since, follow=False) as changes:
                for version, delta in changes:
                    since += 1
                    assert version == since, f"version {version} of {name} after {since - 1}"
                    total.add(delta)
        except freshet.StateError as e:
            if not self.damaged:
                says(e, "no longer reaches back")
            return
        assert since == self.db.version
        total.equals(view.to_arrow())
        self.outcome.faults["past read again"] += 1

    def reopen(self) -> None:
        self.outcome.script.append("close, connect")
        assert self.db is not None
        with (
            self.recorded("killed", "while closing", dies(self.choices.below(5), 0))
            if self.choices.chance(30)
            else nullcontext()
        ):
            try:
                self.db.close()
                self.safe = len(self.history) - 1
            except Killed:
                pass
        self.abandon()
        self.open()
        self.find(self.sure())

    def crash(self) -> None:
        self.outcome.faults["crash"] += 1
        self.outcome.script.append("crash")
        self.abandon()
        self.open()
        self.find(self.sure())

    def damage(self) -> None:
        """Bytes of a file change, or its end is missing."""
        assert self.db is not None
        if closed := self.choices.chance(60):
            self.db.close()
            self.safe = len(self.history) - 1
        self.abandon()
        name = self.choices.pick(["log", "checkpoint"])
        file = self.folder / name
        whole = file.read_bytes() if file.exists() else b""
        if not whole:
            self.open()
            self.find(self.sure())
            return
        at = self.choices.below(len(whole))
        kind = self.choices.pick(["flip", "cut"])
        self.outcome.faults[f"{kind} in a {name}"] += 1
        self.outcome.script.append(f"{'close' if closed else 'crash'}, {kind} at byte {at} of the {name}, connect")
        bad = whole[:at] + (
            bytes([whole[at] ^ (1 << self.choices.below(8))]) + whole[at + 1 :] if kind == "flip" else b""
        )
        file.write_bytes(bad)
        try:
            self.open()
        except freshet.StateError as e:
            says(e, "freshet recover")
            try:
                recover(self.folder)
            except freshet.StateError as unusable:
                says(unusable, "not usable")
                file.write_bytes(whole)
            self.open()
        lost = not closed if name == "log" else self.damaged
        self.damaged |= name == "log"  # a checkpoint hides that, until it is damaged too
        self.find(0 if lost else self.sure())

    # Opening and comparing ------------------------------------------------------------------------------------

    def open(self) -> None:
        self.db = freshet.connect(self.folder, durability=self.level)
        self.sums.clear()
        self.heard.clear()

    def abandon(self) -> None:
        """The process is gone: nothing is written, and its locks are free."""
        if self.db is not None:
            store_of(self.db).release()
            inside(self.db).access.closed = True

    def subscribe(self, name: str) -> None:
        assert self.db is not None
        view = self.db.view(name)
        self.sums[name] = RunningSum(view.to_arrow())
        self.heard[name] = self.db.version
        self.published_to[name] = []
        view.subscribe(self.published_to[name].append)  # no bytecode of its own, at which it could be interrupted

    def hear(self, name: str) -> None:
        """Adds up a subscriber's deltas."""
        for tx in self.published_to[name]:
            assert tx.version == self.heard[name] + 1, f"{name} heard of {tx.version} after {self.heard[name]}"
            self.heard[name] = tx.version
            self.sums[name].add(tx.deltas[name])
        self.published_to[name].clear()

    def is_at(self, db: freshet.Database, state: State) -> bool:
        return (
            db.version == state.version
            and list(inside(db).state.core.tables) == list(state.tables)
            and list(db.views) == list(state.views)
        )

    def sure(self) -> int:
        """The first state that may be found after a crash."""
        return self.safe if self.level == "none" else len(self.history) - 1

    def find(self, first: int) -> None:
        """The opened state is that of a version from `first` on; the case continues from there."""
        db = self.db
        assert db is not None
        for at in reversed(range(first, len(self.history))):
            if self.is_at(db, self.history[at]):
                del self.history[at + 1 :]
                self.safe = at
                self.check()
                for name in self.now.views:
                    self.subscribe(name)
                return
        raise AssertionError(
            f"opened at version {db.version} with {list(inside(db).state.core.tables)}, {list(db.views)}: no such state"
        )

    def check(self) -> None:
        db = self.db
        assert db is not None
        self.compare(db, self.now)
        for name, total in self.sums.items():
            if name in self.now.views:
                self.hear(name)
                assert self.heard[name] == db.version, f"{name} heard of {self.heard[name]}, not of {db.version}"
                total.equals(db.view(name).to_arrow())
        self.sums = {name: total for name, total in self.sums.items() if name in self.now.views}

    def compare(self, db: freshet.Database, state: State) -> None:
        assert self.is_at(db, state), (
            f"version {db.version}, {list(inside(db).state.core.tables)}, {list(db.views)}; "
            f"expected {state.version}, {list(state.tables)}, {list(state.views)}"
        )
        tables = list(state.tables.values())
        for table in tables:
            same_bag(db.execute(f"SELECT * FROM {table.name}"), table.arrow())
        for name, sql in state.views.items():
            Question.of(sql, tables).check(db.view(name).to_arrow(), tables)
