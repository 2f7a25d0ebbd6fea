"""Functions that take a function of elements: TRANSFORM, FILTER, EXISTS, FORALL, AGGREGATE, MAP_FILTER and others.

The body is an ordinary expression over `Variable`s and the columns of the row. It is evaluated over the elements of all
arrays of a batch at once, with the columns' values repeated for each element of their row; AGGREGATE, in which a step
needs the result of the last, takes as many steps as the longest array has elements, each over the arrays that have so
many. An error names the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from freshet.errors import EvaluationError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Variable
from freshet.scalar.functions.elements import IF_FIRST_OR_ELSE, any_of, kept
from freshet.scalar.functions.nulls import IF_FIRST
from freshet.scalar.functions.registry import Columns, Function, Node, declare
from freshet.scalar.functions.rows import both, gather, spread, truth
from freshet.scalar.nested import Lists, lists_of, make_lists, valid_of
from freshet.scalar.types import BOOLEAN, INT
from freshet.state.arrays import Int64s


def _within(columns: Columns, rows: Int64s, total: int, variables: Mapping[int, Column]) -> Columns:
    """The columns of `total` rows for an element of each of the given rows, and the values of variables."""
    taken: dict[int, Column] = {}

    def read(reference: Any) -> Column:
        if isinstance(reference, Variable) and reference.number in variables:
            return variables[reference.number]
        known = taken.get(id(reference))
        if known is None:
            column = columns(reference)
            known = taken[id(reference)] = column if len(column) != total else column.take(rows)
        return known

    return read


def _evaluated(
    call: Call, body: Node, place: int, columns: Columns, rows: Int64s, total: int, values: Mapping[int, Column]
) -> Column:
    """The body for elements of these rows; `place`: its argument."""
    if not len(rows):
        return gather(call.args[place].type, [], 0)
    try:
        return spread(body(_within(columns, rows, total, values), len(rows)), len(rows))
    except EvaluationError as e:
        raise EvaluationError(e.reason, None if e.row is None else int(rows[e.row])) from None


def _variables(call: Call, lists: Lists) -> dict[int, Column]:
    """What the variables of a function of elements hold: the element and its place, or the key and the value."""
    names = [a.number for a in call.args[2:] if isinstance(a, Variable)]
    columns = lists.columns
    if len(names) > len(columns):
        columns = (*columns, Column(INT, np.arange(len(lists.items)) - np.repeat(lists.offsets[:-1], lists.sizes)))
    return dict(zip(names, columns, strict=False))


def _of_elements(call: Call, nodes: tuple[Node, ...]) -> Node:
    """The functions of one array or map, and one function of its elements."""
    array, body = nodes[:2]

    def node(columns: Columns, rows: int) -> Column:
        a = array(columns, rows)
        total, a = rows, spread(a, rows)
        lists, valid = lists_of(a), valid_of(a)
        owners = lists.rows
        made = _evaluated(call, body, 1, columns, owners, total, _variables(call, lists))
        if call.name == "transform":
            return make_lists(call.type, Lists(lists.offsets, (made,)), valid)
        if call.name == "transform_values":
            return make_lists(call.type, Lists(lists.offsets, (lists.columns[0], made)), valid)
        holds, known = truth(made), made.valid
        if call.name in ("filter", "map_filter"):
            return make_lists(call.type, kept(lists, holds if known is None else holds & known), valid)
        decides = call.name == "exists"  # the truth value that one element suffices for
        decided = holds == decides if known is None else (holds == decides) & known
        found = any_of(owners[decided], rows)
        if known is not None:
            valid = both(valid, found | ~any_of(owners[~known], rows))
        return Column(BOOLEAN, found == decides, valid)

    return node


def _aggregate(call: Call, nodes: tuple[Node, ...]) -> Node:
    """(array, start, merge, finish, accumulator, element, result): the last three are variables."""
    array, start, merge, finish = nodes[:4]
    accumulator, element, result = (a.number for a in call.args[4:] if isinstance(a, Variable))

    def node(columns: Columns, rows: int) -> Column:
        a = spread(array(columns, rows), rows)
        lists, state = lists_of(a), spread(start(columns, rows), rows)
        sizes = lists.sizes
        for step in range(int(sizes.max()) if rows else 0):
            going = np.flatnonzero(sizes > step)
            values = {accumulator: state.take(going), element: lists.items.take(lists.offsets[going] + step)}
            made = _evaluated(call, merge, 2, columns, going, rows, values)
            staying = np.flatnonzero(sizes <= step)
            state = gather(state.type, [(staying, state.take(staying)), (going, made)], rows)
        made = _evaluated(call, finish, 3, columns, np.arange(rows), rows, {result: state})
        valid = both(valid_of(a), made.valid)
        return Column(made.type, made.data, valid, made.hi, made.pool)

    return node


declare(
    *(
        Function(name, lazy=_of_elements, nulls=IF_FIRST, nested=True, total=True)
        for name in ("transform", "filter", "transform_values", "map_filter")
    ),
    *(
        Function(name, lazy=_of_elements, nulls=IF_FIRST_OR_ELSE, nested=True, total=True)
        for name in ("exists", "forall")
    ),
    Function("aggregate", lazy=_aggregate, nulls=IF_FIRST_OR_ELSE, nested=True, total=True),
)
