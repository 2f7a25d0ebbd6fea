"""Small tables of three columns, random transactions over them, and a view compared with DuckDB after each.

Domains are tiny, so that keys collide, groups become empty, and tuples die and come back.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import event, note
from hypothesis import strategies as st

import freshet
from tests.oracle import RunningSum, reference_answer, same_bag

COLUMNS = ("a", "b", "c")
KEYED = st.booleans()

Row = tuple[int | None, ...]
Changes = dict[str, list[dict[str, int | None]]]


@dataclass
class TableModel:
    """A table as the test believes it to be: rows by key, or a bag of rows."""

    name: str
    keyed: bool
    rows: list[Row] = field(default_factory=list)

    @property
    def ddl(self) -> str:
        key = " PRIMARY KEY" if self.keyed else ""
        return f"CREATE TABLE {self.name} (a INT{key}, b INT, c INT)"

    def arrow(self) -> pa.Table:
        columns = list(zip(*self.rows, strict=True)) or [(), (), ()]
        return pa.table({n: pa.array(list(v), pa.int32()) for n, v in zip(COLUMNS, columns, strict=True)})


values = st.one_of(st.none(), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))


@st.composite
def transactions(draw: st.DrawFn, tables: list[TableModel]) -> Changes:
    """Changes that are all good, and the models moved along."""
    changes: Changes = {}
    for table in draw(st.lists(st.sampled_from(tables), min_size=1, max_size=len(tables), unique_by=lambda t: t.name)):
        rows: list[dict[str, int | None]] = []
        gone = draw(st.lists(st.integers(0, len(table.rows) - 1), unique=True, max_size=4)) if table.rows else []
        rows += [{**dict(zip(COLUMNS, table.rows[i], strict=True)), "_weight": -1} for i in gone]
        table.rows = [r for i, r in enumerate(table.rows) if i not in gone]
        for row in draw(st.lists(st.tuples(st.integers(0, 4) if table.keyed else values, values, values), max_size=4)):
            if table.keyed and any(r[0] == row[0] for r in table.rows):
                continue
            copies = 1 if table.keyed else draw(st.sampled_from((1, 1, 1, 2)))
            rows.append({**dict(zip(COLUMNS, row, strict=True)), "_weight": copies})
            table.rows += [row] * copies
        changes[table.name] = draw(st.permutations(rows))
    return changes


def two_tables(data: st.DataObject) -> list[TableModel]:
    return [TableModel(f"t{i}", data.draw(KEYED)) for i in range(2)]


def follow(
    data: st.DataObject, tables: list[TableModel], sql: str, oracle: str | None = None, *,
    check: Callable[[freshet.View], None] = lambda view: None,
) -> None:  # fmt: skip
    """A view created over empty tables or over some rows, then a few transactions: after each the answer equals the
    oracle's, and so does the sum of the deltas. `oracle`: the same query in DuckDB's dialect, if it differs. `check`:
    additional checks of the view."""
    note(sql)
    db = freshet.connect()
    for table in tables:
        db.execute(table.ddl)
    if data.draw(st.booleans()):
        db.apply(data.draw(transactions(tables)))
    try:
        view = db.create_view("v", sql)
    except freshet.UnsupportedError as e:
        event(f"unsupported: {e.reason[:40]}")
        return
    event(view.plan.root.guarantee.query_class)
    note(view.explain())
    sums = RunningSum(view.to_arrow())
    for _ in range(data.draw(st.integers(1, 6))):
        changes = data.draw(transactions(tables))
        note(repr(changes))
        tx = db.apply(changes)
        answer = view.to_arrow()
        same_bag(answer, reference_answer(oracle or sql, {t.name: t.arrow() for t in tables}, answer.schema))
        sums.add(tx.deltas["v"])
        sums.equals(answer)
        assert view.count() == answer.num_rows
        check(view)
