"""CREATE, DROP, INSERT, UPDATE, DELETE: the bound form of each statement."""

from __future__ import annotations

import pytest

from freshet.logical.query import Field, ForeignKey, Query, TableSchema
from freshet.logical.statements import CreateTable, CreateView, Delete, DropTable, DropView, Insert, Update
from freshet.scalar import types
from freshet.scalar.describe import describe
from freshet.scalar.expression import Literal
from freshet.scalar.types import Type
from freshet.sql.catalog import Catalog
from freshet.sql.parse import parse


def one(text: str, catalog: Catalog) -> object:
    (statement,) = parse(text, catalog)
    return statement


def test_create_table() -> None:
    text = (
        "CREATE TABLE IF NOT EXISTS t (a INT, b VARCHAR(10) NOT NULL REFERENCES u(x), "
        "PRIMARY KEY (a), CONSTRAINT f FOREIGN KEY (a, b) REFERENCES w(p, q))"
    )
    fields = (Field("a", types.INT, False), Field("b", Type("STRING", length=10), False))
    foreign = (ForeignKey((1,), "u", ("x",)), ForeignKey((0, 1), "w", ("p", "q")))
    assert one(text, Catalog()) == CreateTable(TableSchema("t", fields, (0,), foreign), True)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("BOOLEAN", types.BOOLEAN),
        ("TINYINT", types.TINYINT),
        ("BYTE", types.TINYINT),
        ("SMALLINT", types.SMALLINT),
        ("SHORT", types.SMALLINT),
        ("INT", types.INT),
        ("INTEGER", types.INT),
        ("BIGINT", types.BIGINT),
        ("LONG", types.BIGINT),
        ("FLOAT", types.FLOAT),
        ("REAL", types.FLOAT),
        ("DOUBLE", types.DOUBLE),
        ("DECIMAL", types.decimal(10, 0)),
        ("DECIMAL(12)", types.decimal(12, 0)),
        ("NUMERIC(38, 10)", types.decimal(38, 10)),
        ("STRING", types.STRING),
        ("TEXT", types.STRING),
        ("VARCHAR(3)", Type("STRING", length=3)),
        ("CHAR(3)", Type("STRING", length=3, char=True)),
        ("DATE", types.DATE),
        ("TIMESTAMP", types.TIMESTAMP),
        ("TIMESTAMP_NTZ", types.TIMESTAMP),
        ("TIMESTAMP_LTZ", types.TIMESTAMP),
    ],
)
def test_types(written: str, meant: Type) -> None:
    bound = one(f"CREATE TABLE t (c {written})", Catalog())
    assert isinstance(bound, CreateTable)
    assert bound.schema.fields[0].type == meant


def test_a_view_keeps_the_text_of_its_query(catalog: Catalog) -> None:
    text = "SELECT k AS `as`, s -- kept\n  FROM a WHERE s = 'as'"
    view, query = parse(f"CREATE MATERIALIZED VIEW IF NOT EXISTS v AS\n  {text} ; SELECT * FROM v", catalog)
    assert view == CreateView("v", text, True)
    assert isinstance(query, Query) and [f.name for f in query.fields] == ["as", "s"]
    assert catalog.view("v") is None, "the caller's catalog is not changed"


def test_drop(catalog: Catalog) -> None:
    assert parse("DROP TABLE c; DROP TABLE IF EXISTS nope", catalog) == [DropTable("c"), DropTable("nope", True)]
    assert parse("DROP MATERIALIZED VIEW plain; DROP VIEW grouped", catalog) == [DropView("plain"), DropView("grouped")]
    assert parse("DROP TABLE a CASCADE; DROP VIEW IF EXISTS grouped CASCADE; DROP TABLE b RESTRICT", catalog) == [
        DropTable("a", cascade=True), DropView("grouped", True, True), DropTable("b"),
    ]  # fmt: skip


def test_a_dropped_table_is_gone_for_the_next_statement(catalog: Catalog) -> None:
    created = parse("DROP TABLE c; CREATE TABLE c (q INT); SELECT q FROM c", catalog)
    assert isinstance(created[2], Query)


def test_names_ignore_case(catalog: Catalog) -> None:
    assert catalog.table("A") is catalog.table("a") is not None
    assert isinstance(one("SELECT A.K FROM A", catalog), Query)


def test_insert_casts_to_the_columns(catalog: Catalog) -> None:
    bound = one("INSERT INTO a (y, k, p, d) VALUES (1, 2, 1.5, '2020-01-02'), (1 + 1, NULL, 3, NULL)", catalog)
    decimal = types.decimal(10, 2)
    assert bound == Insert(
        "a",
        (2, 0, 5, 4),
        (
            (Literal(types.INT, 1), Literal(types.BIGINT, 2), Literal(decimal, 150), Literal(types.DATE, 18263)),
            (Literal(types.INT, 2), Literal(types.BIGINT, None), Literal(decimal, 300), Literal(types.DATE, None)),
        ),
    )


def test_insert_select_casts_outputs(catalog: Catalog) -> None:
    bound = one("INSERT INTO b SELECT x, k, count(*) FROM c GROUP BY x, k", catalog)
    assert isinstance(bound, Insert) and bound.rows is None and isinstance(bound.query, Query)
    assert [o.type for o in bound.query.outputs] == [types.BIGINT, types.INT, types.INT]
    assert [f.type for f in bound.query.fields] == [types.BIGINT, types.INT, types.INT]


def test_insert_select_distinct_casts_afterwards(catalog: Catalog) -> None:
    bound = one("INSERT INTO b SELECT DISTINCT k, x, p FROM a", catalog)
    assert isinstance(bound, Insert) and isinstance(bound.query, Query)
    assert not bound.query.distinct
    inner = bound.query.relations[0].source
    assert isinstance(inner, Query) and inner.distinct


def test_update(catalog: Catalog) -> None:
    bound = one("UPDATE a AS t SET x = t.y + 1, s = NULL WHERE NOT t.k > 3", catalog)
    assert isinstance(bound, Update)
    assert bound.columns == (1, 3)
    assert [describe(v) for v in bound.values] == ["(y + 1)", "NULL"]
    assert bound.where is not None and describe(bound.where) == "(k <= 3)"


def test_delete(catalog: Catalog) -> None:
    assert one("DELETE FROM a", catalog) == Delete("a", None)
    bound = one("DELETE FROM a WHERE x IS NULL", catalog)
    assert isinstance(bound, Delete) and bound.where is not None and describe(bound.where) == "IS_NULL(x)"
