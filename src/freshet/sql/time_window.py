"""WINDOW(ts, '10 minutes', '5 minutes'): a row for each window of time that contains its time, as EXPLODE makes them.
SESSION_WINDOW(ts, '5 minutes') is in session_window.py.

The windows become a column of FROM, after WHERE, that has the name of the function, as in Spark; the calls read that
column. Rows without a time are in no window.
"""

from __future__ import annotations

from sqlglot import exp

from freshet.logical.query import Field
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.functions.time_windows import WINDOW, windows_of
from freshet.sql.binder import Binder, Draft
from freshet.sql.generator import WrittenGenerator, add_elements
from freshet.sql.literal import bind_interval
from freshet.sql.scope import NameScope
from freshet.sql.source import Statement, sql_of

_WINDOWS = ("window", "session_window")
_CLAUSES = ("expressions", "group", "having", "order", "qualify")


_MOST = 10_000


def bind_time_window(binder: Binder, scope: NameScope, draft: Draft, call: exp.Expr) -> None:
    """Adds the column of windows to the scope."""
    statement = binder.statement
    if not 2 <= len(call.expressions) <= 4:
        message = "WINDOW takes a time, the length of windows, and optionally how far apart they begin and where"
        statement.fail(message, call)
    time = binder.scalar(scope, "WINDOW").bind(call.expressions[0])
    if time.type.name not in ("TIMESTAMP", "DATE"):
        statement.fail(f"WINDOW takes a TIMESTAMP or DATE, not {time.type}", call)
    sizes = [size_of(part, statement) for part in call.expressions[1:]]
    length, slide, offset = (sizes + sizes[:1] + [0])[:3] if len(sizes) < 2 else (*sizes, 0)[:3]
    if not 0 < slide <= length:
        statement.fail("windows of time begin at most their own length apart; give a smaller slide", call)
    if length > _MOST * slide:
        statement.refuse(f"a time in more than {_MOST:,} windows", "let windows begin further apart", call)
    value: Expression = windows_of(time, length, slide, offset % slide)
    generator = WrittenGenerator(call, "explode", call)
    scope.columns += add_elements(binder, generator, value, (Field("window", WINDOW, False),), scope, draft, 0)


def time_window_of(node: exp.Select, statement: Statement) -> tuple[exp.Select, exp.Expr | None]:
    """A select with its calls of WINDOW or SESSION_WINDOW replaced by the column of windows, and the call."""
    if not _calls(node):
        return node, None
    node = node.copy()
    calls = _calls(node)
    if any(call != calls[0] for call in calls):
        other = next(call for call in calls if call != calls[0])
        statement.refuse(
            f"{_name(other)} of several kinds in one select", "compute one of them in a FROM subquery", other
        )
    if any(e.is_star for e in node.expressions):
        statement.refuse(f"* next to {_name(calls[0])}", "name the columns", calls[0])
    for call in calls:
        column: exp.Expr = exp.column(call.name.lower())
        column.this.meta.update(call.meta)
        if call.parent is node:
            column = exp.alias_(column, call.name.lower())
        call.replace(column)
    return node, calls[0]


def _name(call: exp.Expr) -> str:
    return call.name.upper()


def _calls(node: exp.Select) -> list[exp.Expr]:
    """The calls of WINDOW and SESSION_WINDOW outside of subqueries."""
    found: list[exp.Expr] = []
    for clause in _CLAUSES:
        given = node.args.get(clause)
        for part in given if isinstance(given, list) else [given]:
            if isinstance(part, exp.Expr):
                inside = part.walk(prune=lambda n: isinstance(n, exp.Query))
                found += (n for n in inside if isinstance(n, exp.Anonymous) and n.name.lower() in _WINDOWS)
    return found


def size_of(node: exp.Expr, statement: Statement) -> int:
    """A length of time in microseconds, as a text with units."""
    if not isinstance(node, exp.Literal) or not node.is_string:
        statement.fail(f"{sql_of(node)} is not a length of time; write a text, as in '5 minutes'", node)
    size: Literal = bind_interval(exp.Interval(this=node.copy()), statement)
    if size.type.name != "MICROS" or not isinstance(size.value, int):
        statement.fail(f"windows of '{node.name}' have no fixed length; use weeks, days or less", node)
    return size.value
