"""Comparisons with NOW() become columns and filters of rows that change as time passes (`Timed`).

A comparison of a relation's value with the clock changes its outcome at one moment of each row (scalar/clock.py), so it
is a column of that relation: TRUE from the moment on. Where it is a condition of the block that the relation stands in,
the rows are there only while it holds, and rows that will never be there again are not even kept.

A comparison that reads several relations, or the groups, is one of a relation that holds their joined rows: the select
becomes one over that. Where an arm compares values of several blocks with the clock there is no such relation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from freshet.logical.query import CLOCK, AnyQuery, Block, Field, Grouping, Query, Relation, Timed, Values, key
from freshet.logical.rewrite.blocks import (
    Again,
    conjuncts,
    map_blocks,
    map_expressions,
    optional,
    predicates_in,
    upper_expressions,
)
from freshet.logical.rewrite.store import store_block
from freshet.logical.rewrite.unwrap import unwrap
from freshet.scalar import functions, types
from freshet.scalar.clock import ClockComparison, Moment, reads_now, refuse_now, turn_of
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.describe import describe
from freshet.scalar.expression import (
    ColumnRef,
    Expression,
    GroupRef,
    Literal,
    Named,
    children,
    references,
    transform,
    walk,
    with_children,
)
from freshet.scalar.functions.registry import comparison_of


def settle_time(query: Query, again: Again) -> Query:
    above_groups = [] if query.grouping is None else [*query.outputs, *_having(query.grouping)]
    if any(map(reads_now, above_groups)):
        return _above_groups(query, again)
    upper = upper_expressions(query)
    if not any(map(reads_now, (*upper, *predicates_in(query.block)))):
        return query
    if any(_is_joined(t, query) for e in (*upper, *query.block.predicates) for t in _turns(e)):
        return _above_join(query, again)
    return _Timing(query).query(again)


def check_time(query: AnyQuery) -> None:
    """Refuses NOW() in VALUES."""
    if isinstance(query, Values):
        for e in (e for row in query.rows for e in row if reads_now(e)):
            refuse_now(e)


def _having(grouping: Grouping) -> list[Expression]:
    return [] if grouping.having is None else [grouping.having]


def _turns(expression: Expression) -> list[ClockComparison]:
    """The comparisons with the clock in an expression, which reads the clock nowhere else."""
    if not reads_now(expression):
        return []
    turn = turn_of(expression)
    if turn is not None:
        return [turn]
    if not children(expression) or comparison_of(expression) is not None:
        refuse_now(expression)
    return [t for part in children(expression) for t in _turns(part)]


def _is_joined(turn: ClockComparison, query: Query) -> bool:
    """Whether a comparison, read above the arms or in the block they are attached to, is one of joined rows."""
    read = references(turn.value)
    if len(read) > 1:
        return True
    return bool(read & optional(query.block)) and not isinstance(turn.value, ColumnRef)


# Selects over what is compared ------------------------------------------------------------------------------------


def _above_groups(query: Query, again: Again) -> Query:
    """The outputs and those conditions of HAVING that read the clock, in a select over the groups."""
    assert query.grouping is not None
    conditions = [c for h in _having(query.grouping) for c in conjuncts(h)]
    later = [c for c in conditions if reads_now(c)]
    kept = [c for c in conditions if not reads_now(c)]
    read = {e.column: e for x in (*query.outputs, *later) for e in walk(x) if isinstance(e, GroupRef)}
    row = tuple(read.values()) or (Literal(types.INT, 1),)
    fields = tuple(Field(describe(e), e.type, functions.nullable(e)) for e in row)
    having = functions.build("and", tuple(kept)) if len(kept) > 1 else kept[0] if kept else None
    below = again(replace(query, grouping=replace(query.grouping, having=having), outputs=row, fields=fields,
                          distinct=False))  # fmt: skip
    places = {column: i for i, column in enumerate(read)}

    def moved(e: Expression) -> Expression:
        return key(0, places[e.column], below.fields[places[e.column]]) if isinstance(e, GroupRef) else e

    outputs = tuple(transform(e, moved) for e in query.outputs)
    tests = tuple(transform(c, moved) for c in later)
    relation = Relation("groups", below, below.fields)
    over = Query((relation,), Block((0,), tests), (), None, outputs, query.fields, query.distinct)
    return settle_time(over, again)


def _above_join(query: Query, again: Again) -> Query:
    """The select over its joined rows, which conditions that do not read the clock have filtered."""
    block = query.block
    later = tuple(p for p in block.predicates if reads_now(p))
    below = replace(block, predicates=tuple(p for p in block.predicates if not reads_now(p)))
    outer = replace(query, block=below, where=(*query.where, *later))
    stored = store_block(outer, below, below.arms, again)
    return settle_time(replace(stored, block=replace(stored.block, predicates=stored.where), where=()), again)


# Relations as time passes -----------------------------------------------------------------------------------------


#: The query for the time that it is.
_CLOCK = Query((Relation("clock", CLOCK, CLOCK.fields),), Block((0,), ()), (), None, (key(0, 0, CLOCK.fields[0]),),
               CLOCK.fields)  # fmt: skip


@dataclass
class _Timed:
    """What is compared with the clock of one relation: the columns that are read of it, and its moments."""

    relation: int
    columns: list[Expression] = field(default_factory=list)  # of the query below; the first `shown` are read above
    filters: list[Expression] = field(default_factory=list)
    since: list[Moment] = field(default_factory=list)
    until: list[Moment] = field(default_factory=list)
    flags: list[Moment] = field(default_factory=list)

    def place(self, value: Expression) -> int:
        if value not in self.columns:
            self.columns.append(value)
        return self.columns.index(value)

    def moment(self, turn: ClockComparison, strict: bool) -> Moment:
        return Moment(self.place(turn.value), strict, turn.steps)

    def require(self, turn: ClockComparison) -> bool:
        """Has the rows be there only while a comparison holds; False where it may hold twice."""
        match turn.operator:
            case ComparisonOperator.AT_LEAST | ComparisonOperator.GREATER:
                self.since.append(self.moment(turn, turn.operator.is_strict))
            case ComparisonOperator.LESS | ComparisonOperator.AT_MOST:
                self.until.append(self.moment(turn, not turn.operator.is_strict))
            case ComparisonOperator.EQUAL:
                self.since.append(self.moment(turn, False))
                self.until.append(self.moment(turn, True))
            case _:
                return False
        return True

    def flag(self, turn: ClockComparison, strict: bool) -> _Flag:
        moment = self.moment(turn, strict)
        if moment not in self.flags:
            self.flags.append(moment)
        return _Flag(types.BOOLEAN, self.relation, self.flags.index(moment), functions.nullable(turn.value))

    def outcome(self, turn: ClockComparison) -> Expression:
        """A comparison in terms of whether its moments have come."""
        operator = turn.operator
        if operator in (ComparisonOperator.EQUAL, ComparisonOperator.UNEQUAL):
            both = functions.build("and", (self.flag(turn, False), functions.build("not", (self.flag(turn, True),))))
            return both if operator is ComparisonOperator.EQUAL else functions.build("not", (both,))
        before = operator in (ComparisonOperator.LESS, ComparisonOperator.AT_MOST)
        flag = self.flag(turn, operator.is_strict != before)
        return functions.build("not", (flag,)) if before else flag


@dataclass(frozen=True, slots=True)
class _Flag(Named):
    """Flag `flag` of a relation, until it is known which column that is."""

    relation: int
    flag: int
    nullable: bool
    name: str = "flag"


class _Timing:
    def __init__(self, query: Query) -> None:
        self.old = query
        self.timed: dict[int, _Timed] = {}

    def query(self, again: Again) -> Query:
        query = self._with_outcomes()
        for number in sorted(self.timed):
            query = self._replaced(query, self.timed[number], again)
        return query

    def _of(self, number: int) -> _Timed:
        return self.timed.setdefault(number, _Timed(number))

    def _with_outcomes(self) -> Query:
        """The query with columns in place of comparisons, and without those that say when rows are there."""

        def settled(block: Block) -> Block:
            kept = [p for p in block.predicates if not self._requires(p, block)]
            return replace(block, predicates=tuple(self._settled(p, block) for p in kept))

        block = map_blocks(self.old.block, settled)
        made = map_expressions(replace(self.old, block=replace(block, predicates=(), arms=())), self._upper_settled)
        return replace(made, block=block)

    def _requires(self, predicate: Expression, block: Block) -> bool:
        turn = turn_of(predicate) if reads_now(predicate) else None
        if turn is None or len(references(turn.value)) != 1:
            return False
        (number,) = references(turn.value)
        return number in block.relations and self._of(number).require(turn)

    def _upper_settled(self, e: Expression) -> Expression:
        return self._settled(e, self.old.block) if turn_of(e) is not None and reads_now(e) else e

    def _settled(self, expression: Expression, block: Block) -> Expression:
        """An expression with columns for what it compares with the clock; of constants, those of a relation of the
        block."""
        if not reads_now(expression):
            return expression
        turn = turn_of(expression)
        if turn is None:
            if not children(expression) or comparison_of(expression) is not None:
                refuse_now(expression)
            return with_children(expression, tuple(self._settled(part, block) for part in children(expression)))
        read = references(turn.value) or frozenset(block.relations[:1])
        if len(read) != 1:
            refuse_now(expression)
        return self._of(next(iter(read))).outcome(turn)

    def _replaced(self, query: Query, timed: _Timed, again: Again) -> Query:
        number = timed.relation
        relation_fields = query.relations[number].fields
        compared = [key(number, e.column, relation_fields[e.column]) if isinstance(e, ColumnRef) else e
                    for e in timed.columns]  # fmt: skip
        wanted = self._read(query, number) or ([] if timed.flags else compared[:1])
        places = [wanted.index(e) if e in wanted else None for e in compared]
        hidden = [e for e, at in zip(compared, places, strict=True) if at is None]
        columns = [*wanted, *hidden]
        block, filters = _without(query.block, number)
        below = unwrap(again(_select(query.relations[number], number, columns, filters)), again)

        def moved(moments: Iterable[Moment]) -> tuple[Moment, ...]:
            return tuple(replace(m, column=columns.index(compared[m.column])) for m in moments)

        flags = moved(timed.flags)
        fields = (*below.fields[: len(wanted)], *(_flag_field(m, below.fields[m.column]) for m in flags))
        source: Timed[AnyQuery] = Timed(below, _CLOCK, moved(timed.since), moved(timed.until), flags, fields)
        relation = replace(query.relations[number], source=source, fields=fields)
        relations = (*query.relations[:number], relation, *query.relations[number + 1 :])

        def read(e: Expression) -> Expression:
            if isinstance(e, _Flag) and e.relation == number:
                return key(number, len(wanted) + e.flag, replace(fields[len(wanted) + e.flag], nullable=e.nullable))
            if isinstance(e, ColumnRef) and e.relation == number:
                return replace(e, column=next(i for i, c in enumerate(wanted) if _same(c, e)))
            return e

        return map_expressions(replace(query, block=block, relations=relations), read)

    def _read(self, query: Query, number: int) -> list[Expression]:
        """The columns of a relation that the select reads, but for filters that go below."""
        block, _ = _without(query.block, number)
        found: dict[int, Expression] = {}
        for e in (*upper_expressions(query), *predicates_in(block)):
            for c in walk(e):
                if isinstance(c, ColumnRef) and c.relation == number:
                    found.setdefault(c.column, key(number, c.column, query.relations[number].fields[c.column]))
        return [found[c] for c in sorted(found)]


def _flag_field(moment: Moment, value: Field) -> Field:
    return Field(moment.described(value.name, False), types.BOOLEAN, value.nullable)


def _same(one: Expression, other: ColumnRef) -> bool:
    return isinstance(one, ColumnRef) and one.column == other.column


def _without(block: Block, number: int) -> tuple[Block, list[Expression]]:
    """A block without the conditions on one relation alone where that stands, and those."""
    found: list[Expression] = []

    def split(b: Block) -> Block:
        if number not in b.relations:
            return b
        mine = [p for p in b.predicates if references(p) == {number} and not _has_flag(p)]
        found.extend(mine)
        return replace(b, predicates=tuple(p for p in b.predicates if p not in mine))

    return map_blocks(block, split), found


def _has_flag(expression: Expression) -> bool:
    return any(isinstance(e, _Flag) for e in walk(expression))


def _select(relation: Relation, number: int, columns: list[Expression], filters: list[Expression]) -> Query:
    def alone(e: Expression) -> Expression:
        return replace(e, relation=0) if isinstance(e, ColumnRef) and e.relation == number else e

    outputs = tuple(transform(e, alone) for e in columns)
    fields = tuple(Field(describe(e), e.type, functions.nullable(e)) for e in outputs)
    return Query((relation,), Block((0,), tuple(transform(f, alone) for f in filters)), (), None, outputs, fields)
