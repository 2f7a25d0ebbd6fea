"""LEFT, RIGHT and FULL joins, chained, with any condition in ON and WHERE, in FROM and in subqueries."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import freshet
from freshet.logical.extent import Extents
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query
from tests.small_tables import COLUMNS, KEYED, TableModel, follow

column = st.sampled_from(COLUMNS)


@st.composite
def conditions(draw: st.DrawFn, earlier: list[str], new: str) -> str:
    """Conditions in ON over a new relation and those before it."""

    def compared(operator: str = "=") -> str:
        return f"{draw(st.sampled_from(earlier))}.{draw(column)} {operator} {new}.{draw(column)}"

    kind = draw(st.sampled_from(("one", "one", "one", "two", "or", "compare", "own", "null", "expression")))
    return {
        "one": lambda: compared(),
        "two": lambda: f"{compared()} AND {compared()}",
        "or": lambda: f"({compared()} OR {compared()})",
        "compare": lambda: f"{compared()} AND {compared(draw(st.sampled_from(('<', '<=', '<>'))))}",
        "own": lambda: (
            f"{compared()} AND {new}.{draw(column)} > 0 AND {draw(st.sampled_from(earlier))}.{draw(column)} < 2"
        ),
        "null": lambda: f"{compared()} AND {draw(st.sampled_from(earlier))}.{draw(column)} IS NULL",
        "expression": lambda: f"{new}.{draw(column)} = COALESCE({draw(st.sampled_from(earlier))}.{draw(column)}, 1)",
    }[kind]()


@st.composite
def chains(draw: st.DrawFn, tables: list[TableModel]) -> tuple[str, list[str]]:
    """FROM, and the names in it."""
    names, text = ["r0"], f"{draw(st.sampled_from(tables)).name} r0"
    if draw(st.booleans()):  # full joins by the value that the joins before have in common, or by one of their tables
        x = draw(column)
        for i in range(1, draw(st.integers(2, 4))):
            common = f"COALESCE({', '.join(f'{name}.{x}' for name in names)})" if i > 1 else f"r0.{x}"
            other = f"{draw(st.sampled_from(names))}.{draw(column)}"
            on = draw(st.sampled_from((common, common, other))) + f" = r{i}.{x}"
            more = draw(st.sampled_from(("", "", f" AND {other} > 0", f" AND {other} IS NULL", f" AND r{i}.b < 2")))
            text += f" FULL JOIN {draw(st.sampled_from(tables)).name} r{i} ON {on}{more}"
            names.append(f"r{i}")
        return text, names
    for i in range(1, draw(st.integers(2, 4))):
        kind = draw(st.sampled_from(("LEFT", "LEFT", "RIGHT", "FULL", "INNER")))
        text += f" {kind} JOIN {draw(st.sampled_from(tables)).name} r{i} ON {draw(conditions(names, f'r{i}'))}"
        names.append(f"r{i}")
    return text, names


@given(st.data())
def test_outer_joins_agree_with_duckdb(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(KEYED)) for i in range(2)]
    joins, names = data.draw(chains(tables))
    some = st.sampled_from(names)
    where = data.draw(
        st.sampled_from(
            (
                "",
                "",
                f" WHERE {data.draw(some)}.{data.draw(column)} IS NULL",
                f" WHERE COALESCE({data.draw(some)}.{data.draw(column)}, 1) = 1",
                f" WHERE {data.draw(some)}.{data.draw(column)} >= 1",
                f" WHERE EXISTS (SELECT 1 FROM t0 x WHERE x.b = {data.draw(some)}.{data.draw(column)})",
                f" WHERE NOT EXISTS (SELECT 1 FROM t1 x WHERE x.b = {data.draw(some)}.b OR x.c = {data.draw(some)}.c)",
            )
        )
    )
    shown = ", ".join(f"{name}.{data.draw(column)} AS o{i}" for i, name in enumerate(names))
    shape = data.draw(
        st.sampled_from(
            (
                f"SELECT {shown} FROM {joins}{where}",
                f"SELECT {shown} FROM {joins}{where}",
                f"SELECT {names[-1]}.a AS k, SUM({names[0]}.b) AS s FROM {joins}{where} GROUP BY {names[-1]}.a",
                f"SELECT DISTINCT {shown} FROM {joins}{where}",
                f"SELECT y.a FROM t1 y WHERE EXISTS (SELECT 1 FROM {joins}{where or ' WHERE 1 = 1'} AND r0.b = y.b)",
                f"SELECT y.a, u.o1 FROM t1 y LEFT JOIN (SELECT {shown} FROM {joins}{where}) u ON u.o0 = y.b",
            )
        )
    )
    follow(data, tables, shape)


WRITTEN = (
    "SELECT * FROM t0 RIGHT JOIN t1 USING (a)",
    "SELECT * FROM t0 FULL JOIN t1 USING (a)",
    "SELECT a, t0.b, t1.c FROM t0 FULL JOIN t1 USING (a, b)",
    "SELECT b, t0.a AS x, t1.a AS y FROM t0 RIGHT JOIN t1 USING (b)",
    "SELECT b, a, c, d FROM t0 NATURAL FULL JOIN (SELECT b, c AS d FROM t1) u",
    "SELECT r.a, s.b, u.c FROM t0 r, t1 s RIGHT JOIN t0 u ON s.a = u.b",
    "SELECT r.a, s.b, u.c FROM t0 r, t1 s FULL JOIN t0 u ON s.a = u.b AND r.c = u.c",
    "SELECT r.a, s.b, u.c FROM t0 r, t1 s LEFT JOIN t0 u ON s.a = u.b AND r.c < u.c",
    "SELECT r.a, s.b FROM t0 r, (t1 s RIGHT JOIN t0 u ON s.a = u.b) WHERE r.c = u.c",
    "SELECT r.a, s.b, u.c FROM t0 r LEFT JOIN (t1 s RIGHT JOIN t0 u ON s.a = u.b) ON r.c = u.c",
    "SELECT r.a, s.b, u.c FROM t0 r FULL JOIN t1 s ON r.a = s.a FULL JOIN t0 u ON u.b = COALESCE(r.a, s.a)",
    "SELECT r.a, n FROM t0 r FULL JOIN (SELECT b, COUNT(*) AS n FROM t1 GROUP BY b) g ON g.b = r.b",
    "SELECT a FROM t0 FULL JOIN (SELECT b AS z FROM t1) u ON FALSE",
    "SELECT b, r.c, s.a, u.a AS e FROM t0 r FULL JOIN t1 s USING (b) FULL JOIN t0 u USING (b) FULL JOIN t1 w USING (b)",
    "SELECT b, c, r.a, s.a AS z, u.a AS y FROM t0 r FULL JOIN t1 s USING (b, c) FULL JOIN t0 u USING (b, c)",
    "SELECT b, r.a, u.a AS y FROM t0 r LEFT JOIN t1 s USING (b) FULL JOIN t0 u USING (b) RIGHT JOIN t1 w USING (b)",
    "SELECT r.a, s.a AS z, u.a AS y FROM t0 r FULL JOIN (t1 s FULL JOIN t0 u ON s.b = u.b) ON r.c = s.c",
    "SELECT r.a, s.a AS z, u.a AS y FROM t0 r FULL JOIN (t1 s FULL JOIN t0 u ON s.b = u.b) ON r.b = COALESCE(s.b, u.b)",
    "SELECT r.a, s.a AS z, u.a AS y FROM t0 r FULL JOIN t1 s ON r.b = s.b FULL JOIN t0 u ON s.b IS NULL AND r.c = u.c",
    "SELECT r.a, s.a AS z FROM t0 r LEFT JOIN t1 s ON r.a < s.a AND r.b < s.b",
    "SELECT r.a FROM t0 r LEFT JOIN t1 s ON r.b = s.b LEFT JOIN t1 u ON u.b = s.b AND u.c = r.c WHERE u.a IS NULL",
)


@pytest.mark.parametrize("sql", WRITTEN)
@given(st.data())
@settings(max_examples=12)
def test_written_joins_agree_with_duckdb(sql: str, data: st.DataObject) -> None:
    """A comma joins like CROSS JOIN, as in Spark; DuckDB first joins the items between commas."""
    oracle = sql.replace("t0 r, t1 s", "t0 r CROSS JOIN t1 s")
    follow(data, [TableModel(f"t{i}", data.draw(KEYED)) for i in range(2)], sql, oracle)


def tables(joins: int) -> str:
    return "; ".join(f"CREATE TABLE t{i} (k INT, a INT)" for i in range(joins + 1))


@pytest.mark.parametrize("on", ["USING (k)", "ON t{i}.k = t{before}.a", "ON t{i}.k = t0.k"])
def test_full_joins_do_not_double(on: str) -> None:
    """The reads of n full joins grow with the square of n: each reads the tables before it, not their join."""
    read = {}
    for joins in (4, 8, 16):
        chain = "".join(f" FULL JOIN t{i} {on.format(i=i, before=i - 1)}" for i in range(1, joins + 1))
        bound = bind_query(f"SELECT t0.a FROM t0{chain}", Catalog.from_ddl(tables(joins)))
        read[joins] = Extents().relations(bound)
    assert read[16] <= 4 * read[8] <= 16 * read[4]
    assert read[16] <= 17 * 17


def test_what_is_stored_is_said() -> None:
    ddl = "CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, x INT); CREATE TABLE c (k INT, x INT)"
    text = freshet.plan("SELECT a.k FROM a JOIN b ON a.k = b.k LEFT JOIN c ON c.k = a.x AND c.x = b.x", ddl).explain()
    assert "the rows of (a, b) are stored as well" in text


def test_one_table_is_enough() -> None:
    """Nothing is stored if the values that an arm reads are those of one table, also through an equality."""
    ddl = "CREATE TABLE a (k INT, x INT); CREATE TABLE b (k INT, x INT); CREATE TABLE c (k INT, x INT)"
    text = freshet.plan("SELECT a.k FROM a JOIN b ON a.k = b.k LEFT JOIN c ON c.k = a.k AND c.x = b.x", ddl).explain()
    assert "stored as well" not in text


@given(st.data())
def test_a_full_join_after_a_comma_joins_all_that_stands_before(data: st.DataObject) -> None:
    ours = "t0 AS a FULL JOIN t1 AS b ON a.a = b.a, t0 AS c FULL JOIN t1 AS d ON c.b = a.b"
    theirs = (
        "(SELECT a.b AS ab, b.b AS bb, c.b AS cb FROM (t0 a FULL JOIN t1 b ON a.a = b.a) CROSS JOIN t0 c) x "
        "FULL JOIN t1 d ON x.cb = x.ab"
    )
    tables = [TableModel(f"t{i}", data.draw(KEYED)) for i in range(2)]
    follow(
        data, tables, f"SELECT a.b AS ab, b.b AS bb, c.b AS cb, d.b AS db FROM {ours}",
        f"SELECT ab, bb, cb, d.b AS db FROM {theirs}",
    )  # fmt: skip
