"""FULL JOIN: the LEFT JOIN and, with NULLs on the left, the rows on the right without a match.

L FULL R ON p is (L LEFT R ON p) UNION ALL (NULLs, R where no row of L satisfies p). It becomes one relation with the
columns of both sides, and names that referred to either side now refer to that relation.

L occurs twice, so a chain of full joins would double in size with each step. But a full join contains all rows of both
of its sides: a match that p finds through the columns of one side can be looked up in that side alone, and a match
through a value that both sides share can be looked up in one of them (`Joined`). So the second occurrence reads the
underlying tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sqlglot import exp

from freshet.logical.apply import has_apply
from freshet.logical.joined import Joined
from freshet.logical.kinds import JoinKind
from freshet.logical.query import Arm, Block, Field, Query, Relation, UnionAll
from freshet.logical.rewrite.blocks import reads, subtree
from freshet.scalar import functions
from freshet.scalar.expression import Call, Expression, Literal, references
from freshet.sql.binder import Binder, Draft
from freshet.sql.scope import Entry

Side = tuple[Any, list[Entry]]  # a draft, and the entries that read it


def join_full(
    binder: Binder, join: exp.Join, left: Side, right: Side, on: Draft, pairs: list[tuple[Entry, int, Entry, int]]
) -> list[Entry]:
    """Makes the join the only relation of the left draft; returns the entries that read it. `pairs`: the columns merged
    by USING, each of which takes its value from the side that has one."""
    (mine, my_entries), (theirs, their_entries) = left, right
    sides = mine.block(), theirs.block()
    turned = _is_full(binder, sides[1]) and not _is_full(binder, sides[0])  # the side that occurs twice is the second
    (a, b), other = sides[::-1] if turned else sides, my_entries if turned else their_entries
    whole = replace(a, arms=(*a.arms, Arm(JoinKind.LEFT, _joined(b, on))))
    outside = reads(whole) - subtree(whole)
    if outside:
        message = "FULL JOIN whose ON reads more than its two sides"
        binder.statement.refuse(message, "compare after the join, in WHERE", join)
    entries = [*my_entries, *their_entries]
    for entry in other:
        entry.optional = True
    shared = [functions.build("coalesce", (x.column(i), y.column(j))) for x, i, y, j in pairs]
    columns = [*_columns_of(entries), *shared]
    matched = _query(binder, whole, columns)
    for entry in other:
        entry.optional = False
    alone: list[Expression] = [
        column if any(entry is e for e in other) else Literal(column.type, None)
        for entry in entries
        for column in _columns_of([entry])
    ]
    alone += [x.column(i) if turned else y.column(j) for x, i, y, j in pairs]
    nothing = tuple(Arm(JoinKind.ANTI, block) for block in _lookup_blocks(binder, a, on))
    rest = _query(binder, replace(b, arms=(*b.arms, *nothing)), alone)
    fields = tuple(replace(f, nullable=True) for f in matched.fields)
    alias = " full join ".join(e.alias for e in entries)
    number = binder.add_relation(Relation(alias, UnionAll((matched, rest), fields), fields), join)
    binder.full[number] = Joined(sides, tuple(columns), tuple(_equal(on, *map(subtree, sides))))
    mine.relations, mine.arms, mine.predicates = [number], [], []
    return _entries(number, entries, fields, pairs)


def _is_full(binder: Binder, block: Block) -> bool:
    return len(block.relations) == 1 and block.relations[0] in binder.full and not block.predicates and not block.arms


def _lookup_blocks(binder: Binder, block: Block, on: Draft) -> list[Block]:
    """Blocks such that one of them has a row satisfying ON exactly where the given block has one."""
    if any(map(has_apply, on.predicates)):
        return [_joined(block, on)]

    def within(block: Block, tests: Sequence[Expression]) -> Iterator[Block]:
        sides = None
        if _is_full(binder, block):
            (number,) = block.relations
            sides = binder.full[number].found_in(number, tests)
        if sides is None:
            yield replace(block, predicates=(*block.predicates, *tests))
        else:
            for side, own in sides:
                yield from within(side, own)

    return list(within(block, on.predicates))


def _equal(on: Draft, left: frozenset[int], right: frozenset[int]) -> Iterator[tuple[Expression, Expression]]:
    """The pairs of values, one from each side, that ON requires to be equal."""
    for p in on.predicates:
        if isinstance(p, Call) and p.name == "eq" and not has_apply(p):
            for a, b in (p.args, p.args[::-1]):
                if references(a) and references(a) <= left and references(b) and references(b) <= right:
                    yield a, b


def _joined(block: Block, on: Draft) -> Block:
    return replace(block, predicates=(*block.predicates, *on.predicates))


def _columns_of(entries: list[Entry]) -> list[Expression]:
    return [entry.column(i) for entry in entries for i in range(len(entry.fields))]


def _query(binder: Binder, block: Block, outputs: list[Expression]) -> Query:
    """A part of the join."""
    fields = tuple(Field(getattr(e, "name", "column"), e.type, functions.nullable(e)) for e in outputs)
    return Query(tuple(binder.relations), block, (), None, tuple(outputs), fields)


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
