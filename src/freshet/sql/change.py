"""INSERT, UPDATE and DELETE: values cast to their columns; conditions and values read relation 0, the table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from freshet.logical.query import AnyQuery, TableSchema
from freshet.logical.rewrite.push_not import push
from freshet.logical.statements import Delete, Insert, Update
from freshet.scalar.expression import Expression
from freshet.sql.definitions import Definitions
from freshet.sql.scalar import ScalarBinder
from freshet.sql.scope import Entry, NameScope
from freshet.sql.select import SelectBinder
from freshet.sql.source import Statement, closest_first, sql_of
from freshet.sql.widen import widened


def bind_insert(node: exp.Expr, statement: Statement, catalog: Definitions) -> Insert:
    if node.args.get("overwrite"):
        statement.refuse("INSERT OVERWRITE", "DELETE FROM the table, then INSERT INTO it", "OVERWRITE")
    statement.only(node, ("this", "expression", "with_"))
    target = node.this
    named = target.expressions if isinstance(target, exp.Schema) else []
    schema = _table(target.this if isinstance(target, exp.Schema) else target, statement, catalog)
    columns = tuple(_position(schema, c, statement) for c in named) or tuple(range(len(schema.fields)))
    if len(set(columns)) != len(columns):
        statement.fail("a column is named twice in INSERT; name each once", target)
    for position, field in enumerate(schema.fields):
        if position not in columns and not field.nullable:
            statement.fail(f"column {field.name} of {schema.name} is NOT NULL; give it a value", target)
    source = node.args.get("expression")
    if isinstance(source, exp.Values):
        return Insert(schema.name, columns, tuple(_row(r, schema, columns, statement) for r in source.expressions))
    if source is None:
        statement.fail("INSERT has no rows; write VALUES (...) or SELECT", target)
    binder = SelectBinder(statement, catalog)
    with binder.common_tables(node):
        query = binder.query(source)
    return Insert(schema.name, columns, None, _fitted(query, schema, columns, source, statement))


def _row(row: exp.Expr, schema: TableSchema, columns: tuple[int, ...], statement: Statement) -> tuple[Expression, ...]:
    values = row.expressions if isinstance(row, exp.Tuple) else [row.this if isinstance(row, exp.Paren) else row]
    _check_count(len(values), schema, columns, row, statement)
    scalar = ScalarBinder(statement, lambda node: NameScope().resolve(node, statement), "VALUES")
    targets = (schema.fields[c].type for c in columns)
    return tuple(scalar.cast(scalar.bind(v), t, v) for v, t in zip(values, targets, strict=True))


def _fitted(
    query: AnyQuery, schema: TableSchema, columns: tuple[int, ...], node: exp.Expr, statement: Statement
) -> AnyQuery:
    """The query with its columns cast to the table's."""
    _check_count(len(query.fields), schema, columns, node, statement)
    scalar = ScalarBinder(statement, lambda column: NameScope().resolve(column, statement), "SELECT")
    return widened(query, [schema.fields[c].type for c in columns], lambda value, to: scalar.cast(value, to, node))


def _check_count(
    count: int, schema: TableSchema, columns: tuple[int, ...], node: exp.Expr, statement: Statement
) -> None:
    if count != len(columns):
        names = ", ".join(schema.fields[c].name for c in columns)
        statement.fail(f"{count} values for {len(columns)} columns of {schema.name}; it takes {names}", node)


def bind_update(node: exp.Expr, statement: Statement, catalog: Definitions) -> Update:
    statement.only(node, ("this", "expressions", "where"))
    schema = _table(node.this, statement, catalog)
    scalar = _over_table(node.this, schema, statement, "UPDATE")
    if not node.expressions:
        statement.fail("UPDATE sets nothing; write SET column = value", node.this)
    columns: list[int] = []
    values: list[Expression] = []
    written: list[exp.Expr] = []
    has_subquery = node.find(exp.Query) is not None
    for assignment in node.expressions:
        if not isinstance(assignment, exp.EQ) or not isinstance(assignment.this, exp.Column):
            statement.refuse(sql_of(assignment), "write SET column = value", assignment)
        position = _position(schema, assignment.this.this, statement)
        if position in columns:
            statement.fail(f"column {assignment.this.name} is set twice; set it once", assignment)
        columns.append(position)
        written.append(assignment.expression)
        if not has_subquery:
            value = scalar.bind(assignment.expression)
            values.append(scalar.cast(value, schema.fields[position].type, assignment.expression))
    if has_subquery:
        query = _affected_rows(node, schema, columns, written, statement, catalog)
        return Update(schema.name, tuple(columns), (), None, query)
    return Update(schema.name, tuple(columns), tuple(values), _where(node, schema, statement))


def bind_delete(node: exp.Expr, statement: Statement, catalog: Definitions) -> Delete:
    statement.only(node, ("this", "where"))
    schema = _table(node.this, statement, catalog)
    if node.find(exp.Query) is not None:
        return Delete(schema.name, None, _affected_rows(node, schema, [], [], statement, catalog))
    return Delete(schema.name, _where(node, schema, statement))


def _affected_rows(
    node: exp.Expr,
    schema: TableSchema,
    columns: Sequence[int],
    written: Sequence[exp.Expr],
    statement: Statement,
    catalog: Definitions,
) -> AnyQuery:
    """SELECT *, new values FROM table WHERE condition."""
    table = node.this.copy()
    alias = table.alias or schema.name
    items = [
        exp.column(exp.Star(), table=alias),
        *(exp.Alias(this=e.copy(), alias=exp.to_identifier("new")) for e in written),
    ]
    select = exp.Select(expressions=items, from_=exp.From(this=table))
    if node.args.get("where"):
        select.set("where", node.args["where"].copy())
    query = SelectBinder(statement, catalog).query(select)
    scalar = ScalarBinder(statement, lambda column: NameScope().resolve(column, statement), "UPDATE")
    types = [f.type for f in (*schema.fields, *(schema.fields[c] for c in columns))]
    return widened(query, types, lambda value, to: scalar.cast(value, to, node))


def _where(node: exp.Expr, schema: TableSchema, statement: Statement) -> Expression | None:
    clause = node.args.get("where")
    if clause is None:
        return None
    name = type(node).__name__.upper()
    return push(_over_table(node.this, schema, statement, name).condition(clause.this), False)


def _over_table(table: exp.Expr, schema: TableSchema, statement: Statement, clause: str) -> ScalarBinder:
    scope = NameScope.of(Entry(table.alias or schema.name, 0, schema.fields))
    made = ScalarBinder(statement, lambda column: scope.resolve(column, statement), clause)
    made.scope = scope
    return made


def _table(node: exp.Expr, statement: Statement, catalog: Definitions) -> TableSchema:
    schema = catalog.table(node.name)
    if schema is None:
        if catalog.view(node.name):
            statement.fail(f"{node.name} is a view; change the tables it reads", node)
        names = [t.name for t in catalog.tables.values()]
        listed = closest_first(node.name, names) if names else "none yet, so CREATE TABLE first"
        statement.fail(f"no table {node.name}; known tables: {listed}", node)
    return schema


def _position(schema: TableSchema, column: exp.Expr, statement: Statement) -> int:
    position = schema.position(column.name)
    if position is None:
        known = closest_first(column.name, (f.name for f in schema.fields))
        statement.fail(f"no column {column.name}; {schema.name} has {known}", column)
    return position
