"""FULL JOIN: the LEFT JOIN and, with NULLs on the left, the rows on the right that found nothing.

L FULL R ON p is (L LEFT R ON p) UNION ALL (NULLs, R where no row of L satisfies p). It becomes one relation that has
the columns of both sides; the names that read them now read that. Where p reads values lent by enclosing queries, there
is a full join for each of these values: they are joined to both parts, and are further columns of the relation.

L stands there twice, so a chain of full joins would double with each. But all rows of both sides are in a full join: a
row that p finds by the columns of one of its sides is found in that side, and one that it finds by a value that the
sides have in common is found in one of them (`Joined`). So it is the tables that are asked a second time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from freshet.sql import functions
from freshet.sql.bound import Arm, Block, Field, Query, Relation, UnionAll, key
from freshet.sql.expression import Call, ColumnRef, Expression, Literal, references, transform, walk
from freshet.sql.outside import ApartError, Unasked, outer_columns
from freshet.sql.rewrite import rewrite
from freshet.sql.rewrite.blocks import predicates_in, reads, reads_all, subtree
from freshet.sql.rewrite.nulls import rejects
from freshet.sql.scope import Entry

if TYPE_CHECKING:
    from freshet.sql.from_clause import Draft
    from freshet.sql.select import SelectBinder

Side = tuple[Any, list[Entry]]  # a draft, and the entries that read it

#: The relation number of a value that the sides of a full join have in common, while conditions on it are looked at.
_COMMON = -20


@dataclass(frozen=True, slots=True)
class Joined:
    """A full join that has become a relation: its sides, what its columns read of them, and pairs of values, one of
    each side, that are equal wherever both sides have a row."""

    sides: tuple[Block, Block]
    columns: tuple[Expression, ...]
    equal: tuple[tuple[Expression, Expression], ...]

    def found_in(self, number: int, tests: Sequence[Expression]) -> list[tuple[Block, tuple[Expression, ...]]] | None:
        """Sides, each with its own tests, one of which has a row that satisfies its own where the join has a row that
        satisfies all tests; None where only the join itself tells. It is relation `number`."""
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
        return self.columns[e.column] if isinstance(e, ColumnRef) and e.relation == number and not e.outer else e

    def _mark(self, e: Expression, common: list[tuple[Expression, Expression]]) -> Expression:
        """COALESCE of two values that are equal where both sides have a row is the value of the side that has one."""
        if not isinstance(e, Call) or e.name != "coalesce" or e.type.is_fraction:
            return e
        first = e.args[0] if len(e.args) == 2 else replace(e, args=e.args[:-1])
        sides = {_bare(first), _bare(e.args[-1])}
        for pair in self.equal:
            if {_bare(pair[0]), _bare(pair[1])} == sides:
                common.append(pair)
                return ColumnRef(e.type, _COMMON, len(common) - 1, "common", True)
        return e


def _unmarked(
    tests: Sequence[Expression], common: Sequence[tuple[Expression, Expression]], side: int
) -> tuple[Expression, ...]:
    def read(e: Expression) -> Expression:
        return common[e.column][side] if isinstance(e, ColumnRef) and e.relation == _COMMON else e

    return tuple(transform(t, read) for t in tests)


def _bare(expression: Expression) -> Expression:
    """Without what does not tell one column from another."""
    return transform(expression, lambda e: replace(e, name="", nullable=True) if isinstance(e, ColumnRef) else e)


def join_full(
    binder: SelectBinder, join: exp.Join, left: Side, right: Side, on: Draft, pairs: list[tuple[Entry, int, Entry, int]]
) -> list[Entry]:
    """Makes the join the only relation of the left draft; returns the entries that read it. `pairs`: the columns that
    USING makes one, each with the value of the side that has one."""
    (mine, my_entries), (theirs, their_entries) = left, right
    sides = mine.block(), theirs.block()
    turned = _is_full(binder, sides[1]) and not _is_full(binder, sides[0])  # the side that stands twice is the second
    (a, b), other = sides[::-1] if turned else sides, my_entries if turned else their_entries
    whole = replace(a, arms=(*a.arms, Arm("left", _joined(b, on))))
    lent = _lent(binder, whole, join)
    entries = [*my_entries, *their_entries]
    for entry in other:
        entry.optional = True
    shared = [functions.build("coalesce", (x.column(i), y.column(j))) for x, i, y, j in pairs]
    columns = [*_columns_of(entries), *shared]
    matched = _query(binder, whole, columns, lent)
    for entry in other:
        entry.optional = False
    alone: list[Expression] = [
        column if any(entry is e for e in other) else Literal(column.type, None)
        for entry in entries
        for column in _columns_of([entry])
    ]
    alone += [x.column(i) if turned else y.column(j) for x, i, y, j in pairs]
    nothing = tuple(Arm("anti", block) for block in _asked(binder, a, on))
    rest = _query(binder, replace(b, arms=(*b.arms, *nothing)), alone, lent)
    own = len(alone)
    fields = (*(replace(f, nullable=True) for f in matched.fields[:own]), *matched.fields[own:])
    alias = " full join ".join(e.alias for e in entries)
    number = binder.add_relation(Relation(alias, UnionAll((matched, rest), fields), fields), join)
    binder.full[number] = Joined(sides, tuple(columns), tuple(_equal(on, *map(subtree, sides))))
    values = (key(number, own + i, f) for i, f in enumerate(fields[own:]))
    mine.relations, mine.arms = [number], []
    mine.predicates = [functions.build("not_distinct", pair) for pair in zip(lent, values, strict=True)]
    return _entries(number, entries, fields[:own], pairs)


def _lent(binder: SelectBinder, block: Block, join: exp.Join) -> list[ColumnRef]:
    """The values lent by enclosing queries, where a block reads them."""
    asked = outer_columns(predicates_in(block))
    if asked:
        raise Unasked(binder, asked)
    outside = reads(block) - subtree(block)
    if not outside:
        return []
    if binder.lent is None or outside != {binder.lent}:
        message = "FULL JOIN whose ON reads more than its two sides is not supported; compare after the join, in WHERE"
        raise binder.statement.placed(ApartError(message), join)
    return [key(binder.lent, i, f) for i, f in enumerate(binder.relations[binder.lent].fields)]


def _is_full(binder: SelectBinder, block: Block) -> bool:
    return len(block.relations) == 1 and block.relations[0] in binder.full and not block.predicates and not block.arms


def _asked(binder: SelectBinder, block: Block, on: Draft) -> list[Block]:
    """Blocks, one of which has a row that satisfies ON where the given one has."""
    if on.relations or on.arms:
        return [_joined(block, on)]

    def within(block: Block, tests: Sequence[Expression]) -> Iterator[Block]:
        found = None
        if _is_full(binder, block):
            (number,) = block.relations
            found = binder.full[number].found_in(number, tests)
        if found is None:
            yield replace(block, predicates=(*block.predicates, *tests))
        else:
            for side, own in found:
                yield from within(side, own)

    return list(within(block, on.predicates))


def _equal(on: Draft, left: frozenset[int], right: frozenset[int]) -> Iterator[tuple[Expression, Expression]]:
    """The values of either side that ON says are equal."""
    for p in on.predicates:
        if isinstance(p, Call) and p.name == "eq":
            for a, b in (p.args, p.args[::-1]):
                if references(a) and references(a) <= left and references(b) and references(b) <= right:
                    yield a, b


def _joined(block: Block, on: Draft) -> Block:
    return Block((*block.relations, *on.relations), (*block.predicates, *on.predicates), (*block.arms, *on.arms))


def _columns(expression: Expression) -> list[ColumnRef]:
    return [e for e in walk(expression) if isinstance(e, ColumnRef)]


def _columns_of(entries: list[Entry]) -> list[Expression]:
    return [entry.column(i) for entry in entries for i in range(len(entry.fields))]


def _query(binder: SelectBinder, block: Block, outputs: list[Expression], lent: list[ColumnRef]) -> Query:
    """A part of the join, for each of the lent values."""
    block = replace(block, relations=(*dict.fromkeys(c.relation for c in lent), *block.relations))
    shown = (*outputs, *lent)
    fields = tuple(Field(getattr(e, "name", "column"), e.type, functions.nullable(e)) for e in shown)
    query = Query(tuple(binder.relations), block, (), None, shown, fields)
    return rewrite(query, binder.statement, binder.origins)


def _entries(
    number: int, entries: list[Entry], fields: tuple[Field, ...], pairs: list[tuple[Entry, int, Entry, int]]
) -> list[Entry]:
    made, first = [], 0
    for entry in entries:
        nullable = tuple(replace(f, nullable=True) for f in entry.fields)
        made.append(Entry(entry.alias, number, nullable, first=first))
        first += len(entry.fields)
    if pairs:
        named = tuple(replace(f, name=a.fields[i].name) for f, (a, i, _, _) in zip(fields[first:], pairs, strict=True))
        made.append(Entry("", number, named, first=first))
    return made
