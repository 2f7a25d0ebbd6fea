"""CREATE and DROP of tables and views."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from freshet.logical.query import CreateTable, CreateView, DropTable, DropView, Field, ForeignKey, TableSchema
from freshet.sql.datatype import bind_type
from freshet.sql.definitions import Definitions
from freshet.sql.output_names import RESERVED, check_reserved
from freshet.sql.select import SelectBinder
from freshet.sql.source import Statement, closest_first, sql_of

_BEGINNINGS = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)


def bind_create(node: exp.Expr, statement: Statement, catalog: Definitions) -> CreateTable | CreateView:
    kind = str(node.args["kind"]).upper()
    statement.only(node, ("this", "kind", "expression", "exists", "properties", "replace"))
    if node.args.get("replace"):
        statement.refuse("CREATE OR REPLACE", "DROP it first, then CREATE", "REPLACE")
    if kind == "VIEW":
        return _create_view(node, statement, catalog)
    if kind == "TABLE":
        return _create_table(node, statement, catalog)
    statement.refuse(f"CREATE {kind}", "CREATE TABLE and CREATE MATERIALIZED VIEW are", kind)


def _properties(node: exp.Expr) -> list[exp.Expr]:
    found = node.args.get("properties")
    return [] if found is None else list(found.expressions)


def _create_view(node: exp.Expr, statement: Statement, catalog: Definitions) -> CreateView:
    properties = _properties(node)
    if not any(isinstance(p, exp.MaterializedProperty) for p in properties):
        statement.refuse("a view that is not kept", "write CREATE MATERIALIZED VIEW", "VIEW")
    for extra in properties:
        if not isinstance(extra, exp.MaterializedProperty):
            statement.refuse(f"{sql_of(extra)} on a view", "leave it out", extra)
    if isinstance(node.this, exp.Schema):
        statement.refuse("a column list on a view", "name the columns with AS in its SELECT", node.this)
    name = _name(node.this, statement)
    if node.args.get("expression") is None:
        statement.fail(f"view {name} has no query; write AS SELECT ...", node.this)
    if not node.args.get("exists"):
        _check_free(name, node.this, statement, catalog)
    query = SelectBinder(statement, catalog).query(node.args["expression"])
    check_reserved(query, statement)
    for field in query.fields:
        if field.type.name == "VOID":
            statement.fail(f"column {field.name} has no storable type; CAST it to the wanted one", node.this)
    return CreateView(name, _query_text(statement), bool(node.args.get("exists")))


def _query_text(statement: Statement) -> str:
    """What stands after AS, exactly as written."""
    start = next((i for i, t in enumerate(statement.tokens) if t.token_type == TokenType.ALIAS), None)
    begins = next((i for i, t in enumerate(statement.tokens) if t.token_type in _BEGINNINGS), 0)
    if start is None or (begins and begins < start):
        statement.fail("a view's query stands after AS; write AS before it", statement.tokens[begins].text)
    return statement.between(start + 1, len(statement.tokens) - 1)


def _name(node: exp.Expr, statement: Statement) -> str:
    if not isinstance(node, exp.Table) or node.args.get("db"):
        statement.refuse(f"the qualified name {sql_of(node)}", "there is one namespace: one word", node)
    return node.name


def _check_free(name: str, node: exp.Expr, statement: Statement, catalog: Definitions) -> None:
    kind = "table" if catalog.table(name) else "view" if catalog.view(name) else None
    if kind:
        statement.fail(f"there already is a {kind} {name}; DROP it first or choose another name", node)


def _create_table(node: exp.Expr, statement: Statement, catalog: Definitions) -> CreateTable:
    if node.args.get("expression") is not None:
        statement.refuse("CREATE TABLE AS SELECT", "CREATE TABLE with its columns, then INSERT INTO ... SELECT", node)
    for extra in _properties(node):
        statement.refuse(f"{sql_of(extra)} on a table", "give columns and keys alone", "TABLE")
    if not isinstance(node.this, exp.Schema):
        statement.fail("a table needs columns; write CREATE TABLE name (column TYPE, ...)", node.this)
    name = _name(node.this.this, statement)
    if not node.args.get("exists"):
        _check_free(name, node.this.this, statement, catalog)
    table = _TableReader(name, statement)
    for part in node.this.expressions:
        table.read(part)
    return CreateTable(table.schema(), bool(node.args.get("exists")))


class _TableReader:
    """Collects columns and keys in any order they are written."""

    def __init__(self, name: str, statement: Statement) -> None:
        self.name, self.statement = name, statement
        self.fields: list[Field] = []
        self.places: dict[str, int] = {}  # of each by its name in lower case
        self.key: list[exp.Identifier] = []
        self.foreign: list[tuple[list[exp.Identifier], exp.Expr]] = []

    def read(self, part: exp.Expr) -> None:
        if isinstance(part, exp.ColumnDef):
            self._column(part)
        elif isinstance(part, exp.PrimaryKey):
            self._primary(part.expressions, part)
        elif isinstance(part, exp.ForeignKey):
            self.foreign.append((part.expressions, part.args["reference"]))
        elif isinstance(part, exp.Constraint):
            for inner in part.expressions:
                self.read(inner)
        else:
            written = sql_of(part)
            self.statement.refuse(f"{written} on a table", "columns, PRIMARY KEY and FOREIGN KEY are", part)

    def _column(self, part: exp.ColumnDef) -> None:
        name, nullable = part.name, True
        self.statement.only(part, ("this", "kind", "constraints"))
        if name.lower() in self.places:
            self.statement.fail(f"table {self.name} has two columns {name}; name them apart", part)
        if name.lower() in RESERVED:
            self.statement.fail(f"column name {name} is taken: changes use it; choose another", part)
        if part.args.get("kind") is None:
            self.statement.fail(f"column {name or sql_of(part)} has no type; write a name and a type", part)
        for constraint in part.args.get("constraints") or []:
            kind = constraint.kind
            if isinstance(kind, exp.NotNullColumnConstraint):
                nullable = bool(kind.args.get("allow_null"))
            elif isinstance(kind, exp.PrimaryKeyColumnConstraint):
                self._primary([part.this], part)
            elif isinstance(kind, exp.Reference):
                self.foreign.append(([part.this], kind))
            elif not isinstance(kind, exp.CommentColumnConstraint):
                written = sql_of(constraint)
                remedy = "NOT NULL, PRIMARY KEY and REFERENCES are"
                self.statement.refuse(f"{written} on a column", remedy, part)
        self.places[name.lower()] = len(self.fields)
        self.fields.append(Field(name, bind_type(part.args["kind"], self.statement), nullable))

    def _primary(self, columns: list[exp.Identifier], node: exp.Expr) -> None:
        if self.key:
            self.statement.fail(f"table {self.name} has two primary keys; write PRIMARY KEY (a, b) once", node)
        self.key = columns

    def _position(self, column: exp.Expr) -> int:
        position = self.places.get(column.name.lower())
        if position is not None:
            return position
        known = closest_first(column.name, (f.name for f in self.fields))
        self.statement.fail(f"no column {column.name}; {self.name} has {known}", column)

    def schema(self) -> TableSchema:
        if not self.fields:
            self.statement.fail(f"table {self.name} has no columns; give it one", "TABLE")
        key = tuple(self._position(c) for c in self.key)
        fields = (Field(f.name, f.type, f.nullable and i not in key) for i, f in enumerate(self.fields))
        return TableSchema(self.name, tuple(fields), key, tuple(self._foreign(*f) for f in self.foreign))

    def _foreign(self, columns: list[exp.Identifier], reference: exp.Expr) -> ForeignKey:
        target = reference.this
        named = target.expressions if isinstance(target, exp.Schema) else []
        table = target.this if isinstance(target, exp.Schema) else target
        if named and len(named) != len(columns):
            message = f"a foreign key of {len(columns)} columns refers to {len(named)}; name as many on both sides"
            self.statement.fail(message, reference)
        here = tuple(self._position(c) for c in columns)
        return ForeignKey(here, _name(table, self.statement), tuple(c.name for c in named))


def bind_drop(node: exp.Expr, statement: Statement, catalog: Definitions) -> DropTable | DropView:
    kind, exists = str(node.args["kind"]).upper(), bool(node.args.get("exists"))
    statement.only(node, ("this", "tables", "kind", "exists", "materialized", "cascade", "restrict"))
    tables = node.args.get("tables") or [node.this]
    if kind not in ("TABLE", "VIEW"):
        statement.refuse(f"DROP {kind}", "DROP TABLE and DROP VIEW are", kind)
    if len(tables) != 1:
        statement.refuse("DROP of several at once", "write one DROP for each", tables[1])
    name = _name(tables[0], statement)
    known = catalog.table(name) if kind == "TABLE" else catalog.view(name)
    if known is None and not exists:
        other = catalog.view(name) if kind == "TABLE" else catalog.table(name)
        if other is not None:
            was = "VIEW" if kind == "TABLE" else "TABLE"
            statement.fail(f"{name} is a {was.lower()}; write DROP {was} {name}", tables[0])
        names = catalog.names()
        listed = closest_first(name, names) if names else "none"
        statement.fail(f"no {kind.lower()} {name}; known tables and views: {listed}", tables[0])
    return (DropTable if kind == "TABLE" else DropView)(name, exists, bool(node.args.get("cascade")))
