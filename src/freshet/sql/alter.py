"""ALTER TABLE: columns that are new, gone, or called otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from freshet.logical.query import NEW_COLUMN, Field, ForeignKey, TableSchema
from freshet.logical.statements import AlterTable
from freshet.sql.datatype import bind_type
from freshet.sql.definitions import Definitions
from freshet.sql.output_names import RESERVED
from freshet.sql.source import Statement, closest_first, sql_of

_KNOWN = "ADD COLUMN, DROP COLUMN and RENAME COLUMN are"


def bind_alter(node: exp.Expr, statement: Statement, catalog: Definitions) -> AlterTable:
    statement.only(node, ("this", "kind", "actions"))
    if str(node.args["kind"]).upper() != "TABLE":
        statement.refuse(f"ALTER {node.args['kind']}", "CREATE OR REPLACE it", node)
    schema = catalog.table(node.this.name)
    if schema is None:
        listed = closest_first(node.this.name, (t.name for t in catalog.tables.values())) or "none yet"
        statement.fail(f"no table {node.this.name}; the tables are {listed}", node.this)
    altering = _Altering(schema, statement)
    for action in node.args["actions"]:
        altering.act(action)
    return altering.result()


class _Altering:
    """The columns so far, each with the place it had, NEW_COLUMN where it is new."""

    def __init__(self, schema: TableSchema, statement: Statement) -> None:
        self.schema, self.statement = schema, statement
        self.columns = list(enumerate(schema.fields))

    def act(self, action: exp.Expr) -> None:
        if isinstance(action, exp.Schema):
            for part in action.expressions:
                self.act(part)
        elif isinstance(action, exp.ColumnDef):
            self._add(action)
        elif isinstance(action, exp.Drop) and str(action.args.get("kind")).upper() in ("COLUMN", "COLUMNS"):
            self.statement.only(action, ("tables", "kind", "exists"))
            named = [c for t in action.args["tables"] for c in (t.expressions if isinstance(t, exp.Schema) else [t])]
            for column in named:
                self._drop(column, bool(action.args.get("exists")))
        elif isinstance(action, exp.RenameColumn):
            self._rename(action.this, action.args["to"])
        else:
            self.statement.refuse(f"ALTER TABLE {sql_of(action)}", _KNOWN, action)

    def _place(self, column: exp.Expr) -> int | None:
        return next((i for i, (_, f) in enumerate(self.columns) if f.name.lower() == column.name.lower()), None)

    def _known(self, column: exp.Expr) -> int:
        at = self._place(column)
        if at is None:
            listed = closest_first(column.name, (f.name for _, f in self.columns))
            self.statement.fail(f"no column {column.name}; {self.schema.name} has {listed}", column)
        return at

    def _check_free(self, column: exp.Expr) -> None:
        if self._place(column) is not None:
            self.statement.fail(f"table {self.schema.name} has a column {column.name} already; choose another", column)
        if column.name.lower() in RESERVED:
            self.statement.fail(f"column name {column.name} is reserved for changes; choose another", column)

    def _add(self, part: exp.ColumnDef) -> None:
        self.statement.only(part, ("this", "kind", "exists", "constraints"))
        if part.args.get("exists") and self._place(part) is not None:
            return
        self._check_free(part)
        if part.args.get("kind") is None:
            self.statement.fail(f"column {part.name} has no type; write a name and a type", part)
        for constraint in part.args.get("constraints") or []:
            if not isinstance(constraint.kind, exp.CommentColumnConstraint):
                remedy = "add the column alone: the rows that are there have NULL in it"
                self.statement.refuse(f"{sql_of(constraint)} on a new column", remedy, part)
        self.columns.append((NEW_COLUMN, Field(part.name, bind_type(part.args["kind"], self.statement))))

    def _drop(self, column: exp.Expr, exists: bool) -> None:
        if exists and self._place(column) is None:
            return
        at = self._known(column)
        was, field = self.columns[at]
        kept = self.schema.retention
        if was in self.schema.primary_key:
            self.statement.fail(f"column {field.name} is in the primary key; create another table", column)
        if kept is not None and was == kept.column:
            self.statement.fail(f"rows stay by column {field.name}; create another table", column)
        late = self.schema.lateness
        if late is not None and was == late.column:
            self.statement.fail(f"rows are late by column {field.name}; create another table", column)
        if len(self.columns) == 1:
            self.statement.fail(f"table {self.schema.name} has only this column; drop the table", column)
        del self.columns[at]

    def _rename(self, column: exp.Expr, to: exp.Expr) -> None:
        at = self._known(column)
        if column.name.lower() != to.name.lower():
            self._check_free(to)
        was, field = self.columns[at]
        self.columns[at] = was, replace(field, name=to.name)

    def result(self) -> AlterTable:
        old, places = self.schema, {was: i for i, (was, _) in enumerate(self.columns) if was != NEW_COLUMN}
        keys = [k for k in old.foreign_keys if all(c in places for c in k.columns)]
        schema = replace(
            old,
            fields=tuple(f for _, f in self.columns),
            primary_key=_moved(old.primary_key, places),
            foreign_keys=tuple(ForeignKey(_moved(k.columns, places), k.table, k.to_columns) for k in keys),
            retention=None if old.retention is None else replace(old.retention, column=places[old.retention.column]),
            lateness=None if old.lateness is None else replace(old.lateness, column=places[old.lateness.column]),
        )
        return AlterTable(schema, tuple(was for was, _ in self.columns))


def _moved(columns: Sequence[int], places: dict[int, int]) -> tuple[int, ...]:
    return tuple(places[c] for c in columns)
