"""Which functions are NULL for a NULL argument: the assumption of the rewrites of LEFT JOIN about each registered
function."""

from __future__ import annotations

import itertools

from freshet.errors import SqlError
from freshet.logical.rewrite.nulls import rejects, surely_null
from freshet.scalar import functions, types
from freshet.scalar.expression import ColumnRef, Literal, transform
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.registry import FUNCTIONS

VALUES = [
    Literal(types.INT, 1),
    Literal(types.STRING, "1"),
    Literal(types.DATE, 1),
    Literal(types.BOOLEAN, 1),
    Literal(types.MONTHS, 1),
]


#: Of a DATE or TIMESTAMP the first two do not look at the pattern; the binder gives the last one its arguments.
ASIDE = {"unix_timestamp", "to_unix_timestamp", "field"}


def test_strict_functions_are_null_on_null() -> None:
    tried = set()
    strict = {name for name in functions.names() if (f := FUNCTIONS[name]).strict is not None and f.nulls.decides}
    for name in sorted(strict - {"plus_interval", *ASIDE}):
        for count in (1, 2, 3):
            for args in itertools.product(VALUES, repeat=count):
                for position in range(count):
                    given = [*args]
                    given[position] = Literal(args[position].type, None)
                    try:
                        folded = transform(functions.build(name, tuple(given)), fold)
                    except SqlError:
                        continue
                    assert isinstance(folded, Literal) and folded.value is None, (name, given)
                    tried.add(name)
    assert {"add", "eq", "like", "substring", "year", "date_add", "not"} <= tried


def test_rejects() -> None:
    mine, other = ColumnRef(types.INT, 1, 0, "m"), ColumnRef(types.INT, 0, 0, "o")
    one, gone = Literal(types.INT, 1), frozenset({1})
    build = functions.build
    assert rejects(build("eq", (mine, other)), gone)
    assert rejects(build("is_not_null", (mine,)), gone)
    assert rejects(build("in", (mine, one)), gone)
    assert not rejects(build("in", (other, mine)), gone)
    assert rejects(build("and", (build("eq", (other, one)), build("gt", (mine, one)))), gone)
    assert not rejects(build("or", (build("eq", (other, one)), build("gt", (mine, one)))), gone)
    assert not rejects(build("is_null", (mine,)), gone)
    assert not rejects(build("not_distinct", (mine, other)), gone)
    assert not rejects(build("eq", (build("coalesce", (mine, one)), one)), gone)
    assert not rejects(build("eq", (build("greatest", (mine, one)), one)), gone)
    assert surely_null(build("greatest", (mine, mine)), gone)
    assert not rejects(build("eq", (other, one)), gone)
