"""The columns of its answer by which a select can find rows: the keys of groups, or the primary key of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from freshet.logical.query import TableSchema
from freshet.plans.model import QueryPlan
from freshet.scalar.expression import ColumnRef, GroupRef, Reference
from freshet.scalar.lanes import NULLS, layout, value_lanes
from freshet.scalar.types import Type

Cell = tuple[int, int, int, int]


def shown_groups(plan: QueryPlan) -> tuple[int, ...]:
    """The outputs that are the group's keys, in order; none unless all keys are output."""
    if plan.grouping is None:
        return ()
    return _shown(plan, GroupRef, range(len(plan.grouping.keys)))


def shown_primary_key(plan: QueryPlan) -> tuple[int, ...]:
    """The outputs that are the primary key of the only table, in order; none unless all of it is output."""
    if len(plan.relations) != 1 or len(plan.nodes) != 1:
        return ()
    source = plan.relations[0].source
    return _shown(plan, ColumnRef, source.primary_key) if isinstance(source, TableSchema) else ()


def _shown(plan: QueryPlan, kind: type[Reference], wanted: Iterable[int]) -> tuple[int, ...]:
    places = {
        output.column: place for place, output in reversed(list(enumerate(plan.outputs))) if isinstance(output, kind)
    }
    columns = list(wanted)
    return tuple(places[c] for c in columns) if all(c in places for c in columns) else ()


def cells(
    plan: QueryPlan, types: Sequence[Sequence[Type]], where: Callable[[int], tuple[int, int]]
) -> tuple[Cell, ...]:
    """The position of each output within rows of lanes of these types; `where` says which list, and which column of it,
    stores a column. None unless every output is a plain column."""
    places = []
    for output in plan.outputs:
        if not isinstance(output, Reference):
            return ()
        row, column = where(output.column)
        null_lane = value_lanes(types[row]) + column // NULLS
        places.append((row, layout(types[row])[column], null_lane, column % NULLS))
    return tuple(places)
