"""Plans as documents: edited plans run and have the same answers; invalid ones are refused with the reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pyarrow as pa
import pytest

import freshet
from freshet.demo import tpch
from tests.oracle import same_bag

SCHEMA = json.loads((Path(__file__).resolve().parents[2] / "docs" / "plan.schema.json").read_text())
DDL = """CREATE TABLE a (id BIGINT PRIMARY KEY, k BIGINT); CREATE TABLE b (k BIGINT, m BIGINT);
CREATE TABLE c (m BIGINT, x INT)"""
SQL = "SELECT a.id, b.m, c.x FROM a, b, c WHERE a.k = b.k AND b.m = c.m AND a.id > 0"
EXISTS = "SELECT a.id FROM a WHERE EXISTS (SELECT * FROM b JOIN c ON b.m = c.m WHERE b.k = a.k)"


def document(sql: str = SQL) -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(freshet.plan(sql, DDL).to_json())
    return plan


def with_tree(*nodes: tuple[str, str | None], sql: str = SQL) -> str:
    made = document(sql)
    made["trees"][0]["nodes"] = [{"node": n, "parent": p} for n, p in nodes]
    return json.dumps(made)


def test_documents_follow_the_schema() -> None:
    schema = tpch.schema()
    for sql in tpch.queries().values():
        try:
            plan = freshet.plan(sql, schema)
        except freshet.UnsupportedError:
            continue
        jsonschema.validate(json.loads(plan.to_json()), SCHEMA)
        assert freshet.Plan.from_json(plan.to_json()) == plan
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"format": 1}, SCHEMA)


TREES = [
    [("a", None), ("b", "a"), ("c", "b")],
    [("b", None), ("a", "b"), ("c", "b")],
    [("c", None), ("b", "c"), ("a", "b")],
    [("[x0]", None), ("a", "[x0]"), ("b", "[x0]"), ("c", "b")],
    [("[x1]", None), ("c", "[x1]"), ("b", "[x1]"), ("a", "b")],
]


def answered_alike(plan: freshet.Plan, sql: str, a: str, b: str, c: str) -> pa.Table:
    """The plan's answer over these rows, once it has been compared with that of its query, and so have their deltas."""
    db = freshet.connect()
    db.execute(DDL)
    given, made = db.create_view("given", plan), db.create_view("made", sql)
    for table, rows in (("a", a), ("b", b), ("c", c)):
        db.execute(f"INSERT INTO {table} VALUES {rows}")
    tx = db.execute("DELETE FROM b WHERE m = 8")
    same_bag(given.to_arrow(), made.to_arrow())
    same_bag(tx.deltas["given"], tx.deltas["made"])
    return given.to_arrow()


@pytest.mark.parametrize("tree", TREES, ids=lambda t: " ".join(n for n, _ in t))
def test_another_tree_runs_and_answers_alike(tree: list[tuple[str, str | None]]) -> None:
    text = with_tree(*tree)
    jsonschema.validate(json.loads(text), SCHEMA)
    plan = freshet.Plan.from_json(text)
    assert [n["node"] for n in json.loads(plan.to_json())["trees"][0]["nodes"]] == [n for n, _ in tree]
    a, b, c = "(1, 1), (2, 1), (3, 2), (-4, 1)", "(1, 7), (1, 8), (2, 7), (3, 9), (1, 7)", "(7, 1), (7, 2), (8, 3)"
    assert answered_alike(plan, SQL, a, b, c).num_rows == 5 * 2


WRONG = [
    (with_tree(("a", None), ("c", "a"), ("b", "c")), "not a join tree of the query: connect: x0"),
    (with_tree(("a", None), ("b", "a")), "trees[0]: c is missing; the query reads it"),
    (with_tree(("a", None), ("b", "a"), ("c", "b"), ("d", "b")), "the query has no d there; it has a, b, c"),
    (with_tree(("a", None), ("b", "a"), ("c", None)), "a tree has one root (parent null), but this one has a and c"),
    (with_tree(("a", "b"), ("b", "a"), ("c", "b")), "a tree has one root (parent null), but this one has none"),
    (with_tree(("a", None), ("b", "c"), ("c", "b")), "b is its own ancestor"),
    (with_tree(("a", None), ("b", "a"), ("b", "a"), ("c", "b")), "b occurs twice"),
    (with_tree(("a", None), ("b", "z"), ("c", "b")), "the parent of b is z, which does not exist"),
    (with_tree(("[x9]", None), ("a", "[x9]"), ("b", "a"), ("c", "b")), "no attribute x9"),
    (with_tree(("b", None), ("c", "b"), ("a", "c"), sql=EXISTS), "can only be where it"),
    (json.dumps({**document(), "format": 1}), "the plan's format is not 2"),
    (json.dumps({**document(), "tree": []}), "has an unknown part 'tree'"),
    (json.dumps({**document(), "tables": ["CREATE TABLE"]}), "tables[0]: "),
    (json.dumps({**document(), "sql": "SELECT q FROM a"}), "no column q"),
    (json.dumps({**document(), "trees": []} | {"sql": 3}), "the plan has no sql"),
    ("nonsense", "the plan is not JSON"),
]


@pytest.mark.parametrize(("text", "reason"), WRONG, ids=[r[:45] for _, r in WRONG])
def test_a_wrong_plan_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(freshet.FreshetError) as refused:
        freshet.Plan.from_json(text)
    assert reason in str(refused.value)


def test_bags_of_a_cyclic_join() -> None:
    """A bag is a node with its own name; its contents cannot be chosen."""
    ddl = "CREATE TABLE e (x BIGINT, y BIGINT)"
    sql = "SELECT a.x, b.x AS y, c.x AS z FROM e a, e b, e c WHERE a.y = b.x AND b.y = c.x AND c.y = a.x"
    plan = freshet.plan(sql, ddl)
    jsonschema.validate(json.loads(plan.to_json()), SCHEMA)
    assert freshet.Plan.from_json(plan.to_json()) == plan
    made = json.loads(plan.to_json())
    made["trees"][0]["nodes"] = [{"node": "a", "parent": None}]
    with pytest.raises(freshet.PlanError):
        freshet.Plan.from_json(json.dumps(made))


COUNTED = "SELECT a.id, COUNT(*) AS n, SUM(c.x) AS total FROM a, b, c WHERE a.k = b.k AND a.k = c.m GROUP BY a.id"


@pytest.mark.parametrize(
    "tree",
    [
        [("a", None), ("totals of b", "a"), ("totals of c", "a")],
        [("totals of c", None), ("a", "totals of c"), ("totals of b", "a")],
        [("totals of b", None), ("totals of c", "totals of b"), ("a", "totals of c")],
    ],
    ids=lambda t: " ".join(n for n, _ in t),
)
def test_a_tree_over_totals_is_edited_like_any_other(tree: list[tuple[str, str | None]]) -> None:
    plan = freshet.Plan.from_json(with_tree(*tree, sql=COUNTED))
    assert [n["node"] for n in json.loads(plan.to_json())["trees"][0]["nodes"]] == [n for n, _ in tree]
    answer = answered_alike(
        plan, COUNTED, "(1, 1), (2, 1), (3, 2)", "(1, 7), (1, 8), (2, 7), (1, 7)", "(1, 1), (1, 20), (2, 300)"
    )
    assert sorted(answer["n"].to_pylist()) == [1, 4, 4]


def test_the_relations_of_totals_cannot_be_chosen() -> None:
    made = document(COUNTED)
    whole = [("a", None), ("b", "a"), ("c", "a")]
    made["trees"] = [{"nodes": [{"node": n, "parent": p} for n, p in whole]}]
    with pytest.raises(freshet.PlanError, match="the query has 3 join trees, but the plan has 1; give one for each"):
        freshet.Plan.from_json(json.dumps(made))
    made["trees"] = [made["trees"][0], *document(COUNTED)["trees"][1:]]
    with pytest.raises(freshet.PlanError, match="the query has no b there; it has a, totals of b, totals of c"):
        freshet.Plan.from_json(json.dumps(made))


def test_a_plan_without_trees_leaves_the_choice() -> None:
    made = document()
    made["trees"] = []
    assert freshet.Plan.from_json(json.dumps(made)) == freshet.plan(SQL, DDL)


def test_shares_are_kept_and_checked() -> None:
    made = document()
    made["trees"][0]["shares"] = {"x": 0}
    with pytest.raises(freshet.PlanError, match="give an object of dimension to whole number"):
        freshet.Plan.from_json(json.dumps(made))
    made["trees"][0]["shares"] = {"b.k": 2}
    plan = freshet.Plan.from_json(json.dumps(made))
    assert json.loads(plan.to_json())["trees"][0]["shares"] == {"b.k": 2}


def test_a_plan_of_another_query_is_refused() -> None:
    plan = freshet.plan(SQL, DDL)
    db = freshet.connect()
    db.execute(DDL)
    with pytest.raises(freshet.PlanError, match="not one of its query"):
        db.create_view("v", freshet.Plan("SELECT a.id, b.m, c.x FROM a, b, c WHERE a.k = b.k AND b.m = c.m", plan.root))
