"""Join attributes: expressions that equalities make equal, merged into named classes.

Two sides of an equality, each read from one relation, become one attribute. A relation that reaches the same attribute
by two expressions must have them equal itself: that is a filter on the relation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from freshet.query.attribute import Attribute, AttributeSet
from freshet.scalar.describe import describe
from freshet.scalar.expression import Call, ColumnRef, Expression, references, transform, walk
from freshet.scalar.functions import build
from freshet.scalar.functions.compiled import is_total
from freshet.scalar.types import INTEGERS


@dataclass(frozen=True, slots=True)
class JoinAttribute:
    """A value that equalities make equal across several relations."""

    number: int

    def __str__(self) -> str:
        return f"x{self.number}"


@dataclass(frozen=True, slots=True)
class ColumnAttribute:
    """A column that no equality between relations reads."""

    relation: int
    column: int

    def __str__(self) -> str:
        return f"{self.relation}.{self.column}"


@dataclass(frozen=True, slots=True)
class HiddenAttribute:
    """All columns of a relation that are neither joined nor output, as one attribute: together they identify its
    tuples."""

    relation: int

    def __str__(self) -> str:
        return f"{self.relation}.*"


Member = tuple[int, Expression, bool]  # relation, what is read of it, whether NULL equals NULL


def equality(predicate: Expression) -> tuple[Expression, Expression, bool] | None:
    """The two sides of an equality between two relations, and whether NULL equals NULL; None for anything else."""
    if not isinstance(predicate, Call) or predicate.name not in ("eq", "not_distinct"):
        return None
    left, right = (lane_form(a) for a in predicate.args)
    if left.type.lanes != right.type.lanes or left.type.is_fraction != right.type.is_fraction:
        left, right = predicate.args
    if len(references(left)) != 1 or len(references(right)) != 1 or references(left) == references(right):
        return None
    if is_asked_by_key(left) or is_asked_by_key(right):
        return None
    return left, right, predicate.name == "not_distinct"


def is_asked_by_key(e: Expression) -> bool:
    """Whether an expression is a subquery's value for a key: a key with several rows is an error only if a row looks it
    up, so the value is computed on joined rows only."""
    return any(isinstance(x, Call) and x.name == "single" for x in walk(e))


def lane_form(expression: Expression) -> Expression:
    """The expression without casts that leave its lanes as they are: between integer types, upwards."""
    while isinstance(expression, Call) and expression.name == "cast":
        inner = expression.args[0]
        if not (inner.type.is_integer and expression.type.is_integer):
            break
        if INTEGERS.index(inner.type.name) > INTEGERS.index(expression.type.name):
            break
        expression = inner
    return expression


class Attributes:
    """The join attributes of a block, and the columns that are attributes by themselves."""

    def __init__(self, equalities: Iterable[tuple[Expression, Expression, bool]]) -> None:
        self.columns: dict[Attribute, ColumnRef] = {}
        self._above: dict[Member, Member] = {}
        for left, right, null_safe in equalities:
            a, b = self._member(left, null_safe), self._member(right, null_safe)
            self._above[self._find(a)] = self._find(b)
        self._classes: dict[Attribute, list[Member]] = {}
        roots: dict[Member, JoinAttribute] = {}
        for member in list(self._above):
            joined = roots.setdefault(self._find(member), JoinAttribute(len(roots)))
            self._classes.setdefault(joined, []).append(member)
        self._named: dict[Expression, Attribute] = {}
        self._values: dict[int, dict[Attribute, Expression]] = {}  # by relation and attribute
        for attribute, members in self._classes.items():
            for relation, expression, null_safe in members:
                self._values.setdefault(relation, {}).setdefault(attribute, expression)
                if not null_safe:
                    self._named[expression] = attribute

    def _member(self, expression: Expression, null_safe: bool) -> Member:
        (relation,) = references(expression)
        return relation, expression, null_safe

    def _find(self, member: Member) -> Member:
        while (above := self._above.setdefault(member, member)) != member:
            member = above
        return member

    def of(self, relation: int) -> AttributeSet:
        return frozenset(self._values.get(relation, ()))

    def value(self, relation: int, attribute: Attribute) -> Expression:
        """How the relation reads the attribute."""
        if attribute in self.columns:
            return self.columns[attribute]
        return self._values[relation][attribute]

    def null_safe(self, attribute: Attribute) -> bool:
        if attribute in self.columns:
            return self.columns[attribute].nullable
        return self._classes[attribute][0][2]

    def example(self, attribute: Attribute) -> Expression:
        """One of the expressions that read the attribute."""
        if attribute in self.columns:
            return self.columns[attribute]
        return self._classes[attribute][0][1]

    def own_filter(self, relation: int) -> Iterator[Expression]:
        """Equalities that a relation must satisfy by itself because it reads an attribute twice."""
        for members in self._classes.values():
            mine = [m for m in members if m[0] == relation]
            for _, expression, null_safe in mine[1:]:
                yield build("not_distinct" if null_safe else "eq", (mine[0][1], expression))

    def named(self, expression: Expression) -> Attribute | None:
        """The attribute an expression reads, if it is one and NULL never equals NULL in it."""
        return self._named.get(expression)

    def seen_from(self, relation: int, value: Expression) -> Expression | None:
        """The value read from this relation: its own, or one that equalities make equal."""
        if references(value) == {relation}:
            return value
        name = self.named(value)
        if name is not None:
            return self.value(relation, name) if name in self.of(relation) else None
        if not is_total(value):
            return None  # it may fail on tuples without partners
        found: dict[Expression, ColumnRef] = {}
        for column in (e for e in walk(value) if isinstance(e, ColumnRef)):
            name = self.named(column)
            here = self.value(relation, name) if name is not None and name in self.of(relation) else None
            own = column if column.relation == relation else here
            if not isinstance(own, ColumnRef) or own.type != column.type or own.type.is_fraction:
                return None  # 0.0 and -0.0 are equal, but some functions distinguish them
            found[column] = own
        return transform(value, lambda e: found.get(e, e))

    def described(self) -> tuple[tuple[str, str], ...]:
        return tuple((str(a), " = ".join(describe(e) for _, e, _ in ms)) for a, ms in self._classes.items())


def column_attribute(attributes: Attributes, column: ColumnRef) -> Attribute:
    """The attribute of a column: a join attribute, or one of its own."""
    joined = attributes.named(column)
    if joined is not None:
        return joined
    own = ColumnAttribute(column.relation, column.column)
    attributes.columns[own] = column
    return own
