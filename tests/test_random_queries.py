"""Random schemas, random acyclic queries of up to five tables, random transactions; DuckDB is the oracle after each.

Domains are tiny, so that keys collide, groups empty, and tuples die and come back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
from hypothesis import event, given, note
from hypothesis import strategies as st

import freshet
from tests.oracle import RunningSum, duckdb_answer, same_bag

COLUMNS = ("a", "b", "c")
KEYED = st.booleans()


@dataclass
class TableModel:
    """A table as the test believes it to be: rows by key, or a bag of rows."""

    name: str
    keyed: bool
    rows: list[tuple[int | None, ...]] = field(default_factory=list)

    @property
    def ddl(self) -> str:
        key = " PRIMARY KEY" if self.keyed else ""
        return f"CREATE TABLE {self.name} (a INT{key}, b INT, c INT)"

    def arrow(self) -> pa.Table:
        columns = list(zip(*self.rows, strict=True)) or [(), (), ()]
        return pa.table({n: pa.array(list(v), pa.int32()) for n, v in zip(COLUMNS, columns, strict=True)})


values = st.one_of(st.none(), st.integers(0, 2), st.integers(0, 2), st.integers(0, 2))


def compares(parent: int, child: int) -> st.SearchStrategy[str]:
    """Mostly nothing, sometimes a comparison of a column of each, maybe with an offset."""
    column, operator = st.sampled_from(COLUMNS), st.sampled_from(("<", "<=", ">", ">=", "<>"))
    made = st.builds(
        lambda p, o, c, plus: f" AND r{parent}.{p} {o} r{child}.{c}{plus}",
        column,
        operator,
        column,
        st.sampled_from(("", " + 1")),
    )
    return st.one_of(st.just(""), st.just(""), made)


@st.composite
def queries(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """A select over a random tree of aliases, so that the joins are acyclic."""
    n = draw(st.integers(1, 5))
    roles = [draw(st.sampled_from(tables)).name for _ in range(n)]
    where, joins = [], [f"{roles[0]} r0"]
    visible = [0]
    column = st.sampled_from(COLUMNS)
    for i in range(1, n):
        parent = draw(st.sampled_from(visible))
        pairs = draw(st.lists(st.tuples(column, column), min_size=0 if draw(st.integers(0, 9)) == 0 else 1, max_size=2))
        on = " AND ".join(f"r{parent}.{p} = r{i}.{c}" for p, c in pairs) or "1 = 1"
        kind = draw(st.sampled_from(("inner", "inner", "inner", "left", "semi", "anti")))
        if kind == "inner":
            joins.append(f"JOIN {roles[i]} r{i} ON {on}{draw(compares(parent, i))}")
            visible.append(i)
        elif kind == "left" and pairs:
            extra = draw(st.sampled_from(("", f" AND r{i}.b > 0", f" AND r{parent}.b < 2")))
            extra += draw(compares(parent, i))
            joins.append(f"LEFT JOIN {roles[i]} r{i} ON {on}{extra}")
        elif kind in ("semi", "anti"):
            sign = "" if kind == "semi" else "NOT "
            extra = draw(st.sampled_from(("", f" AND r{i}.c >= 1"))) + draw(compares(parent, i))
            where.append(f"{sign}EXISTS (SELECT 1 FROM {roles[i]} r{i} WHERE {on}{extra})")
        else:
            joins.append(f"CROSS JOIN {roles[i]} r{i}")
            visible.append(i)
    shown = [i for i in range(n) if any(f" r{i}" in j for j in joins)]
    if draw(st.booleans()):
        role, test = draw(st.sampled_from(visible)), st.sampled_from((">= 1", "<> 1", "IS NULL", "= 2"))
        where.append(f"r{role}.{draw(column)} {draw(test)}")
    if len(visible) > 1 and draw(st.integers(0, 3)) == 0:
        x, y = draw(st.sampled_from(visible)), draw(st.sampled_from(visible))
        where.append(f"r{x}.{draw(column)} {draw(st.sampled_from(('<', '<>', '<=')))} r{y}.{draw(column)}")
    outputs = draw(st.lists(st.tuples(st.sampled_from(shown), column), min_size=1, max_size=4))
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    source = f" FROM {' '.join(joins)}{condition}"
    named = [f"r{i}.{c} AS o{k}" for k, (i, c) in enumerate(outputs)]
    shape = draw(st.sampled_from(("plain", "plain", "distinct", "group", "group", "total", "expression")))
    if shape == "plain":
        return f"SELECT {', '.join(named)}{source}"
    if shape == "distinct":
        return f"SELECT DISTINCT {', '.join(named)}{source}"
    if shape == "expression":
        i, c = outputs[0]
        return f"SELECT COALESCE(r{i}.{c}, -1) + 1 AS o, {', '.join(named)}{source}"
    j, d = draw(st.sampled_from(shown)), draw(column)
    aggregates = draw(
        st.lists(
            st.sampled_from(
                ("COUNT(*)", f"COUNT(r{j}.{d})", f"SUM(r{j}.{d})", f"MIN(r{j}.{d})", f"MAX(r{j}.{d})", f"AVG(r{j}.{d})",
                 f"COUNT(DISTINCT r{j}.{d})", f"SUM(r{j}.{d}) FILTER (WHERE r{j}.{d} > 0)")
            ),
            min_size=1, max_size=3, unique=True,
        )
    )  # fmt: skip
    computed = [f"{a} AS m{k}" for k, a in enumerate(aggregates)]
    if shape == "total":
        return f"SELECT {', '.join(computed)}{source}"
    keys = list(dict.fromkeys(f"r{i}.{c}" for i, c in outputs[:2]))
    shown_keys = [f"{k} AS k{i}" for i, k in enumerate(keys)]
    having = draw(st.sampled_from(("", "", " HAVING COUNT(*) > 1")))
    return f"SELECT {', '.join(shown_keys + computed)}{source} GROUP BY {', '.join(keys)}{having}"


@st.composite
def transactions(draw: st.DrawFn, tables: list[TableModel]) -> dict[str, list[dict[str, int | None]]]:
    """Changes that are all good, and the models moved along."""
    changes: dict[str, list[dict[str, int | None]]] = {}
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


@given(st.data())
def test_every_transaction_agrees_with_duckdb(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(KEYED)) for i in range(data.draw(st.integers(1, 3)))]
    db = freshet.connect()
    for table in tables:
        db.execute(table.ddl)
    early = data.draw(st.booleans())
    if not early:
        db.apply(data.draw(transactions(tables)))
    sql = data.draw(queries(tables))
    note(sql)
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
        expected = duckdb_answer(sql, {t.name: t.arrow() for t in tables})
        same_bag(answer, expected)
        sums.add(tx.deltas["v"])
        sums.equals(answer)
        assert view.count() == answer.num_rows
