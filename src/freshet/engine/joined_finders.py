"""Finds the group of given keys where groups are joined rows of totals: each relation provides one row.

The plan says by which outputs its rows are distinguished. If an edge joins plain columns, the value of an output is
that of every column that edges make equal to it. So the row of each relation is found by the columns that identify it,
and it remains to check that the rows join.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from freshet.engine.maintained import Finder, Maintained
from freshet.engine.table import Table
from freshet.logical.kinds import JoinKind
from freshet.logical.query import TableSchema
from freshet.plans.layout import unique_columns
from freshet.plans.model import Edge, QueryPlan
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter
from freshet.scalar.expression import ColumnRef, Reference
from freshet.scalar.lanes import pack, unpack, width
from freshet.state.arrays import Int64s
from freshet.state.strings import StringPool

Place = tuple[int, int]  # a relation and a column of it
Rows = Callable[[Int64s], list[Column]]


class _RowFinder(NamedTuple):
    """How a relation's row is found: by the values of these outputs, as one row of lanes."""

    relation: int
    outputs: tuple[int, ...]
    rows: Rows


def joined_finders(
    plan: QueryPlan, sources: Sequence[Table], below: Mapping[int, Maintained], pool: StringPool
) -> list[Finder]:
    """Finders by the outputs that identify its rows. `sources`: the tables of its relations; `below`: nested
    queries."""
    equal = _equal(plan)
    if not plan.key or equal is None:
        return []

    def same_as(place: Place) -> frozenset[Place]:
        return equal.get(place, frozenset((place,)))

    shown: dict[frozenset[Place], int] = {}
    for i in plan.key:
        output = plan.outputs[i]
        if isinstance(output, ColumnRef):
            shown.setdefault(same_as((output.relation, output.column)), i)
    finders: list[_RowFinder] = []
    for relation in (n.relation for n in plan.nodes if not n.generalized):
        columns, rows = _rows_of(plan, relation, sources, below)
        outputs = [shown.get(same_as((relation, c)), -1) for c in columns]
        if rows is None or -1 in outputs:
            return []
        finders.append(_RowFinder(relation, tuple(outputs), rows))
    types, joined = [plan.fields[i].type for i in plan.key], set(equal.values())
    checked = (*(f for n in plan.nodes for f in n.filter), *plan.residual)
    nothing = np.empty((0, width([f.type for f in plan.fields])), np.int64)

    def find(key: Int64s) -> list[Column]:
        asked = dict(zip(plan.key, unpack(key, types, pool), strict=True))
        row: dict[Place, Column] = {}
        for relation, outputs, rows in finders:
            columns = rows(pack([asked[i] for i in outputs], pool, 1))
            row.update(((relation, c), column) for c, column in enumerate(columns))
        made: list[Column] = []
        if all(map(len, row.values())) and all(_agree([row[p] for p in same if p in row], pool) for same in joined):
            read = _reader(row)
            if evaluate_filter(checked, read, 1).all():
                made = [evaluate(o, read, 1) for o in plan.outputs]
        if made and (pack([made[i] for i in plan.key], pool, 1) == key).all():
            return made
        return unpack(nothing, [f.type for f in plan.fields], pool)

    return [Finder(plan.key, True, find)]


def _reader(row: Mapping[Place, Column]) -> Callable[[Reference], Column]:
    def read(c: Reference) -> Column:
        assert isinstance(c, ColumnRef)
        return row[c.relation, c.column]

    return read


def _agree(columns: Sequence[Column], pool: StringPool) -> bool:
    """Whether columns of one row have the same value; NULL equals nothing."""
    lanes = [pack([c], pool, 1)[0].tolist() for c in columns]
    return all(own == lanes[0] and not own[-1] for own in lanes)


def _rows_of(
    plan: QueryPlan, relation: int, sources: Sequence[Table], below: Mapping[int, Maintained]
) -> tuple[tuple[int, ...], Rows | None]:
    """The columns that identify a relation's rows, and how one is found by them."""
    source = plan.relations[relation].source
    if isinstance(source, TableSchema):
        table, key = sources[relation], source.primary_key

        def by_key(lanes: Int64s) -> list[Column]:
            slots = table.tuples.find(lanes)
            return table.columns(slots[:0] if slots[0] < 0 or lanes[0, table.tuples.key_lanes :].any() else slots)

        return key, by_key if key else None
    nested = below[relation]
    if unique_columns(source) == ():  # one row at most

        def only(_: Int64s) -> list[Column]:
            return next(nested.batches(1), unpack(np.empty((0, nested.width), np.int64), nested.types, nested.pool))

        return (), only
    finder = next((f for f in nested.finders() if f.unique), None)
    return ((), None) if finder is None else (finder.columns, finder.find)


def _equal(plan: QueryPlan) -> dict[Place, frozenset[Place]] | None:
    """For each column that edges join, the columns it equals; None if an edge tests something else."""
    equal: dict[Place, frozenset[Place]] = {}
    for node in plan.nodes:
        edge = node.edge
        if node.assertions or (edge is not None and not _is_plain(edge)):
            return None
        if edge is None:
            continue
        parent = plan.nodes[node.parent]
        for i, ours in enumerate(edge.child_key):
            theirs = (parent.relation, i)
            if not parent.generalized:
                value = edge.parent_key[i]
                if not isinstance(value, ColumnRef):
                    return None
                theirs = (value.relation, value.column)
            if not isinstance(ours, ColumnRef):
                return None
            here = (ours.relation, ours.column)
            both = equal.get(here, frozenset((here,))) | equal.get(theirs, frozenset((theirs,)))
            equal.update(dict.fromkeys(both, both))
    return equal


def _is_plain(edge: Edge) -> bool:
    asks = edge.comparison is not None or edge.condition or any(edge.null_safe)
    return not asks and edge.kind in (JoinKind.INNER, JoinKind.SEMI)
