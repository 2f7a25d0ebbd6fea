"""No two columns of an answer have the same name: views, one-off queries, deltas, plans, views already on disk."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import freshet
from freshet.database.db import inside
from freshet.logical.query import Field
from freshet.scalar.types import INT
from freshet.sql.output_names import apart

TABLES = "CREATE TABLE edge (src INT, dst INT); INSERT INTO edge VALUES (1, 2), (2, 3)"
PATHS = "SELECT * FROM edge a JOIN edge b ON a.dst = b.src"
NAMES = ["src", "dst", "src_2", "dst_2"]


@pytest.fixture
def db() -> freshet.Database:
    made = freshet.connect()
    made.execute(TABLES)
    return made


def test_views_and_queries(db: freshet.Database) -> None:
    view = db.create_view("v", PATHS)
    row = {"src": 1, "dst": 2, "src_2": 2, "dst_2": 3}
    assert view.schema.names == NAMES
    assert view.to_arrow().to_pylist() == [row]
    assert view.to_polars().rows(named=True) == [row]
    assert view.to_pandas().to_dict("records") == [row]
    assert db.execute(PATHS).to_pylist() == [row]
    assert db.execute(f"CREATE MATERIALIZED VIEW w AS {PATHS}").schema.names == NAMES
    assert [f.name for f in freshet.plan(PATHS, "CREATE TABLE edge (src INT, dst INT)").root.fields] == NAMES
    tx = db.execute("INSERT INTO edge VALUES (3, 4)")
    assert tx.deltas["v"].to_pylist() == [{"src": 2, "dst": 3, "src_2": 3, "dst_2": 4, "_weight": 1}]
    assert db.execute("SELECT src_2, dst FROM v WHERE dst_2 = 4").to_pylist() == [{"src_2": 3, "dst": 3}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("x x x", "x x_2 x_3"),
        ("x X x", "x X_2 x_3"),
        ("x x x_2", "x x_3 x_2"),
        ("x_2 x x x_2", "x_2 x x_3 x_2_2"),
        ("a b", "a b"),
    ],
)
def test_numbers(given: str, expected: str) -> None:
    assert " ".join(f.name for f in apart([Field(name, INT) for name in given.split()])) == expected


@given(st.lists(st.sampled_from(["x", "X", "x_2", "x_3", "X_2", "y", "x_2_2"]), max_size=12))
def test_names_are_apart_and_the_first_of_each_is_kept(names: list[str]) -> None:
    outputs = [f.name for f in apart([Field(name, INT) for name in names])]
    assert len({n.lower() for n in outputs}) == len(outputs)
    firsts = [i for i, n in enumerate(names) if n.lower() not in [m.lower() for m in names[:i]]]
    assert [outputs[i] for i in firsts] == [names[i] for i in firsts]
    assert all(f == n or f.startswith(f"{n}_") for f, n in zip(outputs, names, strict=True))


def test_columns_of_changes_have_their_names_for_themselves(db: freshet.Database) -> None:
    for sql in ("SELECT src AS _weight FROM edge", "SELECT src AS x, dst AS _CHANGE_TYPE FROM edge"):
        for make in (
            lambda text: db.create_view("z", text),
            lambda text: db.execute(f"CREATE MATERIALIZED VIEW z AS {text}"),
            lambda text: freshet.plan(text, "CREATE TABLE edge (src INT, dst INT)"),
        ):
            with pytest.raises(freshet.SqlError, match="is reserved for changes; rename it with AS"):
                make(sql)
    changes = db.execute(
        "SELECT src, dst, -1 AS _weight FROM edge WHERE src = 1"
    )  # a one-off query may be used for changes
    assert db.apply({"edge": changes}).version == 2


def test_a_view_kept_with_two_columns_of_one_name_opens(tmp_path: Path) -> None:
    """As versions kept it that let names be equal: its definition is read with the names apart."""
    with freshet.connect(tmp_path) as db:
        db.execute(TABLES)
        db.create_view("v", PATHS)
        definition = dict(inside(db).state.definitions["v"])
    old = json.loads(json.dumps(definition).replace("src_2", "src").replace("dst_2", "dst"))
    assert old != definition
    with freshet.connect() as db:
        db.execute(TABLES)
        inside(db).views.restore(old)
        assert db.view("v").to_arrow().column_names == NAMES
        tx = db.execute("INSERT INTO edge VALUES (3, 4)")
        assert tx.deltas["v"].column_names == [*NAMES, "_weight"]
        assert db.execute("SELECT src_2 FROM v ORDER BY src_2 LIMIT 5").num_rows == 2
