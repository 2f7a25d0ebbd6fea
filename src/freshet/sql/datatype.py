"""A type as written in SQL → the engine's type. All spellings of a timestamp mean the same type: microseconds, UTC."""

from __future__ import annotations

import re

from sqlglot import exp
from sqlglot.errors import ParseError

from freshet.errors import SqlError
from freshet.scalar import types
from freshet.scalar.nested import depth
from freshet.scalar.types import Type
from freshet.sql.literal import bind_span
from freshet.sql.source import Statement, sql_of
from freshet.state.nested import DEEPEST

_TYPE = re.compile(r"\s*(ARRAY|MAP|STRUCT)\s*<", re.IGNORECASE)
_D = exp.DataType.Type
_PLAIN = {
    _D.BOOLEAN: types.BOOLEAN,
    _D.TINYINT: types.TINYINT,
    _D.SMALLINT: types.SMALLINT,
    _D.INT: types.INT,
    _D.BIGINT: types.BIGINT,
    _D.FLOAT: types.FLOAT,
    _D.DOUBLE: types.DOUBLE,
    _D.TEXT: types.STRING,
    _D.BINARY: types.BINARY,
    _D.DATE: types.DATE,
    _D.DATE32: types.DATE,
    _D.TIMESTAMP: types.TIMESTAMP,
    _D.TIMESTAMPTZ: types.TIMESTAMP,
    _D.TIMESTAMPLTZ: types.TIMESTAMP,
    _D.TIMESTAMPNTZ: types.TIMESTAMP,
    _D.DATETIME: types.TIMESTAMP,
}
_DECIMALS = (_D.DECIMAL, _D.DECIMAL32, _D.DECIMAL64, _D.DECIMAL128)
_TEXTS = {_D.VARCHAR: False, _D.NVARCHAR: False, _D.CHAR: True, _D.NCHAR: True, _D.BPCHAR: True}
_KNOWN = (
    "BOOLEAN, TINYINT to BIGINT, FLOAT, DOUBLE, DECIMAL(p,s), STRING, VARCHAR(n), CHAR(n), BINARY, DATE, TIMESTAMP, "
    "INTERVAL, ARRAY<T>, STRUCT<name: T, ...>, MAP<K, V>"
)
_NESTED = (_D.ARRAY, _D.STRUCT, _D.MAP)


def bind_type(node: exp.Expr, statement: Statement) -> Type:
    kind = node.this if isinstance(node, exp.DataType) else None
    if kind in _NESTED:
        return _nested(node, statement)
    sizes = _sizes(node, statement)
    if kind in _PLAIN and not sizes:
        return _PLAIN[kind]
    if kind in _DECIMALS:
        precision, scale = (*sizes, 10, 0)[:2] if not sizes else (*sizes, 0)[:2]
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            remedy = "use up to 38 digits, with a scale no greater than that"
            statement.fail(f"DECIMAL({precision},{scale}) is not a valid size; {remedy}", node)
        return types.decimal(precision, scale)
    if kind in _TEXTS:
        char = _TEXTS[kind]
        if not sizes:
            return Type("STRING", length=1, char=True) if char else types.STRING
        if sizes[0] < 1:
            statement.fail(
                f"a text type of {sizes[0]} characters cannot hold anything; give a length of 1 or more", node
            )
        return Type("STRING", length=sizes[0], char=char)
    if isinstance(kind, exp.Interval) and kind.args.get("unit") is not None:
        return bind_span(kind.args["unit"], statement)
    statement.refuse(f"type {sql_of(node)}", f"these are: {_KNOWN}", node)


def schema_type(text: exp.Expr, statement: Statement) -> Type:
    """The type that a literal text describes: a type, or the fields of a struct."""
    written = text.name if _TYPE.match(text.name) else f"STRUCT<{text.name}>"
    return _built(written, f"'{text.name}' is not a schema; write it as in 'a INT, b ARRAY<STRING>'", text, statement)


def type_of(text: exp.Expr, statement: Statement) -> Type:
    """The type that a literal text names."""
    return _built(text.name, f"'{text.name}' is not a type; write it as in 'INT' or 'ARRAY<STRING>'", text, statement)


def _built(written: str, wrong: str, text: exp.Expr, statement: Statement) -> Type:
    try:
        node = exp.DataType.build(written, dialect="spark")
    except ParseError:
        statement.fail(wrong, text)
    try:
        return bind_type(node, statement)
    except SqlError as error:
        raise statement.placed(type(error)(error.reason), text) from None


def check_compared(kind: Type, what: str, statement: Statement, node: exp.Expr) -> None:
    """Refuses to compare values with a map in them."""
    if not kind.is_ordered:
        remedy = "maps are not compared: use MAP_KEYS(m), or values of the map"
        if kind.name == "VARIANT":
            remedy = "values of VARIANT are not compared: cast them, as in v:a::INT"
        statement.refuse(f"{what} {kind}", remedy, node)


def _nested(node: exp.Expr, statement: Statement) -> Type:
    parts = node.expressions
    if node.this == _D.STRUCT:
        fields: dict[str, Type] = {}
        for part in parts:
            if not isinstance(part, exp.ColumnDef) or part.args.get("constraints"):
                statement.refuse(f"the field {sql_of(part)}", "write its name and its type: STRUCT<a: INT>", part)
            if part.name.lower() in map(str.lower, fields):
                statement.fail(f"a struct with two fields {part.name}; give each its own name", part)
            fields[part.name] = _inside(part.args["kind"], statement)
        made = types.struct_of(fields.items())
    elif len(parts) != (2 if node.this == _D.MAP else 1):
        form = "MAP<STRING, INT>" if node.this == _D.MAP else "ARRAY<INT>"
        statement.fail(f"{sql_of(node)} lacks the types of what it holds; write for example {form}", node)
    elif node.this == _D.MAP:
        made = types.map_of(_inside(parts[0], statement), _inside(parts[1], statement))
        if made.keys is not None and not made.keys.is_ordered:
            statement.refuse(f"a map with keys of {made.keys}", "use keys that can be compared", node)
    else:
        made = types.array_of(_inside(parts[0], statement))
    if depth(made) > DEEPEST:
        statement.refuse(f"a type of more than {DEEPEST} levels", "split it over several columns", node)
    return made


def _inside(node: exp.Expr, statement: Statement) -> Type:
    """The type of a part of a nested value."""
    made = bind_type(node, statement)
    if made.length is not None:
        statement.refuse(f"{made} inside of another type", "use STRING", node)
    return made


def _sizes(node: exp.Expr, statement: Statement) -> list[int]:
    sizes = []
    for parameter in node.expressions:
        if not isinstance(parameter, exp.DataTypeParam) or not parameter.this.is_int:
            statement.refuse(f"type {sql_of(node)}", "use one of the plain types", node)
        sizes.append(int(parameter.this.name))
    return sizes
