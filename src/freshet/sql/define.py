"""CREATE and DROP of tables, views and indexes."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from freshet.logical.query import Field, ForeignKey, Lateness, Retention, TableSchema
from freshet.logical.statements import CreateIndex, CreateTable, CreateView, Definition, DropIndex, DropTable, DropView
from freshet.scalar.types import DATE, TIMESTAMP
from freshet.sql.datatype import bind_type
from freshet.sql.definitions import Definitions
from freshet.sql.literal import bind_interval
from freshet.sql.output_names import RESERVED, check_reserved
from freshet.sql.select import SelectBinder
from freshet.sql.source import Statement, closest_first, sql_of

#: What a table may have besides columns and keys.
_TABLE_PROPERTIES = ("retain", "retain_by", "lateness", "lateness_by")
_BEGINNINGS = (TokenType.SELECT, TokenType.WITH, TokenType.VALUES)


def bind_create(node: exp.Expr, statement: Statement, catalog: Definitions) -> Definition:
    kind = str(node.args["kind"]).upper()
    statement.only(node, ("this", "kind", "expression", "exists", "properties", "replace"))
    if statement.has_parameters:
        statement.refuse("a parameter in a definition", "write the value itself: a definition outlives the call", kind)
    if node.args.get("replace") and node.args.get("exists"):
        statement.fail("OR REPLACE and IF NOT EXISTS contradict each other; write only one of them", "REPLACE")
    if kind == "VIEW":
        return _create_view(node, statement, catalog)
    if kind == "TABLE":
        return _create_table(node, statement, catalog)
    if kind == "INDEX":
        return _create_index(node, statement, catalog)
    statement.refuse(f"CREATE {kind}", "CREATE TABLE, CREATE MATERIALIZED VIEW and CREATE INDEX are", kind)


def _create_index(node: exp.Expr, statement: Statement, catalog: Definitions) -> CreateIndex:
    index = node.this
    statement.only(index, ("this", "table", "params"))
    statement.only(index.args["params"], ("columns",))
    if node.args.get("replace"):
        statement.refuse("CREATE OR REPLACE INDEX", "DROP INDEX it first", "REPLACE")
    table = index.args["table"]
    view = _name(table, statement)
    query = catalog.view(view)
    if query is None and catalog.table(view) is not None:
        remedy = "a table is read by its primary key; index a view of it"
        statement.refuse(f"an index on table {view}", remedy, table)
    if query is None:
        listed = closest_first(view, catalog.views) if catalog.views else "none yet"
        statement.fail(f"no view {view}; the views are {listed}", table)
    columns = []
    for item in index.args["params"].args.get("columns") or []:
        if not isinstance(item.this, exp.Column) or item.args.get("desc"):
            statement.refuse(f"{sql_of(item)} in an index", "name only columns of the view", item)
        columns.append(_column_of(query.fields, item.this, view, statement))
    if not columns or len(set(columns)) != len(columns):
        statement.fail("an index is on one or more columns; name each once", table)
    name = index.this.name if index.this is not None else "_".join([view, *(query.fields[c].name for c in columns)])
    return CreateIndex(view, tuple(columns), name, bool(node.args.get("exists")))


def _column_of(fields: tuple[Field, ...], column: exp.Expr, view: str, statement: Statement) -> int:
    for position, field in enumerate(fields):
        if field.name.lower() == column.name.lower():
            if field.type.is_nested:
                what = f"an index on {field.name}, which is {field.type},"
                statement.refuse(what, "index the values that it is made from", column)
            return position
    known = closest_first(column.name, (f.name for f in fields))
    statement.fail(f"no column {column.name}; {view} has {known}", column)


def _properties(node: exp.Expr) -> list[exp.Expr]:
    properties = node.args.get("properties")
    return [] if properties is None else list(properties.expressions)


def _create_view(node: exp.Expr, statement: Statement, catalog: Definitions) -> CreateView:
    properties = _properties(node)
    if not any(isinstance(p, exp.MaterializedProperty) for p in properties):
        statement.refuse("a view that is not materialized", "write CREATE MATERIALIZED VIEW", "VIEW")
    for extra in properties:
        if not isinstance(extra, exp.MaterializedProperty):
            statement.refuse(f"{sql_of(extra)} on a view", "leave it out", extra)
    if isinstance(node.this, exp.Schema):
        statement.refuse("a column list on a view", "name the columns with AS in its SELECT", node.this)
    name = _name(node.this, statement)
    if node.args.get("expression") is None:
        statement.fail(f"view {name} has no query; write AS SELECT ...", node.this)
    _check_free(name, node, node.this, statement, catalog)
    query = SelectBinder(statement, catalog).whole(node.args["expression"])
    check_reserved(query, statement)
    for field in query.fields:
        if field.type.name == "VOID":
            statement.fail(f"column {field.name} has no storable type; CAST it to the wanted one", node.this)
    return CreateView(name, _query_text(statement), bool(node.args.get("exists")), bool(node.args.get("replace")))


def _query_text(statement: Statement) -> str:
    """The text after AS, exactly as written."""
    start = next((i for i, t in enumerate(statement.tokens) if t.token_type == TokenType.ALIAS), None)
    begins = next((i for i, t in enumerate(statement.tokens) if t.token_type in _BEGINNINGS), 0)
    if start is None or (begins and begins < start):
        statement.fail("a view's query follows AS; write AS before it", statement.tokens[begins].text)
    return statement.between(start + 1, len(statement.tokens) - 1)


def _name(node: exp.Expr, statement: Statement) -> str:
    if not isinstance(node, exp.Table) or node.args.get("db"):
        statement.refuse(f"the qualified name {sql_of(node)}", "use a single word: there is only one namespace", node)
    return node.name


def _check_free(name: str, create: exp.Expr, node: exp.Expr, statement: Statement, catalog: Definitions) -> None:
    """Checks that the name is free, or belongs to what is replaced, or may be left alone (IF NOT EXISTS)."""
    kind = "table" if catalog.table(name) else "view" if catalog.view(name) else None
    same = str(create.args["kind"]).lower() == kind
    if kind is None or create.args.get("exists") or (same and create.args.get("replace")):
        return
    remedy = "DROP it first"
    statement.fail(f"a {kind} {name} already exists; {remedy} or choose another name", node)


def _create_table(node: exp.Expr, statement: Statement, catalog: Definitions) -> CreateTable:
    if node.args.get("expression") is not None:
        statement.refuse("CREATE TABLE AS SELECT", "CREATE TABLE with its columns, then INSERT INTO ... SELECT", node)
    properties = _table_properties(node, statement)
    if not isinstance(node.this, exp.Schema):
        statement.fail("a table needs columns; write CREATE TABLE name (column TYPE, ...)", node.this)
    name = _name(node.this.this, statement)
    _check_free(name, node, node.this.this, statement, catalog)
    table = _TableReader(name, statement)
    for part in node.this.expressions:
        table.read(part)
    return CreateTable(table.schema(properties), bool(node.args.get("exists")), bool(node.args.get("replace")))


def _table_properties(node: exp.Expr, statement: Statement) -> dict[str, exp.Expr]:
    """What WITH (...) or TBLPROPERTIES (...) say, by name."""
    found: dict[str, exp.Expr] = {}
    for extra in _properties(node):
        name = extra.name.lower() if type(extra) is exp.Property else ""
        if name not in _TABLE_PROPERTIES or not isinstance(extra.args["value"], exp.Literal):
            listed = "retain, retain_by, lateness and lateness_by"
            statement.refuse(f"{sql_of(extra)} on a table", f"give only columns, keys, {listed}", "TABLE")
        found[name] = extra.args["value"]
    return found


class _TableReader:
    """Collects columns and keys, in whatever order they are written."""

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
            self.statement.fail(f"table {self.name} has two columns {name}; rename one of them", part)
        if name.lower() in RESERVED:
            self.statement.fail(f"column name {name} is reserved for changes; choose another", part)
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

    def schema(self, properties: Mapping[str, exp.Expr]) -> TableSchema:
        if not self.fields:
            self.statement.fail(f"table {self.name} has no columns; give it one", "TABLE")
        key = tuple(self._position(c) for c in self.key)
        if len(set(key)) < len(key):
            self.statement.fail(f"the primary key of {self.name} names a column twice; name each once", self.key[-1])
        fields = (Field(f.name, f.type, f.nullable and i not in key) for i, f in enumerate(self.fields))
        retained, late = self._by_time("retain", properties, 1), self._by_time("lateness", properties, 0)
        return TableSchema(
            self.name, tuple(fields), key, tuple(self._foreign(*f) for f in self.foreign),
            None if retained is None else Retention(*retained), lateness=None if late is None else Lateness(*late),
        )  # fmt: skip

    def _by_time(self, word: str, properties: Mapping[str, exp.Expr], least: int) -> tuple[int, int] | None:
        """WITH (retain = '1 day', retain_by = 'ts'): the column, and the length of time in microseconds. The column
        need not be named where there is one that can be."""
        length, by = properties.get(word), properties.get(f"{word}_by")
        if length is None:
            if by is not None:
                self.statement.fail(f"{word}_by without {word}; give a length of time, as in {word} = '1 day'", by)
            return None
        size = bind_interval(exp.Interval(this=length.copy()), self.statement)
        if size.type.name != "MICROS" or not isinstance(size.value, int) or size.value < least:
            self.statement.fail(f"{word} cannot be '{length.name}'; write a length of time such as '1 day'", length)
        times = [i for i, f in enumerate(self.fields) if f.type in (TIMESTAMP, DATE)]
        if by is None and len(times) != 1:
            self.statement.fail(f"{word} needs the column of the rows' time; name it, as in {word}_by = 'ts'", length)
        column = times[0] if by is None else self._position(exp.to_identifier(by.name))
        if column not in times:
            wrong = f"column {by.name if by else ''} is {self.fields[column].type}"
            self.statement.fail(f"{wrong}; {word} goes by a TIMESTAMP or DATE", by)
        return column, size.value

    def _foreign(self, columns: list[exp.Identifier], reference: exp.Expr) -> ForeignKey:
        target = reference.this
        named = target.expressions if isinstance(target, exp.Schema) else []
        table = target.this if isinstance(target, exp.Schema) else target
        if named and len(named) != len(columns):
            message = f"a foreign key of {len(columns)} columns refers to {len(named)}; name as many on both sides"
            self.statement.fail(message, reference)
        here = tuple(self._position(c) for c in columns)
        return ForeignKey(here, _name(table, self.statement), tuple(c.name for c in named))


def bind_drop(node: exp.Expr, statement: Statement, catalog: Definitions) -> Definition:
    kind, exists = str(node.args["kind"]).upper(), bool(node.args.get("exists"))
    statement.only(node, ("this", "tables", "kind", "exists", "materialized", "cascade", "restrict"))
    tables = node.args.get("tables") or [node.this]
    if kind not in ("TABLE", "VIEW", "INDEX"):
        statement.refuse(f"DROP {kind}", "DROP TABLE, DROP VIEW and DROP INDEX are", kind)
    if len(tables) != 1:
        statement.refuse("DROP of several at once", "write one DROP for each", tables[1])
    name = _name(tables[0], statement)
    if kind == "INDEX":
        return DropIndex(name, exists)
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
