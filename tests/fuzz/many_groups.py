"""GROUP BY whose keys come from several relations of a join, along a tree of equalities that are mostly keys as well:
there may be far more groups than any table has rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fuzz.expressions import Col, Scope

if TYPE_CHECKING:
    from tests.fuzz.grammar import Grammar


def many_groups(grammar: Grammar) -> tuple[list[tuple[str, str]], str]:
    """The selected columns with their types, and the query from FROM on."""
    choices, expressions = grammar.choices, grammar.expressions
    roles = [grammar.relation(0) for _ in range(2 + choices.below(3))]
    tests, keys = [], []
    for i in range(1, len(roles)):
        pairs = [(a, b) for a in roles[choices.below(i)][1] for b in roles[i][1] if a.type == b.type]
        if not pairs:
            continue
        pair = choices.pick(pairs)
        tests.append(f"{pair[0].text} {'IS NOT DISTINCT FROM' if choices.chance(6) else '='} {pair[1].text}")
        if choices.chance(85):
            keys.append(choices.pick(pair))
    for _, columns in choices.some(roles, 2, len(roles)):
        key = choices.pick(columns)
        keys.append(Col(expressions.value(key.type, columns, 1), key.type) if choices.chance(15) else key)
    keys = [k for k in dict.fromkeys(keys) if "r" in k.text]  # a bare literal would be a position
    if choices.chance(20):
        tests.append(expressions.condition(choices.pick(roles)[1], 1))
    outputs = [(k.text, k.type) for k in keys] + [_aggregate(grammar, roles) for _ in range(1 + choices.below(3))]
    having, grammar.rough = "", False
    if choices.chance(20):
        call, kind = _aggregate(grammar, roles)
        having = f" HAVING {call} {choices.pick(('>', '<=', '<>'))} {expressions.literal(kind)}"
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    group = f" GROUP BY {', '.join(k.text for k in keys)}" if keys else ""
    return outputs, f"FROM {', '.join(text for text, _ in roles)}{where}{group}{having}"


def _aggregate(grammar: Grammar, roles: list[tuple[str, list[Col]]]) -> tuple[str, str]:
    """Mostly of one relation, and often of a plain column."""
    scope: Scope = grammar.choices.pick(roles)[1]
    if grammar.choices.chance(10):
        scope = [column for _, columns in roles for column in columns]
    if grammar.choices.chance(50):
        return grammar.aggregate(scope)
    column = grammar.choices.pick(scope)
    calls = [("COUNT(*)", "i"), (f"COUNT({column.text})", "i"), (f"MIN({column.text})", column.type)]
    if column.type in "inf":
        calls += [(f"SUM({column.text})", column.type)] * 3
    return grammar.choices.pick(calls)
