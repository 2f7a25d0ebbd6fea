"""Views over VARIANTs follow their tables; where a VARIANT cannot be, the message says what can."""

from __future__ import annotations

import json
import random
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

import freshet
from tests.oracle import RunningSum

DDL = "CREATE TABLE event (id BIGINT PRIMARY KEY, body STRING)"
TOTALS = """SELECT v:kind::STRING AS kind, COUNT(*) AS n, SUM(v:items[0].price::DECIMAL(10, 2)) AS total
            FROM (SELECT try_parse_json(body) AS v FROM event) GROUP BY v:kind::STRING"""
KINDS = """SELECT id, CASE WHEN v:kind IS NULL THEN 'none' ELSE TO_JSON(v:kind) END AS k
           FROM (SELECT id, TRY_PARSE_JSON(body) AS v FROM event)"""


def _body(chance: random.Random) -> str:
    if chance.random() < 0.1:
        return chance.choice(("", "{", "[]", "null"))
    items = [{"price": chance.choice(("1.50", 2, 0.25, "3"))} for _ in range(chance.randrange(3))]
    return json.dumps({"kind": chance.choice(("a", "b", None, 7)), "items": items})


def _read(body: str) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _totals(bodies: list[str]) -> Counter[tuple[Any, ...]]:
    groups: dict[Any, list[Decimal | None]] = {}
    for value in map(_read, bodies):
        kind, items = value.get("kind"), value.get("items") or []
        price = Decimal(str(items[0]["price"])) if items else None
        groups.setdefault(None if kind is None else str(kind), []).append(price)
    return Counter(
        (kind, len(prices), sum((p for p in prices if p is not None), Decimal()) if any(prices) else None)
        for kind, prices in groups.items()
    )


@pytest.mark.parametrize("seed", range(3))
def test_totals_of_parts(seed: int) -> None:
    chance, held = random.Random(seed), dict[int, str]()
    db = freshet.connect()
    db.execute(DDL)
    totals, kinds = db.create_view("totals", TOTALS), db.create_view("kinds", KINDS)
    sums = {view.name: RunningSum(view.to_arrow()) for view in (totals, kinds)}
    for _ in range(20):
        rows = []
        for key in chance.sample(range(30), 8):
            if key in held:
                rows.append({"id": key, "body": held.pop(key), "_weight": -1})
            if chance.random() < 0.7:
                held[key] = _body(chance)
                rows.append({"id": key, "body": held[key], "_weight": 1})
        tx = db.apply({"event": rows})
        for view in (totals, kinds):
            sums[view.name].add(tx.deltas[view.name])
            sums[view.name].equals(view.to_arrow())
        found = Counter(tuple(row.values()) for row in totals.to_dicts())
        assert found == _totals(list(held.values()))
        expected = {key: _read(body).get("kind", ...) for key, body in held.items()}
        shown = {key: "none" if kind is ... else json.dumps(kind) for key, kind in expected.items()}
        assert {row["id"]: row["k"] for row in kinds.to_dicts()} == shown


def test_a_value_that_cannot_be_cast_is_refused_with_its_row() -> None:
    db = freshet.connect()
    db.execute(DDL)
    db.create_view("prices", "SELECT id, parse_json(body):price::INT AS price FROM event")
    db.apply({"event": [{"id": 1, "body": '{"price": "12"}'}]})
    with pytest.raises(freshet.ChangeError, match="the variant value '\"dear\"' cannot be cast to INT; use TRY_"):
        db.apply({"event": [{"id": 2, "body": '{"price": "dear"}'}]})
    with pytest.raises(freshet.ChangeError, match=r"'\{' is not JSON; correct it, or write TRY_PARSE_JSON for NULL"):
        db.apply({"event": [{"id": 2, "body": "{"}]})
    assert db.view("prices").to_dicts() == [{"id": 1, "price": 12}]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("SELECT parse_json(body) AS v FROM event", "a column of VARIANT, v is not supported; write TO_JSON of it"),
        ("SELECT DISTINCT TO_JSON(v) FROM (SELECT DISTINCT parse_json(body) AS v FROM event)", "are not compared"),
        ("SELECT UPPER(parse_json(body)) FROM event", "UPPER of a VARIANT; cast it first"),
        ("SELECT parse_json(body) > 1 FROM event", "> of a VARIANT; cast it first"),
        ("SELECT MAX(parse_json(body)) FROM event", "MAX of a VARIANT; cast it first"),
        ("SELECT ARRAY(parse_json(body)) FROM event", "ARRAY of a VARIANT; cast it first"),
        ("SELECT variant_get(parse_json(body), 'a', 'INT') FROM event", "'a' is not a path into a VARIANT"),
        ("SELECT variant_get(parse_json(body), '$.a', 'BINARY') FROM event", "a path and the type of the result"),
        ("SELECT variant_get(parse_json(body), '$.a', 'NUMBERS') FROM event", "'NUMBERS' is not a type"),
        ("SELECT body:a::INT FROM event", "VARIANT_GET takes a VARIANT"),
        ("SELECT CAST(NULLIF(DOUBLE('NaN'), id) AS VARIANT) IS NULL FROM event", None),
    ],
)
def test_refused(sql: str, said: str | None) -> None:
    db = freshet.connect()
    db.execute(DDL)
    if said is None:
        db.create_view("v", sql)
        with pytest.raises(freshet.ChangeError, match="NaN is not a value of VARIANT"):
            db.apply({"event": [{"id": 1, "body": ""}]})
        return
    with pytest.raises((freshet.SqlError, freshet.UnsupportedError)) as refused:
        db.create_view("v", sql)
    assert said in str(refused.value)
