"""Random queries over everything that is kept fresh: joins of all kinds, conjunctive queries with cycles and
comparisons, subqueries, set operations, groups, grouping sets, windows, top-k, common tables. Queries with several
correct answers are left out: an order that matters has every column as a key, only one window of a select distinguishes
copies of a row, and an inexact value (STDDEV, an average of decimals) is selected only at the top, where the oracle
compares with a tolerance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.fuzz.choices import Choices
from tests.fuzz.correlated import correlated_relation
from tests.fuzz.expressions import Col, Expressions, Scope
from tests.fuzz.many_groups import many_groups
from tests.fuzz.recursive import recursive
from tests.fuzz.tables import TYPES, TableModel

NULLS = ("", " NULLS FIRST", " NULLS LAST", " DESC", " DESC NULLS FIRST", " DESC NULLS LAST")
FRAMES = ("", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING",
          " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING", " RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
          " RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING")  # fmt: skip
#: With offsets, which take an order by one key: of numbers, and of dates.
DISTANCES = ("{0} PRECEDING AND CURRENT ROW", "{0} PRECEDING AND {0} FOLLOWING",
             "UNBOUNDED PRECEDING AND {0} PRECEDING", "CURRENT ROW AND {0} FOLLOWING",
             "{0} FOLLOWING AND UNBOUNDED FOLLOWING")  # fmt: skip
UNITS = {"i": ("1", "2"), "n": ("1", "1.25"), "f": ("1", "0.5"), "d": ("INTERVAL '1' DAY", "INTERVAL '1' MONTH")}
BARE = "__bare"  # after a qualifier that only the oracle's text has
Source = tuple[str, Sequence[tuple[str, str]]]  # the FROM clause, its columns and their types
Made = tuple[str, list[str]]  # a query and the types of its columns, which are called o0, o1, ...


class Grammar:
    laterals = True  # whether FROM may have LATERAL
    unions: Sequence[str] = ("UNION", "UNION ALL")  # of recursive common tables

    def __init__(self, choices: Choices, tables: Sequence[TableModel]) -> None:
        self.choices, self.expressions = choices, Expressions(choices)
        self.roots: list[Source] = [(t.name, t.columns) for t in tables]
        self.sources = [*self.roots]
        self.keyed = {t.name for t in tables if t.keyed}
        self.aliases = 0
        self.order: list[tuple[int, bool, bool]] = []  # of the answer: column, whether downwards, whether NULLs first
        self.rough = False  # whether inexact values may be selected: at the top, where they are not used further

    def statement(self) -> str:
        common = []
        for i in range(self.choices.below(3) if self.choices.chance(20) else 0):
            sql, types = self.query(1)
            common.append(f"w{i} AS ({sql})")
            self.sources.append((f"w{i}", _columns(types)))
        recursion = self.choices.chance(12)
        if recursion:
            sql, types = recursive(self, "q0")
            common.append(sql)
            self.sources += [("q0", _columns(types))] * 2
        sql, types = self.query(2, top=True)
        if self.choices.chance(20) and " AS o0" in sql:
            sql = self._ordered(sql, types)
        return f"WITH {'RECURSIVE ' if recursion else ''}{', '.join(common)} {sql}" if common else sql

    def _ordered(self, sql: str, types: Sequence[str]) -> str:
        """The order in which the answer is to be read."""
        places = self.choices.some([i for i, t in enumerate(types) if t not in "lz"], 0, 2)
        chosen = [(i, self.choices.pick(NULLS)) for i in places]
        if not chosen:
            return sql
        self.order = [(i, "DESC" in words, _nulls_first(words)) for i, words in chosen]
        inside = f"({sql})" if "LIMIT" in sql or "OFFSET" in sql else sql
        return f"{inside} ORDER BY {', '.join(f'o{i}{words}' for i, words in chosen)}"

    def query(self, depth: int, types: Sequence[str] | None = None, top: bool = False) -> Made:
        """A query; with `types`, one of exactly these columns."""
        self.rough = False
        if depth > 0 and self.choices.chance(12):
            return self._set_operation(depth - 1, types)
        kinds: list[Callable[[int], Made]] = [self._plain, self._plain, self._grouped, self._grouped]
        if types is None:
            kinds += [self._conjunctive, self._sets, self._windowed, self._qualified, self._limited, self._many_groups]
            kinds += [self._many, self._colliding, self._products] if top else []
            made = self.choices.pick(kinds)
            self.rough = top
            return made(depth)
        return self._plain(depth, types)

    # FROM and WHERE -----------------------------------------------------------------------------------------------

    def alias(self) -> str:
        self.aliases += 1
        return f"r{self.aliases}"

    def relation(self, depth: int) -> tuple[str, list[Col]]:
        alias, kind = self.alias(), self.choices.below(20)
        if kind == 19 and depth > 0:
            texts = self.expressions.literal("s"), "CAST(NULL AS STRING)"
            rows = ", ".join(
                f"({self.expressions.literal('i')}, {self.choices.pick(texts)})"
                for _ in range(1 + self.choices.below(3))
            )
            return f"(VALUES {rows}) AS {alias}(o0, o1)", [Col(f"{alias}.o0", "i"), Col(f"{alias}.o1", "s")]
        if kind >= 15 and depth > 0:
            sql, types = self.query(depth - 1)
            return f"({sql}) AS {alias}", [Col(f"{alias}.{n}", t) for n, t in _columns(types)]
        if kind == 14:
            return f"range({self.choices.pick(('2', '1, 3', '2, -1, -1'))}) AS {alias}(o0)", [Col(f"{alias}.o0", "i")]
        name, columns = self.choices.pick(self.sources)
        return f"{name} AS {alias}", [Col(f"{alias}.{n}", t) for n, t in columns]

    def _from(self, depth: int, most: int = 3, outer: Scope = ()) -> tuple[str, list[Col]]:
        """`outer`: columns of the query around that ON may read."""
        if self.choices.chance(6):
            return self._full_chain()
        text, scope = self.relation(depth)
        for _ in range(self.choices.below(most)):
            more, new = self.relation(depth)
            kind = self.choices.pick(
                ("JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
            )
            on = "" if kind == "CROSS JOIN" else f" ON {self.on(scope, new)}{self._around([*scope, *new], outer)}"
            text, scope = f"{text} {kind} {more}{on}", scope + new
        if self.choices.chance(5):
            more, new = self.relation(0)
            text, scope = f"{text}, {more}", scope + new
        if self.laterals and self.choices.chance(7):
            more, new, kind = *self._lateral(scope), self.choices.pick(("CROSS JOIN", "JOIN", "LEFT JOIN"))
            on = "" if kind == "CROSS JOIN" else f" ON {self.on(scope, new)}"
            text, scope = f"{text} {kind} {more}{on}", scope + new
        return text, scope

    def _lateral(self, outer: Scope) -> tuple[str, list[Col]]:
        """A query that reads the items on its left, perhaps the first of its rows for each row of them."""
        text, scope = self.relation(0)
        alias, types = self.alias(), [t for t in self._types(scope) if t in TYPES] or ["i"]
        read = [*scope, *self.choices.some(list(outer), 1, 2)] if self.choices.chance(40) else scope
        where = f" WHERE {self.on(outer, scope)}" if self.choices.chance(80) else ""
        outputs = _named([self.expressions.value(t, read, 1) for t in types])
        group, last = "", f" ORDER BY o0 LIMIT {1 + self.choices.below(2)}" if self.choices.chance(40) else ""
        if not last and self.choices.chance(40):
            value = self.expressions.column(scope, "i")
            outputs, types = f"MAX({value}) AS o0, COUNT(*) AS o1", ["i", "i"]
            key = self.expressions.column(scope, types[0])
            group = f" GROUP BY {key}" if self.choices.chance(50) and not key.isdigit() else ""  # 1 is the first output
        columns = [Col(f"{alias}.o{i}", t) for i, t in enumerate(types)]
        return f"LATERAL (SELECT {outputs} FROM {text}{where}{group}{last}) AS {alias}", columns

    def _inside(self, depth: int, outer: Scope) -> tuple[str, list[Col]]:
        """FROM of a subquery, which may have a query that reads the rows around both."""
        if not outer or not self.choices.chance(25):
            return self._from(depth, 2, outer)
        return correlated_relation(self, depth, outer)

    def _around(self, scope: Scope, outer: Scope) -> str:
        """A further condition of a join, on the query around it."""
        pairs = [(a, b) for a in scope for b in outer if a.type == b.type]
        if not pairs or not self.choices.chance(30):
            return ""
        one, other = self.choices.pick(pairs)
        operator = self.choices.pick(("=", "=", "<", "<>"))
        return f" {self.choices.pick(('AND', 'AND', 'OR'))} {one.text} {operator} {other.text}"

    def _full_chain(self) -> tuple[str, list[Col]]:
        """Three to five tables, each joined to those before by a value that all have in common or by one of them."""
        named = [(name, columns) for name, columns in self.sources if ("a", "i") in columns and ("b", "i") in columns]
        roles = [(self.alias(), *self.choices.pick(named)) for _ in range(3 + self.choices.below(3))]
        (first, name, _), shape, x = roles[0], self.choices.below(3), self.choices.pick(("a", "b"))
        text = f"{name} AS {first}"
        for i, (alias, name, _) in enumerate(roles[1:], 1):
            before = [r[0] for r in roles[:i]]
            common = f"COALESCE({', '.join(f'{b}.{x}' for b in before)})" if i > 1 else f"{first}.{x}"
            near = f"{self.choices.pick(before)}.{self.choices.pick(('a', 'b'))}"
            on = (f"USING ({x})", f"ON {common} = {alias}.{x}", f"ON {near} = {alias}.{x}")[shape]
            kind = "FULL" if self.choices.chance(80) else self.choices.pick(("LEFT", "RIGHT", "INNER"))
            text += f" {kind} JOIN {name} AS {alias} {on}"
        scope = [Col(f"{alias}.{n}", t) for alias, _, columns in roles for n, t in columns]
        return text, [*scope, Col(f"COALESCE({', '.join(f'{r[0]}.{x}' for r in roles)})", "i")]

    def on(self, left: Scope, right: Scope) -> str:
        pairs = [(a, b) for a in left for b in right if a.type == b.type]
        if not pairs:
            return "1 = 1"

        def compared(operator: str = "=") -> str:
            a, b = self.choices.pick(pairs)
            if operator != "=" and a.type == "i" and self.choices.chance(30):
                return f"{a.text} {operator} {b.text} + {self.choices.below(4)}"
            return f"{a.text} {operator} {b.text}"

        def within() -> str:
            """Two values that are close together, through a third if there is one."""
            numbers = [(a, b) for a, b in pairs if a.type == "i"]
            if not numbers:
                return compared("<")
            (a, b), (c, _) = self.choices.pick(numbers), self.choices.pick(numbers)
            return f"{a.text} <= {b.text} AND {b.text} < {c.text} + {self.choices.below(4)} AND {c.text} <= {a.text}"

        shape = self.choices.below(11)
        if shape == 10:
            return within()
        if shape <= 4:
            return compared()
        if shape == 5:
            return f"{compared()} AND {compared()}"
        if shape == 6:
            return f"{compared()} AND {compared(self.choices.pick(('<', '>=', '<>')))}"
        if shape == 7:
            return f"{compared()} AND {self.expressions.condition([*left, *right], 1)}"
        if shape == 8:
            return compared(self.choices.pick(("<", "<=", "<>")))
        return f"({compared()} OR {compared()})"

    def _where(self, scope: Scope, depth: int) -> str:
        parts = []
        for _ in range(self.choices.pick((0, 0, 0, 0, 1, 1, 2))):
            if depth > 0 and self.choices.chance(40):
                test = self._subquery_test(scope, depth - 1)
                either = depth > 1 and self.choices.chance(15)
                parts.append(f"({test} OR {self.expressions.condition(scope, 1)})" if either else test)
            else:
                parts.append(self.expressions.condition(scope))
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _subquery_test(self, outer: Scope, depth: int) -> str:
        shape = self.choices.below(11)
        if shape == 10:
            return self._window_test(outer, depth)
        if shape <= 4:
            text, scope = self._inside(depth, outer)
            tests = [self.on(outer, scope), *([self.expressions.condition(scope)] if self.choices.chance(30) else [])]
            if depth > 0 and self.choices.chance(30):  # reads both the rows right above it and those around
                tests.append(self._subquery_test([*scope, *self.choices.some(list(outer), 1, 2)], depth - 1))
            having = self._having(scope, outer) if self.choices.chance(15) else ""
            where = f"{' AND '.join(tests)}{having}"
            return f"{self.choices.pick(('', 'NOT '))}EXISTS (SELECT 1 FROM {text} WHERE {where})"
        kind = self.choices.pick([c.type for c in outer if c.type in "isnd"] or ["i"])
        if shape <= 6 and self.choices.chance(15):  # NOT IN of a row is FALSE here and NULL in DuckDB, or the reverse
            inside, _ = self.query(depth, [kind, "i"])
            row = f"({self.expressions.value(kind, outer, 1)}, {self.expressions.value('i', outer, 1)})"
            return f"{row} IN ({inside})"
        if shape <= 6:
            inside, _ = self.query(depth, [kind])
            return f"{self.expressions.value(kind, outer, 1)} {self.choices.pick(('IN', 'NOT IN'))} ({inside})"
        left, operator = self.expressions.value(kind, outer, 1), self.choices.pick(("=", "<", ">=", "<>"))
        if shape == 7:
            inside, _ = self.query(depth, [kind])
            return f"{left} {operator} {self.choices.pick(('ANY', 'ALL'))} ({inside})"
        return f"{left} {operator} {self._scalar(kind, outer, depth)}"

    def _window_test(self, outer: Scope, depth: int) -> str:
        """IN a subquery of window functions, which may read the rows around it."""
        self.rough = False
        text, scope = self.relation(depth)
        read = [*scope, *self.choices.some(list(outer), 1, 2)] if self.choices.chance(40) else scope
        call, kind = self._window(read, False)
        where = f" WHERE {self.on(outer, scope)}" if self.choices.chance(60) else ""
        value = self.expressions.value(kind if kind in TYPES else "i", outer, 1)
        return f"{value} {self.choices.pick(('IN', 'NOT IN'))} (SELECT {call} FROM {text}{where})"

    def _scalar(self, kind: str, outer: Scope, depth: int) -> str:
        """A scalar subquery: an aggregate over a query that may read the rows around it."""
        text, scope = self._inside(depth, outer)
        where = f" WHERE {self.on(outer, scope)}" if outer and self.choices.chance(60) else ""
        read = [*scope, *outer] if self.choices.chance(20) else scope
        calls = [f"MAX({self.expressions.value(kind, read, 1)})", f"MIN({self.expressions.value(kind, read, 1)})"]
        calls += ["COUNT(*)", f"SUM({self.expressions.value('i', read, 1)})"] if kind == "i" else []
        having = self._having(scope, outer) if self.choices.chance(15) else ""
        return f"(SELECT {self.choices.pick(calls)} FROM {text}{where}{having})"

    def _having(self, scope: Scope, outer: Scope) -> str:
        """HAVING of a subquery, which may read the rows around it."""
        self.rough = False
        call, kind = self.aggregate(scope)
        bound = self.expressions.value(kind, outer, 1) if self.choices.chance(30) else self.expressions.literal(kind)
        return f" HAVING {call} {self.choices.pick(('>', '<=', '=', '<>'))} {bound}"

    # Selects ------------------------------------------------------------------------------------------------------

    def _types(self, scope: Scope, most: int = 3) -> list[str]:
        known = [c.type for c in scope]
        return [self.choices.pick(known) for _ in range(1 + self.choices.below(most))]

    def _plain(self, depth: int, types: Sequence[str] | None = None) -> Made:
        self.rough = False
        text, scope = self._from(depth)
        types = self._types(scope) if types is None else list(types)
        values = [self.expressions.value(t, scope) for t in types]
        if depth > 1 and types[-1] in "isnd" and self.choices.chance(8):
            values[-1] = self._scalar(types[-1], scope, depth - 2)
        outputs = _named(values)
        distinct = "DISTINCT " if self.choices.chance(20) else ""
        return f"SELECT {distinct}{outputs} FROM {text}{self._where(scope, depth)}", types

    def _conjunctive(self, depth: int) -> Made:
        """Two to five roles of tables, a predicate that hangs each on an earlier one, and up to three more between any
        two: cycles, several comparisons on one edge, ones that no tree can place."""
        self.rough = False
        roles = [self.relation(0) for _ in range(2 + self.choices.below(4))]
        pairs = [(self.choices.below(i), i) for i in range(1, len(roles))]
        for _ in range(self.choices.below(4)):
            one = self.choices.below(len(roles))
            pairs.append((one, (one + 1 + self.choices.below(len(roles) - 1)) % len(roles)))
        tests = [self._predicate(roles[i][1], roles[j][1]) for i, j in pairs]
        scope = [column for _, columns in roles for column in columns]
        if self.choices.chance(30):
            tests.append(self.expressions.condition(scope, 1))
        source = f"FROM {', '.join(text for text, _ in roles)} WHERE {' AND '.join(tests)}"
        types = self._types(scope)
        values = [self.expressions.column(scope, t) for t in types]
        shape = self.choices.below(4)
        if shape <= 2:
            return f"SELECT {'DISTINCT ' if shape == 2 else ''}{_named(values)} {source}", types
        total, kind = self.aggregate(scope)
        return f"SELECT {_named([*values, total])} {source} GROUP BY {', '.join(values)}", [*types, kind]

    def _many(self, depth: int) -> Made:
        """Six to sixteen roles of tables with a key, each found by the key of one before: many joins, and few rows."""
        self.rough = False
        keyed = [(name, columns) for name, columns in self.sources if name in self.keyed]
        if not keyed:
            return self._conjunctive(depth)
        roles = [(self.alias(), *self.choices.pick(keyed)) for _ in range(6 + self.choices.below(11))]
        (first, name, columns), text = roles[0], ""
        scope, text = [Col(f"{first}.{n}", t) for n, t in columns], f"{name} AS {first}"
        for i, (alias, name, columns) in enumerate(roles[1:], 1):
            other = roles[self.choices.below(i)][0]
            new = [Col(f"{alias}.{n}", t) for n, t in columns]
            more = f" AND {self._predicate(scope, new)}" if self.choices.chance(15) else ""
            kind = self.choices.pick(("JOIN", "JOIN", "JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
            text += f" {kind} {name} AS {alias} ON {other}.{self.choices.pick(('a', 'a', 'b'))} = {alias}.a{more}"
            scope += new
        types = self._types(scope)
        return f"SELECT {_named([self.expressions.column(scope, t) for t in types])} FROM {text}", types

    def _colliding(self, depth: int) -> Made:
        """Aliases that are also columns of the table. A name without qualifier that an alias and a column have means
        the column; written `r1{BARE}.a`, it has its qualifier in the oracle's text alone."""
        self.rough = False
        alias, (name, columns) = self.alias(), self.choices.pick(self.sources)
        if ("a", "i") not in columns or ("b", "i") not in columns:
            return self._plain(depth)
        bare, key = f"{alias}{BARE}", self.choices.pick(("a", "b"))
        value = self.choices.pick((f"-{alias}.{key}", f"{alias}.{key} + 1", f"{bare}.{key} * 2", f"{alias}.{key} % 2"))
        test = self.choices.pick(
            (f"{bare}.{key} > 0", f"NOT {bare}.{key} BETWEEN NULL AND 1", f"{bare}.{key} IN (1, NULL)",
             f"{bare}.{key} <> 1 OR COUNT(*) > 1", f"MAX({bare}.{key}) < 2")
        )  # fmt: skip
        where = f" WHERE {bare}.{self.choices.pick(('a', 'b'))} >= 0" if self.choices.chance(40) else ""
        other = "a" if key == "b" else "b"
        shown = f"{value} AS {key}, COUNT(*) AS {other}"
        group = self.choices.pick((f"{bare}.{key}", f"{alias}.{key}"))
        return f"SELECT {shown} FROM {name} AS {alias}{where} GROUP BY {group} HAVING {test}", ["i", "i"]

    def _products(self, depth: int) -> Made:
        """Sums of products over a join, some of which do not fit their type: then rows are refused."""
        self.rough = False
        roles = [self.relation(0) for _ in range(2 + self.choices.below(2))]
        scope = [c for _, columns in roles for c in columns]
        tests = [
            f"{self.expressions.column(roles[0][1], 'i')} = {self.expressions.column(r, 'i')}" for _, r in roles[1:]
        ]
        factors = [c.text for c in scope if c.type in "iwv"]
        factors += [f"CAST({c.text} AS BIGINT)" for c in scope if c.type in "iv"]

        def factor() -> str:
            return self.choices.pick(factors or ["1"])

        shapes = ("{} * {}", "{} * {} * {}", "{} * ({} * {})", "{} + {}", "{} - {} * {}", "-{}", "({} + {}) * {}")
        calls = [(f"SUM({self.choices.pick(shapes).format(factor(), factor(), factor())})", "i") for _ in range(2)]
        key = self.expressions.column(scope, "i")
        if key.isdigit():  # in GROUP BY it would be a position
            return self._plain(depth)
        source = f"FROM {', '.join(text for text, _ in roles)} WHERE {' AND '.join(tests)}"
        named = _named([key, *(c for c, _ in calls), "COUNT(*)"])
        return f"SELECT {named} {source} GROUP BY {key}", ["i", "i", "i", "i"]

    def _predicate(self, left: Scope, right: Scope) -> str:
        """An equality, inequality or disequality between values of two roles, with an offset now and then."""
        pairs = [(a, b) for a in left for b in right if a.type == b.type]
        if not pairs:
            return "1 = 1"
        one, other = self.choices.pick(pairs)
        operator = self.choices.pick(("=", "=", "=", "=", "=", "=", "<", "<=", ">", ">=", "<>"))
        offset = self.choices.pick((" + 1", " - 1")) if one.type in "inf" and self.choices.chance(15) else ""
        return f"{one.text}{offset} {operator} {other.text}"

    def aggregate(self, scope: Scope) -> tuple[str, str]:
        kind = self.choices.pick([c.type for c in scope] or ["i"])
        value, condition = self.expressions.value(kind, scope, 1), self.expressions.condition(scope, 1)
        options = [("COUNT(*)", "i"), (f"COUNT({value})", "i"), (f"MIN({value})", kind), (f"MAX({value})", kind),
                   (f"COUNT(DISTINCT {value})", "i")]  # fmt: skip
        if kind in "inf":
            options += [(f"SUM({value})", kind), (f"SUM(DISTINCT {value})", kind)]
        if kind in "if":
            options += [(f"AVG({value})", "f")]
        if kind == "i":
            whole = f"CAST({value} AS BIGINT)"  # -NULL is a DOUBLE
            options += [(f"{f}({whole})", "i") for f in ("BIT_AND", "BIT_OR", "BIT_XOR")]
        if kind != "z":
            other = self.expressions.value(
                self.choices.pick([c.type for c in scope if c.type != "z"] or ["i"]), scope, 1
            )
            options += [(f"{f}({value}, {other})", kind) for f in ("MIN_BY", "MAX_BY")]
            options += [(f"{f}({value})", kind) for f in ("FIRST", "LAST", "ANY_VALUE", "MODE")]
        if self.rough and kind != "z":
            options += [(f"ARRAY_AGG({value} ORDER BY {value})", "l")]
        if self.rough and kind == "s":
            options += [(f"STRING_AGG({value}, '-' ORDER BY {value})", "s")]
        if self.rough and kind in "inf":
            options += [(f"{f}({value})", "z") for f in ("STDDEV", "VAR_POP", "AVG", "STDDEV_POP", "VARIANCE")]
            options += [(f"{f}({condition})", "b") for f in ("BOOL_AND", "BOOL_OR")]
            options += [(f"MEDIAN({value})", "z"), (f"COVAR_POP({value}, {value})", "z")]
            options += [(f"PERCENTILE_CONT(0.3) WITHIN GROUP (ORDER BY {value} DESC)", "z")]
        call, type_ = self.choices.pick(options)
        only = f" FILTER (WHERE {condition})" if type_ != "l" and self.choices.chance(15) else ""
        return call + only, type_

    def _grouped(self, depth: int) -> Made:
        rough = self.rough
        text, scope = self._from(depth)
        where = self._where(scope, depth)
        self.rough = rough
        kinds = [self.choices.pick([c.type for c in scope]) for _ in range(self.choices.below(3))]
        keys = [self.expressions.value(k, scope, 1) for k in kinds]
        keys = [k for k in keys if "r" in k]  # a bare literal would be a position
        outputs = [(k, t) for k, t in zip(keys, kinds, strict=False)] if len(keys) == len(kinds) else []
        outputs += [self.aggregate(scope) for _ in range(1 + self.choices.below(3))]
        self.rough = False
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        having = ""
        if self.choices.chance(20):
            call, kind = self.aggregate(scope)
            having = f" HAVING {call} {self.choices.pick(('>', '<=', '<>'))} {self.expressions.literal(kind)}"
        shown, types = _named([o for o, _ in outputs]), [t for _, t in outputs]
        return f"SELECT {shown} FROM {text}{where}{group}{having}", types

    def _many_groups(self, depth: int) -> Made:
        outputs, rest = many_groups(self)
        return f"SELECT {_named([o for o, _ in outputs])} {rest}", [t for _, t in outputs]

    def _sets(self, depth: int) -> Made:
        rough = self.rough
        text, scope = self._from(depth, 2)
        where = self._where(scope, depth)
        self.rough = rough
        keys = self.choices.some(list(scope), 1, 3)
        names = [k.text for k in keys]
        shape = self.choices.below(4)
        if shape == 0:
            group = f"ROLLUP ({', '.join(names)})"
        elif shape == 1:
            group = f"CUBE ({', '.join(names)})"
        elif shape == 2:
            sets = [f"({', '.join(self.choices.some(names, 0, len(names)))})" for _ in range(1 + self.choices.below(3))]
            group = f"GROUPING SETS (({', '.join(names)}), {', '.join(sets)})"
        else:
            group = f"{names[0]}, ROLLUP ({', '.join(names)})"
        outputs = [(k.text, k.type) for k in keys] + [self.aggregate(scope) for _ in range(1 + self.choices.below(2))]
        if self.choices.chance(30):
            outputs.append((f"GROUPING({self.choices.pick(names)})", "i"))
        self.rough = False
        return f"SELECT {_named([o for o, _ in outputs])} FROM {text}{where} GROUP BY {group}", [t for _, t in outputs]

    # Windows ------------------------------------------------------------------------------------------------------

    def _parts(self, scope: Scope) -> tuple[str, str, str]:
        """PARTITION BY, an order, and one by every column after it."""
        keys = ", ".join(c.text for c in self.choices.some(list(scope), 0, 2))
        some = [f"{c.text}{self.choices.pick(NULLS)}" for c in self.choices.some(list(scope), 1, 2)]
        total = [*some, *(f"{c.text} NULLS FIRST" for c in scope)]
        return f"PARTITION BY {keys} " if keys else "", ", ".join(some), ", ".join(total)

    def _window(self, scope: Scope, single: bool) -> tuple[str, str]:
        """A window function; with `single`, perhaps one that distinguishes copies of a row."""
        partition, some, total = self._parts(scope)
        kind = self.choices.pick([c.type for c in scope])
        value = self.expressions.value(kind, scope, 1)
        numbers = [f"COUNT({value})", "COUNT(*)", f"SUM({self.expressions.value('i', scope, 1)})"]
        call = self.choices.pick([*((n, "i") for n in numbers), (f"MIN({value})", kind), (f"MAX({value})", kind)])
        if self.choices.chance(15):
            call = (f"{call[0]} FILTER (WHERE {self.expressions.condition(scope, 1)})", call[1])
        shape = self.choices.below(11 if single else 6)
        keys = [c for c in scope if c.type in UNITS]
        if shape == 4 and keys:
            key = self.choices.pick(keys)
            reach = self.choices.pick(DISTANCES).format(self.choices.pick(UNITS[key.type]))
            text = (
                f"{key.text} + CAST(0 AS DECIMAL(6,2))" if key.type == "n" else key.text
            )  # whose type contains a unit
            order = f"ORDER BY {text}{self.choices.pick(NULLS)} RANGE BETWEEN {reach}"
            return f"{call[0]} OVER ({partition}{order})", call[1]
        if shape == 5:
            if self.rough and self.choices.chance(50):
                spread = self.choices.pick(("STDDEV", "VAR_POP", "STDDEV_POP", "VARIANCE"))
                return f"{spread}({self.expressions.value('i', scope, 1)}) OVER ({partition}ORDER BY {some})", "z"
            test = self.expressions.condition(scope, 1)
            calls = [(f"COUNT_IF({test})", "i")]
            calls += [(f"BOOL_AND({test})", "b"), (f"BOOL_OR({test})", "b")] if self.rough else []
            call = self.choices.pick(calls)
            return f"{call[0]} OVER ({partition}ORDER BY {some})", call[1]
        shape = max(shape - 2, 0) if shape > 3 else shape
        if shape == 0:
            return f"{call[0]} OVER ({partition.strip()})", call[1]
        if shape == 1:
            return f"{self.choices.pick(('RANK', 'DENSE_RANK'))}() OVER ({partition}ORDER BY {some})", "i"
        if shape <= 3:
            frame = self.choices.pick([f for f in FRAMES if "ROWS" not in f])
            return f"{call[0]} OVER ({partition}ORDER BY {some}{frame})", call[1]
        if shape == 4:
            return f"{self.choices.pick(('ROW_NUMBER()', 'NTILE(2)'))} OVER ({partition}ORDER BY {total})", "i"
        if shape <= 6:
            default = "7" if kind in "iw" else self.expressions.literal(kind)  # it is cast to the type of the value
            more = self.choices.pick(("", ", 2", f", 1, {default}", ", -1"))
            call = (f"{self.choices.pick(('LAG', 'LEAD'))}({value}{more}){self._nulls()}", kind)
            return f"{call[0]} OVER ({partition}ORDER BY {total})", kind
        if shape == 7:
            values = self.choices.pick((f"FIRST_VALUE({value})", f"LAST_VALUE({value})", f"NTH_VALUE({value}, 2)"))
            values += self._nulls()
            return f"{values} OVER ({partition}ORDER BY {total}{self.choices.pick(FRAMES)})", kind
        return f"{call[0]} OVER ({partition}ORDER BY {total}{self.choices.pick(FRAMES)})", call[1]

    def _nulls(self) -> str:
        return self.choices.pick(("", "", " IGNORE NULLS", " RESPECT NULLS"))

    def _one(self, depth: int) -> tuple[str, list[Col]]:
        """A single relation with few columns, so that an order can have all of them as keys."""
        text, scope = self.relation(depth)
        return text, scope

    def _windowed(self, depth: int) -> Made:
        rough = self.rough
        text, scope = self._one(depth)
        where = self._where(scope, depth)
        self.rough = rough
        outputs = [(c.text, c.type) for c in scope] + [self._window(scope, True)]
        outputs += [self._window(scope, False) for _ in range(self.choices.below(2))]
        self.rough = False
        return f"SELECT {_named([o for o, _ in outputs])} FROM {text}{where}", [t for _, t in outputs]

    def _qualified(self, depth: int) -> Made:
        self.rough = False
        text, scope = self._one(depth)
        where = self._where(scope, depth)
        partition, some, total = self._parts(scope)
        call = self.choices.pick((f"ROW_NUMBER() OVER ({partition}ORDER BY {total})",
                                  f"RANK() OVER ({partition}ORDER BY {some})",
                                  f"DENSE_RANK() OVER ({partition}ORDER BY {some})"))  # fmt: skip
        test = self.choices.pick(("<= 2", "= 1", "< 4", "BETWEEN 2 AND 3", "> 1", "= 2"))
        shown = [(c.text, c.type) for c in scope]
        if self.choices.chance(30):
            shown.append((call, "i"))
        return f"SELECT {_named([o for o, _ in shown])} FROM {text}{where} QUALIFY {call} {test}", [t for _, t in shown]

    # Orders and sets ----------------------------------------------------------------------------------------------

    def _limited(self, depth: int) -> Made:
        self.rough = False
        sql, types = self.choices.pick((self._plain, self._grouped))(depth)
        order = [f"o{i}{self.choices.pick(NULLS)}" for i in self.choices.some(range(len(types)), 1, 2)]
        limit = self.choices.pick(("LIMIT 2", "LIMIT 1", "LIMIT 3 OFFSET 1", "LIMIT 4", "OFFSET 1"))
        return f"{sql} {limit}" if self.choices.chance(20) else f"{sql} ORDER BY {', '.join(order)} {limit}", types

    def _set_operation(self, depth: int, types: Sequence[str] | None) -> Made:
        sql, types = self.query(depth, types)
        for _ in range(1 + self.choices.below(2)):
            operator = self.choices.pick(("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"))
            right, _ = self.query(depth, types)
            sql = f"({sql}) {operator} ({right})"
        return sql, list(types)


def _nulls_first(words: str) -> bool:
    return "FIRST" in words or ("LAST" not in words and "DESC" not in words)


def _columns(types: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"o{i}", t) for i, t in enumerate(types)]


def _named(outputs: Sequence[str]) -> str:
    return ", ".join(f"{o} AS o{i}" for i, o in enumerate(outputs))
