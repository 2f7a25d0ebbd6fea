"""Plans of queries that are not selects: the node itself is planned here, its inputs by `below`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields

from freshet.logical.kinds import SetKind
from freshet.logical.query import (
    AnyQuery,
    BoundedSums,
    Flattened,
    Query,
    Recursive,
    SetOperation,
    Sorted,
    Timed,
    TopK,
    UnionAll,
    Values,
    Windowed,
)
from freshet.plans.claims import keeps_order
from freshet.plans.model import (
    AnyPlan,
    BoundedSumsPlan,
    FlattenedPlan,
    Guarantee,
    LookedUpPlan,
    RecursivePlan,
    SetPlan,
    SortPlan,
    TimedPlan,
    TopPlan,
    UnionAllPlan,
    ValuesPlan,
    WindowPlan,
)

_PLANS: dict[type, type] = {
    UnionAll: UnionAllPlan, SetOperation: SetPlan, TopK: TopPlan, Sorted: SortPlan, Windowed: WindowPlan,
    BoundedSums: BoundedSumsPlan, Timed: TimedPlan, Flattened: FlattenedPlan, Recursive: RecursivePlan,
    Values: ValuesPlan,
}  # fmt: skip


def plan_above(query: AnyQuery, below: Callable[[AnyQuery], AnyPlan]) -> AnyPlan:
    assert not isinstance(query, Query)
    plans = [below(source) for source in query.sources().values()]
    own = {f.name: getattr(query, f.name) for f in fields(query)}
    made: AnyPlan = _PLANS[type(query)](**{**own, **query.reading(plans)}, guarantee=_guarantee(query, plans))
    return made


def _guarantee(query: AnyQuery, below: Sequence[AnyPlan]) -> Guarantee:
    if isinstance(query, UnionAll):
        return _UNION_ALL
    if isinstance(query, SetOperation):
        return _counting(f"{query.kind} all" if query.all else query.kind)
    if isinstance(query, TopK):
        return _TOP_K
    if isinstance(query, Sorted):
        return below[0].guarantee
    if isinstance(query, Windowed):
        return _windowed(query)
    if isinstance(query, Timed):
        return _timed(query, below[0])
    if isinstance(query, Recursive):
        return _recursive(query)
    if isinstance(query, Flattened):
        return _FLATTENED
    return _BOUNDED_SUMS if isinstance(query, BoundedSums) else _CONSTANT


def looked_up(query: SetOperation[AnyQuery], left: AnyPlan, right: AnyPlan) -> LookedUpPlan:
    """A set operation of queries in which rows can be looked up."""
    passed = {
        SetKind.UNION: "rows of the right input that the left one has",
        SetKind.EXCEPT: f"rows of the left input that the right one has{' as often' if query.all else ''}",
        SetKind.INTERSECT: "rows of the left input that the right one does not have",
    }[query.kind]
    promise = Guarantee(
        f"{query.kind} all" if query.all else str(query.kind),
        0,
        "that of its inputs, and O(1) for each row they change",
        f"that of its inputs, where each row is looked up in the other one: {passed} are passed over",
        (f"constant delay: {passed} are passed over",),
    )
    return LookedUpPlan(query.kind, left, right, query.fields, promise, query.all)


_CONSTANT = Guarantee("constant", 0, "the view never changes", "constant")


_UNION_ALL = Guarantee("union all", 0, "that of its inputs", "that of its inputs: their rows are passed on")


_FLATTENED = Guarantee(
    "elements",
    0,
    "that of its input, and O(1) for each element of the rows it changes",
    "that of its input: its rows are passed on, each once for every element",
)


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


def _windowed(query: Windowed[AnyQuery]) -> Guarantee:
    rows = "each touched partition" if query.first is None else f"the first {query.first:,} of each touched partition"
    return Guarantee(
        "window functions",
        0,
        f"that of its input, O(log n) for each row it changes, and the rows of {rows}",
        "constant for answers, computed from the rows in order",
        ("linear state: all rows of the input are kept in order",),
    )


def _timed(query: Timed[AnyQuery], rows: AnyPlan) -> Guarantee:
    if query.final:
        return _FINAL
    update = "that of its input, and O(log n) for each row that comes, goes or falls due"
    if query.in_order_of_time and keeps_order(rows):
        name = query.source.fields[query.until[0].column].name
        update += f"; rows only inserted, in order of {name}, are a first-in-first-out stream: λ = 1"
    return Guarantee(
        "temporal filter" if query.since or query.until else "comparison with the clock",
        0,
        update,
        "constant for answers",
        ("linear state: rows whose moment is still to come are kept in order of it",),
    )


_FINAL = Guarantee(
    "emit final",
    0,
    "that of its input, and O(log n) for each of its rows that changes or becomes final; rows only ever appear",
    "constant for answers",
    ("linear state: its input, and rows that are not final yet, in order of when they will be",),
)


def _recursive(query: Recursive[AnyQuery]) -> Guarantee:
    rows = f"each row of an iteration of {query.name} that comes or goes, those that only change iteration as well"
    kept = f"the rows of {query.name} are stored with their iterations"
    if query.distinct:
        kept += ", and how often each iteration derives each row"
    return Guarantee(
        "recursive",
        0,
        f"that of its anchor and of one step, and then one more step for {rows}",
        "constant for answers, read from the stored rows",
        (
            f"a bound on each change: it may reach every row of {query.name}, in up to {query.levels:,} iterations",
            f"state linear in the tables: {kept}",
        ),
    )


def _counting(words: str) -> Guarantee:
    return Guarantee(
        words,
        0,
        "that of its inputs, and O(1) for each row they change",
        "constant for answers, read from the counted rows",
        (f"linear state: {words.upper()} keeps two counts for each row of its inputs",),
    )
