"""Random foreign-key joins whose paths meet again: cyclic as hypergraphs, kept by following keys and by assertions.

Every table has a primary key and points to others. A query follows these references from one table, reaches some tables
along two paths, and requires values at the ends of two paths to be equal. DuckDB is the oracle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import event, given, note
from hypothesis import strategies as st

import freshet
from tests.oracle import RunningSum, duckdb_answer, same_bag

Row = tuple[Any, ...]
IDS: dict[str, list[Any]] = {"BIGINT": [0, 1, 2, 3], "STRING": ["", "a", "b", "c"]}
ARROW = {"BIGINT": pa.int64(), "STRING": pa.string()}
NAMES = ("id", "f", "g", "x")


@dataclass
class TableModel:
    """A table with key `id` and columns that may point to another table's key, or at nothing."""

    name: str
    type: str
    rows: dict[Any, Row] = field(default_factory=dict)

    @property
    def ddl(self) -> str:
        return f"CREATE TABLE {self.name} (x INT, g {self.type}, id {self.type} PRIMARY KEY, f {self.type})"

    def arrow(self) -> pa.Table:
        columns = list(zip(*self.rows.values(), strict=True)) or [()] * 4
        kinds = [*[ARROW[self.type]] * 3, pa.int32()]
        return pa.table({n: pa.array(list(c), k) for n, c, k in zip(NAMES, columns, kinds, strict=True)})


@st.composite
def queries(draw: st.DrawFn, tables: list[TableModel]) -> str:
    n = draw(st.integers(3, 5))
    pointer = st.sampled_from(("f", "g"))
    joins = [f"{draw(st.sampled_from(tables)).name} r0"]
    where: list[str] = []
    for i in range(1, n):
        meets = i > 1 and draw(st.integers(0, 2)) == 0  # the paths through two parents meet here
        count = 2 if meets else 1
        parents = draw(st.lists(st.integers(0, i - 1), min_size=count, max_size=count, unique=True))
        on = [f"r{p}.{draw(pointer)} = r{i}.id" for p in parents]
        joins.append(f"JOIN {draw(st.sampled_from(tables)).name} r{i} ON {' AND '.join(on)}")
        if i > 1 and not meets and draw(st.integers(0, 3)) == 0:
            other = draw(st.integers(0, i - 1))
            column, theirs = draw(st.sampled_from((("x", "x"), ("f", "f"), ("f", "g"), ("g", "id"))))
            operator = draw(st.sampled_from(("=", "=", "IS NOT DISTINCT FROM")))
            plus = " + 1" if column == "x" and draw(st.booleans()) else ""
            where.append(f"r{i}.{column} {operator} r{other}.{theirs}{plus}")
    if draw(st.integers(0, 3)) == 0:
        host = draw(st.integers(0, n - 1))
        sign = draw(st.sampled_from(("", "NOT ")))
        where.append(
            f"{sign}EXISTS (SELECT 1 FROM {draw(st.sampled_from(tables)).name} q WHERE q.f = r{host}.id AND q.x > 0)"
        )
    elif draw(st.integers(0, 2)) == 0:
        host = draw(st.integers(0, n - 1))
        joins.append(f"LEFT JOIN {draw(st.sampled_from(tables)).name} r{n} ON r{n}.id = r{host}.f AND r{n}.x < 1")
        n += 1
    if draw(st.integers(0, 3)) == 0:
        where.append(f"r{draw(st.integers(0, n - 1))}.x {draw(st.sampled_from(('> 0', '< 1', 'IS NOT NULL')))}")
    source = f" FROM {' '.join(joins)}" + (f" WHERE {' AND '.join(where)}" if where else "")
    shown = [f"r{draw(st.integers(0, n - 1))}.{draw(st.sampled_from(NAMES))}" for _ in range(draw(st.integers(1, 3)))]
    named = ", ".join(f"{c} AS o{i}" for i, c in enumerate(shown))
    shape = draw(st.sampled_from(("plain", "plain", "distinct", "group", "total")))
    if shape == "plain":
        return f"SELECT {named}{source}"
    if shape == "distinct":
        return f"SELECT DISTINCT {named}{source}"
    measure = f"COUNT(*) AS n, SUM(r{draw(st.integers(0, n - 1))}.x) AS s"
    if shape == "total":
        return f"SELECT {measure}{source}"
    keys = ", ".join(dict.fromkeys(shown))
    return f"SELECT {named}, {measure}{source} GROUP BY {keys}"


@st.composite
def transactions(draw: st.DrawFn, tables: list[TableModel]) -> dict[str, list[dict[str, Any]]]:
    """Upserts and deletes by key; nothing keeps a pointer from pointing at nothing."""
    changes: dict[str, list[dict[str, Any]]] = {}
    full = not any(table.rows for table in tables)  # begin with every key there
    some = st.lists(st.sampled_from(tables), min_size=1, max_size=3, unique_by=lambda t: t.name)
    for table in tables if full else draw(some):
        ids = st.sampled_from(IDS[table.type])
        rows: list[dict[str, Any]] = []
        for key in IDS[table.type] if full else draw(st.lists(ids, max_size=3, unique=True)):
            if key in table.rows and draw(st.integers(0, 2)) == 0:
                del table.rows[key]
                rows.append({"id": key, "_change_type": "delete"})
                continue
            near, far, *_ = IDS[table.type]  # most point at two rows, so that paths meet
            pointers = st.sampled_from([near, far, near, far, near, IDS[table.type][2], None])
            row = (key, draw(pointers), draw(pointers), draw(st.sampled_from((None, 0, 1, 1))))
            table.rows[key] = row
            rows.append({**dict(zip(NAMES, row, strict=True)), "_change_type": "upsert"})
        changes[table.name] = rows
    return changes


@given(st.data())
def test_every_transaction_agrees_with_duckdb(data: st.DataObject) -> None:
    type_ = data.draw(st.sampled_from(tuple(IDS)))
    tables = [TableModel(f"t{i}", type_) for i in range(data.draw(st.integers(1, 4)))]
    db = freshet.connect()
    for table in tables:
        db.execute(table.ddl)
        note(table.ddl)
    if data.draw(st.booleans()):
        changes = data.draw(transactions(tables))
        note(repr(changes))
        db.apply(changes)
    sql = data.draw(queries(tables))
    note(f"v: {sql}")
    try:
        view = db.create_view("v", sql)
    except freshet.UnsupportedError as e:
        event(f"unsupported: {e.reason[:20]}")
        return
    event(view.plan.root.guarantee.query_class)
    sums = RunningSum(view.to_arrow())
    filled = False
    for _ in range(data.draw(st.integers(3, 8))):
        changes = data.draw(transactions(tables))
        note(repr(changes))
        tx = db.apply(changes)
        answer = view.to_arrow()
        same_bag(answer, duckdb_answer(sql, {t.name: t.arrow() for t in tables}))
        sums.add(tx.deltas["v"])
        sums.equals(answer)
        assert view.count() == answer.num_rows
        filled |= answer.num_rows > 0
    event(f"ever more than nothing: {filled}")


def test_nulls_that_are_equal_where_paths_meet() -> None:
    """And expressions: an assertion follows slots to plain columns, so such joins are kept by bags."""
    db = freshet.connect()
    db.execute("CREATE TABLE o (k BIGINT PRIMARY KEY, c BIGINT); CREATE TABLE s (k BIGINT PRIMARY KEY, c BIGINT)")
    db.execute("CREATE TABLE l (o BIGINT, s BIGINT)")
    joined = "SELECT l.o, l.s FROM l, o, s WHERE l.o = o.k AND l.s = s.k"
    nulls = db.create_view("nulls", f"{joined} AND o.c IS NOT DISTINCT FROM s.c")
    moved = db.create_view("moved", f"{joined} AND o.c + 1 = s.c")
    plain = db.create_view("plain", f"{joined} AND o.c = s.c")
    classes = [view.plan.root.guarantee.query_class for view in (nulls, moved, plain)]
    assert classes == ["cyclic", "cyclic", "foreign-key acyclic"]
    values = {1: None, 2: 5, 3: 6}
    rows = [{"k": k, "c": c} for k, c in values.items()]
    db.apply({"o": rows, "s": rows, "l": [{"o": o, "s": s} for o in values for s in values]})
    answers = [sorted((r["o"], r["s"]) for r in view.to_arrow().to_pylist()) for view in (nulls, moved, plain)]
    assert answers == [[(1, 1), (2, 2), (3, 3)], [(2, 3)], [(2, 2), (3, 3)]]
