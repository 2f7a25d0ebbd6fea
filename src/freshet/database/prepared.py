"""Lookups in SQL that were run before with other values.

Law: a text is cached under its form, in which values directly after `=` are `?`, and the types of those values. Binding
determines what is cached: the form is bound twice, with two sets of values, and is a lookup only if both bound queries
are equal except for these values, each of them is compared with one column of a key, and each column with one of them.
So a cached lookup has the same result as binding the text again, in a tenth of the time. It is valid only for the
definitions it was bound to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from sqlglot.tokenizer_core import TokenType

from freshet.budget import given
from freshet.database.access import Access
from freshet.database.lookup import key_row
from freshet.database.reading import as_schema
from freshet.database.scan import Scan, equalities, scan_of
from freshet.database.stored import StoredViews
from freshet.errors import FreshetError
from freshet.logical.query import is_query
from freshet.scalar.arrow import to_batches
from freshet.scalar.expression import ColumnRef
from freshet.scalar.types import Type
from freshet.sql.definitions import Definitions
from freshet.sql.parameters import literal_of
from freshet.sql.parse import bind_all
from freshet.sql.source import SqlText, Statement

_MOST = 256  # cached forms
_DIGITS = 18  # digits of the longest whole number that is still BIGINT

Form = tuple[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class _Known:
    """Rows of a table or view by the columns of a key: which value each is compared with, and the selected columns."""

    name: str
    definition: object  # of the table or view, as the catalog has it
    key: tuple[int, ...]
    values: tuple[int, ...]  # for each column of the key, the position of its value
    types: tuple[Type, ...]
    shown: tuple[ColumnRef, ...]
    schema: pa.Schema


class Prepared:
    def __init__(self, access: Access) -> None:
        self._access, self._state = access, access.state
        self._known: dict[Form, _Known | None] = {}
        self._asked: set[Form] = set()  # once

    def answer(self, form: Form, values: Sequence[Any]) -> pa.Table | None:
        """The answer, if the form is cached as a lookup."""
        known = self._known.get(form)
        if known is None:
            return None
        state = self._state
        with state.lock:
            self._access.check_open()
            if known.definition is not _defined(state.catalog, known.name):
                del self._known[form]
                return None
            key = key_row(known.types, [values[at] for at in known.values], state.core.pool)
            batches = [] if key is None else self._found(known, key)
            if batches is None:
                del self._known[form]
                return None
        table = pa.Table.from_batches(batches, known.schema)
        given(table.num_rows)
        return table

    def _found(self, known: _Known, key: Any) -> list[pa.RecordBatch] | None:
        """None if its index no longer exists."""
        core = self._state.core
        table = core.tables.get(known.name)
        if table is not None:
            slots = table.tuples.find(key)
            read = table.reader(slots)
            return list(to_batches([read(c) for c in known.shown], known.schema)) if slots[0] >= 0 else []
        finder = next((f for f in core.operators[known.name].finders() if f.columns == known.key), None)
        if finder is None:
            return None
        columns = finder.find(key)
        return list(to_batches([columns[c.column] for c in known.shown], known.schema)) if len(columns[0]) else []

    def learn(self, form: Form, values: Sequence[Any]) -> None:
        """Caches whether a form is a lookup after its second answer: analysing it takes twice as long as answering
        it."""
        if form in self._known or not values:
            return
        if form not in self._asked:
            if len(self._asked) >= _MOST:
                self._asked.clear()
            self._asked.add(form)
            return
        self._asked.discard(form)
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[form] = self._lookup_of(form, values)

    def _lookup_of(self, form: Form, values: Sequence[Any]) -> _Known | None:
        others = [_other(v, place) for place, v in enumerate(values)]
        try:
            scan, other = self._bound(form[0], values), self._bound(form[0], others)
        except FreshetError:
            return None
        if scan is None or other is None or scan.order or scan.limit is not None or scan.offset:
            return None
        if (scan.source, scan.outputs, scan.fields) != (other.source, other.outputs, other.fields):
            return None
        shown = [o for o in scan.outputs if isinstance(o, ColumnRef)]
        first, second = equalities(scan.conditions), equalities(other.conditions)
        several = len(scan.conditions) != len(values) or len(first) != len(values) or first.keys() != second.keys()
        if several or len(shown) != len(scan.outputs):
            return None
        places = {}
        for column, literal in second.items():
            place = next((i for i, v in enumerate(others) if v == literal.value and type(v) is type(literal.value)), -1)
            if place < 0 or first[column].value != values[place] or first[column].type != literal.type:
                return None
            places[column] = place
        name = scan.source.name.lower()
        for key in self._keys(name, scan):
            if set(key) == set(places) and len(set(places.values())) == len(places):
                types = tuple(first[c].type for c in key)
                definition, schema = _defined(self._state.catalog, name), as_schema(scan.fields)
                return _Known(name, definition, key, tuple(places[c] for c in key), types, tuple(shown), schema)
        return None

    def _bound(self, text: str, values: Sequence[Any]) -> Scan | None:
        statements = SqlText(text, list(values)).statements()
        (query,) = bind_all(statements, StoredViews.over(self._state.catalog, set()))
        return scan_of(query) if is_query(query) else None

    def _keys(self, name: str, scan: Scan) -> list[tuple[int, ...]]:
        if name in self._state.core.tables:
            return [scan.source.primary_key] if scan.source.primary_key else []
        return [f.columns for f in self._state.core.operators[name].finders()]


def _defined(catalog: Definitions, name: str) -> object:
    return catalog.tables.get(name) or catalog.views.get(name)


def form_of(statement: Statement) -> tuple[Form, list[Any]] | None:
    """A statement's form and values; None if it cannot be cached."""
    source, parts, values, at = statement.source, list[str](), list[Any](), 0
    tokens = statement.tokens
    for i, token in enumerate(tokens):
        kind, start, end = token.token_type, token.start, token.end + 1
        if kind == TokenType.PLACEHOLDER:
            if not isinstance(source.given, Sequence):
                return None
            value: Any = source.given[source.questions.index(start)]
        elif kind == TokenType.COLON:
            return None
        elif i and tokens[i - 1].token_type == TokenType.EQ and kind in (TokenType.NUMBER, TokenType.STRING):
            value = token.text
            if kind == TokenType.NUMBER:
                if not value.isdecimal() or len(value) != end - start or len(value) > _DIGITS:
                    return None
                value = int(value)
        else:
            continue
        if type(value) not in (int, str):
            return None
        parts += [source.text[at:start], "?"]
        values.append(value)
        at = end
    parts.append(source.text[at : tokens[-1].end + 1])
    try:
        types = tuple(literal_of(v).type.name for v in values)
    except FreshetError:
        return None
    return ("".join(parts), types), values


def _other(value: Any, place: int) -> Any:
    """Another value of the same type, which occurs nowhere else."""
    if isinstance(value, str):
        return f"\x00 value {place}"
    return (1_000_003 if literal_of(value).type.name == "INT" else 1 << 40) + place
