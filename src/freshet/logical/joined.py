"""A full join represented as one relation, and the sides in which the matches of a condition on it can be found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from freshet.logical.query import Block
from freshet.logical.rewrite.blocks import reads_all, subtree
from freshet.logical.rewrite.nulls import rejects
from freshet.scalar.expression import Call, ColumnRef, Expression, Reference, transform, walk


@dataclass(frozen=True, slots=True)
class _CommonRef(Reference):
    """A placeholder for a value that both sides of a full join share, used while conditions on it are analysed."""

    column: int
    name: str = "common"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Joined:
    """A full join that has become a relation: its sides, what its columns read of them, and pairs of values, one of
    each side, that are equal wherever both sides have a row."""

    sides: tuple[Block, Block]
    columns: tuple[Expression, ...]
    equal: tuple[tuple[Expression, Expression], ...]

    def found_in(self, number: int, tests: Sequence[Expression]) -> list[tuple[Block, tuple[Expression, ...]]] | None:
        """Sides, each with tests of its own, such that some side has a row satisfying its tests exactly if the join has
        a row satisfying all tests; None if only the join itself can decide. The join is relation `number`."""
        read = {c.column for t in tests for c in _columns(t) if c.relation == number}
        if any(c >= len(self.columns) for c in read):
            return None
        whole = [transform(t, lambda e: self._source(e, number)) for t in tests]
        common: list[tuple[Expression, Expression]] = []
        marked = [transform(t, lambda e: self._mark(e, common)) for t in whole]
        left, right = map(subtree, self.sides)
        own = reads_all(marked) & (left | right)
        if not own:
            return [(side, _unmarked(marked, common, at)) for at, side in enumerate(self.sides)] if common else None
        for at, side in enumerate((left, right)):
            if own <= side and any(rejects(t, side) for t in marked):
                return [(self.sides[at], _unmarked(marked, common, at))]
        return None

    def _source(self, e: Expression, number: int) -> Expression:
        return self.columns[e.column] if isinstance(e, ColumnRef) and e.relation == number else e

    def _mark(self, e: Expression, common: list[tuple[Expression, Expression]]) -> Expression:
        """COALESCE of two values that are equal wherever both sides have a row is the value of the side that has
        one."""
        if not isinstance(e, Call) or e.name != "coalesce" or e.type.is_fraction:
            return e
        first = e.args[0] if len(e.args) == 2 else replace(e, args=e.args[:-1])
        sides = {_bare(first), _bare(e.args[-1])}
        for pair in self.equal:
            if {_bare(pair[0]), _bare(pair[1])} == sides:
                common.append(pair)
                return _CommonRef(e.type, len(common) - 1)
        return e


def _unmarked(
    tests: Sequence[Expression], common: Sequence[tuple[Expression, Expression]], side: int
) -> tuple[Expression, ...]:
    def read(e: Expression) -> Expression:
        return common[e.column][side] if isinstance(e, _CommonRef) else e

    return tuple(transform(t, read) for t in tests)


def _bare(expression: Expression) -> Expression:
    """A column without the attributes that do not identify it."""
    return transform(expression, lambda e: replace(e, name="", nullable=True) if isinstance(e, ColumnRef) else e)


def _columns(expression: Expression) -> list[ColumnRef]:
    return [e for e in walk(expression) if isinstance(e, ColumnRef)]
