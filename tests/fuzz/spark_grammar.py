"""Queries for Spark: those of the grammar, and queries in which Spark has its own rules for names, frames, constants
and types, both valid and invalid ones. Queries with several correct answers are left out: a limit is ordered by every
column, and no aggregate picks an arbitrary row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from tests.fuzz.choices import Choices
from tests.fuzz.expressions import Col, Scope
from tests.fuzz.grammar import NULLS, Grammar, Made
from tests.fuzz.tables import TableModel, random_row

#: Aggregates that may take any row of several, and orders within aggregates, which Spark writes in another way.
_SEVERAL = re.compile(r"(FIRST|LAST|ANY_VALUE|MODE|MIN_BY|MAX_BY|ARRAY_AGG|STRING_AGG)\(")
KINDS = ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN")
ENDS = ("UNBOUNDED PRECEDING", "2 PRECEDING", "1 PRECEDING", "CURRENT ROW", "1 FOLLOWING", "2 FOLLOWING",
        "UNBOUNDED FOLLOWING")  # fmt: skip


SETS = 8


@cache
def spark_tables(number: int) -> tuple[TableModel, ...]:
    """Three tables with common column names, NULLs and duplicate rows; one of several sets, each of which is loaded
    once."""
    choices = Choices(seed=number)
    tables = (
        TableModel("t0", [("a", "i"), ("b", "i"), ("c", "s"), ("n", "n")], False),
        TableModel("t1", [("a", "i"), ("b", "i"), ("d", "d"), ("f", "f")], False),
        TableModel("t2", [("b", "i"), ("c", "s"), ("n", "n"), ("y", "x")], False),
    )
    for table in tables:
        for _ in range(2 + number % 5):
            table.rows += [random_row(choices, table)] * (2 if choices.chance(20) else 1)
    return tables


class SparkGrammar(Grammar):
    laterals = False  # Spark restricts what they may read

    unions = ("UNION ALL",)

    def __init__(self, choices: Choices, tables: Sequence[TableModel]) -> None:
        super().__init__(choices, tables)
        self.tables = tables

    def statement(self) -> str:
        shapes = (self._collisions, self._stars, self._frames, self._correlated, self._constants, self._typed)
        return super().statement() if self.choices.chance(30) else self.choices.pick(shapes)()

    def aggregate(self, scope: Scope) -> tuple[str, str]:
        while True:
            call, kind = super().aggregate(scope)
            if not _SEVERAL.match(call):
                return call, kind

    def _limited(self, depth: int) -> Made:
        self.rough = False
        sql, types = self.choices.pick((self._plain, self._grouped))(depth)
        order = [f"o{i}{self.choices.pick(NULLS)}" for i in self.choices.some(range(len(types)), 1, 2)]
        order += [f"o{i} NULLS FIRST" for i in range(len(types))]
        limit = self.choices.pick(("LIMIT 2", "LIMIT 1", "LIMIT 3 OFFSET 1", "LIMIT 4", "OFFSET 1"))
        return f"{sql} ORDER BY {', '.join(order)} {limit}", types

    # Names --------------------------------------------------------------------------------------------------------

    def _collisions(self) -> str:
        """Aliases that are also columns, read in every clause that reads names."""
        pick, chance = self.choices.pick, self.choices.chance
        table = pick(
            ("t0 AS r", "t1 AS r", "t0 AS r JOIN t1 AS s ON r.a = s.b", "(SELECT b AS a, a AS b FROM t0) AS r")
        )
        names, values = ("a", "b", "x"), ("a", "b", "r.a", "-a", "a + 1", "r.b", "a % 2", "x + 1", "1", "NULL")
        reads = ("a", "b", "x", "r.a", "r.b", "-a", "a + b", "x + 1", "a % 2")

        def condition(of: Sequence[str]) -> str:
            return (
                f"{pick(of)} {pick(('>', '<=', '=', '<>', 'IS DISTINCT FROM'))} {pick(('1', '0', '-1', 'NULL', 'b'))}"
            )

        def named(value: str) -> str:
            alias = pick(names)  # expressions have one: Spark generates other names
            return value if value in ("a", "b", "r.a", "r.b") and chance(40) else f"{value} AS {alias}"

        where = f" WHERE {condition(reads)}" if chance(20) else ""
        order = ""
        if chance(30):
            order = " ORDER BY " + ", ".join(
                f"{pick((*reads, '1', '2', 'COUNT(*)', 'ALL'))}{pick(NULLS)}" for _ in range(1 + self.choices.below(2))
            )
        shape = self.choices.below(3)
        if shape == 0:
            listed = [named(pick(values)) for _ in range(1 + self.choices.below(3))]
            return f"SELECT {pick(('', '', 'DISTINCT '))}{', '.join(listed)} FROM {table}{where}{order}"
        if shape == 1:
            calls = ("COUNT(*)", "SUM(a)", "MAX(b)", "MIN(r.a)", "SUM(x)", "COUNT(DISTINCT a)", "MAX(a) + a")
            listed = [named(pick((*values, *calls))) for _ in range(1 + self.choices.below(3))]
            keys = ", ".join(pick((*reads, "1", "2")) for _ in range(1 + self.choices.below(2)))
            group = pick((f" GROUP BY {keys}", f" GROUP BY {keys}", " GROUP BY ALL", "", f" GROUP BY ROLLUP ({keys})",
                          f" GROUP BY {keys} GROUPING SETS (({keys}), ())", f" GROUP BY b, CUBE ({keys})"))  # fmt: skip
            if "ROLLUP" in group or "CUBE" in group or "SETS" in group:
                listed.append(f"GROUPING({pick(reads)}) AS g")
            having = f" HAVING {condition((*reads, *calls))}" if chance(40) else ""
            return f"SELECT {', '.join(listed)} FROM {table}{where}{group}{having}{order}"
        over = f"OVER (PARTITION BY {pick(reads)} ORDER BY {pick(reads)})"
        listed = [named(pick((*values, f"SUM(a) {over}", f"RANK() {over}", f"COUNT(x) {over}"))) for _ in range(3)]
        qualify = f" QUALIFY {pick(('x', 'a', f'RANK() {over}'))} <= 2" if chance(25) else ""
        return f"SELECT {', '.join(listed)} FROM {table}{where}{qualify}{order}"

    def _stars(self) -> str:
        """`*` with and without qualifier and EXCEPT, over chains of USING, NATURAL and ON."""
        pick, chance = self.choices.pick, self.choices.chance
        text, names = f"{pick(('t0', 't1', 't2'))} AS r0", ["r0"]
        for i in range(1, 2 + self.choices.below(3)):
            name, kind = pick(("t0", "t1", "t2")), pick((*KINDS[:4], *KINDS))
            how = self.choices.below(4)
            if how == 0:
                text += f" NATURAL {kind} {name} AS r{i}"
            elif how == 1:
                text += f" {kind} {name} AS r{i} ON {pick(names)}.b = r{i}.b"
            else:
                text += f" {kind} {name} AS r{i} USING ({', '.join(self.choices.some(('a', 'b', 'c'), 1, 2))})"
            names.append(f"r{i}")
        columns = ("a", "b", "c", "n", *(f"{r}.{c}" for r in names for c in ("a", "b")))

        def item() -> str:
            star = pick(("*", "*", "*", *(f"{r}.*" for r in names)))
            if chance(35):
                return f"{star} EXCEPT ({', '.join(pick(columns) for _ in range(1 + self.choices.below(2)))})"
            return star if chance(75) else f"{pick(columns)}{pick(('', ' AS z'))}"

        listed = ", ".join(item() for _ in range(pick((1, 1, 2))))
        where = f" WHERE {pick(columns)} {pick(('IS NOT NULL', 'IS NULL', '= 1'))}" if chance(25) else ""
        return f"SELECT {pick(('', '', 'DISTINCT '))}{listed} FROM {text}{where}"

    # Windows and subqueries ---------------------------------------------------------------------------------------

    def _frames(self) -> str:
        pick, chance = self.choices.pick, self.choices.chance
        table = pick(self.tables)
        columns = [n for n, _ in table.columns]
        total = ", ".join(f"{pick(columns)}{pick(NULLS)}" for _ in range(1)) + "".join(f", {c}" for c in columns)
        kind = pick(("ROWS", "ROWS", "RANGE"))
        order = total if kind == "ROWS" else f"{pick(columns)}{pick(NULLS)}"
        frame = pick((f"{kind} BETWEEN {pick(ENDS)} AND {pick(ENDS)}", f"{kind} {pick(ENDS)}", ""))
        partition = f"PARTITION BY {pick(columns)} " if chance(50) else ""
        ordered = f"ORDER BY {order} " if chance(92) else ""
        if kind == "ROWS" and not ordered:  # which rows are near is open
            frame = pick(("", "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"))
        exact = kind == "ROWS" and ordered
        calls = [f"SUM({pick(columns)})", f"COUNT({pick(columns)})", "COUNT(*)", f"MIN({pick(columns)})",
                 f"AVG({pick(columns)})", f"MAX({pick(columns)}) FILTER (WHERE b > 0)"]  # fmt: skip
        if exact:
            calls += [f"FIRST_VALUE({pick(columns)})", f"LAST_VALUE({pick(columns)}) IGNORE NULLS",
                      f"NTH_VALUE({pick(columns)}, 2)", "ROW_NUMBER()", f"LAG({pick(columns)}, 1)",
                      f"LEAD({pick(columns)}) IGNORE NULLS", "NTILE(2)"]  # fmt: skip
        calls += ["RANK()", "PERCENT_RANK()", "CUME_DIST()", "DENSE_RANK()"]
        call = f"{pick(calls)} OVER ({partition}{ordered}{frame})"
        if chance(10):
            call, _, window = call.partition(" OVER ")
            return f"SELECT *, {call} OVER w AS x FROM {table.name} WINDOW w AS {window}"
        return f"SELECT *, {call} AS x FROM {table.name}"

    def _correlated(self) -> str:
        """Subqueries that read the row around them from under joins of every kind, windows, groups and limits."""
        pick, chance = self.choices.pick, self.choices.chance
        outer = pick(("t0", "t1", "t2"))
        kind = pick((*KINDS, "CROSS JOIN"))
        reads = ("o.b", "o.b", "s.b + o.b", "1")
        on = (
            ""
            if kind == "CROSS JOIN"
            else " ON s.b = u.b" + pick(("", "", f" AND u.b = {pick(reads)}", " OR s.b = o.b"))
        )
        alone = ("t1 AS s", "(SELECT * FROM t0 WHERE a > 0) AS s",
                 "(SELECT COUNT(*) AS a, MAX(b) AS b FROM t0 WHERE t0.b = o.b) AS s",
                 "(SELECT a, b FROM t0 WHERE t0.b = o.b UNION ALL SELECT a, b FROM t1) AS s",
                 "(WITH w AS (SELECT a, b FROM t0 WHERE t0.b = o.b) SELECT * FROM w) AS s")  # fmt: skip
        joined = f"t0 AS s {kind} t2 AS u{on}" if chance(60) else pick(alone)
        where = pick(("", " WHERE s.b = o.b", " WHERE s.b = o.b", " WHERE s.b < o.b", " WHERE s.a = 1 AND s.b = o.b"))
        value = pick(("s.a", "SUM(s.a)", "MAX(s.a + o.b)", "COUNT(*)", "COUNT(s.b)", "SUM(s.a) OVER (ORDER BY s.b)",
                      "RANK() OVER (ORDER BY s.b)", "MAX(s.b)", "SUM(o.b)"))  # fmt: skip
        more = pick(("", "", "", " GROUP BY s.b", " HAVING COUNT(*) > 1", " HAVING MAX(s.b) > o.b", " LIMIT 1",
                     " ORDER BY s.b, s.a LIMIT 1"))  # fmt: skip
        distinct = pick(("", "", "", "DISTINCT "))
        shape = self.choices.below(5)
        if shape in (1, 3) and more == " LIMIT 1":  # any row would do, and it decides which rows of `o` are there
            more = ""
        inside = f"SELECT {distinct}{value} FROM {joined}{where}{more}"
        if shape == 0:
            return f"SELECT o.*, ({inside}) AS x FROM {outer} AS o"
        if shape == 1:
            return f"SELECT o.* FROM {outer} AS o WHERE o.b {pick(('<', '=', '>='))} ({inside})"
        if shape == 2:
            return f"SELECT o.* FROM {outer} AS o WHERE {pick(('', 'NOT '))}EXISTS ({inside})"
        if shape == 3:
            return f"SELECT o.* FROM {outer} AS o WHERE o.b {pick(('IN', 'NOT IN'))} ({inside})"
        test = pick((f"EXISTS ({inside})", f"o.b IN ({inside})", f"o.b NOT IN ({inside})"))
        return f"SELECT o.*, {test} AS x FROM {outer} AS o"

    # Constants and types ------------------------------------------------------------------------------------------

    def _constants(self) -> str:
        """NULLs, and constants that have no value, in places that are evaluated and in places that are not."""
        table = self.choices.pick(self.tables)
        values = [self._constant(2, [Col(n, t) for n, t in table.columns]) for _ in range(1 + self.choices.below(2))]
        listed = ", ".join(f"{v} AS o{i}" for i, v in enumerate(values))
        source = f" FROM {table.name}" if self.choices.chance(75) else ""
        if not source:
            listed = re.sub(r"\b[abcdnf]\b", "NULL", listed)
            return f"SELECT {listed}"
        where = f" WHERE {self._constant(1, [Col('b', 'i')])} = b" if self.choices.chance(30) else ""
        return f"SELECT {listed}{source}{where}"

    def _constant(self, depth: int, scope: Scope) -> str:
        pick = self.choices.pick
        if depth == 0:
            leaves = ("1", "0", "-1", "2.50", "NULL", "CAST(NULL AS INT)", "CAST(NULL AS DECIMAL(5,2))", "1 / 0",
                      "1e0", "TRUE", "'1'", "CAST('x' AS INT)", "9223372036854775807 + 1")  # fmt: skip
            return pick((*leaves, *(c.text for c in scope if c.type in "in")))

        def part() -> str:
            return self._constant(depth - 1, scope)

        a, b, c = part(), part(), part()
        return pick((f"({a} + {b})", f"({a} * {b})", f"({a} / {b})", f"COALESCE({a}, {b})", f"NULLIF({a}, {b})",
                     f"CASE WHEN {a} = {b} THEN {c} ELSE {a} END", f"CASE WHEN FALSE THEN {a} ELSE {b} END",
                     f"IF({a} IS NULL, {b}, {c})", f"({a} IN ({b}, NULL))", f"({a} BETWEEN {b} AND {c})",
                     f"(({a} = {b}) AND FALSE)", f"(TRUE OR {a} = {b})", f"(NOT ({a} > {b}))", f"({a} IS NOT NULL)",
                     f"GREATEST({a}, {b})", f"CAST({a} AS DECIMAL(10,3))", f"({a} <=> {b})", f"({a} % {b})",
                     f"TRY_DIVIDE({a}, {b})", f"NVL2({a}, {b}, {c})"))  # fmt: skip

    def _typed(self) -> str:
        """Types of decimals, dates and intervals under operators and aggregates."""
        pick = self.choices.pick
        numbers = ("n", "a", "b", "CAST(b AS BIGINT)", "CAST(n AS DECIMAL(12,4))", "CAST(a AS DECIMAL(38,2))", "1.25",
                   "CAST(NULL AS DECIMAL(7,1))", "CAST(b AS DOUBLE)", "CAST(a AS SMALLINT)", "3")  # fmt: skip
        days = ("d", "DATE '2024-02-29'", "CAST(d AS TIMESTAMP)", "CAST(NULL AS DATE)")
        spans = ("INTERVAL '1' DAY", "INTERVAL '2' MONTH", "INTERVAL '1 02:03:04' DAY TO SECOND",
                 "(d - DATE '2024-01-01')",
                 "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '5' HOUR", "CAST(NULL AS INTERVAL DAY)")  # fmt: skip
        if self.choices.chance(25):
            return self._bytes()
        if self.choices.chance(20):
            return self._signs()
        if self.choices.chance(50):
            a, b, c = pick(numbers), pick(numbers), pick(numbers)
            values: tuple[str, ...] = (
                f"{a} + {b}", f"{a} * {b}", f"{a} / {b}", f"{a} % {b}", f"{a} * {b} - {c}", f"-{a}", f"ABS({a})",
                f"ROUND({a}, 1)", f"{a} DIV {b}", f"COALESCE({a}, {b})", f"CASE WHEN {a} > {b} THEN {a} ELSE {c} END",
                f"CAST({a} AS INT)", f"FLOOR({a})", f"CEIL({a})", f"GREATEST({a}, {b})", f"{a} = {b}",
            )  # fmt: skip
            table = "t0"
        else:
            a, b, x, y = pick(days), pick(days), pick(spans), pick(spans)
            values = (f"{a} + {x}", f"{a} - {x}", f"{a} - {b}", f"{x} * 2", f"{x} / 2", f"{x} + {y}", f"-{x}",
                      f"{x} * a", f"{x} < {y}", f"COALESCE({x}, {y})", f"EXTRACT(DAY FROM {x})", f"DATE_ADD({a}, b)",
                      f"{x} * 1.5",
                      f"CAST({x} AS STRING)", f"DATEDIFF({a}, {b})", f"{a} < {b}", f"{x} = {y}")  # fmt: skip
            table = "t1"
        if self.choices.chance(35):
            calls = ("SUM", "AVG", "MIN", "MAX", "COUNT", "COUNT(DISTINCT", "SUM(DISTINCT")
            call = pick(calls)
            value = f"{call} {pick(values)})" if "(" in call else f"{call}({pick(values)})"
            return f"SELECT b AS o0, {value} AS o1 FROM {table} GROUP BY b"
        return f"SELECT {pick(values)} AS o0, {pick(values)} AS o1 FROM {table}"

    def _signs(self) -> str:
        """Operators of which some bind more than others, without parentheses."""
        pick = self.choices.pick
        known = pick((("+", "-", "*", "|", "&", "^", "<<", ">>", ">>>"), ("+", "-", "*", "||", "||")))
        values = []
        for _ in range(2):
            text = pick(("a", "b", "3", "-b"))
            for _ in range(2 + self.choices.below(3)):
                text += f" {pick(known)} {pick(('a', 'b', '1', '2', '~a', '5'))}"
            values.append(text)
        return f"SELECT {values[0]} AS o0, {values[1]} AS o1 FROM t0"

    def _bytes(self) -> str:
        """BINARY next to texts and other types, under operators, functions, aggregates and keys."""
        pick = self.choices.pick
        of = ("y", "y", "y", "X'FF'", "X'61'", "c", "'a'", "CAST(NULL AS BINARY)", "NULL", "b", "CAST(c AS BINARY)")
        a, b, c = pick(of), pick(of), pick(of)
        values = (f"{a} = {b}", f"{a} < {b}", f"{a} <=> {b}", f"{a} IN ({b}, {c})", f"{a} BETWEEN {b} AND {c}",
                  f"{a} || {b}", f"CONCAT({a}, {b}, {c})", f"COALESCE({a}, {b})", f"NULLIF({a}, {b})",
                  f"IF(b > 1, {a}, {b})", f"CASE {a} WHEN {b} THEN {c} ELSE {a} END", f"GREATEST({a}, {b})",
                  f"LENGTH({a})", f"HEX({a})", f"SUBSTRING({a}, 2, 1)", f"LEFT({a}, 1)", f"UNHEX(HEX({a}))",
                  f"BASE64({a})", f"MD5({a})", f"ENCODE({a}, 'utf-8')", f"LPAD({a}, 3, {b})", f"REVERSE({a})",
                  f"CAST({a} AS BINARY)", f"TYPEOF({a})", f"CONTAINS({a}, {b})", f"OVERLAY({a}, {b}, 2)",
                  f"{a} + {b}", f"({a}, {b}) = ({c}, {a})", f"TO_BINARY(HEX({a}))", f"CRC32({a})",
                  f"{a} LIKE 'a%'")  # fmt: skip
        shape = self.choices.below(5)
        if shape == 0:
            call = pick(("MIN", "MAX", "COUNT", "SUM", "COUNT(DISTINCT"))
            value = f"{call} {pick(values)})" if "(" in call else f"{call}({pick(values)})"
            return f"SELECT {a} AS o0, {value} AS o1 FROM t2 GROUP BY {a}"
        if shape == 1:
            return f"SELECT {a} AS o0 FROM t2 {pick(('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT'))} SELECT {b} FROM t2"
        if shape == 2:
            on = f"r.y {pick(('=', '<', '<=>'))} s.{pick('yc')}"
            return f"SELECT r.y AS o0, s.c AS o1 FROM t2 AS r {pick(KINDS[:4])} t2 AS s ON {on}"
        if shape == 3:
            over = f"OVER (PARTITION BY {pick('yb')} ORDER BY y, c, b, n)"
            call = pick((f"LAG(y, 1, {a})", "RANK()", "MAX(y)", "FIRST_VALUE(y)"))
            return f"SELECT y AS o0, {call} {over} AS o1 FROM t2"
        return f"SELECT {pick(values)} AS o0, {pick(values)} AS o1 FROM t2"
