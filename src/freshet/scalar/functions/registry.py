"""The one registry of scalar functions: for each name, how it is typed and how it is computed.

A resolver takes bound arguments and returns a Call whose arguments are cast to what the function takes. A compiler
takes such a Call once and returns a step: a function of columns that does the work for a batch. Most functions are
strict: all arguments are computed for all rows, and a NULL argument gives NULL. The lazy ones (CASE, AND, ...) get
their arguments as nodes and choose the rows themselves.

In a batch of n rows a column has n values or one; one value stands for all rows. Steps never write into their inputs.
A BOOLEAN between nodes may be a numpy bool array; outside it is int64 like every other value.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence

from freshet.errors import SqlError, UnsupportedError
from freshet.scalar.column import Column
from freshet.scalar.expression import INFIX, Call, Expression, Reference

Columns = Callable[[Reference], Column]
Node = Callable[[Columns, int], Column]
Resolver = Callable[[str, tuple[Expression, ...]], Expression]
Step = Callable[..., Column]
Strict = Callable[[Call], Step]
Lazy = Callable[[Call, tuple[Node, ...]], Node]

_resolvers: dict[str, tuple[Resolver, str]] = {}
STRICT: dict[str, Strict] = {}
LAZY: dict[str, Lazy] = {}
#: Strict functions for which a NULL argument does not yet decide the result.
SEES_NULL: set[str] = set()
#: Functions that have a value for every argument of their types: they may run on rows that are already excluded.
TOTAL: set[str] = set()
#: The same for functions where it depends on the call.
TOTAL_WHEN: dict[str, Callable[[Call], bool]] = {}
#: Functions that refuse nothing but what is too large (see `bounds`).
SIZED: set[str] = set()


def resolves(*names: str, takes: str) -> Callable[[Resolver], Resolver]:
    """Registers how calls are typed; `takes` says the argument lists in error messages."""

    def register(resolver: Resolver) -> Resolver:
        for name in names:
            _resolvers[name] = (resolver, takes)
        return resolver

    return register


def strict(
    *names: str, total: bool = False, sized: bool = False, sees_null: bool = False
) -> Callable[[Strict], Strict]:
    def register(compiler: Strict) -> Strict:
        for name in names:
            STRICT[name] = compiler
        if sees_null:
            SEES_NULL.update(names)
        if total:
            TOTAL.update(names)
        if sized:
            SIZED.update(names)
        return compiler

    return register


def lazy(*names: str, total: bool = False) -> Callable[[Lazy], Lazy]:
    def register(compiler: Lazy) -> Lazy:
        for name in names:
            LAZY[name] = compiler
        if total:
            TOTAL.update(names)
        return compiler

    return register


def resolve(name: str, args: Sequence[Expression]) -> Expression:
    found = _resolvers.get(name)
    if found is None:
        near = difflib.get_close_matches(name, _resolvers, 1)
        remedy = f"the nearest that exists is {near[0].upper()}" if near else "see the list of functions"
        raise UnsupportedError(f"no function {name.upper()}; {remedy}")
    lists = [a for a in args if a.type.items is not None]
    if lists:
        raise UnsupportedError(f"{name.upper()} of {lists[0].type}; a view shows arrays: compute with the rows instead")
    return found[0](name, tuple(args))


def names() -> list[str]:
    """All function names, for documentation and for tests."""
    return sorted(_resolvers)


def refuse(name: str, args: Sequence[Expression]) -> SqlError:
    """The error for arguments a function does not take."""
    sign = INFIX.get(name)
    if sign is not None and len(args) == 2:
        given = f"operator {args[0].type} {sign} {args[1].type}"
    else:
        given = f"function {name.upper()}({', '.join(str(a.type) for a in args)})"
    return SqlError(f"no {given}; {sign or name.upper()} takes {_resolvers[name][1]}")
