"""Subqueries: bound once each, as nodes; gone after the first pass."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import freshet.sql
from freshet.logical.apply import Apply, ApplyKind, applies, outer_columns, own_expressions, sources
from freshet.logical.query import AnyQuery, Query
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import walk
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query
from freshet.sql.select import SelectBinder
from freshet.sql.selection import Selection
from freshet.sql.source import SqlText

DDL = "CREATE TABLE a (k INT NOT NULL, x INT); CREATE TABLE b (k INT, x INT)"
TEXTS = [
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.x > a.x)",
    "SELECT k, (SELECT MAX(x) FROM b WHERE b.k < a.k) AS m FROM a",
    "SELECT (SELECT COUNT(*) FROM b WHERE b.k = a.k) AS n, COUNT(*) AS m FROM a GROUP BY n",
    "SELECT (SELECT COUNT(*) FROM b) AS n, COUNT(*) AS m FROM a GROUP BY 1",
    "SELECT x FROM a GROUP BY x HAVING COUNT(*) > (SELECT COUNT(*) FROM b WHERE b.x > a.x)",
    "SELECT k FROM a WHERE x NOT IN (SELECT x FROM b WHERE b.k = a.k)",
    "SELECT k, (SELECT n FROM (SELECT COUNT(*) AS n FROM b WHERE b.k = a.k) AS s) AS m FROM a",
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b LEFT JOIN a AS c ON c.k = b.k AND c.x = a.x)",
    "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b FULL JOIN a AS c ON c.k = b.k AND c.x = a.x)",
    "SELECT k, (WITH w AS (SELECT x FROM b WHERE b.k = a.k) SELECT COUNT(*) FROM w) AS m FROM a",
]


def bound(sql: str) -> AnyQuery:
    """A query before any pass."""
    statement = next(iter(SqlText(sql).statements()))
    return SelectBinder(statement, Catalog.from_ddl(DDL)).query(statement.parse())


def everything(query: AnyQuery) -> list[AnyQuery]:
    return [query, *(q for source in sources(query) for q in everything(source))]


@pytest.mark.parametrize("sql", TEXTS)
def test_every_select_is_bound_once(sql: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    plain = Selection.bind

    def counted(self: Selection, ordered: bool = False) -> AnyQuery:
        made.append(id(self.node))
        return plain(self, ordered)

    monkeypatch.setattr(Selection, "bind", counted)
    bind_query(sql, Catalog.from_ddl(DDL))
    assert len(made) == len(set(made)) == sql.count("SELECT")


@pytest.mark.parametrize("sql", TEXTS)
def test_no_subquery_is_left_in_a_rewritten_query(sql: str) -> None:
    whole = everything(bind_query(sql, Catalog.from_ddl(DDL)))
    assert not [e for q in whole for x in own_expressions(q) for e in walk(x) if isinstance(e, Apply)]
    assert not outer_columns(whole[0])


def test_binding_leaves_a_subquery_as_a_function_of_what_it_reads() -> None:
    query = bound("SELECT k FROM a WHERE x IN (SELECT x FROM b WHERE b.k = a.k)")
    assert isinstance(query, Query)
    (apply,) = [subquery for e in own_expressions(query) for subquery in applies(e)]
    assert apply.kind is ApplyKind.ANY and apply.comparison == ComparisonOperator.EQUAL
    assert [getattr(e, "name", "") for e in apply.values] == ["x"]
    assert [getattr(e, "name", "") for e in apply.outer] == ["k"]
    assert [e.column for e in outer_columns(apply.query)] == [0]


def test_what_is_caught_in_binding_is_raised_again() -> None:
    """An error gets its position on the way; exceptions do not control binding."""
    for path in Path(freshet.sql.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ExceptHandler) and "Sql" in ast.unparse(node.type or ast.Constant("")):
                assert any(isinstance(e, ast.Raise) for e in ast.walk(node)), f"{path.name}:{node.lineno}"
