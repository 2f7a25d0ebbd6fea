"""By which columns of its answer a select can find rows, as its plan says: a group's keys, or a table's primary key."""

from __future__ import annotations

from collections.abc import Iterable

from freshet.logical.query import GROUP, TableSchema
from freshet.plans.model import QueryPlan
from freshet.scalar.expression import ColumnRef


def shown_groups(plan: QueryPlan) -> tuple[int, ...]:
    """The outputs that are the group's keys, in their order; none unless all are shown."""
    if plan.grouping is None:
        return ()
    return _shown(plan, GROUP, range(len(plan.grouping.keys)))


def shown_primary_key(plan: QueryPlan) -> tuple[int, ...]:
    """The outputs that are the primary key of the one table there is, in its order; none unless all are shown."""
    if len(plan.relations) != 1 or len(plan.nodes) != 1:
        return ()
    source = plan.relations[0].source
    return _shown(plan, 0, source.primary_key) if isinstance(source, TableSchema) else ()


def _shown(plan: QueryPlan, relation: int, wanted: Iterable[int]) -> tuple[int, ...]:
    places = {
        output.column: place
        for place, output in reversed(list(enumerate(plan.outputs)))
        if isinstance(output, ColumnRef) and output.relation == relation
    }
    columns = list(wanted)
    return tuple(places[c] for c in columns) if all(c in places for c in columns) else ()
