"""Plans of queries that are not selects: the node itself is planned here, its inputs by `below`."""

from __future__ import annotations

from collections.abc import Callable

from freshet.logical.query import AnyQuery, BoundedSums, SetOperation, Sorted, TopK, UnionAll, Values, Windowed
from freshet.plans.model import (
    AnyPlan,
    BoundedSumsPlan,
    Guarantee,
    SetPlan,
    SortPlan,
    TopPlan,
    UnionAllPlan,
    ValuesPlan,
    WindowPlan,
)


def plan_above(query: AnyQuery, below: Callable[[AnyQuery], AnyPlan]) -> AnyPlan:
    if isinstance(query, UnionAll):
        return UnionAllPlan(tuple(map(below, query.inputs)), query.fields, _UNION_ALL)
    if isinstance(query, SetOperation):
        words = f"{query.kind} all" if query.all else query.kind
        return SetPlan(query.kind, query.all, below(query.left), below(query.right), query.fields, _counting(words))
    if isinstance(query, TopK):
        return TopPlan(
            below(query.source), query.partition, query.order, query.offset, query.limit, query.ties, query.fields,
            _TOP_K,
        )  # fmt: skip
    if isinstance(query, Sorted):
        source = below(query.source)
        return SortPlan(source, query.order, query.fields, source.guarantee)
    if isinstance(query, Windowed):
        return WindowPlan(
            below(query.source), query.partition, query.order, query.calls, query.fields, query.first, query.ties,
            _windowed(query),
        )  # fmt: skip
    if isinstance(query, BoundedSums):
        rows, bounds = below(query.rows), below(query.bounds)
        return BoundedSumsPlan(rows, bounds, query.keys, query.operator, query.fields, _BOUNDED_SUMS)
    assert isinstance(query, Values)
    return ValuesPlan(query.rows, query.fields, Guarantee("constant", 0, "the view never changes", "constant"))


_UNION_ALL = Guarantee("union all", 0, "that of its inputs", "that of its inputs: their rows are passed on")


_BOUNDED_SUMS = Guarantee(
    "sums within bounds",
    0,
    "that of its inputs, and O(log n) for each row or bound they change",
    "constant for answers, read from the sums",
    ("linear state: the values of all rows are kept in order, with partial sums",),
)


_TOP_K = Guarantee(
    "top-k",
    0,
    "that of its input, and O(log n) for each row it changes",
    "constant for answers; O(log n) for each row of a delta",
    ("linear state: all rows of the input are kept in order, to have the next ones when a row goes",),
)


def _windowed(query: Windowed) -> Guarantee:
    rows = "each touched partition" if query.first is None else f"the first {query.first:,} of each touched partition"
    return Guarantee(
        "window functions",
        0,
        f"that of its input, O(log n) for each row it changes, and the rows of {rows}",
        "constant for answers, computed from the rows in order",
        ("linear state: all rows of the input are kept in order",),
    )


def _counting(words: str) -> Guarantee:
    return Guarantee(
        words,
        0,
        "that of its inputs, and O(1) for each row they change",
        "constant for answers, read from the counted rows",
        (f"linear state: {words.upper()} keeps two counts for each row of its inputs",),
    )
