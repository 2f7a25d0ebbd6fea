"""The names of an answer's columns.

Law: no two columns of an answer have the same name, letters aside, so that it can be read by name wherever it goes. An
output is called by its alias, else by its column's name, else by its text. Of several with one name the first keeps it;
the second gets _2, the third _3 and so on, or the next number that no other column has. A view's columns come with
others that say what a change does, and cannot have their names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from freshet.logical.query import AnyQuery, Field
from freshet.sql.source import Statement

#: What changes call their own columns.
RESERVED = ("_weight", "_change_type")


def apart(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The same fields, their names apart."""
    taken = {field.name.lower() for field in fields}
    seen: dict[str, int] = {}
    found = []
    for field in fields:
        key = field.name.lower()
        number = seen[key] = seen.get(key, 0) + 1
        name = field.name
        while number > 1 and (name := f"{field.name}_{number}").lower() in taken:
            number += 1
        if name != field.name:
            seen[key] = number
            taken.add(name.lower())
        found.append(field if name == field.name else replace(field, name=name))
    return tuple(found)


def named_apart(query: AnyQuery) -> AnyQuery:
    fields = apart(query.fields)
    return query if fields == query.fields else replace(query, fields=fields)


def check_reserved(query: AnyQuery, statement: Statement) -> None:
    for field in query.fields:
        if field.name.lower() in RESERVED:
            message = f"column name {field.name} is taken by the view's changes; rename it with AS"
            statement.fail(message, field.name)
