"""The select list: output names, and the expansion of `*`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from freshet.scalar import functions
from freshet.scalar.expression import Expression, Literal, Reference
from freshet.scalar.types import STRING
from freshet.sql.scope import Columns, NameScope, Seat
from freshet.sql.source import Statement, closest_first, sql_of


@dataclass(frozen=True, slots=True)
class Output:
    name: str
    expression: Expression
    node: exp.Expr  # where it was written
    alias: bool = False  # whether the name was given by AS


def output_name(item: exp.Expr) -> str:
    """The alias, the column's own name, or the text of the expression."""
    return item.output_name or sql_of(item)


def expand_star(item: exp.Expr, scope: NameScope, statement: Statement) -> list[Output] | None:
    """The outputs of `*` or `t.*`; None if the item is something else."""
    qualified = isinstance(item, exp.Column) and isinstance(item.this, exp.Star)
    star = item.this if qualified else item
    if not isinstance(star, exp.Star):
        return None
    if any(value for slot, value in star.args.items() if slot != "except_"):
        statement.refuse(sql_of(star), "name the columns", star)
    if not scope.entries:
        statement.fail("* without FROM has no columns; name a table in FROM", item)
    columns = Columns(scope.columns.shown)
    if qualified:
        table = item.text("table")
        numbers = [i for i, e in enumerate(scope.entries) if e.alias.lower() == table.lower()]
        seats = (*scope.columns.hidden, *scope.columns.shown)
        columns = Columns([s for s in seats if s.entry in numbers])
        struct = None if columns.shown else _struct_of(table, scope)
        if struct is not None:
            return _fields_of(struct, item, statement, bool(star.args.get("except_")))
        if not columns.shown:
            known = closest_first(table, (e.alias for e in scope.visible()))
            statement.fail(f"no table or alias {table} in FROM; it has {known}", item)
    left_out = _left_out(star, NameScope(entries=scope.entries, columns=columns), statement)
    return [_output(scope, seat, item) for seat in columns.shown if scope.column(seat) not in left_out]


def _struct_of(name: str, scope: NameScope) -> Expression | None:
    """The column of a name, if it is a struct."""
    found = scope.find(name, None)
    return found[0] if len(found) == 1 and found[0].type.name == "STRUCT" else None


def _fields_of(struct: Expression, item: exp.Expr, statement: Statement, is_partial: bool) -> list[Output]:
    """The outputs of `s.*` for a struct."""
    if is_partial:
        statement.refuse("EXCEPT of a struct's fields", "name the fields", item)
    names = [name for name, _ in struct.type.fields]
    return [Output(n, functions.build("field", (struct, Literal(STRING, n))), item) for n in names]


def _left_out(star: exp.Expr, scope: NameScope, statement: Statement) -> set[Reference]:
    """The columns named by EXCEPT, each of which must be one of the star's."""
    names = star.args.get("except_")
    left_out: set[Reference] = set()
    if names is not None and not names:
        statement.fail("EXCEPT () leaves out nothing; name the columns to leave out", star)
    for written in names or ():
        name = written if isinstance(written, exp.Column) else exp.Column(this=written)
        if name.args.get("db") or not isinstance(name.this, exp.Identifier):
            statement.refuse(f"{sql_of(written)} in EXCEPT", "name columns of *", written)
        column = scope.resolve(name, statement)
        if column in left_out:
            statement.fail(f"EXCEPT names {sql_of(written)} twice; name it once", written)
        left_out.add(column)
    return left_out


def _output(scope: NameScope, seat: Seat, item: exp.Expr) -> Output:
    return Output(scope.entries[seat.entry].fields[seat.position].name, scope.column(seat), item)
