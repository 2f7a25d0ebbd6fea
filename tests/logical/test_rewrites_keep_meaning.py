"""Random queries over tiny tables with NULLs: the bound form, run naively, has DuckDB's answer to the text."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any, TypeVar

import duckdb
import pytest

from freshet.errors import UnsupportedError
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query
from tests.logical.naive_query import Tables, answer

DDL = "CREATE TABLE a (k INT NOT NULL, x INT); CREATE TABLE b (k INT, x INT); CREATE TABLE c (k INT, x INT)"

T = TypeVar("T")


class Writer:
    """Generates random SQL. `aliases` are the names that the current clause may use."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.made = 0

    def pick(self, *choices: T) -> T:
        return self.random.choice(choices)

    def chance(self, percent: int) -> bool:
        return self.random.randrange(100) < percent

    def alias(self) -> str:
        self.made += 1
        return f"t{self.made}"

    def column(self, aliases: list[str]) -> str:
        return f"{self.pick(*aliases)}.{self.pick('k', 'x')}"

    def test(self, aliases: list[str], depth: int = 0) -> str:
        left, right = self.column(aliases), self.column(aliases)
        if depth < 2 and self.chance(30):
            inner = f"{self.test(aliases, depth + 1)} {self.pick('AND', 'OR')} {self.test(aliases, depth + 1)}"
            return f"{self.pick('', 'NOT ')}({inner})"
        return self.pick(
            f"{left} = {right}",
            f"{left} = {right}",
            f"{left} {self.pick('<', '<=', '<>', '>')} {right}",
            f"{left} {self.pick('=', '>', '<>')} {self.pick(0, 1, 2)}",
            f"{left} IS NULL",
            f"{left} IS NOT NULL",
            f"{left} IS NOT DISTINCT FROM {right}",
            f"coalesce({left}, 1) = {right}",
            f"{left} BETWEEN 1 AND {right}",
            f"{left} NOT IN (1, 3)",
        )

    def item(self, depth: int) -> str:
        if depth < 2 and self.chance(35):
            return self.subquery(depth + 1)
        return self.pick("a", "b", "c")

    def subquery(self, depth: int) -> str:
        if self.chance(20):
            table = self.pick("a", "b", "c")
            return f"(SELECT k, {self.pick('count(*)', 'sum(x)', 'max(x)')} AS x FROM {table} GROUP BY k)"
        clause, aliases = self.tables(depth)
        x = self.pick(self.column(aliases), self.column(aliases), "1", f"coalesce({self.column(aliases)}, 0)")
        word = "SELECT DISTINCT" if self.chance(15) else "SELECT"
        return f"({word} {self.column(aliases)} AS k, {x} AS x FROM {clause}{self.where(aliases, depth)})"

    def tables(self, depth: int) -> tuple[str, list[str]]:
        aliases = [self.alias()]
        clause = f"{self.item(depth)} AS {aliases[0]}"
        for _ in range(self.pick(0, 1, 1, 2) if depth else self.pick(1, 1, 2, 3)):
            alias = self.alias()
            item = f"{self.item(depth)} AS {alias}"
            new = [alias]
            if depth < 2 and self.chance(10):
                other = self.alias()
                on = self.test([alias, other])
                item, new = (
                    f"({item} {self.pick('JOIN', 'LEFT JOIN')} {self.item(2)} AS {other} ON {on})",
                    [alias, other],
                )
            on = f"{self.column(new)} = {self.column(aliases)}" if self.chance(75) else self.test([*aliases, *new])
            aliases += new
            clause += f" {self.pick('JOIN', 'LEFT JOIN', 'LEFT JOIN')} {item} ON {on}"
        return clause, aliases

    def where(self, aliases: list[str], depth: int) -> str:
        parts = [self.test(aliases) for _ in range(self.pick(0, 0, 1, 2))]
        if depth < 2 and self.chance(40):
            clause, inner = self.tables(2 if depth else 1)
            tests = [f"{self.column(inner)} = {self.column(aliases)}"] if self.chance(80) else []
            tests += [self.test([*inner, *aliases])] if self.chance(40) else []
            if self.chance(25) and depth == 0:
                deep = self.alias()
                tests.append(
                    f"{self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM b AS {deep} WHERE {self.test([deep, *inner])})"
                )
            condition = f" WHERE {' AND '.join(tests)}" if tests else ""
            if self.chance(70):
                parts.append(f"{self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {clause}{condition})")
            else:
                parts.append(f"{self.column(aliases)} IN (SELECT {self.column(inner)} FROM {clause}{condition})")
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def query(self) -> str:
        clause, aliases = self.tables(0)
        body = f"FROM {clause}{self.where(aliases, 0)}"
        key = self.column(aliases)
        if self.chance(25):
            having = self.pick("", " HAVING count(*) > 1")
            outputs = f"{key} AS g, count({self.column(aliases)}), sum({self.column(aliases)})"
            return f"SELECT {outputs} {body} GROUP BY g{having}"
        return f"SELECT {', '.join(self.column(aliases) for _ in range(3))} {body}"


def rows(writer: Writer, nullable: bool) -> list[tuple[Any, ...]]:
    key = (0, 1, 1, None) if nullable else (0, 1)
    return [(writer.pick(*key), writer.pick(0, 1, 1, 2, None)) for _ in range(writer.pick(0, 2, 3, 3, 4))]


@pytest.mark.parametrize("start", range(0, 500, 100))
def test_the_bound_query_means_what_was_written(start: int) -> None:
    catalog, bound, connection = Catalog.from_ddl(DDL), 0, duckdb.connect()
    connection.execute(DDL)
    for seed in range(start, start + 100):
        writer = Writer(seed)
        text = writer.query()
        tables: Tables = {"a": rows(writer, False), "b": rows(writer, True), "c": rows(writer, True)}
        try:
            query = bind_query(text, catalog)
        except UnsupportedError:
            continue
        bound += 1
        for name, content in tables.items():
            listed = ", ".join(f"({k}, {x})" for k, x in content).replace("None", "NULL")
            connection.execute(f"DELETE FROM {name}; " + (f"INSERT INTO {name} VALUES {listed}" if content else ""))
        expected = connection.execute(text).fetchall()
        assert Counter(answer(query, tables)) == Counter(expected), text
    assert bound > 50, "most random queries should be in scope"
