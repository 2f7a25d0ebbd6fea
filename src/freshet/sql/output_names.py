"""The names of an answer's columns.

Law: no two columns of an answer have the same name, ignoring case, so that it can be read by name in any system. An
output is named by its alias, else by its column's name, else by its text. Of several with the same name the first
keeps it; the second gets the suffix _2, the third _3 and so on, skipping names that are taken. The columns that
describe a change (`_weight` and so on) accompany a view's columns, whose names must differ from theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freshet.logical.query import AnyQuery, Field
from freshet.scalar.types import VARIANT
from freshet.sql.source import Statement

#: The names of the columns that describe a change.
RESERVED = ("_weight", "_change_type")


def apart(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The same fields with distinct names."""
    taken = {field.name.lower() for field in fields}
    seen: dict[str, int] = {}
    renamed = []
    for field in fields:
        key = field.name.lower()
        number = seen[key] = seen.get(key, 0) + 1
        name = field.name
        while number > 1 and (name := f"{field.name}_{number}").lower() in taken:
            number += 1
        if name != field.name:
            seen[key] = number
            taken.add(name.lower())
        renamed.append(field if name == field.name else replace(field, name=name))
    return tuple(renamed)


def named_apart(query: AnyQuery) -> AnyQuery:
    fields = apart(query.fields)
    return query if fields == query.fields else replace(query, fields=fields)


def check_types(query: AnyQuery, statement: Statement) -> None:
    """VARIANTs exist in expressions only."""
    for field in query.fields:
        if field.type == VARIANT:
            statement.refuse(f"a column of VARIANT, {field.name}", "write TO_JSON of it, or cast it: v:a::INT", None)


def check_reserved(query: AnyQuery, statement: Statement) -> None:
    for field in query.fields:
        if field.name.lower() in RESERVED:
            message = f"column name {field.name} is reserved for changes; rename it with AS"
            statement.fail(message, field.name)
