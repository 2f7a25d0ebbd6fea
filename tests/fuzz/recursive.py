"""Recursive common tables: a step that follows values from table to table, without end where UNION stops at rows it
has, else over a few iterations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.expressions import Col

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar


def recursive(grammar: Grammar, name: str) -> tuple[str, list[str]]:
    """The definition of a name of WITH RECURSIVE, and the types of its columns, which are called o0, o1, ...; the last
    one counts iterations, if they are limited."""
    choices = grammar.choices
    union = choices.pick(grammar.unions)
    counted = union == "UNION ALL" or choices.chance(25)
    anchor, scope = _role(grammar)
    columns = choices.some([c for c in scope if c.type in "isd"], 1, 2)
    types = [c.type for c in columns]
    where = f" WHERE {grammar.expressions.condition(scope, 1)}" if choices.chance(40) else ""
    start = [*(c.text for c in columns), *(["0"] if counted else [])]
    alias = grammar.alias()
    own = [Col(f"{alias}.o{i}", t) for i, t in enumerate(types)]
    others, read, on = _joined(grammar, own)
    outputs = [grammar.expressions.column([c for c in read if c.type == t], t) for t in types]
    tests = [f"{alias}.o{len(types)} < {choices.pick((1, 1, 2))}"] if counted else []
    if choices.chance(25):
        tests.append(grammar.expressions.condition(read, 1))
    if choices.chance(20):
        other, inner = _role(grammar)
        test = grammar.on(own, inner)
        tests.append(f"{choices.pick(('', 'NOT '))}EXISTS (SELECT 1 FROM {other} WHERE {test})")
    if choices.chance(15):
        again = grammar.alias()
        test = grammar.on(read, [Col(f"{again}.o{i}", t) for i, t in enumerate(types)])
        tests.append(f"EXISTS (SELECT 1 FROM {name} AS {again} WHERE {test})")
    if counted:
        outputs.append(f"{alias}.o{len(types)} + 1")
    kinds = ("JOIN", "JOIN", "LEFT JOIN") if union == "UNION" or counted else ("JOIN",)
    source = f"{name} AS {alias} {choices.pick(kinds)} {others} ON {on}"
    if choices.chance(30):
        source = f"{others} JOIN {name} AS {alias} ON {on}"
    distinct = "DISTINCT " if choices.chance(40) else ""
    passing = f" WHERE {' AND '.join(tests)}" if tests else ""
    step = f"SELECT {distinct}{', '.join(outputs)} FROM {source}{passing}"
    names = ", ".join(f"o{i}" for i in range(len(start)))
    return (
        f"{name}({names}) AS (SELECT {', '.join(start)} FROM {anchor}{where} {union} {step})",
        [*types, *(["i"] if counted else [])],
    )


def _role(grammar: Grammar) -> tuple[str, list[Col]]:
    name, columns = grammar.choices.pick(grammar.roots)
    alias = grammar.alias()
    return f"{name} AS {alias}", [Col(f"{alias}.{n}", t) for n, t in columns]


def _joined(grammar: Grammar, own: list[Col]) -> tuple[str, list[Col], str]:
    """What the step joins, the columns that it reads, and the condition."""
    text, scope = _role(grammar)
    return text, [*own, *scope], grammar.on(own, scope)
