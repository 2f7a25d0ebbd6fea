"""AJU, figure 15: Q5 and Q13 under sequences of growing enclosureness λ.

Suppliers are deleted and inserted again while orders and their lines stay, so every round switches the support of all
lines: the cost of Q5 must be proportional to λ. For Q13 the customers are deleted and inserted; it is a join of two
tables, and costs the same under any λ. All transactions have the size of a round, so that their fixed cost per change
is the same.
"""

from __future__ import annotations

from collections.abc import Iterator

import freshet
from benchmarks import tpch
from benchmarks.papers.harness import Plot, Result, Size, stream_cost

FLEETING = {5: "supplier", 13: "customer"}


def run(size: Size) -> Iterator[Result]:
    (scale,) = size.scales((0.01,), (0.003,), (0.001,))
    result = Result("aju-15-enclosure", f"AJU 15: cost of a change under growing λ, scale factor {scale:g}",
                    Plot("λ", "µs a change", "query", log="xy"))  # fmt: skip
    for number, fleeting in FLEETING.items():
        name, sql = f"Q{number}", tpch.official(number)
        tables = {
            n: t.select([c for c in t.column_names if c in tpch.columns_of(sql) or c in ("o_orderkey", "l_linenumber")])
            for n, t in tpch.generate(scale, tpch.tables_of(sql)).items()
        }
        for wanted in size.scales((1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16, 32), (1, 2, 4)):
            db = freshet.connect()
            for statement in tpch.ddl(tables, tpch.columns_of(sql)):
                db.execute(statement)
            view = db.create_view(name, sql)
            rows = max(1, min(tables[fleeting].num_rows, 100))
            stream = list(freshet.enclosure_stream(tables, wanted, fleeting={fleeting: rows}, size=rows))
            total = sum(t.num_rows for tx in stream for t in tx.values())
            cost = stream_cost(db, view, stream, total, size, deltas=False)
            result.rows.append({"query": name, "λ": wanted, **cost.row()})
    result.linear("λ", "counters a change", query="Q5")
    result.linear("λ", "µs a change", at_most=True, query="Q5")
    result.flat("counters a change", query="Q13")
    result.flat("µs a change", query="Q13")
    yield result
