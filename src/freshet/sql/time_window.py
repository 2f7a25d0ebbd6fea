"""WINDOW(ts, '10 minutes', '5 minutes'): a row for each window of time that contains its time, as EXPLODE makes them.

The windows become a column of FROM, named window as in Spark, after WHERE; the calls read that column. Rows without a
time are in no window.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from freshet.logical.query import Field
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.functions.time_windows import WINDOW, windows_of
from freshet.sql.binder import Binder, Draft
from freshet.sql.generator import WrittenGenerator, add_elements
from freshet.sql.literal import bind_interval
from freshet.sql.scope import NameScope
from freshet.sql.source import Statement, sql_of

_CLAUSES = ("expressions", "group", "having", "order", "qualify")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    call: exp.Expr

    def bind(self, binder: Binder, scope: NameScope, draft: Draft) -> None:
        """Adds the column of windows to the scope."""
        statement, call = binder.statement, self.call
        if not 2 <= len(call.expressions) <= 4:
            message = "WINDOW takes a time, the length of windows, and optionally how far apart they begin and where"
            statement.fail(message, call)
        time = binder.scalar(scope, "WINDOW").bind(call.expressions[0])
        if time.type.name not in ("TIMESTAMP", "DATE"):
            statement.fail(f"WINDOW takes a TIMESTAMP or DATE, not {time.type}", call)
        sizes = [_size(part, statement) for part in call.expressions[1:]]
        length, slide, offset = (sizes + sizes[:1] + [0])[:3] if len(sizes) < 2 else (*sizes, 0)[:3]
        if not 0 < slide <= length:
            statement.fail("windows of time begin at most their own length apart; give a smaller slide", call)
        if length > _MOST * slide:
            statement.refuse(f"a time in more than {_MOST:,} windows", "let windows begin further apart", call)
        value: Expression = windows_of(time, length, slide, offset % slide)
        generator = WrittenGenerator(call, "explode", call)
        scope.columns += add_elements(binder, generator, value, (Field("window", WINDOW, False),), scope, draft, 0)


_MOST = 10_000


def time_window_of(node: exp.Select, statement: Statement) -> tuple[exp.Select, TimeWindow | None]:
    """A select with its calls of WINDOW replaced by the column of windows, and the call."""
    if not _calls(node):
        return node, None
    node = node.copy()
    calls = _calls(node)
    if any(call != calls[0] for call in calls):
        other = next(call for call in calls if call != calls[0])
        statement.refuse("WINDOW of several kinds in one select", "compute one of them in a FROM subquery", other)
    if any(e.is_star for e in node.expressions):
        statement.refuse("* next to WINDOW", "name the columns", calls[0])
    for call in calls:
        column: exp.Expr = exp.column("window")
        column.this.meta.update(call.meta)
        if call.parent is node:
            column = exp.alias_(column, "window")
        call.replace(column)
    return node, TimeWindow(calls[0])


def _calls(node: exp.Select) -> list[exp.Expr]:
    """The calls of WINDOW outside of subqueries."""
    found: list[exp.Expr] = []
    for clause in _CLAUSES:
        given = node.args.get(clause)
        for part in given if isinstance(given, list) else [given]:
            if isinstance(part, exp.Expr):
                inside = part.walk(prune=lambda n: isinstance(n, exp.Query))
                found += (n for n in inside if isinstance(n, exp.Anonymous) and n.name.lower() == "window")
    return found


def _size(node: exp.Expr, statement: Statement) -> int:
    """A length of time in microseconds, as a text with units."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        statement.fail(f"{sql_of(node)} is not a length of time; write a text, as in '5 minutes'", node)
    size: Literal = bind_interval(exp.Interval(this=node.copy()), statement)
    if size.type.name != "MICROS" or not isinstance(size.value, int):
        statement.fail(f"windows of '{node.name}' have no fixed length; use weeks, days or less", node)
    return size.value
