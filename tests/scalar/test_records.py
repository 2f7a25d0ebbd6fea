"""Every scalar function is one whole record: nothing else knows functions by name, and nothing about one is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import freshet
from freshet.scalar.expression import Call, walk
from freshet.scalar.functions import FUNCTIONS, names
from freshet.scalar.functions.registry import Function
from freshet.sql.calls import SPELLED
from tests.fuzz.function_calls import PLANNED, calls_of, signatures

RECORDS = list(dict.fromkeys(FUNCTIONS.values()))
SOURCE = Path(freshet.__file__).parent


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_a_record_is_whole(record: Function) -> None:
    assert all(FUNCTIONS[name] is record for name in record.names)
    assert (record.resolver is None) == (record.takes == ""), "what is written says what it takes"
    assert record.strict is None or record.lazy is None
    assert record.resolver is not None or record.strict is not None or record.lazy is not None
    assert record.lazy is None or not record.nulls.decides, "what is lazy looks at NULLs itself"
    assert record.resolver is not None or not (record.also or record.parsed or record.operator or record.guards)
    if record.strict is None and record.lazy is None:
        assert not record.total and not record.sized, "what has no calls of its own has nothing to say of them"


@pytest.mark.parametrize("record", RECORDS, ids=lambda r: r.name)
def test_opposites_are_mutual(record: Function) -> None:
    if record.opposite:
        opposite = FUNCTIONS[record.opposite]
        assert (opposite.opposite, opposite.nulls) == (record.name, record.nulls)
    if record.comparison is not None:
        flipped = FUNCTIONS[record.comparison.flipped.function]
        assert record.compares and record.nulls.decides, "it is NULL if either side is"
        assert (flipped.nulls, flipped.resolver) == (record.nulls, record.resolver)


def test_a_parsed_node_is_one_function() -> None:
    operators = [r.operator for r in RECORDS if r.operator is not None]
    nodes = [node for r in RECORDS for node, slots in r.parsed.items() if slots is not None]
    assert len(set(operators)) == len(operators) and len(set(nodes)) == len(nodes)
    assert not set(operators) & set(nodes)


def test_the_generator_draws_every_function() -> None:
    assert set(names()) - PLANNED == signatures().keys() - {"cast", "try_cast"}


@pytest.mark.parametrize("name", sorted(set(names()) - PLANNED))
def test_calls_bear_the_first_name(name: str) -> None:
    for call in calls_of(name):
        for part in walk(call):
            if isinstance(part, Call):
                record = FUNCTIONS[part.name]
                assert part.name == record.name and (record.strict is not None or record.lazy is not None)


def test_no_other_table_is_keyed_by_functions() -> None:
    """A dict, set or tuple of three names of functions or more, outside of the families."""
    words = {
        "date",
        "timestamp",
        "binary",
        "if",
        "left",
        "right",
        "position",
        "year",
        "quarter",
        "month",
        "day",
        "hour",
    }
    known = "|".join(
        sorted((SPELLED - words - {"minute", "second"}) | {"eq", "ne", "lt", "le", "gt", "ge", "and", "or"})
    )
    table = re.compile(
        rf"""[\[{{(]\s*"(?:{known})"\s*:?[^\]}})]*?,\s*"(?:{known})"[^\]}})]*?,\s*"(?:{known})"\s*[:,\]}})]"""
    )
    rooms = ("scalar", "sql", "logical", "plans", "engine", "aggregates", "spark", "database")
    files = [f for room in rooms for f in (SOURCE / room).rglob("*.py") if f.parent.name != "functions"]
    assert len(files) > 100
    assert {f.name: m[0] for f in files if (m := table.search(f.read_text()))} == {}
