"""GROUP BY SESSION_WINDOW(ts, '5 minutes'): rows that are at most the gap apart form one session, for each value of the
other keys.

The rows after WHERE become one relation, ordered by time within the other keys; window functions say where each row's
session starts and ends (`windows/sessions.py`), and both are a column of FROM, named session_window as in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from freshet.logical.grouping_sets import has_sets
from freshet.logical.query import AnyQuery, Field, Query, Relation, Windowed
from freshet.logical.rewrite.blocks import NAMELESS, select_all
from freshet.scalar import functions
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Expression, Literal, SortKey
from freshet.scalar.functions.time_windows import WINDOW
from freshet.scalar.types import STRING, TIMESTAMP
from freshet.sql.binder import Binder, Draft
from freshet.sql.clauses import all_keys
from freshet.sql.generator import everything, in_place_of_all
from freshet.sql.limit import as_position
from freshet.sql.scope import Entry, NameScope
from freshet.sql.source import Statement
from freshet.sql.time_window import size_of
from freshet.windows.call import WHOLE, WindowCall

_NAME = "SESSION_WINDOW"
_COLUMN = "session_window"


def other_keys(node: exp.Select, statement: Statement, call: exp.Expr) -> list[exp.Expr]:
    """The items of GROUP BY next to the session."""
    group = node.args.get("group")
    if group is None:
        statement.refuse(f"{_NAME} outside of GROUP BY", "group by it", call)
    if has_sets(group):
        statement.refuse(f"{_NAME} in grouping sets", "compute sessions in a FROM subquery", call)
    items = all_keys(node) if group.args.get("all") else group.expressions
    sessions = [e.alias.lower() for e in node.expressions if isinstance(e, exp.Alias) and _is_session(e.this)]

    def names_it(item: exp.Expr) -> bool:
        position = as_position(item)
        if position is not None and 1 <= position <= len(node.expressions):
            return _is_session(node.expressions[position - 1].unalias())
        return _is_session(item) or (isinstance(item, exp.Column) and not item.table and item.name.lower() in sessions)

    others = [item for item in items if not names_it(item)]
    inside = next((c for item in others for c in item.find_all(exp.Column) if _is_session(c)), None)
    if inside is not None:
        statement.refuse(f"a part of {_NAME} in GROUP BY", "group by all of it", call)
    if len(others) == len(items):
        statement.refuse(f"{_NAME} outside of GROUP BY", "group by it", call)
    return others


def _is_session(item: exp.Expr) -> bool:
    return isinstance(item, exp.Column) and not item.table and item.name.lower() == _COLUMN


def bind_session_window(
    binder: Binder, scope: NameScope, draft: Draft, call: exp.Expr, keys: Sequence[Expression]
) -> None:
    """Adds the column of sessions to the scope."""
    statement = binder.statement
    if len(call.expressions) != 2:
        statement.fail(f"{_NAME} takes a time, and how far apart rows of a session are at most", call)
    scalar = binder.scalar(scope, _NAME)
    time = scalar.bind(call.expressions[0])
    if time.type.name not in ("TIMESTAMP", "DATE"):
        statement.fail(f"{_NAME} takes a TIMESTAMP or DATE, not {time.type}", call)
    time = scalar.cast(time, TIMESTAMP, call)
    until = scalar.build("add", [time, scalar.bind(_gap(call.expressions[1], statement))], call)
    shown, names = everything(binder, (time, until, *keys), scope, draft, 0, _NAME, call)
    outputs = list(dict.fromkeys([time, until, *keys]))
    reaches = scalar.build(ComparisonOperator.GREATER.function, [until, time], call)
    block = replace(draft.block(), predicates=(*draft.block().predicates, reaches))
    fields = [Field(n, e.type, functions.nullable(e)) for n, e in zip(names, shown, strict=True)]
    fields += [Field(f"key{i}", e.type, functions.nullable(e)) for i, e in enumerate(outputs)]
    source = Query(tuple(binder.relations), block, (), None, (*shown, *outputs), tuple(fields))
    places = [len(shown) + outputs.index(e) for e in (time, until, *keys)]
    calls = tuple(WindowCall(name, (places[1],), TIMESTAMP, WHOLE) for name in ("session_start", "session_end"))
    ends = (Field("start", TIMESTAMP, False), Field("end", TIMESTAMP, False))
    order = (SortKey(places[0], False, True),)
    windowed: Windowed[AnyQuery] = Windowed(
        source, tuple(places[2:]), order, calls, (*source.fields, *ends), None, False
    )
    above = select_all(windowed)
    start, end = above.outputs[-2:]
    session = functions.build("named_struct", (Literal(STRING, "start"), start, Literal(STRING, "end"), end))
    made = Query(
        (Relation(NAMELESS, windowed, windowed.fields),),
        above.block,
        (),
        None,
        (*above.outputs[: len(shown)], session),
        (*source.fields[: len(shown)], Field(_COLUMN, WINDOW, False)),
    )
    number, first = in_place_of_all(binder, made, scope, draft, 0, call)
    entry = Entry("", number, made.fields[-1:], first=first)
    scope.columns += scope.add(entry, statement, call)


def _gap(node: exp.Expr, statement: Statement) -> exp.Expr:
    """How far a row reaches: a length of time as a text, or CASE or IF of such texts."""
    if not isinstance(node, (exp.Case, exp.If)):
        size_of(node, statement)
        return exp.Interval(this=node.copy())
    made: exp.Expr = node.copy()
    for branch in made.args.get("ifs") or [made]:
        branch.set("true", _gap(branch.args["true"], statement))
    for other in ("default", "false"):
        if made.args.get(other) is not None:
            made.set(other, _gap(made.args[other], statement))
    return made
