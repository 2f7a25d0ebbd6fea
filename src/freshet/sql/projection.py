"""The select list: output names, and what `*` stands for."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from freshet.sql.expression import Expression
from freshet.sql.scope import Entry, Scope
from freshet.sql.source import Statement, closest_first


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    expression: Expression
    node: exp.Expr  # where it was written
    alias: bool = False  # whether the name was given by AS


def output_name(item: exp.Expr) -> str:
    """The alias, the column's own name, or the text of the expression."""
    return item.output_name or item.sql(dialect="spark", comments=False)


def expand_star(item: exp.Expr, scope: Scope, statement: Statement) -> list[Output] | None:
    """The outputs of `*` or `t.*`; None if the item is something else. Columns joined by USING come first, once."""
    qualified = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    star = item.this if qualified else item
    if not isinstance(star, exp.Star):
        return None
    if any(value for slot, value in star.args.items() if slot != "except_"):
        statement.refuse(star.sql(dialect="spark"), "name the columns", star)
    if not scope.entries:
        statement.fail("* without FROM has no columns; name a table in FROM", item)
    if qualified:
        entry = next((e for e in scope.entries if e.alias.lower() == item.text("table").lower()), None)
        if entry is None:
            known = closest_first(item.text("table"), (e.alias for e in scope.entries))
            statement.fail(f"no table or alias {item.text('table')} in FROM; it has {known}", item)
        return _without(star, [_output(entry, i, item) for i in range(len(entry.fields))], statement)
    shared = [(e, p) for name in scope.shared for e in scope.entries for p in e.positions(name) if p not in e.merged]
    rest = [(e, i) for e in scope.entries for i in range(len(e.fields)) if i not in e.merged and (e, i) not in shared]
    return _without(star, [_output(entry, position, item) for entry, position in shared + rest], statement)


def _without(star: exp.Expr, outputs: list[Output], statement: Statement) -> list[Output]:
    """What is left of the columns after EXCEPT."""
    for column in star.args.get("except_") or ():
        left = [o for o in outputs if o.name.lower() != column.name.lower()]
        if len(left) == len(outputs):
            known = closest_first(column.name, (o.name for o in outputs))
            statement.fail(f"no column {column.name} to leave out; * has {known}", column)
        outputs = left
    if not outputs:
        statement.fail("EXCEPT leaves no column of *; leave out fewer", star)
    return outputs


def _output(entry: Entry, position: int, item: exp.Expr) -> Output:
    return Output(entry.fields[position].name, entry.column(position), item)
