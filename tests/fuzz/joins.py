"""Hundreds of random joins at a time, as views of one database over three small tables, next to DuckDB.

What the planner makes of a condition depends on keys, on the other conditions between the same tables, on the kind of
join, and on what is read, all at once. Queries here are small, so that these meet often, and share one stream of
transactions, so that thousands take minutes.

    python -m tests.fuzz.joins --seed 7 --rounds 20
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from random import Random

import pyarrow as pa

import freshet
from tests.oracle import RunningSum, duckdb_answer, same_bag

Row = tuple[int | None, ...]

COLUMNS = {"r": ("k", "a", "b"), "s": ("k", "c", "d"), "t": ("k", "e", "f")}
OPERATORS = ("=", "=", "=", "<=>", *("<", "<=", ">", ">=") * 2, "<>")
VALUES = (None, *(0, 1, 2, 3) * 3)


class Joins:
    """Draws queries. `keyed`: the tables with primary keys."""

    def __init__(self, random: Random, keyed: frozenset[str]) -> None:
        self.random, self.keyed = random, keyed

    def query(self) -> str:
        random, roles = self.random, self.random.sample(sorted(COLUMNS), self.random.choice((2, 2, 3)))
        text, shown = roles[0], [roles[0]]
        where = []
        for role in roles[1:]:
            on = self.on(shown if random.random() < 0.3 else [random.choice(shown)], role)
            kind = random.choice(("JOIN", "JOIN", "JOIN", "LEFT JOIN", "EXISTS", "NOT EXISTS"))
            if "EXISTS" in kind:
                where.append(f"{kind} (SELECT 1 FROM {role} WHERE {on.replace('<>', '<')})")  # DuckDB errs about <>
            else:
                text += f" {kind} {role} ON {on}"
                shown.append(role)
        shown = [role for role in roles if role in shown]
        if random.random() < 0.2:
            where.append(self.local(random.choice(shown)))
        read = random.sample(shown, random.choice((1, len(shown))))
        condition = f" WHERE {' AND '.join(where)}" if where else ""
        return self.reading([f"{role}.{random.choice(COLUMNS[role])}" for role in read], f"{text}{condition}")

    def reading(self, columns: list[str], text: str) -> str:
        columns = list(dict.fromkeys(columns))
        named = ", ".join(f"{column} AS x{i}" for i, column in enumerate(columns))
        form = self.random.choice(("", "", "", "DISTINCT", "COUNT", "SUM", "MIN", "grouped", "grouped"))
        if form in ("", "DISTINCT"):
            return f"SELECT {form} {named} FROM {text}"
        if form == "COUNT":
            return f"SELECT COUNT(*) AS n FROM {text}"
        if form in ("SUM", "MIN"):
            return f"SELECT {form}({columns[0]}) AS n FROM {text}"
        last = self.random.choice(("COUNT(*)", f"SUM({columns[-1]})", f"MAX({columns[-1]})"))
        return f"SELECT {columns[0]} AS x, {last} AS n FROM {text} GROUP BY {columns[0]}"

    def on(self, left: list[str], right: str) -> str:
        """One to four conditions; a keyed table is often found by its key."""
        random, parts = self.random, []
        if right in self.keyed and random.random() < 0.6:
            parts.append(f"{self.column(random.choice(left))} = {right}.k")
        while not parts or (len(parts) < 4 and random.random() < 0.55):
            one, other, operator = self.column(random.choice(left)), self.column(right), random.choice(OPERATORS)
            if random.random() < 0.15:
                other += f" + {random.randint(1, 2)}"
            parts.append(f"{one} {operator} {other}")
        if random.random() < 0.1:
            parts.append(self.local(right))
        return " AND ".join(parts)

    def local(self, role: str) -> str:
        return f"{self.column(role)} {self.random.choice(('<', '>=', '=', '<>'))} {self.random.randint(0, 3)}"

    def column(self, role: str) -> str:
        return f"{role}.{self.random.choice(COLUMNS[role])}"


class Tables:
    """The rows, and random changes of them."""

    def __init__(self, random: Random, keyed: frozenset[str]) -> None:
        self.random, self.keyed = random, keyed
        self.rows: dict[str, list[Row]] = {name: [] for name in COLUMNS}

    def transaction(self) -> dict[str, list[dict[str, int | None]]]:
        random, changes = self.random, {}
        for name in random.sample(sorted(COLUMNS), random.randint(1, len(COLUMNS))):
            held, come = self.rows[name], list[Row]()
            gone = [held.pop(random.randrange(len(held))) for _ in range(min(len(held), random.randrange(4)))]
            for _ in range(random.randrange(7)):
                row: Row = tuple(random.choice(VALUES) for _ in COLUMNS[name])
                if name in self.keyed:
                    row = (random.randrange(4), *row[1:])
                    if any(other[0] == row[0] for other in held + come):
                        continue
                come += [row] * (1 if name in self.keyed else random.choice((1, 1, 2)))
            held += come
            signed = [(row, -1) for row in gone] + [(row, 1) for row in come]
            changes[name] = [{**dict(zip(COLUMNS[name], row, strict=True)), "_weight": w} for row, w in signed]
        return changes

    def arrow(self) -> dict[str, pa.Table]:
        return {
            name: pa.table(
                {c: pa.array([row[i] for row in self.rows[name]], pa.int64()) for i, c in enumerate(columns)}
            )
            for name, columns in COLUMNS.items()
        }


def run_round(seed: int, queries: int = 200, transactions: int = 5) -> tuple[Counter[str], list[str]]:
    """The outcomes of one database, and the queries that failed, each with the reason."""
    random = Random(seed)
    keyed = frozenset(name for name in COLUMNS if random.random() < 0.6)
    db, tables, joins = freshet.connect(), Tables(random, keyed), Joins(random, keyed)
    for name, columns in COLUMNS.items():
        listed = ", ".join(f"{c} BIGINT{' PRIMARY KEY' * (c == 'k' and name in keyed)}" for c in columns)
        db.execute(f"CREATE TABLE {name} ({listed})")
    outcomes, failed = Counter[str](), dict[str, str]()
    views, sums = dict[str, freshet.View](), dict[str, RunningSum]()

    def define(some: int) -> None:
        for _ in range(some):
            sql = joins.query()
            try:
                views[sql] = db.create_view(f"v{sum(outcomes.values())}", sql)
                sums[sql] = RunningSum(views[sql].to_arrow())
                outcomes["views"] += 1
            except freshet.UnsupportedError:
                outcomes["refused"] += 1

    define(queries - queries // 4)
    for step in range(transactions):
        if step == transactions // 2:
            define(queries // 4)  # over tables that have rows
        tx = db.apply(tables.transaction())
        rows = tables.arrow()
        for sql, view in views.items():
            answer = view.to_arrow()
            try:
                if view.name in tx.deltas:
                    sums[sql].add(tx.deltas[view.name])
                sums[sql].equals(answer)
                same_bag(answer, duckdb_answer(sql.replace("<=>", "IS NOT DISTINCT FROM"), rows))
            except AssertionError as e:
                failed.setdefault(sql, f"after transaction {step}: {e}")
    outcomes["failed"] += len(failed)
    return outcomes, [f"{sql}\n  tables with keys: {sorted(keyed)}; {why}" for sql, why in failed.items()]


def main() -> int:
    options = argparse.ArgumentParser(description="Random joins of three small tables, hundreds at a time.")
    options.add_argument("--rounds", type=int, default=25, help="databases, each with 200 queries")
    options.add_argument("--seed", type=int, default=1, help="of the first round; each next one is one more")
    given = options.parse_args()
    total = Counter[str]()
    for seed in range(given.seed, given.seed + given.rounds):
        outcomes, failed = run_round(seed)
        total += outcomes
        for text in failed:
            print(f"FAILED with seed {seed}: {text}\n", flush=True)
        print(f"seed {seed}: {dict(total)}", flush=True)
    return 1 if total["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
