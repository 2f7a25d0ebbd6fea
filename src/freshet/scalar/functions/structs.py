"""Structs: making them, and their fields. A field of an array of structs is the array of their fields."""

from __future__ import annotations

from collections.abc import Sequence

from freshet.errors import SqlError
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.elements import together
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE, NEVER
from freshet.scalar.functions.registry import Function, Step, declare, refuse, resolve
from freshet.scalar.nested import Lists, fields_of, lists_of, make_lists, make_structs, valid_of
from freshet.scalar.types import STRING, Type, array_of, struct_of


def _resolve_named(name: str, args: tuple[Expression, ...]) -> Expression:
    names, values = args[::2], args[1::2]
    if not args or len(names) != len(values):
        raise refuse(name, args)
    fields: list[tuple[str, Type]] = []
    for field, value in zip(names, values, strict=True):
        if not isinstance(field, Literal) or not isinstance(field.value, str):
            raise refuse(name, args)
        fields.append((field.value, value.type))
    if len({field.lower() for field, _ in fields}) != len(fields):
        raise SqlError("a struct with two fields of one name; give each its own, as in STRUCT(a AS x, b AS y)")
    return Call(struct_of(fields), name, args)


def _resolve_struct(name: str, args: tuple[Expression, ...]) -> Expression:
    named = [part for i, value in enumerate(args) for part in (Literal(STRING, f"col{i + 1}"), value)]
    return resolve("named_struct", named)


def _named(call: Call) -> Step:
    def step(*args: Column) -> Column:
        columns = together(*args[1::2])
        return make_structs(call.type, columns, None, len(columns[0]))

    return step


def _resolve_field(name: str, args: tuple[Expression, ...]) -> Expression:
    source, field = args
    items = source.type.items if source.type.name == "ARRAY" else None
    struct = source.type if items is None else items
    assert isinstance(field, Literal) and isinstance(field.value, str)
    if struct.name != "STRUCT":
        raise SqlError(f"{source.type} has no field {field.value}; only structs have fields")
    found = [(n, t) for n, t in struct.fields if n.lower() == field.value.lower()]
    if not found:
        raise SqlError(f"no field {field.value}; {source.type} has {', '.join(n for n, _ in struct.fields)}")
    own, type = found[0]
    return Call(type if items is None else array_of(type), name, (source, Literal(STRING, own)))


def _field(call: Call) -> Step:
    source, field = call.args[0].type, call.args[1]
    struct = source if source.items is None else source.items
    assert isinstance(field, Literal)
    place = [name for name, _ in struct.fields].index(str(field.value))

    def of_struct(a: Column, _: Column) -> Column:
        return fields_of(a)[place]

    def of_structs(a: Column, _: Column) -> Column:
        lists = lists_of(a)
        return make_lists(call.type, Lists(lists.offsets, (fields_of(lists.items)[place],)), valid_of(a))

    return of_struct if source.name == "STRUCT" else of_structs


def _written(call: Call, args: Sequence[str]) -> str:
    assert isinstance(call.args[1], Literal) and isinstance(call.args[1].value, str)
    return f"{args[0]}.{call.args[1].value}"


declare(
    Function("named_struct", "names, which are constant, and values in turn", _resolve_named, _named, nulls=NEVER,
             nested=True, total=True),
    Function("struct", "values", _resolve_struct, nested=True),
    Function("field", "a struct and a name", _resolve_field, _field, spelled=False, written=_written,
             nulls=IF_ANY_OR_ELSE, nested=True, total=True),
)  # fmt: skip
