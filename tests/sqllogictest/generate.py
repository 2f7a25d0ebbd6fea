"""Writes sqllogictest files in the style of SQLite's own, with SQLite's answers if DuckDB's are the same.

Its collection has a few kinds of files: deep expressions over tables of three rows, with signs before everything and
aliases that hide columns; GROUP BY and HAVING; joins of many tables through commas and equalities; correlated
subqueries over one table; conditions of BETWEEN, IN and NOT between updates and deletes. Each is a kind here, with
NULLs in every table. Numbers are BIGINT, because SQLite's are; no query divides, overflows or picks one row of several,
because the two engines differ there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

import duckdb

from tests.fuzz.choices import Choices
from tests.sqllogictest.answers import written

_COMPARE = ("=", "<>", "<", "<=", ">", ">=")
_JOINS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")


class _File:
    def __init__(self, seed: int, kind: str) -> None:
        self.choices, self.lines = Choices(seed), [f"# {kind}, seed {seed}"]
        self.sqlite, self.duckdb = sqlite3.connect(":memory:"), duckdb.connect()

    def statement(self, sql: str) -> None:
        self.sqlite.execute(sql)
        self.duckdb.execute(sql)
        self.lines += ["", "statement ok", sql]

    def query(self, sql: str, ordered: bool = False) -> None:
        """A record of the query with SQLite's answer; one that takes SQLite too long is left out."""
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return int(steps > 2_000)

        self.sqlite.set_progress_handler(count, 10_000)
        try:
            cursor = self.sqlite.execute(sql)
            rows = cursor.fetchall()
        except sqlite3.OperationalError as error:
            if "interrupted" in str(error):
                return
            raise AssertionError(f"{error}: {sql}") from None
        finally:
            self.sqlite.set_progress_handler(None, 0)
        if len(rows) > 400:
            return
        types = "".join(
            "R" if any(isinstance(row[i], float) for row in rows) else "I" for i in range(len(cursor.description))
        )
        if not self._is_sure(sql, rows, types):
            return
        texts = ["\t".join(written(v, t) for v, t in zip(row, types, strict=True)) for row in rows]
        self.lines += ["", f"query {types} {'nosort' if ordered else 'rowsort'}", sql, "----", *texts]

    def _is_sure(self, sql: str, rows: list[tuple[Any, ...]], types: str) -> bool:
        """Whether DuckDB agrees, or has no answer: SQLite 3.40 moves conditions of ON out of a FULL JOIN."""
        try:
            others = self.duckdb.execute(sql).fetchall()
        except duckdb.Error:
            return True
        answers = (
            sorted([written(v, t) for v, t in zip(row, types, strict=True)] for row in r) for r in (rows, others)
        )
        return next(answers) == next(answers)

    def table(self, name: str, columns: list[str], rows: int, most: int = 99, nulls: int = 20) -> None:
        typed = ", ".join(f"{c} BIGINT" for c in columns)
        self.statement(f"CREATE TABLE {name} ({typed})")
        self.insert(name, len(columns), rows, most, nulls)

    def insert(self, name: str, width: int, rows: int, most: int, nulls: int) -> None:
        values = [", ".join(self.number(most, nulls) for _ in range(width)) for _ in range(rows)]
        if values:
            self.statement(f"INSERT INTO {name} VALUES " + ", ".join(f"({v})" for v in values))

    def number(self, most: int = 99, nulls: int = 10) -> str:
        return "NULL" if self.choices.chance(nulls) else str(self.choices.below(most))

    # Expressions --------------------------------------------------------------------------------------------------

    def value(self, columns: list[str], depth: int) -> str:
        """A number made of columns and numbers; at most three of them are multiplied."""
        made = self._value(columns, depth)
        return made if made.count("*") <= 3 else self.leaf(columns)

    def leaf(self, columns: list[str]) -> str:
        sign = self.choices.pick(("", "- ", "+ ", "- + ", "+ - "))
        if not columns or self.choices.chance(30):
            return sign + str(self.choices.below(99))
        return "CAST(NULL AS BIGINT)" if self.choices.chance(6) else sign + self.choices.pick(columns)

    def _value(self, columns: list[str], depth: int) -> str:
        if depth == 0 or self.choices.chance(25):
            return self.leaf(columns)

        def part() -> str:
            return self._value(columns, depth - 1)

        kind = self.choices.below(9)
        if kind == 0:
            return f"COALESCE({part()}, {part()}, {part()})"
        if kind == 1:
            return f"NULLIF({part()}, {part()})"
        if kind == 2:
            return f"CASE WHEN {self.condition(columns, depth - 1)} THEN {part()} ELSE {part()} END"
        if kind == 3:
            return f"CASE {part()} WHEN {part()} THEN {part()} WHEN {part()} THEN {part()} END"
        if kind == 4:
            return f"ABS({part()})"
        operator = self.choices.pick(("+", "-", "*", "+"))
        return f"{self.choices.pick(('', '- ', '+ '))}({part()} {operator} {part()})"

    def condition(self, columns: list[str], depth: int) -> str:
        def part() -> str:
            return self.value(columns, max(depth - 1, 0))

        denied = "NOT " if self.choices.chance(30) else ""
        kind = self.choices.below(8)
        if kind == 0:
            low, high = (("NULL" if self.choices.chance(20) else part()) for _ in range(2))
            return f"{denied}{part()} {denied}BETWEEN {low} AND {high}"
        if kind == 1:
            listed = ", ".join("NULL" if self.choices.chance(10) else part() for _ in range(1 + self.choices.below(4)))
            return f"{part()} {denied}IN ({listed})"
        if kind == 2:
            return f"{part()} IS {denied}NULL"
        if kind in (3, 4) and depth > 0:
            both = (self.condition(columns, depth - 1) for _ in range(2))
            return f"{denied}({self.choices.pick((' AND ', ' OR ')).join(both)})"
        right = "NULL" if self.choices.chance(5) else part()
        return f"{denied}{part()} {self.choices.pick(_COMPARE)} {right}"

    def aggregate(self, columns: list[str], depth: int) -> str:
        kind = self.choices.below(7)
        if kind == 0:
            return "COUNT(*)"
        name = ("COUNT", "SUM", "MIN", "MAX", "AVG", "COUNT")[kind - 1]
        return f"{name}({self.choices.pick(('', 'DISTINCT '))}{self.value(columns, depth)})"

    def over_groups(self, keys: list[str], columns: list[str]) -> str:
        """A number of a group: of its keys and of aggregates."""
        if keys and self.choices.chance(40):
            return self.value(keys, 2)
        made = self.aggregate(columns, 2)
        return (
            f"{self.choices.pick(('', '- ', '+ '))}{made}" if self.choices.chance(50) else f"{made} + {self.leaf(keys)}"
        )


def _expressions(file: _File) -> None:
    """Deep expressions over three tables of three rows; an alias is often a column's name."""
    columns = ["col0", "col1", "col2"]
    for t in range(3):
        file.table(f"tab{t}", columns, 3)
    for _ in range(60):
        table, choices = f"tab{file.choices.below(3)}", file.choices
        cross = f" CROSS JOIN tab{choices.below(3)} AS cor0" if choices.chance(25) else ""
        names = [f"cor0.{c}" for c in columns] if cross else columns
        aliases = (f" AS {choices.pick((*columns, 'x'))}" if i == 0 and choices.chance(50) else "" for i in range(2))
        if choices.chance(40):
            items = ", ".join(file.aggregate(names, 3) + a for a in aliases)
        else:
            items = choices.pick(("", "DISTINCT ")) + ", ".join(file.value(names, 4) + a for a in aliases)
        where = f" WHERE {file.condition(names, 3)}" if choices.chance(60) else ""
        file.query(f"SELECT {items} FROM {table}{cross}{where}")


def _groups(file: _File) -> None:
    """GROUP BY and HAVING, where the alias of an item hides a column."""
    columns = ["col0", "col1", "col2"]
    for t in range(3):
        file.table(f"tab{t}", columns, 3 + 4 * t, most=6 if t else 99)
    for _ in range(50):
        choices, table = file.choices, f"tab{file.choices.below(3)}"
        keys = choices.some(columns, 1, 3)
        items = []
        for i in range(1 + choices.below(3)):
            alias = f" AS {choices.pick((*columns, 'x'))}" if i == 0 and choices.chance(50) else ""
            items.append(file.over_groups(keys, columns) + alias)
        where = f" WHERE {file.condition(columns, 2)}" if choices.chance(40) else ""
        having = f" HAVING {file.condition(keys, 2)}" if choices.chance(60) else ""
        if not having and choices.chance(40):
            having = f" HAVING {file.aggregate(columns, 1)} {choices.pick(_COMPARE)} {file.leaf(keys)}"
        file.query(f"SELECT {', '.join(items)} FROM {table}{where} GROUP BY {', '.join(keys)}{having}")
        file.query(
            f"SELECT {file.aggregate(columns, 2)} FROM {table} HAVING {file.aggregate(columns, 1)} > {file.leaf([])}"
        )


def _many_joins(file: _File) -> None:
    """Up to nine tables joined by equalities between their columns, in any order, and some by a number."""
    tables = [f"t{i}" for i in range(1, 10)]
    for i in range(1, 10):
        file.table(f"t{i}", [f"{c}{i}" for c in "abc"], 6, most=7, nulls=12)
    for _ in range(40):
        choices = file.choices
        chosen = choices.some(tables, 2, 9)
        chosen.sort(key=lambda _: choices.below(1000))
        conditions = []
        for at, table in enumerate(chosen):
            column = f"{choices.pick('abc')}{table[1:]}"
            if at:
                other = chosen[choices.below(at)]
                sides = [column, f"{choices.pick('abc')}{other[1:]}"]
                conditions.append(" = ".join(sides if choices.chance(50) else sides[::-1]))
            if choices.chance(30):
                conditions.append(f"{choices.below(7)} = {choices.pick('abc')}{table[1:]}")
        items = [f"{choices.pick('abc')}{t[1:]}" for t in choices.some(chosen, 1, len(chosen))]
        items = [f"{c} + {choices.below(9)}" if choices.chance(20) else c for c in items]
        if choices.chance(40):
            items = [f"{choices.pick(('COUNT', 'SUM', 'MIN', 'MAX'))}({c})" for c in items]
        conditions.sort(key=lambda _: choices.below(1000))
        file.query(f"SELECT {', '.join(items)} FROM {', '.join(chosen)} WHERE {' AND '.join(conditions)}")


def _outer_joins(file: _File) -> None:
    """Chains of joins of every kind over tables in which a third of the values are NULL."""
    for i in range(1, 5):
        file.table(f"t{i}", ["a", "b", "c"], 2 + file.choices.below(6), most=4, nulls=33)
    for _ in range(50):
        choices = file.choices
        count = 2 + choices.below(3)
        text, columns = f"t{1 + choices.below(4)} AS r0", [f"r0.{c}" for c in "abc"]
        for i in range(1, count):
            mine = [f"r{i}.{c}" for c in "abc"]
            join = choices.pick(_JOINS)
            on = f" ON {choices.pick(columns)} = {choices.pick(mine)}"
            if choices.chance(40):
                on += f" AND {file.condition([*columns, *mine], 1)}"
            columns += mine
            text += f" {join} t{1 + choices.below(4)} AS r{i}" + ("" if join == "CROSS JOIN" else on)
        where = f" WHERE {file.condition(columns, 2)}" if choices.chance(60) else ""
        items = ", ".join(choices.some(columns, 1, 4)) if choices.chance(60) else file.aggregate(columns, 1)
        file.query(f"SELECT {items} FROM {text}{where}")


def _subqueries(file: _File) -> None:
    """One table, read again inside: counts of smaller rows, comparisons with an average, EXISTS, IN and NOT IN."""
    columns = list("abcde")
    file.table("t1", columns, 20, most=25, nulls=15)
    file.table("t2", columns, 6, most=25, nulls=25)

    def subquery() -> str:
        c, other = file.choices.pick(columns), file.choices.pick(("t1", "t2"))
        name = file.choices.pick(("COUNT(*)", f"SUM(x.{c})", f"MIN(x.{c})", f"MAX(x.{c})", f"AVG(x.{c})"))
        inner = f"x.{file.choices.pick(columns)} {file.choices.pick(_COMPARE)} t1.{file.choices.pick(columns)}"
        return f"(SELECT {name} FROM {other} AS x WHERE {inner})"

    def test() -> str:
        choices, c = file.choices, file.choices.pick(columns)
        denied, other = choices.pick(("", "NOT ")), choices.pick(("t1", "t2"))
        tie = f"x.{choices.pick(columns)} {choices.pick(_COMPARE)} t1.{choices.pick(columns)}"
        return choices.pick(
            (
                f"{denied}EXISTS (SELECT 1 FROM {other} AS x WHERE {tie} AND x.{c} = t1.{choices.pick(columns)})",
                f"{c} {denied}IN (SELECT x.{choices.pick(columns)} FROM {other} AS x WHERE {tie})",
                f"{c} {denied}IN (SELECT {choices.pick(columns)} FROM {other})",
                f"{c} {choices.pick(_COMPARE)} (SELECT AVG({c}) FROM {other})",
                f"{c} {choices.pick(_COMPARE)} {subquery()}",
                file.condition(columns, 2),
            )
        )

    for _ in range(40):
        choices = file.choices
        items = [
            choices.pick(
                (file.value(columns, 2), choices.pick(columns), subquery(), f"CASE WHEN {test()} THEN 1 ELSE 0 END")
            )
            for _ in range(1 + choices.below(3))
        ]
        where = f" {choices.pick(('AND', 'OR'))} ".join(test() for _ in range(1 + choices.below(3)))
        places = ", ".join(str(i + 1) for i in range(len(items)))
        file.query(f"SELECT {', '.join(items)} FROM t1 WHERE {where} ORDER BY {places}", ordered=True)


def _changes(file: _File) -> None:
    """Conditions of every kind over two tables of the same rows, while rows are inserted, updated and deleted."""
    columns = ["pk", "col0", "col1", "col2"]
    for t in range(2):
        file.table(f"tab{t}", columns, 0)
    for _ in range(12):
        choices, name = file.choices, f"tab{file.choices.below(2)}"
        file.insert(name, 4, 1 + choices.below(8), 40, 15)
        if choices.chance(50):
            changed = choices.pick(columns)
            file.statement(f"UPDATE {name} SET {changed} = {file.value(columns, 1)} WHERE {file.condition(columns, 2)}")
        if choices.chance(40):
            file.statement(f"DELETE FROM {name} WHERE {file.condition(columns, 2)}")
        for _ in range(4):
            items, where = ", ".join(choices.some(columns, 1, 4)), file.condition(columns, 3)
            file.query(f"SELECT {items} FROM {name} WHERE {where}")
            word = choices.pick(("UNION", "UNION ALL", "EXCEPT", "INTERSECT"))
            other = file.condition(columns, 2)
            file.query(f"SELECT {items} FROM tab0 WHERE {where} {word} SELECT {items} FROM tab1 WHERE {other}")


KINDS: dict[str, Callable[[_File], None]] = {
    "expressions": _expressions, "groups": _groups, "joins": _many_joins, "outer joins": _outer_joins,
    "subqueries": _subqueries, "changes": _changes,
}  # fmt: skip


def generated(seed: int) -> tuple[str, str]:
    """A file's name and text; seeds that follow each other are of different kinds."""
    kind = list(KINDS)[seed % len(KINDS)]
    file = _File(seed, kind)
    KINDS[kind](file)
    return f"{kind} {seed}", "\n".join(file.lines) + "\n"
