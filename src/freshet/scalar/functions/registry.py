"""The registry of scalar functions: a function is one record with everything that is known about it.

Law: a function's value depends only on its arguments, so a call of literals is folded to a literal, and a view over it
can be kept correct. Operations whose value may change are not functions here.

A resolver takes bound arguments and returns a Call whose arguments are cast to the types that the function takes. A
compiler takes such a Call once and returns a step: a function of columns that computes a batch. Most functions are
strict: all arguments are computed for all rows. The lazy ones (CASE, AND, ...) get their arguments as nodes and choose
the rows themselves.

In a batch of n rows a column has n values or one; a single value is for all rows. Steps never write into their inputs.
A BOOLEAN between nodes may be a numpy bool array; outside it is int64 like every other value.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from freshet.errors import SqlError, UnsupportedError
from freshet.scalar.column import Column
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.expression import Call, Expression, Reference
from freshet.scalar.functions.nulls import IF_ANY, Nulls

Columns = Callable[[Reference], Column]
Node = Callable[[Columns, int], Column]
Resolver = Callable[[str, tuple[Expression, ...]], Expression]
Step = Callable[..., Column]
Strict = Callable[[Call], Step]
Lazy = Callable[[Call, tuple[Node, ...]], Node]
Spelling = Callable[[Call, Sequence[str]], str | None]


#: Where the parser puts the arguments of most functions of one and of two arguments.
THIS, BOTH = ("this",), ("this", "expression")


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """A function or operator. One without a resolver is not available in SQL: plans create its calls. One that is
    neither strict nor lazy has no calls: its resolver expresses it in terms of others."""

    name: str  # of its calls
    takes: str = ""  # its argument lists, for error messages
    resolver: Resolver | None = None
    strict: Strict | None = None
    also: tuple[str, ...] = ()  # its other names

    # Syntax
    spelled: bool = True  # whether SQL calls it by name, unlike operators and special forms
    #: The nodes that the parser makes of its names, with their slots that hold the arguments in order; None if the
    #: binder, or another function, reads the node. Without any, it is looked up by name and argument list: the parser
    #: rewrites some functions, and translates date patterns to those of other languages.
    parsed: Mapping[type[exp.Expr], tuple[str, ...] | None] = field(default_factory=dict)
    operator: type[exp.Expr] | None = None  # the parsed operator between two operands
    sign: str = ""  # the operator in SQL
    written: Callable[[Call, Sequence[str]], str] | None = None  # its calls as text, if they have another syntax

    # Computation
    lazy: Lazy | None = None
    nulls: Nulls = IF_ANY
    #: Whether it has a value for all arguments of its types: it may then run on rows that are already excluded.
    total: bool | Callable[[Call], bool] = False
    sized: bool = False  # whether it refuses only values that are too large (see `bounds`)
    nested: bool = False  # whether it takes arrays, structs or maps
    variants: bool = False  # whether it takes VARIANTs
    guards: bool = False  # whether its first argument determines which rows need the others

    #: Its SQL for DuckDB, given that of its arguments; None if DuckDB's value, or the rows that fail, may differ.
    duckdb: Spelling | None = None

    # Rewrites
    opposite: str = ""  # the function that is its NOT
    compares: bool = False  # whether it compares two values, null-safe or not
    comparison: ComparisonOperator | None = None  # the operator of a comparison that is NULL if either side is

    @property
    def names(self) -> tuple[str, ...]:
        return (self.name, *self.also)

    def text(self, call: Call, args: Sequence[str]) -> str:
        """Its call as readable text, given the texts of its arguments."""
        if self.written is not None:
            return self.written(call, args)
        if self.sign and len(args) > 1:
            return f"({f' {self.sign} '.join(args)})"
        return f"{self.name.upper()}({', '.join(args)})"

    def is_total(self, call: Call, but_for_size: bool = False) -> bool:
        """Whether the call has a value whenever its arguments do, or fails only on values that are too large."""
        total = self.total if isinstance(self.total, bool) else self.total(call)
        return total or (but_for_size and self.sized)


#: By all their names.
FUNCTIONS: dict[str, Function] = {}


def declare(*functions: Function) -> None:
    for function in functions:
        for name in function.names:
            assert name not in FUNCTIONS, f"two functions are named {name}"
            FUNCTIONS[name] = function


def function_of(call: Call) -> Function:
    """What is known of a call's function: calls of functions written in Python have their own."""
    return FUNCTIONS[call.name] if call.record is None else call.record


def comparison_of(expression: Expression) -> ComparisonOperator | None:
    """The operator of a comparison that is NULL if either side is; None for any other expression."""
    return function_of(expression).comparison if isinstance(expression, Call) else None


def resolve(name: str, args: Sequence[Expression]) -> Expression:
    record = FUNCTIONS.get(name)
    if record is None or record.resolver is None:
        near = difflib.get_close_matches(name, names(), 1)
        remedy = f"the nearest that exists is {near[0].upper()}" if near else "see the list of functions"
        raise UnsupportedError(f"no function {name.upper()}; {remedy}")
    if not record.nested and any(a.type.is_nested for a in args):
        raise refuse(name, args)
    if not record.variants and any(a.type.name == "VARIANT" for a in args):
        raise SqlError(f"{record.sign or name.upper()} of a VARIANT; cast it first, as in CAST(v AS STRING)")
    return record.resolver(name, tuple(args))


def names() -> list[str]:
    """All names of functions and operators that SQL can express, for documentation and for tests."""
    return sorted(name for name, function in FUNCTIONS.items() if function.resolver is not None)


def refuse(name: str, args: Sequence[Expression]) -> SqlError:
    """The error for arguments that a function does not take."""
    function = FUNCTIONS[name]
    if function.sign and len(args) == 2:
        given = f"operator {args[0].type} {function.sign} {args[1].type}"
    else:
        given = f"function {name.upper()}({', '.join(str(a.type) for a in args)})"
    return SqlError(f"no {given}; {function.sign or name.upper()} takes {function.takes}")
