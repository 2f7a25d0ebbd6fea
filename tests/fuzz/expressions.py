"""Random expressions and conditions over the columns in scope, each of a type that is known.

Types are letters: i integer, s text, x bytes, n decimal, f double, d date, b truth. Every one is the same in Spark and
DuckDB: no division by columns, no rounding casts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tests.fuzz.choices import Choices
from tests.fuzz.tables import TYPES


@dataclass(frozen=True)
class Col:
    text: str
    type: str


Scope = Sequence[Col]


class Expressions:
    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        self.python = False  # whether PY_ABS and PY_UPPER may be called, which do as ABS and UPPER
        self.timed = False  # whether conditions may read the clock

    def literal(self, kind: str) -> str:
        value = self.choices.pick(TYPES[kind][2])
        if kind == "s":
            return f"'{value}'"
        if kind == "x":
            return f"X'{value.hex().upper()}'"
        if kind == "d":
            return f"DATE '{value}'"
        return f"CAST({value} AS DOUBLE)" if kind == "f" else str(value)

    def null(self, kind: str) -> str:
        typed = f"CAST(NULL AS {TYPES[kind][0]})"
        return typed if kind == "x" else self.choices.pick(("NULL", typed))  # NULL || X'00' is a text in Spark

    def column(self, scope: Scope, kind: str) -> str:
        """A column of the type; a literal if there is none."""
        columns = [c.text for c in scope if c.type == kind]
        return self.choices.pick(columns) if columns else self.literal(kind)

    def value(self, kind: str, scope: Scope, depth: int = 2) -> str:
        if depth == 0 or not self.choices.chance(35):
            return self.literal(kind) if self.choices.chance(10) else self.column(scope, kind)

        def part(of: str = kind) -> str:
            return self.null(of) if self.choices.chance(3) else self.value(of, scope, depth - 1)

        shape = self.choices.below(8)
        if shape == 0:
            return f"COALESCE({part()}, {self.literal(kind)})"
        if shape == 1:
            return f"CASE WHEN {self.condition(scope, depth - 1)} THEN {part()} ELSE {part()} END"
        if shape == 2:
            return f"NULLIF({part()}, {part()})"
        if shape == 3:
            return f"{self.choices.pick(('LEAST', 'GREATEST'))}({part()}, {part()})"
        if self.python and kind in "is" and self.choices.chance(20):
            return f"PY_ABS({part()})" if kind == "i" else f"PY_UPPER({part()})"
        if kind == "i" and self.choices.chance(10):  # an expression without a value is never reached
            test = self.condition(scope, depth - 1)
            return self.choices.pick(
                (f"COALESCE({part()}, {self.literal(kind)}, 1 DIV 0)",
                 f"CASE WHEN {test} THEN {part()} WHEN TRUE THEN {part()} ELSE 1 DIV 0 END",
                 f"CASE WHEN ({test} AND FALSE) AND 1 DIV 0 = 1 THEN 1 DIV 0 ELSE {part()} END")
            )  # fmt: skip
        if kind == "i":
            return self.choices.pick(
                (f"({part()} + {part()})", f"({part()} - {part()})", f"({part()} * 2)", f"ABS({part()})",
                 f"({part()} % 3)", f"LENGTH({part('s')})", f"YEAR({part('d')})", f"(-{part()})", f"({part()} DIV 2)",
                 f"INSTR({part('s')}, 'b')", f"LOCATE('a', {part('s')}, 2)", f"ASCII({part('s')})",
                 f"LEVENSHTEIN({part('s')}, {part('s')})", f"BIT_LENGTH({part('s')})",
                 f"CAST({part('d')} - {part('d')} AS INT)", f"OCTET_LENGTH({part('x')})")
            )  # fmt: skip
        if kind == "s":
            return self.choices.pick(
                (f"UPPER({part()})", f"({part()} || {part()})", f"SUBSTRING({part()}, 1, 1)", f"TRIM({part()})",
                 f"CONCAT_WS('-', {part()}, {part()})", f"REVERSE({part()})", f"REPEAT({part()}, 2)",
                 f"TRANSLATE({part()}, 'ab', 'x')", f"SPLIT_PART({part()}, 'a', 2)", f"MD5({part()})",
                 f"TRIM(BOTH 'a' FROM {part()})", f"REGEXP_REPLACE({part()}, 'a+', 'c')", f"LPAD({part()}, 3, 'ab')",
                 f"REGEXP_EXTRACT({part()}, '(a)(b)?', 2)", f"HEX({part()})",
                 f"DATE_FORMAT({part('d')}, 'MMM d, yyyy')", f"BIN(ABS({part('i')}))", f"HEX({part('x')})",
                 f"BASE64({part('x')})", f"MD5({part('x')})")
            )  # fmt: skip
        if kind == "x":
            return self.choices.pick(
                (f"({part()} || {part()})", f"UNHEX(HEX({part()}))", f"CAST({part('s')} AS BINARY)",
                 f"UNBASE64(BASE64({part()}))", f"ENCODE({part('s')}, 'utf-8')")
            )  # fmt: skip
        if kind == "n":
            return self.choices.pick((f"({part()} + {part()})", f"({part()} - 1)", f"({part()} * 2)", f"ABS({part()})"))
        if kind == "f":
            return self.choices.pick(
                (f"({part()} + {part()})", f"({part()} * 2)", f"({part('i')} / 2)", f"(-{part()})")
            )
        if kind == "d":
            return f"TO_DATE(DATE_FORMAT({part()}, 'd/M/yyyy'), 'd/M/yyyy')"
        return part()

    def _rows(self, scope: Scope) -> str:
        """Two columns compared with two others as a row: of exactly the same types."""
        kinds = [self.choices.pick([c.type for c in scope if c.type in "isdf"] or ["i"]) for _ in range(2)]

        def field(kind: str) -> str:
            return f"CAST({self.column(scope, kind)} AS BIGINT)" if kind == "i" else self.column(scope, kind)

        left, right, third = (", ".join(field(k) for k in kinds) for _ in range(3))
        if self.choices.chance(30):
            return f"({left}) {self.choices.pick(('IN', 'NOT IN'))} (({right}), ({third}))"
        return f"({left}) {self.choices.pick(('=', '<', '>=', '<>'))} ({right})"

    def _timed(self, scope: Scope) -> str:
        """A date or timestamp compared with the clock."""
        value, days = self.value("d", scope, 1), self.choices.below(4)
        today = self.choices.pick(("CURRENT_DATE", f"CURRENT_DATE - {days}", f"CURRENT_DATE + INTERVAL '{days}' DAY"))
        now = self.choices.pick(
            ("NOW()", f"NOW() - INTERVAL '{days}' DAY", f"CURRENT_TIMESTAMP() + INTERVAL '{days}' HOUR",
             "DATE_TRUNC('hour', NOW())", "DATE_TRUNC('month', NOW() + INTERVAL '90' MINUTE)",
             "DATE_TRUNC('week', NOW())", "CAST(NOW() AS DATE)")
        )  # fmt: skip
        if self.choices.chance(30):
            return f"{value} {self.choices.pick(('BETWEEN', 'NOT BETWEEN'))} CURRENT_DATE - {days} AND {today}"
        operator, bound = self.choices.pick((">", "<", ">=", "<=", "=", "<>")), self.choices.pick((today, now))
        return f"{bound} {operator} {value}" if self.choices.chance(20) else f"{value} {operator} {bound}"

    def condition(self, scope: Scope, depth: int = 2) -> str:
        kind = self.choices.pick([c.type for c in scope if c.type in TYPES] or ["i"])
        if self.timed and any(c.type == "d" for c in scope) and self.choices.chance(40):
            return self._timed(scope)

        def part() -> str:
            return self.null(kind) if self.choices.chance(4) else self.value(kind, scope, min(depth, 1))

        def constant() -> str:
            return self.null(kind) if self.choices.chance(10) else self.literal(kind)

        shape = self.choices.below(11 if depth > 0 else 6)
        if shape <= 2:
            return f"{part()} {self.choices.pick(('=', '<', '>=', '<>'))} {part()}"
        if shape == 3:
            return f"{part()} IS {self.choices.pick(('NULL', 'NOT NULL'))}"
        if shape == 4:
            return f"{part()} {self.choices.pick(('IN', 'NOT IN'))} ({constant()}, {constant()})"
        if shape == 5:
            return f"{part()} {self.choices.pick(('BETWEEN', 'NOT BETWEEN'))} {constant()} AND {part()}"
        if shape == 6:
            return f"{part()} IS {self.choices.pick(('', 'NOT '))}DISTINCT FROM {part()}"
        if shape == 7:
            left, right = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            return f"({left} {self.choices.pick(('OR', 'AND'))} {right})"
        if shape == 10:
            return self._rows(scope)
        if shape == 8:
            return f"NOT ({self.condition(scope, depth - 1)})"
        tests = ("LIKE 'a%'", "LIKE '%b'", "LIKE '_'", "LIKE '%'", "ILIKE 'A%'", "NOT ILIKE '%B'",
                 "LIKE ANY ('a%', '%b')", "NOT LIKE ANY ('a%', '%b')", "NOT LIKE ALL ('a%', '_b')", "RLIKE '^a+b?'",
                 "RLIKE '[^a]'")  # fmt: skip
        return f"({self.value('s', scope, 1)} {self.choices.pick(tests)})"
