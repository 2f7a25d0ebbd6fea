"""PIVOT and UNPIVOT as the selects that they stand for, before anything is bound.

PIVOT groups by the columns that it does not name, with each aggregate once for every value: over the rows that have the
value, and NULL where there are none. UNPIVOT makes a row of each named column, as INLINE does of an array of structs.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from freshet.logical.query import Field
from freshet.scalar import functions
from freshet.scalar.expression import Literal
from freshet.scalar.types import STRING
from freshet.sql.binder import Binder
from freshet.sql.scope import NameScope
from freshet.sql.source import closest_first, sql_of

_NULL_OVER_NOTHING = (exp.Sum, exp.Avg, exp.Min, exp.Max)
_SOURCE, _ELEMENTS = "the source", "the elements"


def without_pivot(binder: Binder, pivot: exp.Expr, source: exp.Expr, fields: Sequence[Field]) -> exp.Select:
    """The select that stands for one PIVOT or UNPIVOT of a source with these columns."""
    if pivot.args.get("unpivot"):
        return _unpivot(binder, pivot, source, fields)
    return _pivot(binder, pivot, source, fields)


def _pivot(binder: Binder, pivot: exp.Expr, source: exp.Expr, fields: Sequence[Field]) -> exp.Select:
    statement = binder.statement
    chosen = pivot.args["fields"]
    if len(chosen) != 1 or not isinstance(chosen[0], exp.In) or chosen[0].args.get("query"):
        statement.refuse(
            "PIVOT with several FOR, or without a list of values", "list the values: FOR k IN (1, 2)", pivot
        )
    columns = chosen[0].this.expressions if isinstance(chosen[0].this, exp.Tuple) else [chosen[0].this]
    named = {c.name.lower() for c in columns}
    named |= {c.name.lower() for part in pivot.expressions for c in part.find_all(exp.Column)}
    keys: list[exp.Expr] = [_column(f.name) for f in fields if f.name.lower() not in named]
    outputs: list[exp.Expr] = list(keys)
    for value in chosen[0].expressions:
        inside = value.this if isinstance(value, exp.PivotAlias) else value
        values = inside.expressions if isinstance(inside, exp.Tuple) else [inside]
        if len(values) != len(columns):
            statement.fail(f"{sql_of(inside)} has {len(values)} values for {len(columns)} columns of PIVOT", value)
        tests = [exp.NullSafeEQ(this=c.copy(), expression=v.copy()) for c, v in zip(columns, values, strict=True)]
        shown = value.args["alias"].name if isinstance(value, exp.PivotAlias) else _shown(binder, values)
        for part in pivot.expressions:
            name = shown if len(pivot.expressions) == 1 else f"{shown}_{_named(part)}"
            outputs.append(exp.alias_(_only(part.unalias(), exp.and_(*tests)), name, quoted=True))
    made = exp.Select(expressions=outputs, from_=exp.From(this=source))
    if keys:
        made.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return made


def _only(aggregate: exp.Expr, condition: exp.Expr) -> exp.Expr:
    """An expression of aggregates over the rows that satisfy the condition."""

    def filtered(node: exp.Expr) -> exp.Expr:
        return exp.Filter(this=node.copy(), expression=exp.Where(this=condition.copy()))

    if isinstance(aggregate, _NULL_OVER_NOTHING):
        return filtered(aggregate)
    copy = exp.Paren(this=aggregate.copy())
    for node in [n for n in copy.find_all(exp.AggFunc) if n.find_ancestor(exp.AggFunc) is None]:
        own = node.parent if isinstance(node.parent, (exp.Filter, exp.WithinGroup)) else node
        own.replace(filtered(own))
    there = exp.GT(this=filtered(exp.Count(this=exp.Star())), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=there, true=copy)])


def _shown(binder: Binder, values: Sequence[exp.Expr]) -> str:
    """The name of a column of values that have no alias."""
    texts = []
    for value in values:
        bound = functions.fold(binder.scalar(NameScope(), "PIVOT").bind(value))
        if not isinstance(bound, Literal):
            binder.statement.fail(f"{sql_of(value)} in PIVOT is not a constant; write a value", value)
        text = bound if bound.value is None else functions.cast(bound, STRING)
        texts.append("null" if not isinstance(text, Literal) or text.value is None else str(text.value))
    return texts[0] if len(texts) == 1 else f"{{{', '.join(texts)}}}"


def _named(part: exp.Expr) -> str:
    if isinstance(part, exp.Alias):
        return part.alias
    return part.sql(dialect="spark", normalize_functions="lower")


def _unpivot(binder: Binder, pivot: exp.Expr, source: exp.Expr, fields: Sequence[Field]) -> exp.Select:
    statement, chosen = binder.statement, pivot.args["fields"][0]
    named = pivot.expressions[0]
    names = [n.name for n in (named.expressions if isinstance(named, exp.Tuple) else [named])]
    kinds = {f.name.lower(): f for f in fields}
    taken: set[str] = set()
    structs: list[exp.Expr] = []
    first: list[Field] = []
    for value in chosen.expressions:
        inside = value.this if isinstance(value, exp.PivotAlias) else value
        columns = inside.expressions if isinstance(inside, exp.Tuple) else [inside]
        if len(columns) != len(names):
            statement.fail(f"{sql_of(inside)} has {len(columns)} columns for {len(names)} of UNPIVOT", value)
        for column in columns:
            if column.name.lower() not in kinds:
                known = closest_first(column.name, (f.name for f in fields))
                statement.fail(f"no column {column.name} to UNPIVOT; there are {known}", column)
            taken.add(column.name.lower())
        alias = value.args["alias"].name if isinstance(value, exp.PivotAlias) else "_".join(c.name for c in columns)
        parts = [exp.Literal.string(alias), *(c.copy() for c in columns)]
        given = [exp.alias_(p, n, quoted=True) for p, n in zip(parts, (chosen.this.name, *names), strict=True)]
        structs.append(exp.Anonymous(this="struct", expressions=given))
        own = [kinds[c.name.lower()] for c in columns]
        first = first or own
        _check_types(first, own, binder, value)
    elements = [chosen.this.name, *names]
    shown = [_column(f.name, _SOURCE) for f in fields if f.name.lower() not in taken]
    shown += [_column(name, _ELEMENTS) for name in elements]
    array = exp.Array(expressions=structs)
    view = exp.Lateral(
        this=exp.Inline(this=array),
        view=True,
        alias=exp.TableAlias(
            this=exp.to_identifier(_ELEMENTS, quoted=True),
            columns=[exp.to_identifier(n, quoted=True) for n in elements],
        ),
    )
    inner = exp.Subquery(
        this=exp.Select(expressions=[exp.Star()], from_=exp.From(this=source)),
        alias=exp.TableAlias(this=exp.to_identifier(_SOURCE, quoted=True)),
    )
    made = exp.Select(expressions=shown, from_=exp.From(this=inner), laterals=[view])
    if not pivot.args.get("include_nulls"):
        there = [exp.Not(this=exp.Is(this=_column(n, _ELEMENTS), expression=exp.Null())) for n in names]
        made.set("where", exp.Where(this=exp.or_(*there)))
    return made


def _check_types(first: Sequence[Field], own: Sequence[Field], binder: Binder, node: exp.Expr) -> None:
    """Text and other types have no common type here, unlike in an array."""
    for a, b in zip(first, own, strict=True):
        if (a.type.name == "STRING") != (b.type.name == "STRING"):
            message = f"UNPIVOT of {a.name}, which is {a.type}, and {b.name}, which is {b.type}; CAST one of them"
            binder.statement.fail(message, node)


def _column(name: str, table: str | None = None) -> exp.Column:
    return exp.column(exp.to_identifier(name, quoted=True), exp.to_identifier(table, quoted=True) if table else None)
