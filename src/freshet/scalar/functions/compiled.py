"""Expressions compiled to nodes: closures that are functions of columns, created once per expression and cached.

The cache is by identity, not by value: hashing a deep expression would cost more than computing it for one row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from freshet.errors import EvaluationError, SqlError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal, Reference, Variable
from freshet.scalar.functions.registry import Columns, Node, Step, function_of
from freshet.scalar.functions.rows import constant, scalar

_unreached: ContextVar[bool] = ContextVar("unreached", default=False)
_kept: dict[int, tuple[Expression, Node]] = {}
_MOST = 8192


def compiled(expression: Expression) -> Node:
    """The node of an expression, created at the first call. The expression is kept alive, so that its identity is not
    reused."""
    entry = _kept.get(id(expression))
    if entry is None:
        if len(_kept) >= _MOST:
            _kept.clear()
        entry = _kept[id(expression)] = (expression, _compile(expression))
    return entry[1]


def _compile(expression: Expression) -> Node:
    if isinstance(expression, Reference):
        reference = expression
        return lambda columns, rows: columns(reference)
    if isinstance(expression, Variable):
        variable: Any = expression
        return lambda columns, rows: columns(variable)
    if isinstance(expression, Literal):
        value = constant(expression)
        return lambda columns, rows: value
    assert isinstance(expression, Call), expression
    if _null_decides(expression):
        nothing = constant(Literal(expression.type, None))
        return lambda columns, rows: nothing
    nodes = tuple(compiled(a) for a in expression.args)
    function = function_of(expression)
    if function.lazy is not None:
        return function.lazy(expression, nodes)
    assert function.strict is not None, expression
    return _strict(function.strict(expression), nodes)


def _strict(step: Step, nodes: tuple[Node, ...]) -> Node:
    if len(nodes) == 1:
        (only,) = nodes
        return lambda columns, rows: step(only(columns, rows))
    if len(nodes) == 2:
        a, b = nodes
        return lambda columns, rows: step(a(columns, rows), b(columns, rows))

    def node(columns: Columns, rows: int) -> Column:
        return step(*[n(columns, rows) for n in nodes])

    return node


def is_total(expression: Expression, but_for_size: bool = False) -> bool:
    """Whether evaluation cannot fail on any row, or fails only on values that are too large."""
    if isinstance(expression, Call):
        certain = function_of(expression).is_total(expression, but_for_size)
        return certain and all(is_total(a, but_for_size) for a in expression.args)
    return True


def _no_columns(reference: Reference) -> Column:
    raise AssertionError(f"a constant expression reads column {reference.name}")


@contextmanager
def unreached() -> Iterator[None]:
    """Within this block a failing expression of literals stays an expression: a row that does not evaluate it must not
    fail the query, and a row that does fails then."""
    before = _unreached.set(True)
    try:
        yield
    finally:
        _unreached.reset(before)


def fold(expression: Expression) -> Expression:
    """The literal for an expression of literals; if it fails under ANSI rules, that is an error at once, or it stays an
    expression if it may be `unreached`."""
    if not isinstance(expression, Call) or not all(isinstance(a, Literal) for a in expression.args):
        return expression
    if expression.type.name == "VOID" or _null_decides(expression):
        return Literal(expression.type, None)
    try:
        column = _compile(expression)(_no_columns, 1)
    except EvaluationError as e:
        if _unreached.get():
            return expression
        raise SqlError(e.reason) from None
    return Literal(expression.type, scalar(column))


def fold_null(expression: Expression) -> Expression:
    """NULL, if the expression is a strict function of a literal NULL, whatever else it reads. Not while names are
    bound: even an irrelevant column must exist."""
    if isinstance(expression, Call) and _null_decides(expression):
        return Literal(expression.type, None)
    return expression


def _null_decides(call: Call) -> bool:
    return function_of(call).nulls.decides and any(isinstance(a, Literal) and a.value is None for a in call.args)
