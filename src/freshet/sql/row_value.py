"""Rows of values compared: (a, b) > (1, 2), (a, b) IN ((1, 2), (3, 4)), also written with STRUCT.

Rows compare as structs do in Spark: field by field from the left, with NULL equal to NULL and less than anything else.
So a comparison of two rows is never NULL. Their fields must have the same types, or types of which one is the wider:
otherwise the query must cast.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from freshet.scalar import functions, types
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.functions import FUNCTIONS
from freshet.scalar.types import Type
from freshet.sql.source import Statement, sql_of

Bind = Callable[[exp.Expr], Expression]
Build = Callable[[str, list[Expression]], Expression]


def row_of(node: exp.Expr | None) -> list[exp.Expr] | None:
    """The fields of an expression written as a row; None for anything else."""
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    if isinstance(node, exp.Struct):
        return [e.expression if isinstance(e, exp.PropertyEQ) else e for e in node.expressions]
    return None


class RowComparison:
    """A comparison in which at least one side is a row."""

    def __init__(self, statement: Statement, bind: Bind, build: Build, node: exp.Expr) -> None:
        self.statement, self.bind, self.build, self.node = statement, bind, build, node

    def compare(self, name: str, left: exp.Expr, right: exp.Expr) -> Expression:
        if not FUNCTIONS[name].compares:
            self.statement.refuse(sql_of(self.node), "compare the row's fields one by one", self.node)
        mine, theirs = row_of(left), row_of(right)
        if mine is None or theirs is None:
            other = right if mine is not None else left
            if isinstance(other, exp.Null):
                return Literal(types.BOOLEAN, None)
            return self._with_struct(name, self.bind(other), other, mine or theirs or [], mine is None)
        if name in ("eq", "not_distinct"):
            return self._equal(mine, theirs)
        if name in ("ne", "distinct_from"):
            return self.build("not", [self._equal(mine, theirs)])
        before = self._before(mine, theirs) if name in ("lt", "ge") else self._before(theirs, mine)
        return self.build("not", [before]) if name in ("ge", "le") else before

    def _with_struct(
        self, name: str, struct: Expression, written: exp.Expr, row: list[exp.Expr], is_first: bool
    ) -> Expression:
        """A struct compared with a row, which becomes a struct of the same field names. Unlike a row it may be NULL."""
        fields = struct.type.fields
        if struct.type.name != "STRUCT" or len(fields) != len(row):
            message = f"a row is compared with {sql_of(written)}, which is not a row; write a row of the same length"
            self.statement.fail(message, self.node)
        named: list[Expression] = []
        for (field, type), part in zip(fields, row, strict=True):
            value = self.bind(part)
            if value.type.name != "VOID":
                self._check(type, value.type)
            named += [Literal(types.STRING, field), value]
        other = self.build("named_struct", named)
        return self.build(name, [struct, other] if is_first else [other, struct])

    def one_of(self, left: exp.Expr, rows: list[exp.Expr]) -> Expression:
        equalities = [self.compare("eq", left, row) for row in rows]
        return equalities[0] if len(equalities) == 1 else self.build("or", equalities)

    def _equal(self, mine: list[exp.Expr], theirs: list[exp.Expr]) -> Expression:
        tests = [
            self.build("not_distinct", list(pair)) if isinstance(pair, tuple) else pair
            for pair in self._pairs(mine, theirs, self._equal)
        ]
        return tests[0] if len(tests) == 1 else self.build("and", tests)

    def _before(self, mine: list[exp.Expr], theirs: list[exp.Expr]) -> Expression:
        """Whether one row comes before the other: the last field decides if all fields before it are equal."""
        condition: Expression | None = None
        pairs = zip(self._pairs(mine, theirs, self._before), self._pairs(mine, theirs, self._equal), strict=True)
        for less, same in reversed(list(pairs)):
            before = self.build("nulls_first_lt", list(less)) if isinstance(less, tuple) else less
            equal = self.build("not_distinct", list(same)) if isinstance(same, tuple) else same
            condition = (
                before if condition is None else self.build("or", [before, self.build("and", [equal, condition])])
            )
        assert condition is not None
        return condition

    def _pairs(
        self,
        mine: list[exp.Expr],
        theirs: list[exp.Expr],
        nested: Callable[[list[exp.Expr], list[exp.Expr]], Expression],
    ) -> list[tuple[Expression, Expression] | Expression]:
        """The fields of two rows in pairs; nested rows are compared as rows."""
        if len(mine) != len(theirs):
            message = f"a row of {len(mine)} values is compared with one of {len(theirs)}; write the same number"
            self.statement.fail(message, self.node)
        made: list[tuple[Expression, Expression] | Expression] = []
        for x, y in zip(mine, theirs, strict=True):
            inner, other = row_of(x), row_of(y)
            if inner is not None and other is not None:
                made.append(nested(inner, other))
                continue
            a, b = self.bind(x), self.bind(y)
            a, b = (functions.cast(e, t) if e.type.name == "VOID" else e for e, t in ((a, b.type), (b, a.type)))
            self._check(a.type, b.type)
            made.append((a, b))
        return made

    def _check(self, one: Type, other: Type) -> None:
        if not _comparable(one, other):
            self.statement.fail(f"a row has {one} where the other has {other}; CAST one of them", self.node)


def _comparable(one: Type, other: Type) -> bool:
    """Whether Spark compares fields of these types: not where a decimal or a text would have to be converted."""
    if one == other or one.name == other.name == "STRING" or {one.name, other.name} == {"DATE", "TIMESTAMP"}:
        return True
    return all(t.is_integer or t.is_fraction for t in (one, other))
