"""By which columns of its answer a select can find rows, as its plan says: a group's keys, or a table's primary key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from freshet.logical.query import TableSchema
from freshet.plans.model import QueryPlan
from freshet.scalar.expression import ColumnRef, GroupRef, Reference
from freshet.scalar.lanes import NULLS, layout, value_lanes
from freshet.scalar.types import Type

Cell = tuple[int, int, int, int]


def shown_groups(plan: QueryPlan) -> tuple[int, ...]:
    """The outputs that are the group's keys, in their order; none unless all are shown."""
    if plan.grouping is None:
        return ()
    return _shown(plan, GroupRef, range(len(plan.grouping.keys)))


def shown_primary_key(plan: QueryPlan) -> tuple[int, ...]:
    """The outputs that are the primary key of the one table there is, in its order; none unless all are shown."""
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
    """Where each output is within rows of lanes of these types; `where` says in which of them, and as which column of
    it, a column is stored. None at all unless every output is a column as it is."""
    places = []
    for output in plan.outputs:
        if not isinstance(output, Reference):
            return ()
        row, column = where(output.column)
        null_lane = value_lanes(types[row]) + column // NULLS
        places.append((row, layout(types[row])[column], null_lane, column % NULLS))
    return tuple(places)
