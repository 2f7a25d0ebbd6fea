"""Aggregates carried up the tree: DuckDB's answers, and work that does not grow with the number of joined rows."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from benchmarks.papers.queries import graph_queries
from freshet.engine.aggregate import Aggregate
from freshet.logical.annotate import Annotations, annotated
from freshet.logical.query import Query
from freshet.plans import build
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query
from tests.small_tables import COLUMNS, TableModel, follow
from tests.twin import Twin, TwinTable, complete_graph, drain, waves


@st.composite
def totals(draw: st.DrawFn, tables: list[TableModel]) -> str:
    """Aggregates over a random tree of up to four roles."""
    n = draw(st.integers(2, 4))
    column = st.sampled_from(COLUMNS)
    roles = [draw(st.sampled_from(tables)).name for _ in range(n)]
    joins = [f"{roles[0]} r0"]
    for i in range(1, n):
        parent = draw(st.integers(0, i - 1))
        more = draw(
            st.sampled_from(
                ("", "", "", f" AND r{i}.b >= 1", f" AND r{parent}.c = r{i}.c", f" AND r{parent}.b < r{i}.c",
                 f" AND r0.a <> r{i}.b")
            )
        )  # fmt: skip
        meets = draw(st.sampled_from(("=", "=", "=", "=", "=", "<", "IS NOT DISTINCT FROM", "CROSS")))
        if meets == "CROSS":
            joins.append(f"CROSS JOIN {roles[i]} r{i}")
            continue
        kind = draw(st.sampled_from(("JOIN", "JOIN", "LEFT JOIN")))
        joins.append(f"{kind} {roles[i]} r{i} ON r{parent}.{draw(column)} {meets} r{i}.{draw(column)}{more}")
    x, y, z = (f"r{draw(st.integers(0, n - 1))}.{draw(column)}" for _ in range(3))
    wide = "CAST({} AS DECIMAL(9, 2))"
    calls = draw(
        st.lists(
            st.sampled_from(
                ("COUNT(*)", f"COUNT({x})", f"SUM({x})", f"MIN({x})", f"MAX({y})", f"COUNT(DISTINCT {x})",
                 f"SUM({x}) FILTER (WHERE {x} > 0)", f"COUNT(*) FILTER (WHERE {y} = 1)",
                 f"SUM({wide.format(x)} * {wide.format(y)})", f"SUM({x} + {y})", f"SUM({wide.format(x)})",
                 f"COUNT({x}) FILTER (WHERE {y} > 0)", f"SUM({x}) FILTER (WHERE {y} <> 1)", f"AVG({x})",
                 f"AVG({wide.format(x)})", f"SUM({x} * {y})", f"SUM(({x} - {y}) * {z} + 2 * {y})",
                 f"AVG({x} * {y} * {z})", f"SUM(CAST({x} AS DOUBLE) / 8)", f"AVG({x} / 8) FILTER (WHERE {y} = 1)",
                 f"SUM({x} * {y}) FILTER (WHERE {z} > 0)", f"SUM({x} / 8 + {y} / 4)", f"COUNT({x} + {y})",
                 f"COUNT(*) FILTER (WHERE {x} IS NULL)", f"SUM(COALESCE({x}, 3) * {y})", f"MAX(COALESCE({x}, 7))",
                 f"AVG(COALESCE({x}, 5) / 8) FILTER (WHERE {y} IS NULL)",
                 f"VAR_POP({x})", f"STDDEV_SAMP({y}) FILTER (WHERE {z} > 0)", f"VAR_SAMP({x} / 8)")
            ),
            min_size=1, max_size=4, unique=True,
        )
    )  # fmt: skip
    shown = [f"{c} AS m{i}" for i, c in enumerate(calls)]
    keys = draw(st.lists(st.tuples(st.integers(0, n - 1), column), max_size=2, unique=True))
    having = draw(st.sampled_from(("", "", " HAVING COUNT(*) > 2")))
    source = " ".join(joins)
    if draw(st.integers(0, 3)) == 0:
        sign, host, other = (
            draw(st.sampled_from(("", "NOT "))),
            draw(st.integers(0, n - 1)),
            draw(st.integers(0, n - 1)),
        )
        more = draw(st.sampled_from(("", f" AND q.b = r{host}.c", f" AND q.b < r{other}.c", " AND q.c IN (0, 1)")))
        source += f" WHERE {sign}EXISTS (SELECT 1 FROM {draw(st.sampled_from(roles))} q WHERE q.a = r{host}.b{more})"
    if not keys:
        return f"SELECT {', '.join(shown)} FROM {source}{having}"
    names = [f"r{i}.{c}" for i, c in keys]
    shown = [f"{k} AS k{i}" for i, k in enumerate(names)] + shown
    return f"SELECT {', '.join(shown)} FROM {source} GROUP BY {', '.join(names)}{having}"


@given(st.data())
def test_random_totals(data: st.DataObject) -> None:
    tables = [TableModel(f"t{i}", data.draw(st.integers(0, 3)) == 0) for i in range(data.draw(st.integers(1, 2)))]
    follow(data, tables, data.draw(totals(tables)))


PATHS = "g g1, g g2, g g3, g g4 WHERE g1.dst = g2.src AND g2.dst = g3.src AND g3.dst = g4.src"
QUERIES = {
    "star": graph_queries()["star"],
    "paths": f"SELECT g1.src, COUNT(*) AS n FROM {PATHS} GROUP BY g1.src",
    "all paths": f"SELECT COUNT(*) AS n, SUM(g4.dst) AS s, MAX(g3.dst) AS m FROM {PATHS}",
    "some paths": "SELECT g2.src, COUNT(*) FILTER (WHERE g4.dst > 2) AS n, SUM(g1.src) AS s"
    f" FROM {PATHS} GROUP BY g2.src",
    "averages": "SELECT g1.src, COUNT(*) AS n, AVG(g4.dst) AS a, AVG(g4.w) AS w, SUM(g3.w) AS s"
    f" FROM {PATHS} GROUP BY g1.src",
    "products": "SELECT g1.src, COUNT(*) AS n, SUM(g1.dst * g2.dst * g3.dst * g4.dst) AS p,"
    f" SUM(g1.src * g4.dst - g3.src) AS d, AVG(g2.src * g4.dst) AS a FROM {PATHS} GROUP BY g1.src",
    "spreads": "SELECT g1.src, COUNT(*) AS n, VAR_POP(g4.dst) AS v, STDDEV(g4.w) AS s, VARIANCE(g1.w) AS w"
    f" FROM {PATHS} GROUP BY g1.src",
    "below a comparison": "SELECT g1.src, COUNT(*) AS n, SUM(g4.dst) AS s, STDDEV(g4.w) AS w"
    " FROM g g1, g g2, g g3, g g4 WHERE g1.dst < g2.src AND g2.dst < 110 AND g2.dst = g3.src AND g3.dst = g4.src"
    " GROUP BY g1.src",
    "star of sums": "SELECT g1.src, COUNT(*) AS n, SUM(g2.dst * g3.dst * g4.dst) AS p, AVG(g3.w) AS w, SUM(g1.w) AS v"
    " FROM g g1, g g2, g g3, g g4 WHERE g1.src = g2.src AND g1.src = g3.src AND g1.src = g4.src GROUP BY g1.src",
}


@pytest.mark.parametrize("seed", range(2))
def test_random_graph(seed: int) -> None:
    db = freshet.connect()
    edges = complete_graph(6)
    rng = np.random.default_rng(seed)
    db.execute("CREATE TABLE g (src BIGINT, dst BIGINT, w DOUBLE)")
    weighted = edges.append_column("w", pa.array(rng.integers(-20, 20, len(edges)) / 8))
    twin = Twin(db, [TwinTable("g", weighted)], QUERIES)
    waves(twin, rng, 20)
    drain(twin)


class _Counted:
    """Rows that reach groups anywhere."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows = 0
        plain = Aggregate.apply

        def counting(this: Aggregate, keys: object, args: object, filters: object, weights: np.ndarray) -> None:
            self.rows += len(weights)
            plain(this, keys, args, filters, weights)  # type: ignore[arg-type]

        monkeypatch.setattr(Aggregate, "apply", counting)


@pytest.mark.parametrize("query", ["star", "paths", "all paths", "averages", "products", "spreads", "star of sums"])
def test_work_does_not_grow_with_the_number_of_paths(query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete bipartite layers of width w have w^3 stars a vertex and w^4 paths; one more edge costs what it did."""
    counted = _Counted(monkeypatch)
    costs = []
    for width in (4, 16):
        db = freshet.connect()
        db.execute("CREATE TABLE g (src BIGINT NOT NULL, dst BIGINT NOT NULL, w DOUBLE)")
        view = db.create_view("v", QUERIES[query])
        layer = [(100 * i + a, 100 * i + 100 + b) for i in range(4) for a in range(width) for b in range(width)]
        db.apply({"g": [{"src": s, "dst": d, "w": 0.5} for s, d in layer]})
        counted.rows = 0
        db.apply({"g": [{"src": 99, "dst": 100, "w": 0.5}]})
        costs.append(counted.rows)
        n = view.to_pandas()["n"].sum()
        assert n > width**3
    assert costs[1] <= 2 * costs[0] and costs[1] < 40


def test_doubles_are_rounded_once() -> None:
    """Tenths of many sizes, each with many join partners: the sum is the double nearest to the exact one, whatever
    changes came before."""
    rng = np.random.default_rng(5)
    db = freshet.connect()
    db.execute("CREATE TABLE a (k BIGINT, v BIGINT)")
    db.execute("CREATE TABLE b (k BIGINT, w DOUBLE)")
    view = db.create_view("s", "SELECT a.v, SUM(b.w) AS s, AVG(b.w) AS m FROM a JOIN b ON a.k = b.k GROUP BY a.v")
    assert "totals of b" in view.explain()
    w = [float(x) for x in rng.normal(size=60) * 10.0 ** rng.integers(-12, 13, 60)] + [1e300, 0.1, -1e300]
    keys = [int(k) for k in rng.integers(0, 3, len(w))]
    partners = [(int(rng.integers(0, 3)), int(rng.integers(0, 2))) for _ in range(40)]
    db.apply({"a": [{"k": k, "v": v} for k, v in partners], "b": [{"k": 0, "w": 1e308}, {"k": 1, "w": float("nan")}]})
    db.apply({"b": [{"k": k, "w": x} for k, x in zip(keys, w, strict=True)]})
    db.apply({"b": [{"k": 0, "w": 1e308, "_weight": -1}, {"k": 1, "w": float("nan"), "_weight": -1}]})
    for row in view.to_arrow().to_pylist():
        met = [x for k, v in partners if v == row["v"] for at, x in zip(keys, w, strict=True) if at == k]
        true = float(sum(map(Fraction, met)))
        assert row["s"] == true and row["m"] == true / len(met)


SPREADS = """SELECT a.v, VAR_POP(b.w) AS p, VAR_SAMP(b.i) AS q, STDDEV_POP(c.y) AS s, STDDEV(a.v) AS u, SUM(c.y) AS y,
    VARIANCE(b.w) FILTER (WHERE c.y > 0) AS t, VAR_POP(b.w) FILTER (WHERE b.i > 1) AS o, AVG(b.w) AS m, COUNT(*) AS n
    FROM a JOIN b ON a.k = b.k JOIN c ON b.k = c.k GROUP BY a.v"""


@pytest.mark.parametrize("seed", range(4))
def test_bitwise_equal_to_enumeration(seed: int) -> None:
    """Doubles of many sizes and with large means, NULLs, and rows that are inserted and deleted."""
    rng = np.random.default_rng(seed)
    sizes = []
    db = freshet.connect()
    db.execute("CREATE TABLE a (k BIGINT, v BIGINT); CREATE TABLE b (k BIGINT, w DOUBLE, i INT)")
    db.execute("CREATE TABLE c (k BIGINT, y DOUBLE)")
    carried = db.create_view("carried", SPREADS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "annotated", lambda query, _: (query, ""))
        enumerated = db.create_view("enumerated", SPREADS + " HAVING COUNT(*) > 0")  # another query, of the same rows
    assert "totals of c" in carried.explain() and "totals of c" not in enumerated.explain()

    def value() -> float | None:
        wide = rng.normal() * 10.0 ** int(rng.integers(-8, 9))
        return [None, wide, int(rng.integers(-9, 9)) / 8, 1e9 + rng.random()][int(rng.integers(0, 4))]

    def row(table: str) -> dict[str, object]:
        values: dict[str, dict[str, object]] = {
            "a": {"v": int(rng.integers(0, 2))},
            "b": {"w": value(), "i": int(rng.integers(0, 4))},
        }
        return {"k": int(rng.integers(0, 3)), **values.get(table, {"y": value()})}

    there: dict[str, list[dict[str, object]]] = {"a": [], "b": [], "c": []}
    for _ in range(15):
        gone = {
            t: [rows.pop(int(rng.integers(0, len(rows)))) for _ in range(len(rows) // 3)] for t, rows in there.items()
        }
        come = {t: [row(t) for _ in range(int(rng.integers(0, 6)))] for t in there}
        signed = {t: [{**r, "_weight": w} for rows, w in ((gone[t], -1), (come[t], 1)) for r in rows] for t in there}
        db.apply({t: rows for t, rows in signed.items() if rows})
        for t in there:
            there[t] += come[t]
        answers = [sorted(map(repr, view.to_arrow().to_pylist())) for view in (carried, enumerated)]
        assert answers[0] == answers[1]
        sizes.append(len(answers[0]))
    assert max(sizes) == 2


def test_a_sum_too_great_is_refused() -> None:
    db = freshet.connect()
    db.execute("CREATE TABLE a (k BIGINT, x BIGINT)")
    db.execute("CREATE TABLE b (k BIGINT, y BIGINT)")
    view = db.create_view("s", "SELECT a.k, SUM(a.x * b.y) AS s FROM a JOIN b ON a.k = b.k GROUP BY a.k")
    assert "totals of b" in view.explain()
    db.apply({"a": [{"k": 1, "x": 4_000_000_000}], "b": [{"k": 1, "y": 1_000_000_000}]})
    with pytest.raises(freshet.FreshetError, match="does not fit BIGINT"):
        db.apply({"b": [{"k": 1, "y": 4_000_000_000}]})
    assert view.to_arrow().to_pylist() == [{"k": 1, "s": 4 * 10**18}]
    db.apply({"b": [{"k": 1, "y": 1_000_000_000}]})
    assert view.to_arrow().to_pylist() == [{"k": 1, "s": 8 * 10**18}]


def rewritten(sql: str, ddl: str) -> Query | None:
    query = bind_query(sql, Catalog.from_ddl(ddl))
    assert isinstance(query, Query)
    made, words = annotated(query, Annotations())
    assert words.startswith("enumeration: ") == (made is query)
    return None if made is query else made


def test_keys_that_lead_to_one_tuple_are_followed() -> None:
    ddl = "CREATE TABLE o (k BIGINT PRIMARY KEY, c BIGINT); CREATE TABLE l (k BIGINT, n INT, q INT, PRIMARY KEY (k, n))"
    assert rewritten("SELECT o.c, SUM(l.q) AS s FROM o JOIN l ON l.k = o.k GROUP BY o.c", ddl) is None
    more = f"{ddl}; CREATE TABLE v (k BIGINT, m INT, PRIMARY KEY (k, m))"
    sql = "SELECT o.c, SUM(l.q) AS s FROM o JOIN l ON l.k = o.k JOIN v ON v.k = o.k GROUP BY o.c"
    assert rewritten(sql, more) is not None  # visits and lines of an order multiply


def test_arms_next_to_a_comparison_are_carried() -> None:
    ddl = "CREATE TABLE g (src BIGINT, dst BIGINT, w DOUBLE)"
    made = rewritten(QUERIES["below a comparison"], ddl)
    assert made is not None and [r.alias for r in made.relations][2:] == ["totals of g3, g4"]
    assert rewritten("SELECT COUNT(*) AS n FROM g a, g b WHERE a.src < b.src", ddl) is None  # both are compared
    assert (
        rewritten("SELECT a.src, COUNT(*) AS n FROM g a, g b GROUP BY a.src", ddl) is not None
    )  # b's are counted once


def test_arms_next_to_exists_are_carried() -> None:
    ddl = "CREATE TABLE g (src BIGINT, dst BIGINT, w DOUBLE)"
    star = "SELECT a.src, COUNT(*) AS n FROM g a, g b, g c WHERE a.src = b.src AND a.src = c.src"
    made = rewritten(f"{star} AND NOT EXISTS (SELECT 1 FROM g d WHERE d.src = a.dst AND d.w > 0) GROUP BY a.src", ddl)
    assert made is not None and len(made.block.arms) == 1
    assert [r.alias for r in made.relations] == ["totals of a", "totals of b", "totals of c", "d"]


def test_a_product_with_nothing() -> None:
    """One row represents a whole table that no key joins, and no row if it is empty."""
    db = freshet.connect()
    db.execute("CREATE TABLE r (x INT, k INT); CREATE TABLE s (y INT, k INT); CREATE TABLE t (z INT, k INT)")
    joined = "COUNT(*) AS n, SUM(t.z) AS m FROM r, s, t WHERE s.k = t.k"
    total, by_r, by_s = (
        db.create_view(name, f"SELECT {key}{joined}{by}")
        for name, key, by in (
            ("total", "", ""),
            ("by_r", "r.x, ", " GROUP BY r.x"),
            ("by_s", "s.y, ", " GROUP BY s.y"),
        )
    )
    assert all("annotation: totals of" in view.explain() for view in (total, by_r, by_s))

    def answers() -> list[list[tuple[object, ...]]]:
        return [[tuple(row.values()) for row in view.to_arrow().to_pylist()] for view in (total, by_r, by_s)]

    db.apply({"s": [{"y": 1, "k": 1}] * 2, "t": [{"z": 3, "k": 1}, {"z": 4, "k": 1}]})
    assert answers() == [[(0, None)], [], []]
    db.apply({"r": [{"x": 7, "k": 1}] * 2})
    assert answers() == [[(8, 28)], [(7, 8, 28)], [(1, 8, 28)]]
    db.apply({"t": [{"z": 3, "k": 1, "_weight": -1}, {"z": 4, "k": 1, "_weight": -1}]})
    assert answers() == [[(0, None)], [], []]


def test_what_is_not_exact_or_may_fail_is_enumerated() -> None:
    ddl = "CREATE TABLE g (src BIGINT, dst BIGINT, w DOUBLE)"
    join = "FROM g a JOIN g b ON a.dst = b.src GROUP BY a.src"
    assert rewritten(f"SELECT a.src, SUM(a.w + b.w) AS s {join}", ddl) is None  # each sum is rounded
    for carried in (
        "SUM(a.w * b.w)",
        "STDDEV(b.w)",
        "VAR_POP(b.dst)",
        "SUM(b.w)",
        "AVG(b.w)",
        "AVG(b.dst)",
        "SUM(b.dst)",
        "SUM(a.src * b.dst - b.src)",
    ):
        assert rewritten(f"SELECT a.src, {carried} AS s {join}", ddl) is not None
    failing = rewritten(f"SELECT a.src, SUM(10 / b.dst) AS s {join}", ddl)
    assert failing is None


# Values that do not fit ---------------------------------------------------------------------------------------------

FITTING_DDL = (
    "CREATE TABLE a (k INT, x INT, y BIGINT, d DECIMAL(18, 2)); CREATE TABLE b (k INT, j INT, x INT, y BIGINT);"
    "CREATE TABLE c (j INT, x INT, y BIGINT); CREATE TABLE e (k INT, x INT, y BIGINT)"
)
CHAIN = "FROM a JOIN b ON a.k = b.k JOIN c ON b.j = c.j GROUP BY a.k"
STAR = "FROM a JOIN b ON a.k = b.k JOIN e ON a.k = e.k GROUP BY a.k"
#: Expressions that are checked row by row, as in SQL.
FITTING = (
    f"SELECT a.k, SUM(a.x * b.x) AS s, COUNT(*) AS n {CHAIN}",
    f"SELECT a.k, SUM(a.y * b.y * c.y) AS s, COUNT(*) AS n {CHAIN}",
    f"SELECT a.k, SUM(a.x * (b.x * c.x)) AS s, COUNT(*) AS n {CHAIN}",
    f"SELECT a.k, SUM(b.y * e.y) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, AVG(a.x + b.x - e.x) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, SUM(-b.x) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, SUM(b.x * b.x) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, SUM((a.x + b.x) * e.y) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, SUM(a.y * b.y) FILTER (WHERE e.x > 0) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, SUM(b.x * e.x) FILTER (WHERE b.j > 0) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, SUM(CAST(b.x AS BIGINT) * e.x) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, SUM(a.d * b.x) AS s, COUNT(*) AS n {STAR}",
    f"SELECT a.k, COUNT(a.x + b.x) AS s, COUNT(*) AS n {STAR}",
)
EDGES = (0, 1, -1, 2, 46_340, 46_341, -46_341, 2**30, -(2**30), 2**31 - 1, -(2**31))
FAR_EDGES = (0, 1, -1, 3, 2**31, 3_037_000_499, -3_037_000_500, 2**62, 2**63 - 1, -(2**63))


def both_ways(sql: str) -> tuple[freshet.Database, freshet.Database]:
    """A database that carries totals, and one that enumerates."""
    carried, enumerated = freshet.connect(), freshet.connect()
    for db in (carried, enumerated):
        db.execute(FITTING_DDL)
    assert "annotation: totals of" in carried.create_view("v", sql).explain()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(build, "annotated", lambda query, _: (query, ""))
        assert "annotation" not in enumerated.create_view("v", sql).explain()
    return carried, enumerated


def tried(db: freshet.Database, changes: dict[str, list[dict[str, object]]]) -> str | None:
    try:
        db.apply(changes)
    except freshet.ChangeError as e:
        return str(e)
    return None


@pytest.mark.parametrize("sql", FITTING)
@pytest.mark.parametrize("seed", range(4))
def test_what_sql_refuses_is_refused(sql: str, seed: int) -> None:
    """Factors near the ends of their types: a transaction fails exactly if the expression has no value on a joined
    row."""
    rng = np.random.default_rng(seed)
    carried, enumerated = both_ways(sql)
    refused = 0

    def value(edges: tuple[int, ...]) -> int | None:
        near = int(rng.integers(0, 3 + 3 * seed))
        return None if rng.random() < 0.08 else edges[min(near, len(edges) - 1)] if rng.random() < 0.9 else edges[-1]

    columns = {"a": ("k", "x", "y", "d"), "b": ("k", "j", "x", "y"), "c": ("j", "x", "y"), "e": ("k", "x", "y")}
    for _ in range(25):
        changes = {}
        for table, names in columns.items():
            row: dict[str, object] = {"k": int(rng.integers(0, 2)), "j": int(rng.integers(0, 2)), "d": 1}
            row |= {"x": value(EDGES), "y": value(FAR_EDGES)}
            if rng.random() < 0.5:
                changes[table] = [{n: row[n] for n in names}]
        outcomes = tried(carried, changes), tried(enumerated, changes)
        assert (outcomes[0] is None) == (outcomes[1] is None), (outcomes, changes)
        assert all(o is None or "does not fit" in o for o in outcomes), outcomes
        refused += outcomes[0] is not None
        answers = [sorted(map(repr, db.view("v").to_arrow().to_pylist())) for db in (carried, enumerated)]
        assert answers[0] == answers[1]
    assert seed < 3 or refused or "a.d" in sql or "AS BIGINT" in sql


def test_a_product_that_does_not_fit_is_refused_though_the_sum_does() -> None:
    carried, _ = both_ways(f"SELECT a.k, SUM(a.y * b.y) AS s {STAR}")
    carried.apply({"e": [{"k": 1, "x": 1, "y": 1}], "a": [{"k": 1, "y": 2**40}, {"k": 1, "y": -(2**40)}]})
    with pytest.raises(freshet.FreshetError, match="a value inside SUM does not fit BIGINT; cast an operand"):
        carried.apply({"b": [{"k": 1, "y": 2**40}]})
    carried.apply({"b": [{"k": 1, "y": 2**20}]})
    assert carried.view("v").to_arrow().to_pylist() == [{"k": 1, "s": 0}]


def test_explain_says_how_products_are_kept_in_bounds() -> None:
    def totals(argument: str) -> str:
        plan = freshet.plan(f"SELECT a.k, SUM({argument}) AS s {STAR}", FITTING_DDL)
        return next(line for line in plan.explain().splitlines() if line.startswith("totals"))

    assert "are checked by their least and greatest factors" in totals("a.x * b.x")
    assert "checked" not in totals("CAST(a.x AS BIGINT) * b.x")  # always fits
    assert "checked" not in totals("b.y")
    assert "checked" not in totals("CAST(b.y AS DECIMAL(38, 0)) * CAST(e.y AS DECIMAL(38, 0))")  # of two BIGINTs
    wide = totals("CAST(a.y AS DECIMAL(38, 0)) * b.y * e.y")
    assert "enumeration" in wide and wide.endswith("a value inside SUM may not fit DECIMAL(38,0)")


def test_bounds_of_a_sum_may_lie_apart() -> None:
    """The greatest y and the least z of one key may belong to different rows."""
    db = freshet.connect()
    db.execute("CREATE TABLE a (k INT, x BIGINT, i INT); CREATE TABLE b (k INT, y BIGINT, z BIGINT, i INT)")
    join = "FROM a JOIN b ON a.k = b.k GROUP BY a.k"
    narrow = db.create_view("narrow", f"SELECT a.k, SUM(a.i * b.i - b.k) AS s {join}")
    assert "checked row by row" in narrow.explain()  # INT is near to real data
    wide = db.create_view("wide", f"SELECT a.k, SUM(CAST(a.x AS DECIMAL(38, 0)) * b.y - b.z) AS s {join}")
    db.create_view("bounded", f"SELECT a.k, SUM(a.x * b.y - b.z) AS s {join}")
    rows = {
        "a": [{"k": 1, "x": 1, "i": 1}],
        "b": [{"k": 1, "y": 2**63 - 1, "z": 1, "i": 2**31 - 1}, {"k": 1, "y": 0, "z": -5, "i": 0}],
    }
    with pytest.raises(freshet.ChangeError, match="a value inside SUM may not fit BIGINT; cast an operand"):
        db.apply(rows)
    db.execute("DROP VIEW bounded")
    db.apply(rows)
    assert wide.to_arrow().to_pylist() == [{"k": 1, "s": 2**63 - 2 + 5}]
    assert narrow.to_arrow().to_pylist() == [{"k": 1, "s": 2**31 - 1 - 2}]
