"""Random queries over columns of every kind: nested queries and views, keys that are texts, dates, decimals, NULL or
expressions, arms within arms, and DISTINCT of every class; DuckDB is the oracle after each transaction.

Two views are made, the second sometimes over the first, so that tables also pass through views that only feed others.
"""

from __future__ import annotations

import datetime
import tempfile
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
from hypothesis import event, given, note, settings
from hypothesis import strategies as st

import freshet
from freshet.engine import orders, query
from freshet.state.keys import Dictionary
from freshet.state.strings import StringPool
from tests.oracle import RunningSum, duckdb_answer, same_bag

Row = tuple[Any, ...]

COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "k": ("INT", pa.int32(), [0, 1, 2]),
    "a": ("BIGINT", pa.int64(), [0, 1, 2, -1]),
    "s": ("STRING", pa.string(), ["", "a", "A", "b"]),
    "d": ("DECIMAL(6, 2)", pa.decimal128(6, 2), [Decimal("0.00"), Decimal("1.00"), Decimal("1.50")]),
    "e": ("DATE", pa.date32(), [datetime.date(2024, 1, 31), datetime.date(2024, 2, 29), datetime.date(2025, 2, 28)]),
}
NAMES = tuple(COLUMNS)
NUMBERS = ("k", "a", "d")
KEYS: tuple[tuple[str, ...], ...] = ((), ("k",), ("k", "s"), ("e", "k"), ("s",), ())


@dataclass
class TableModel:
    """A table as the test believes it to be."""

    name: str
    key: tuple[str, ...]
    rows: list[Row] = field(default_factory=list)

    @property
    def ddl(self) -> str:
        columns = [f"{n} {COLUMNS[n][0]}" for n in NAMES]
        columns += [f"PRIMARY KEY ({', '.join(self.key)})"] if self.key else []
        return f"CREATE TABLE {self.name} ({', '.join(columns)})"

    def arrow(self) -> pa.Table:
        lists = list(zip(*self.rows, strict=True)) or [()] * len(NAMES)
        return pa.table({n: pa.array(list(v), COLUMNS[n][1]) for n, v in zip(NAMES, lists, strict=True)})

    def key_of(self, row: Row) -> Row:
        return tuple(row[NAMES.index(n)] for n in self.key)

    def values(self, name: str) -> st.SearchStrategy[Any]:
        chosen = st.sampled_from(COLUMNS[name][2])
        return chosen if name in self.key else st.one_of(st.none(), chosen, chosen, chosen)


class Shape:
    """Draws one SELECT; `sources` are tables and views that have all the columns."""

    def __init__(self, draw: st.DrawFn, sources: list[str], depth: int = 0) -> None:
        self.draw, self.sources, self.depth = draw, sources, depth
        self.count = 0
        self.visible: list[str] = []
        self.shown: list[str] = []

    def pick(self, *choices: str) -> str:
        return self.draw(st.sampled_from(choices))

    def chance(self, one_in: int) -> bool:
        return bool(self.draw(st.integers(0, one_in - 1)) == 0)

    def alias(self) -> str:
        self.count += 1
        return f"r{self.depth}{self.count}"

    def source(self) -> str:
        """A table, a view, or a nested query that has the same columns."""
        table = self.draw(st.sampled_from(self.sources))
        if self.depth > 1 or not self.chance(5):
            return table
        group = self.pick("k", "s", "e", "k % 2", "a")
        rest = {"k": "MIN(k)", "a": "COUNT(*)", "s": "MAX(s)", "d": "MIN(d)", "e": "MAX(e)"}
        as_ = group if group in rest else "k"
        inner = [f"{group if n == as_ else rest[n]} AS {n}" for n in NAMES]
        return self.pick(
            f"(SELECT {', '.join(inner)} FROM {table} GROUP BY {group})",
            f"(SELECT DISTINCT * FROM {table})",
            f"(SELECT * FROM {table} WHERE a IS NULL OR a < 2)",
            f"(SELECT x.k, y.a, x.s, y.d, x.e FROM {table} x JOIN {table} y ON x.k = y.k)",
            f"(SELECT DISTINCT x.k, y.a, NULLIF(x.s, 'b') AS s, y.d, x.e FROM {table} x, {table} y WHERE x.k = y.k)",
        )

    def condition(self, x: str, y: str) -> str:
        """One equality or comparison between two relations."""
        c = self.draw(st.sampled_from(NAMES))
        n, m = self.pick("k", "a"), self.pick("k", "a")
        return self.pick(
            f"{x}.{c} = {y}.{c}",
            f"{y}.{c} = {x}.{c}",
            f"{x}.k = {y}.k",
            f"{x}.{n} = {y}.{m}",
            f"{x}.{c} IS NOT DISTINCT FROM {y}.{c}",
            f"{x}.a + 1 = {y}.k",
            f"{x}.k % 2 = {y}.a",
            f"UPPER({x}.s) = {y}.s",
            f"COALESCE({x}.s, 'a') = COALESCE({y}.s, '')",
            f"YEAR({x}.e) = YEAR({y}.e)",
            f"CAST({x}.a AS DECIMAL(6, 2)) = {y}.d",
        )

    def on(self, x: str, y: str) -> str:
        parts = [self.condition(x, y) for _ in range(self.draw(st.integers(1, 3)))]
        return " AND ".join(dict.fromkeys(parts))

    def filter(self, x: str) -> str:
        return self.pick(
            f"{x}.k >= 1", f"{x}.s <> 'a'", f"{x}.e IS NULL", f"{x}.d < 1.5", f"{x}.s IN ('a', 'b')",
            f"({x}.a = 1 OR {x}.k = 0)", f"NOT ({x}.a = {x}.k)", f"{x}.s LIKE 'a%'", f"{x}.e > DATE '2024-02-01'",
            f"{x}.k = {x}.a",
        )  # fmt: skip

    def subquery(self, host: str) -> str:
        """EXISTS, NOT EXISTS or IN, with up to two tables and perhaps another one inside."""
        inner = Shape(self.draw, self.sources, self.depth + 1)
        y = inner.alias()
        if self.chance(4):
            c = self.draw(st.sampled_from(NAMES))
            kept = f" WHERE {self.filter(y)}" if self.chance(2) else ""
            return f"{host}.{c} IN (SELECT {y}.{c} FROM {inner.source()} {y}{kept})"
        froms, where = [f"{inner.source()} {y}"], [self.on(host, y)]
        if self.chance(3):
            z = inner.alias()
            froms.append(f"JOIN {inner.source()} {z} ON {self.condition(y, z)}")
        if self.chance(2):
            where.append(self.filter(y))
        if self.depth < 1 and self.chance(3):
            where.append(inner.subquery(y))
        return f"{self.pick('', 'NOT ')}EXISTS (SELECT 1 FROM {' '.join(froms)} WHERE {' AND '.join(where)})"

    def select(self) -> str:
        first = self.alias()
        joins, where = [f"{self.source()} {first}"], []
        self.visible, self.shown = [first], [first]
        for _ in range(self.draw(st.integers(0, 4))):
            host = self.draw(st.sampled_from(self.visible))
            kind = self.pick("inner", "inner", "inner", "comma", "left", "left", "subquery", "subquery")
            if kind == "subquery":
                where.append(self.subquery(host))
                continue
            y = self.alias()
            if kind == "left":
                extra = f" AND {self.filter(self.pick(y, y, host))}" if self.chance(3) else ""
                joins.append(f"LEFT JOIN {self.source()} {y} ON {self.on(host, y)}{extra}")
                self.shown.append(y)
                continue
            if kind == "inner":
                joins.append(f"JOIN {self.source()} {y} ON {self.on(host, y)}")
            else:
                joins.append(f"CROSS JOIN {self.source()} {y}")
                where.append(self.on(host, y))
            if len(self.visible) > 1 and self.chance(4):
                other = self.draw(st.sampled_from([v for v in self.visible if v != host] or [host]))
                where.append(f"{other}.k = {y}.k")
            self.visible.append(y)
            self.shown.append(y)
        if self.chance(3):
            where.append(self.filter(self.draw(st.sampled_from(self.shown))))
        if len(self.visible) > 1 and self.chance(6):
            x, y = self.draw(st.sampled_from(self.visible)), self.draw(st.sampled_from(self.visible))
            where.append(f"{x}.{self.pick(*NUMBERS)} {self.pick('<', '<>', '<=')} {y}.{self.pick(*NUMBERS)}")
        text = f" FROM {' '.join(joins)}"
        return text + (f" WHERE {' AND '.join(where)}" if where else "")

    def value(self) -> str:
        x = self.draw(st.sampled_from(self.shown))
        c = self.draw(st.sampled_from(NAMES))
        return self.pick(
            f"{x}.{c}", f"{x}.{c}", f"{x}.{c}", f"{x}.{c}", f"COALESCE({x}.k, -1) + 1", f"{x}.s || '!'",
            f"CASE WHEN {x}.a > 0 THEN {x}.s ELSE 'none' END", f"{x}.e IS NULL", f"YEAR({x}.e)", f"{x}.d * 2",
        )  # fmt: skip

    def query(self) -> str:
        source = self.select()
        values = [self.value() for _ in range(self.draw(st.integers(1, 4)))]
        named = [f"{v} AS o{i}" for i, v in enumerate(values)]
        shape = self.pick("plain", "plain", "distinct", "distinct", "group", "group", "total", "whole")
        if shape == "whole":  # has all the columns, so that another query can read it
            x, y = self.draw(st.sampled_from(self.shown)), self.draw(st.sampled_from(self.shown))
            distinct = self.pick("", "DISTINCT ")
            return f"SELECT {distinct}{x}.k, {y}.a, {x}.s, {y}.d, {y}.e{source}"
        if shape in ("plain", "distinct"):
            return f"SELECT {'DISTINCT ' if shape == 'distinct' else ''}{', '.join(named)}{source}"
        measures = [f"{m} AS m{i}" for i, m in enumerate(self.measures())]
        if shape == "total":
            return f"SELECT {', '.join(measures)}{source}"
        keys = list(dict.fromkeys(values[:3]))
        having = self.pick("", "", " HAVING COUNT(*) > 1", " HAVING MIN(" + f"{self.shown[0]}.k) >= 0")
        shown = [f"{k} AS o{i}" for i, k in enumerate(keys)]
        return f"SELECT {', '.join(shown + measures)}{source} GROUP BY {', '.join(keys)}{having}"

    def measures(self) -> list[str]:
        x = self.draw(st.sampled_from(self.shown))
        c, n = self.draw(st.sampled_from(NAMES)), self.pick(*NUMBERS)
        choices = (
            "COUNT(*)", f"COUNT({x}.{c})", f"SUM({x}.{n})", f"AVG({x}.{n})", f"MIN({x}.{c})", f"MAX({x}.{c})",
            f"COUNT(DISTINCT {x}.{c})", f"SUM(DISTINCT {x}.{n})", f"SUM({x}.{n}) FILTER (WHERE {x}.s = 'a')",
            f"MAX({x}.{c}) FILTER (WHERE {x}.k > 0)", f"COUNT(*) FILTER (WHERE {x}.e IS NULL)",
        )  # fmt: skip
        return self.draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique=True))


@st.composite
def transactions(draw: st.DrawFn, tables: list[TableModel]) -> dict[str, list[dict[str, Any]]]:
    """Changes that are all good, and the models moved along."""
    changes: dict[str, list[dict[str, Any]]] = {}
    for table in draw(st.lists(st.sampled_from(tables), min_size=1, max_size=len(tables), unique_by=lambda t: t.name)):
        gone = draw(st.lists(st.integers(0, len(table.rows) - 1), unique=True, max_size=5)) if table.rows else []
        rows = [{**dict(zip(NAMES, table.rows[i], strict=True)), "_weight": -1} for i in gone]
        table.rows = [r for i, r in enumerate(table.rows) if i not in gone]
        taken = {table.key_of(r) for r in table.rows}
        for row in draw(st.lists(st.tuples(*(table.values(n) for n in NAMES)), max_size=5)):
            if table.key and table.key_of(row) in taken:
                continue
            copies = 1 if table.key else draw(st.sampled_from((1, 1, 1, 2)))
            rows.append({**dict(zip(NAMES, row, strict=True)), "_weight": copies})
            table.rows += [row] * copies
            taken.add(table.key_of(row))
        changes[table.name] = draw(st.permutations(rows))
    return changes


def made(db: freshet.Database, name: str, sql: str) -> freshet.View | None:
    try:
        return db.create_view(name, sql)
    except freshet.UnsupportedError as e:
        event(f"unsupported: {e.reason[:40]}")
        return None


class Session:
    """The database under test: in memory, or in files and then closed and attached again now and then."""

    def __init__(self, folder: str | None) -> None:
        self.folder, self.db = folder, freshet.connect(folder)

    def attach_again(self) -> None:
        if self.folder is not None:
            self.db.close()
            self.db = freshet.connect(self.folder)


@settings(max_examples=max(10, settings().max_examples // 2))
@given(st.data())
def test_every_transaction_agrees_with_duckdb(data: st.DataObject) -> None:
    agree(data, Session(None))


@settings(max_examples=max(10, settings().max_examples // 5))
@given(st.data())
def test_every_transaction_agrees_on_disk(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as folder:
        session = Session(folder)
        agree(data, session)
        session.db.close()


@settings(max_examples=max(10, settings().max_examples // 5))
@given(st.data())
def test_upkeep_after_every_transaction(data: st.DataObject) -> None:
    """Keys and texts are swept immediately instead of when it pays off, and results and rows are processed a few at a
    time."""
    with (
        patch.object(Dictionary, "patience", lambda self, tuples: 0),
        patch.object(StringPool, "wants_sweep", lambda self: True),
        patch.object(orders, "CHUNK", 3),
        patch.object(query, "LOAD", 2),
    ):
        agree(data, Session(None))


def agree(data: st.DataObject, session: Session) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.sampled_from(KEYS))) for i in range(data.draw(st.integers(1, 3)))]
    for table in tables:
        session.db.execute(table.ddl)
        note(table.ddl)
    if data.draw(st.booleans()):
        changes = data.draw(transactions(tables))
        note(repr(changes))
        session.db.apply(changes)
    sources, texts = [t.name for t in tables], {}
    prefix = ""
    for name in ("v", "w"):
        sql = Shape(data.draw, sources).query()  # type: ignore[arg-type]
        note(f"{name}: {sql}")
        view = made(session.db, name, sql)
        if view is None:
            continue
        texts[name] = prefix + sql
        event(view.plan.root.guarantee.query_class)
        if list(view.schema.names) == list(NAMES):
            sources, prefix = [*sources, name], f"WITH {name} AS ({sql}) "
    sums = {name: RunningSum(session.db.view(name).to_arrow()) for name in texts}
    for step in range(data.draw(st.integers(2, 6)) if texts else 0):
        if step % 2:
            session.attach_again()
        changes = data.draw(transactions(tables))
        note(repr(changes))
        tx = session.db.apply(changes)
        held = {t.name: t.arrow() for t in tables}
        for name, sql in texts.items():
            view = session.db.view(name)
            answer = view.to_arrow()
            same_bag(answer, duckdb_answer(sql, held))
            sums[name].add(tx.deltas[name])
            sums[name].equals(answer)
            assert view.count() == answer.num_rows
