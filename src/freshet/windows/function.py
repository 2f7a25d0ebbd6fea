"""A window function: one object with everything that is known about it.

Law: the value on a row is a function of the rows of its partition, in their order, and of the row's position among
them. So it can be recomputed from the rows alone, whatever changed them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, NoReturn, Protocol, TypeVar

import numpy as np
from sqlglot import exp

from freshet.scalar.column import Column
from freshet.scalar.expression import Expression
from freshet.scalar.types import Type
from freshet.state.arrays import Bools
from freshet.windows.call import Frame, WindowCall
from freshet.windows.ordered_rows import OrderedRows
from freshet.windows.value_order import valid_rows


class WrittenWindow(Protocol):
    """A window function in the text of a query, with the means to bind its parts."""

    call: exp.Expr
    ignore_nulls: bool
    only: Expression | None  # the condition of FILTER

    def value(self, node: exp.Expr) -> Expression: ...

    def condition(self, node: exp.Expr) -> Expression: ...

    def constant(self, node: exp.Expr, name: str, least: int | None = None) -> int:
        """A constant argument of the function of this name: an integer, not below `least`."""

    def reads(self, *slots: str) -> None:
        """Refuses a call with clauses other than these."""

    def text(self, node: exp.Expr) -> str: ...

    def fail(self, message: str) -> NoReturn: ...

    def refuse(self, what: str, instead: str) -> NoReturn: ...


@dataclass(frozen=True, slots=True)
class BoundFunction:
    """A window function over expressions; see `WindowCall`."""

    name: str
    args: tuple[Expression, ...]
    type: Type
    nullable: bool
    constant: int = 0
    ignore_nulls: bool = False
    filter: Expression | None = None


class WindowFunction:
    name: ClassVar[str]
    #: Whether it requires OVER.
    needs_over: ClassVar[bool] = False
    #: Whether its value depends on the order of the partition, so that it must have one.
    ordered: ClassVar[bool] = False
    #: Whether it reads a frame. Other functions may still name the one frame that is equivalent to what they read.
    framed: ClassVar[bool] = True
    own_frame: ClassVar[Frame | None] = None
    #: Whether FILTER and IGNORE NULLS may restrict the rows it sees.
    takes_filter: ClassVar[bool] = True
    takes_ignore_nulls: ClassVar[bool] = False
    #: Whether it depends only on a row and the rows before it in the partition.
    by_rows_before: ClassVar[bool] = False
    #: For a number that counts the partition's rows from its start: whether rows that tie share it. None for others.
    shared_by_ties: ClassVar[bool | None] = None

    def bind(self, written: WrittenWindow) -> BoundFunction:
        raise NotImplementedError

    def values(self, call: WindowCall, rows: OrderedRows) -> Column:
        """Its value on each row."""
        raise NotImplementedError


def rows_seen(call: WindowCall, rows: OrderedRows) -> Bools:
    """The rows that a function reads."""
    seen = np.ones(len(rows), np.bool_)
    if call.filter is not None:
        passed = rows.columns[call.filter]
        seen &= (passed.data != 0) & valid_rows(passed)
    if call.ignore_nulls:
        seen &= valid_rows(rows.columns[call.args[0]])
    return seen


BoundBy = Callable[[WrittenWindow], BoundFunction]
#: By name, as stored in plans.
WINDOW_FUNCTIONS: dict[str, WindowFunction] = {}
#: By parsed form: the function, and how it is bound.
SPELLED: dict[type[exp.Expr], tuple[WindowFunction, BoundBy]] = {}
#: The parsed forms of functions that require OVER.
NEEDS_OVER: list[type[exp.Expr]] = []

W = TypeVar("W", bound=type[WindowFunction])


def window_function(*forms: type[exp.Expr]) -> Callable[[W], W]:
    """Registers a window function with its parsed forms."""

    def register(made: W) -> W:
        function = made()
        WINDOW_FUNCTIONS[function.name] = function
        SPELLED.update(dict.fromkeys(forms, (function, function.bind)))
        if function.needs_over:
            NEEDS_OVER.extend(forms)
        return made

    return register


def also_spelled(name: str, *forms: type[exp.Expr]) -> Callable[[BoundBy], BoundBy]:
    """Registers how other forms are bound to the function of a name."""

    def register(bind: BoundBy) -> BoundBy:
        SPELLED.update(dict.fromkeys(forms, (WINDOW_FUNCTIONS[name], bind)))
        return bind

    return register


def window_function_of(call: WindowCall) -> WindowFunction:
    return WINDOW_FUNCTIONS[call.function]
