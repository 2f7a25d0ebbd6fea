"""Rows of a select's answer found by columns that identify them: the keys of its groups, or a table's primary key."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from freshet.engine.aggregate import Aggregate
from freshet.engine.keys import cells, shown_groups, shown_primary_key
from freshet.engine.maintained import Finder, StoredLanes
from freshet.engine.table import Table
from freshet.plans.model import QueryPlan
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate, evaluate_filter
from freshet.scalar.expression import GroupRef
from freshet.state.arrays import Int64s
from freshet.state.tuples import Slots


def group_finders(
    plan: QueryPlan, aggregate: Aggregate, project: Callable[[list[Column], int], list[Column]]
) -> list[Finder]:
    """Finds groups by their keys, if all are output. `project` computes the outputs of groups that satisfy HAVING."""
    grouping = plan.grouping
    assert grouping is not None
    columns = shown_groups(plan)
    if not columns:
        return []

    def find(key: Int64s) -> list[Column]:
        groups = aggregate.found(key)
        rows = len(groups[0])
        if grouping.having is not None:
            return project(groups, rows)
        # then most outputs are plain keys or aggregates
        return [
            groups[o.column] if isinstance(o, GroupRef) else evaluate(o, lambda c: groups[c.column], rows)
            for o in plan.outputs
        ]

    keys = len(grouping.keys)
    types = [[k.type for k in grouping.keys], [a.type for a in grouping.aggregates]]
    places = cells(plan, types, lambda c: (0, c) if c < keys else (1, c - keys))
    stored = StoredLanes(aggregate.found_lanes, places) if places and grouping.having is None else None
    return [Finder(columns, True, find, stored)]


def row_finders(plan: QueryPlan, sources: Sequence[Table]) -> list[Finder]:
    """Finds rows by the primary key of the only table, if all of it is output."""
    columns = shown_primary_key(plan)
    if not columns:
        return []
    table = sources[0]
    checked = (*plan.nodes[0].filter, *plan.residual)

    def slots_of(key: Int64s) -> Slots:
        """A NULL in the key finds nothing."""
        slots = table.tuples.find(key)
        if slots[0] < 0 or key[0, table.tuples.key_lanes :].any():
            return slots[:0]
        return slots[evaluate_filter(checked, table.reader(slots), 1)] if checked else slots

    def find(key: Int64s) -> list[Column]:
        slots = slots_of(key)
        return [evaluate(o, table.reader(slots), len(slots)) for o in plan.outputs]

    def find_lanes(key: Int64s) -> list[tuple[list[int], ...]]:
        lanes = table.tuples.lanes.data
        return [(lanes[slot].tolist(),) for slot in slots_of(key).tolist()]

    places = cells(plan, [table.types], lambda c: (0, table.place[c]))
    return [Finder(columns, True, find, StoredLanes(find_lanes, places) if places else None)]
