"""The call before OVER, bound by the record of its window function in `windows/`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from sqlglot import exp

from freshet.errors import SqlError
from freshet.scalar import types
from freshet.scalar.expression import Expression, Literal
from freshet.sql.source import Statement, sql_of
from freshet.windows import SPELLED, BoundFunction

_KNOWN = (
    "ROW_NUMBER, RANK, DENSE_RANK, NTILE, LAG, LEAD, FIRST_VALUE, LAST_VALUE, COUNT, SUM, AVG, MIN, MAX, STDDEV, "
    "VARIANCE, BOOL_AND and BOOL_OR are"
)


@dataclass(frozen=True, slots=True)
class FunctionBinder:
    """`read` binds an argument, `condition` a Boolean argument, `only` the condition of FILTER."""

    statement: Statement
    read: Callable[[exp.Expr], Expression]
    condition: Callable[[exp.Expr], Expression]
    only: Callable[[exp.Expr], Expression]
    node: exp.Expr

    def bind(self, call: exp.Expr) -> BoundFunction:
        ignores, only = False, None
        while isinstance(call, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter)):
            if isinstance(call, exp.Filter):
                only = call.expression.this
            ignores |= isinstance(call, exp.IgnoreNulls)
            call = call.this
        function, bind = SPELLED.get(type(call), (None, None))
        name = call.sql_name() if isinstance(call, exp.Func) else sql_of(call)
        if ignores and not (function is not None and function.takes_ignore_nulls):
            self.statement.fail(f"{name} does not take IGNORE NULLS; leave it out", self.node)
        if bind is None or function is None:
            self.statement.refuse(f"{sql_of(call)} as a window function", _KNOWN, self.node)
        if only is not None and not function.takes_filter:
            self.statement.fail(f"{name} does not take FILTER; use CASE in its argument", self.node)
        try:
            return bind(_Written(self, call, ignores, None if only is None else self.only(only)))
        except SqlError as error:
            raise self.statement.placed(error, self.node) from None


@dataclass(slots=True)
class _Written:
    """A call as `windows/` reads it."""

    binder: FunctionBinder
    call: exp.Expr
    ignore_nulls: bool
    only: Expression | None

    def value(self, node: exp.Expr) -> Expression:
        return self.binder.read(node)

    def condition(self, node: exp.Expr) -> Expression:
        return self.binder.condition(node)

    def constant(self, node: exp.Expr, name: str, least: int | None = None) -> int:
        bound = self.binder.read(node)
        fits = isinstance(bound, Literal) and bound.type in (types.TINYINT, types.SMALLINT, types.INT)
        value = bound.value if fits and isinstance(bound, Literal) else None
        if isinstance(value, int) and (least is None or value >= least):
            return value
        wanted = "a whole number" if least is None else f"a whole number from {least} on"
        message = f"{name.upper()} takes a constant, {wanted}, not {sql_of(node)}; write one"
        self.binder.statement.fail(message, node)

    def reads(self, *slots: str) -> None:
        self.binder.statement.only(self.call, slots)

    def text(self, node: exp.Expr) -> str:
        return sql_of(node)

    def fail(self, message: str) -> NoReturn:
        self.binder.statement.fail(message, self.call)

    def refuse(self, what: str, instead: str) -> NoReturn:
        self.binder.statement.refuse(what, instead, self.binder.node)
