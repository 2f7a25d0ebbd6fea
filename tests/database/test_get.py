"""`view.get`, `view.find`, `view[key]`, `key in view`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

import freshet

DDL = "CREATE TABLE sale (id BIGINT PRIMARY KEY, city STRING, day DATE, price DECIMAL(10,2), share DOUBLE)"
ROWS = [
    (1, "Oslo", "2024-01-01", "1.50", 0.5),
    (2, "Oslo", "2024-01-02", "2.25", -0.0),
    (3, None, None, None, None),
    (4, "Bergen", "2024-01-01", "4.00", float("nan")),
]


@pytest.fixture
def db() -> freshet.Database:
    db = freshet.connect()
    db.execute(DDL)
    db.apply({"sale": ROWS})
    return db


def test_by_group(db: freshet.Database) -> None:
    view = db.create_view("v", "SELECT COUNT(*) AS n, city, SUM(price) AS s FROM sale GROUP BY city")
    assert view.get("Oslo") == {"n": 2, "city": "Oslo", "s": Decimal("3.75")}
    assert view["Bergen"] == {"n": 1, "city": "Bergen", "s": Decimal("4.00")}
    assert view.get(None) == {"n": 1, "city": None, "s": None}
    assert view.get("Rome") is None and view.get("Rome", 7) == 7
    assert "Oslo" in view and "Rome" not in view
    with pytest.raises(KeyError, match="Rome"):
        view["Rome"]
    db.execute("DELETE FROM sale WHERE city = 'Oslo'")
    assert view.get("Oslo") is None


def test_by_several_groups_with_having(db: freshet.Database) -> None:
    view = db.create_view("v", "SELECT city, day, COUNT(*) + 1 AS n FROM sale GROUP BY city, day HAVING city > 'C'")
    assert view.get(("Oslo", dt.date(2024, 1, 2))) == {"city": "Oslo", "day": dt.date(2024, 1, 2), "n": 2}
    assert view.get({"day": "2024-01-02", "city": "Oslo"}) == view.get(("2024-01-02", "Oslo"), by=("day", "city"))
    assert view.get(("Bergen", "2024-01-01")) is None
    with pytest.raises(freshet.PlanError, match=r"the key is of city, day; give a tuple of 2, not 'Oslo'"):
        view.get("Oslo")


@pytest.mark.parametrize("sql", [
    "SELECT id, city, day, price, share FROM sale WHERE price > 0",
    "SELECT id, UPPER(city) AS city, day, price, share FROM sale WHERE id < 3",
    "SELECT city, id, share FROM sale ORDER BY price",
])  # fmt: skip
def test_by_primary_key(db: freshet.Database, sql: str) -> None:
    view = db.create_view("v", sql)
    rows = {row["id"]: row for row in view.to_dicts()}
    for key in range(6):
        assert str(view.get(key)) == str(rows.get(key))
    assert view.get(10**30) is None and view.get(None) is None
    assert view.get(np.int64(1)) == rows[1]


@pytest.mark.parametrize(("column", "key", "ids"), [
    ("city", "Oslo", [1, 2]), ("city", None, [3]), ("city", "Rome", []), ("day", dt.date(2024, 1, 1), [1, 4]),
    ("price", Decimal("2.25"), [2]), ("price", 4, [4]), ("price", Decimal("2.251"), []), ("price", 10**20, []),
    ("share", 0.0, [2]), ("share", float("nan"), [4]), ("share", 0.5, [1]), ("share", 1, []),
])  # fmt: skip
def test_by_index(db: freshet.Database, column: str, key: Any, ids: list[int]) -> None:
    view = db.create_view("v", "SELECT * FROM sale")
    db.execute(f"CREATE INDEX ON v ({column})")
    assert sorted(row["id"] for row in view.find(key, by=column)) == ids
    assert [row["id"] for row in db.query(f"SELECT id FROM v WHERE {column} = ? ORDER BY id", [key]).to_pylist()] == (
        [] if key is None else ids
    )


def test_several_rows_have_the_key(db: freshet.Database) -> None:
    view = db.create_view("v", "SELECT city FROM sale")
    with pytest.raises(freshet.PlanError, match=r"view v has no key of its own; declare one with CREATE INDEX ON v"):
        view.get("Oslo")
    db.execute("CREATE INDEX ON v (city)")
    assert view.get("Bergen") == {"city": "Bergen"}
    assert view.find("Oslo") == [{"city": "Oslo"}] * 2
    with pytest.raises(freshet.PlanError, match=r"2 rows of view v have the key 'Oslo'; find\(\) returns them all"):
        view.get("Oslo")


@pytest.mark.parametrize(("key", "by", "message"), [
    ("1", None, r"'1' is not a value of id, which is BIGINT; give numbers"),
    (True, None, "True is not a value of id"),
    (1.0, None, "1.0 is not a value of id"),
    (1, "city", r"rows of view v cannot be found by city; write by=\(id\), or CREATE INDEX ON v \(city\)"),
    (1, "nothing", "no column nothing; view v has id, city"),
])  # fmt: skip
def test_wrong_keys(db: freshet.Database, key: Any, by: Any, message: str) -> None:
    view = db.create_view("v", "SELECT id, city FROM sale")
    with pytest.raises(freshet.PlanError, match=message):
        view.get(key, by=by)


def test_dropped(db: freshet.Database) -> None:
    view = db.create_view("v", "SELECT id, city FROM sale")
    db.execute("DROP VIEW v")
    with pytest.raises(freshet.StateError, match="dropped"):
        view.get(1)
