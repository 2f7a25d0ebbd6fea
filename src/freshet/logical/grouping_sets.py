"""GROUPING SETS, ROLLUP and CUBE: one grouping for each set of keys, all their rows together.

ROLLUP (a, b) is the sets (a, b), (a), (); CUBE (a, b) all subsets; several of them in one GROUP BY, the union of one
set of each for every combination. In a set's rows the keys it leaves out are NULL, and GROUPING(key) is 1. The empty
set is one group of all rows, and no group if there are no rows, as in Spark; but it is one group even then if it is the
only set.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from sqlglot import exp

from freshet.logical.query import Grouping
from freshet.logical.references import GroupingRef
from freshet.scalar import types
from freshet.scalar.expression import Expression, GroupRef, Literal, transform

Items = tuple[exp.Expr, ...]


def key_sets(group: exp.Expr | None) -> list[Items]:
    """The sets of key items that a GROUP BY groups by; one set where it is a plain one."""
    if group is None:
        return [()]
    items = group.expressions
    if group.args.get("rollup"):  # GROUP BY a, b WITH ROLLUP
        return list(_rollup([(i,) for i in items]))
    if group.args.get("cube"):
        return list(_cube([(i,) for i in items]))
    if group.args.get("grouping_sets"):  # the items before GROUPING SETS only say what may stand in them
        return list(_sets(group.args["grouping_sets"][0]))
    return [tuple(i for one in chosen for i in one) for chosen in product(*(list(_sets(item)) for item in items))]


def has_sets(group: exp.Expr | None) -> bool:
    """Whether there are GROUPING SETS, ROLLUP or CUBE, even with only one set."""
    if group is None:
        return False
    named = any(group.args.get(word) for word in ("rollup", "cube", "grouping_sets"))
    return named or any(isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)) for item in group.expressions)


def count_sets(group: exp.Expr | None) -> int:
    """The number of sets, computed without generating them."""
    if group is None:
        return 1
    if group.args.get("rollup"):
        return len(group.expressions) + 1
    if group.args.get("cube"):
        return 1 << len(group.expressions)
    return prod(map(_count, group.args.get("grouping_sets") or group.expressions))


def _count(item: exp.Expr) -> int:
    if isinstance(item, exp.Rollup):
        return len(item.expressions) + 1
    if isinstance(item, exp.Cube):
        return 1 << len(item.expressions)
    return sum(map(_count, item.expressions)) if isinstance(item, exp.GroupingSets) else 1


def _sets(item: exp.Expr) -> Iterator[Items]:
    if isinstance(item, exp.Rollup):
        yield from _rollup([_one(e) for e in item.expressions])
    elif isinstance(item, exp.Cube):
        yield from _cube([_one(e) for e in item.expressions])
    elif isinstance(item, exp.GroupingSets):
        for e in item.expressions:
            yield from _sets(e)
    else:
        yield _one(item)


def _one(item: exp.Expr) -> Items:
    if isinstance(item, exp.Tuple):
        return tuple(item.expressions)
    return (item.this,) if isinstance(item, exp.Paren) else (item,)


def _rollup(parts: Sequence[Items]) -> Iterator[Items]:
    for length in range(len(parts), -1, -1):
        yield tuple(i for part in parts[:length] for i in part)


def _cube(parts: Sequence[Items]) -> Iterator[Items]:
    for kept in product((True, False), repeat=len(parts)):
        yield tuple(i for part, keep in zip(parts, kept, strict=True) if keep for i in part)


def one_set(
    grouping: Grouping, keys: Sequence[int], outputs: Sequence[Expression], alone: bool
) -> tuple[Grouping, list[Expression]]:
    """The grouping by some of a grouping's keys, and what reads the whole one as read from that. `alone`: there are no
    other sets and no keys."""
    kept = {k: i for i, k in enumerate(dict.fromkeys(keys))}
    own = tuple(grouping.keys[k] for k in kept)
    if not own and not alone:
        own = (Literal(types.INT, 1),)  # which has no group if there are no rows

    def read(e: Expression) -> Expression:
        if isinstance(e, GroupingRef):
            return Literal(types.TINYINT, int(e.column not in kept))
        if not isinstance(e, GroupRef):
            return e
        if e.column >= len(grouping.keys):
            return replace(e, column=e.column - len(grouping.keys) + len(own))
        return replace(e, column=kept[e.column]) if e.column in kept else Literal(e.type, None)

    having = None if grouping.having is None else transform(grouping.having, read)
    return Grouping(own, grouping.aggregates, having), [transform(o, read) for o in outputs]
