"""Queries in the FROM of a subquery that read the rows around that subquery: a select, aggregates without GROUP BY,
which have a row for every outer row, a set operation, or a query with WITH."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.expressions import Col, Scope

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar

_SETS = ("UNION ALL", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL")


def correlated_relation(grammar: Grammar, depth: int, outer: Scope) -> tuple[str, list[Col]]:
    alias, shape = grammar.alias(), grammar.choices.below(8)
    if shape <= 3:
        sql, types = _select(grammar, depth, outer)
    elif shape <= 5:
        sql, types = _grand(grammar, depth, outer)
    elif shape == 6:
        sql, types = _set_operation(grammar, depth, outer)
    else:
        sql, types = _with(grammar, depth, outer)
    return f"({sql}) AS {alias}", [Col(f"{alias}.o{i}", t) for i, t in enumerate(types)]


def _select(grammar: Grammar, depth: int, outer: Scope) -> tuple[str, list[str]]:
    text, scope = grammar.relation(depth)
    kept = grammar.choices.some(scope, 1, 3)
    items = ", ".join(f"{c.text} AS o{i}" for i, c in enumerate(kept))
    distinct = grammar.choices.pick(("", "", "DISTINCT "))
    return f"SELECT {distinct}{items} FROM {text} WHERE {grammar.on(outer, scope)}", [c.type for c in kept]


def _grand(grammar: Grammar, depth: int, outer: Scope) -> tuple[str, list[str]]:
    text, scope = grammar.relation(depth)
    grammar.rough = False
    calls = [grammar.aggregate(scope) for _ in range(1 + grammar.choices.below(2))]
    items = ", ".join(f"{call} AS o{i}" for i, (call, _) in enumerate(calls))
    having = f" HAVING COUNT(*) {grammar.choices.pick(('> 0', '<> 1', '< 2'))}" if grammar.choices.chance(25) else ""
    return f"SELECT {items} FROM {text} WHERE {grammar.on(outer, scope)}{having}", [t for _, t in calls]


def _set_operation(grammar: Grammar, depth: int, outer: Scope) -> tuple[str, list[str]]:
    kind = grammar.choices.pick([c.type for c in outer if c.type in "isnd"] or ["i"])

    def side(reads: bool) -> str:
        text, scope = grammar.relation(depth)
        where = f" WHERE {grammar.on(outer, scope)}" if reads else ""
        return f"SELECT {grammar.expressions.value(kind, scope, 1)} AS o0 FROM {text}{where}"

    both = grammar.choices.chance(60)
    left, right = side(True), side(both)
    if grammar.choices.chance(30):
        left, right = right, left
    return f"{left} {grammar.choices.pick(_SETS)} {right}", [kind]


def _with(grammar: Grammar, depth: int, outer: Scope) -> tuple[str, list[str]]:
    sql, types = grammar.choices.pick((_select, _grand))(grammar, depth, outer)
    name = grammar.alias()
    joined = f" AS {name}x CROSS JOIN {name} AS {name}y" if grammar.choices.chance(30) else f" AS {name}x"
    items = ", ".join(f"{name}x.o{i}" for i in range(len(types)))
    return f"WITH {name} AS ({sql}) SELECT {items} FROM {name}{joined}", types
