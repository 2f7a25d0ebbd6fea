"""FULL JOIN: the LEFT JOIN and, with NULLs on the left, the rows on the right that found nothing.

L FULL R ON p is (L LEFT R ON p) UNION ALL (NULLs, R where no row of L satisfies p). It becomes one relation that has
the columns of both sides; the names that read them now read that. Where p reads values lent by enclosing queries, there
is a full join for each of these values: they are joined to both parts, and are further columns of the relation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from freshet.sql import functions
from freshet.sql.bound import Arm, Block, Field, Query, Relation, UnionAll, key
from freshet.sql.expression import ColumnRef, Expression, Literal
from freshet.sql.outside import ApartError, Unasked, outer_columns
from freshet.sql.rewrite import rewrite
from freshet.sql.rewrite.blocks import predicates_in, reads, subtree
from freshet.sql.scope import Entry

if TYPE_CHECKING:
    from freshet.sql.from_clause import Draft
    from freshet.sql.select import SelectBinder

Side = tuple[Any, list[Entry]]  # a draft, and the entries that read it


def join_full(
    binder: SelectBinder, join: exp.Join, left: Side, right: Side, on: Draft, pairs: list[tuple[Entry, int, Entry, int]]
) -> list[Entry]:
    """Makes the join the only relation of the left draft; returns the entries that read it. `pairs`: the columns that
    USING makes one, each with the value of the side that has one."""
    (mine, my_entries), (theirs, their_entries) = left, right
    a, b = mine.block(), theirs.block()
    found, asked = _joined(b, on), _joined(a, on)
    whole = replace(a, arms=(*a.arms, Arm("left", found)))
    lent = _lent(binder, whole, join)
    for entry in their_entries:
        entry.optional = True
    rows = _columns(my_entries) + _columns(their_entries)
    shared = [functions.build("coalesce", (x.column(i), y.column(j))) for x, i, y, j in pairs]
    matched = _query(binder, whole, [*rows, *shared], lent)
    for entry in their_entries:
        entry.optional = False
    nothing: list[Expression] = [Literal(e.type, None) for e in _columns(my_entries)]
    alone = [*nothing, *_columns(their_entries), *(y.column(j) for _, _, y, j in pairs)]
    rest = _query(binder, replace(b, arms=(*b.arms, Arm("anti", asked))), alone, lent)
    own = len(alone)
    fields = (*(replace(f, nullable=True) for f in matched.fields[:own]), *matched.fields[own:])
    alias = " full join ".join(e.alias for e in (*my_entries, *their_entries))
    number = binder.add_relation(Relation(alias, UnionAll((matched, rest), fields), fields), join)
    values = (key(number, own + i, f) for i, f in enumerate(fields[own:]))
    mine.relations, mine.arms = [number], []
    mine.predicates = [functions.build("not_distinct", pair) for pair in zip(lent, values, strict=True)]
    return _entries(number, [*my_entries, *their_entries], fields[:own], pairs)


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


def _joined(block: Block, on: Draft) -> Block:
    return Block((*block.relations, *on.relations), (*block.predicates, *on.predicates), (*block.arms, *on.arms))


def _columns(entries: list[Entry]) -> list[Expression]:
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
    for a, i, b, j in pairs:
        a.merged.add(i)
        b.merged.add(j)
    made, first = [], 0
    for entry in entries:
        nullable = tuple(replace(f, nullable=True) for f in entry.fields)
        made.append(Entry(entry.alias, number, nullable, False, entry.merged, first))
        first += len(entry.fields)
    if pairs:
        named = tuple(replace(f, name=a.fields[i].name) for f, (a, i, _, _) in zip(fields[first:], pairs, strict=True))
        made.append(Entry("", number, named, first=first))
    return made
