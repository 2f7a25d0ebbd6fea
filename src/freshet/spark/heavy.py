"""Heavy values of a join key: those with more rows than an even share, which would keep one shard busy alone.

Law: in a dimension whose heavy values are split, one relation of the core, the one with the most such rows, sends a row
with a heavy value to a coordinate chosen by the whole row, and all others that are hashed there send theirs to every
coordinate. Each result holds one tuple of that relation, so that it still comes from exactly one cell, and all that
this tuple can join is there. Other values are spread by their hash.

Rows with one heavy value are on several shards, so groups and distinct rows by that key are merged above.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from freshet.errors import EvaluationError, PlanError
from freshet.logical.query import TableSchema
from freshet.plans.expressions import map_selects
from freshet.plans.model import AnyPlan, QueryPlan
from freshet.scalar.arrow import from_arrow
from freshet.scalar.evaluate import evaluate
from freshet.scalar.expression import ColumnRef, Expression, walk
from freshet.scalar.types import Type
from freshet.spark.dispatch import hash_rows
from freshet.spark.shares import Grid, HeavyValues, identity

#: By table and column, the part of the table's rows that has each value.
Heavy = Mapping[str, Mapping[str, Mapping[Any, float]]]


@dataclass(frozen=True, slots=True)
class _Found:
    relation: int
    rows: float
    hashes: tuple[int, ...]


def in_lower_case(heavy: Heavy | None, tables: Iterable[TableSchema]) -> dict[str, dict[str, Mapping[Any, float]]]:
    """The same for the tables that are read, with names in lower case; PlanError if one has no such column."""
    schemas = {t.name.lower(): t for t in tables}
    made: dict[str, dict[str, Mapping[Any, float]]] = {}
    for table, columns in (heavy or {}).items():
        schema = schemas.get(table.lower())
        if schema is None:
            continue
        names = [f.name.lower() for f in schema.fields]
        for column, parts in columns.items():
            if column.lower() not in names:
                raise PlanError(f"heavy names {table}.{column}; the columns of {table} are {', '.join(names)}")
            made.setdefault(table.lower(), {})[column.lower()] = parts
    return made


def joined_columns(plans: Iterable[AnyPlan]) -> dict[str, dict[str, Type]]:
    """By table and column, the types of the columns that joins have as keys."""
    found: dict[str, dict[str, Type]] = {}

    def note(plan: QueryPlan) -> QueryPlan:
        keys = [e for n in plan.nodes if n.edge is not None for e in (*n.edge.parent_key, *n.edge.child_key)]
        for key in (k for k in keys if isinstance(k, ColumnRef)):
            origin = _origin(plan, key.relation, key.column)
            if origin is not None:
                schema, column = origin
                if schema.primary_key != (column,):  # each of its values has one row
                    found.setdefault(schema.name.lower(), {})[schema.fields[column].name] = schema.fields[column].type
        return plan

    for plan in plans:
        map_selects(plan, note)
    return found


def split_heavy(
    plan: QueryPlan, grid: Grid, heavy: Heavy, sizes: Mapping[int, float], used: Mapping[int, Collection[int]]
) -> Grid:
    """The grid with the heavy values of its dimensions split."""
    if not heavy or plan.distinct_tree or plan.copies or plan.key:
        return grid
    splits = {}
    for d, (share, hashed) in enumerate(zip(grid.shares, grid.hashed, strict=True)):
        found = [
            f
            for r, expressions in hashed.items()
            if r in grid.core and len(expressions) == 1 and len(hashed) > 1
            if (f := _heavy_in(plan, r, expressions[0], share, heavy, sizes.get(r, 1.0))) is not None
        ]
        if found:
            most = max(found, key=lambda f: f.rows)
            splits[d] = HeavyValues(most.hashes, most.relation, identity(plan, most.relation, used[most.relation]))
    return replace(grid, splits=splits)


def _heavy_in(plan: QueryPlan, relation: int, key: Expression, share: int, heavy: Heavy, size: float) -> _Found | None:
    """The values of a relation's key that have more rows than an even share of it."""
    read = {e.column for e in walk(key) if isinstance(e, ColumnRef)}
    origin = _origin(plan, relation, read.pop()) if len(read) == 1 else None
    if origin is None:
        return None
    schema, column = origin
    field = schema.fields[column]
    parts = heavy.get(schema.name.lower(), {}).get(field.name.lower(), {})
    values = [value for value, part in parts.items() if part * share > 1]
    if not values:
        return None
    try:
        given = from_arrow(pa.chunked_array([pa.array(values)]), field.type)
    except (EvaluationError, pa.ArrowInvalid, pa.ArrowTypeError) as e:
        raise PlanError(f"heavy values of {schema.name}.{field.name} do not fit {field.type}: {e}") from None
    hashes = hash_rows([evaluate(key, lambda _: given, len(values))], len(values))
    return _Found(relation, size * sum(parts[v] for v in values), tuple(sorted(map(int, hashes))))


def _origin(plan: QueryPlan, relation: int, column: int) -> tuple[TableSchema, int] | None:
    """The table and column that a relation's column is taken from unchanged."""
    source = plan.relations[relation].source
    if isinstance(source, TableSchema):
        return source, column
    if not isinstance(source, QueryPlan) or source.grouping is not None:
        return None
    output = source.outputs[column]
    return _origin(source, output.relation, output.column) if isinstance(output, ColumnRef) else None
