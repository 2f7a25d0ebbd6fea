"""A plan as a document that people read, keep and edit: docs/plan.schema.json describes it.

It contains the query, its tables, and the choices made: for each select the join tree, and shares if any were given.
Everything else follows from the query and is derived when the document is read. So a document can be edited, and one
that does not fit its query cannot be run: the resulting tree is compared with the one in the document.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from freshet.errors import FreshetError, PlanError
from freshet.logical.query import AnyQuery, TableSchema, is_internal
from freshet.plans.build import ALL_REWRITES, Rewrites, build_plan
from freshet.plans.explain import as_dict
from freshet.plans.model import AnyPlan, QueryPlan, inputs, schemas
from freshet.plans.wanted import WantedTree, WantedTrees, labels
from freshet.sql.catalog import Catalog
from freshet.sql.parse import bind_query

FORMAT = 2  # raised whenever a reader of the old form would misread the new one
_PARTS = ("format", "sql", "tables", "trees", "explain")
_TREE_PARTS = ("nodes", "shares")
_NODE_PARTS = ("node", "parent")
MADE_WITH = (ALL_REWRITES, Rewrites.FACTORISE, Rewrites.NONE)  # by this version, and by earlier ones


def to_document(sql: str, root: AnyPlan) -> dict[str, Any]:
    tables = {s.name.lower(): s for s in schemas(root) if not is_internal(s)}
    return {
        "format": FORMAT,
        "sql": sql,
        "tables": [table_ddl(t) for t in tables.values()],
        "trees": [_tree(q) for q in selects(root)],
        "explain": as_dict(root),
    }


def selects(plan: AnyPlan) -> Iterator[QueryPlan]:
    """The selects of a plan that have a tree, outer ones first."""
    if isinstance(plan, QueryPlan) and plan.nodes:
        yield plan
    for _, below in inputs(plan):
        yield from selects(below)


def node_labels(plan: QueryPlan) -> list[str]:
    """The name of each node."""
    generalized = {n.relation for n in plan.nodes if n.generalized}
    distinct = iter(labels([r.alias for i, r in enumerate(plan.relations) if i not in generalized]))
    names = [r.alias if i in generalized else next(distinct) for i, r in enumerate(plan.relations)]
    return [names[n.relation] for n in plan.nodes]


def _tree(plan: QueryPlan) -> dict[str, Any]:
    shown = node_labels(plan)
    nodes = [{"node": shown[i], "parent": None if n.parent < 0 else shown[n.parent]} for i, n in enumerate(plan.nodes)]
    return {"nodes": nodes, "shares": dict(plan.shares)}


def table_ddl(schema: TableSchema) -> str:
    parts = [f"`{f.name}` {f.type}{'' if f.nullable else ' NOT NULL'}" for f in schema.fields]
    if schema.primary_key:
        parts.append(f"PRIMARY KEY ({', '.join(f'`{schema.fields[i].name}`' for i in schema.primary_key)})")
    for key in schema.foreign_keys:
        there = f" ({', '.join(f'`{c}`' for c in key.to_columns)})" if key.to_columns else ""
        here = ", ".join(f"`{schema.fields[i].name}`" for i in key.columns)
        parts.append(f"FOREIGN KEY ({here}) REFERENCES `{key.table}`{there}")
    given = [
        f"{word} = '{rule.size} microseconds', {word}_by = '{schema.fields[rule.column].name}'"
        for word, rule in (("retain", schema.retention), ("lateness", schema.lateness))
        if rule is not None
    ]
    properties = f" TBLPROPERTIES ({', '.join(given)})" if given else ""
    return f"CREATE TABLE `{schema.name}` ({', '.join(parts)}){properties}"


# Reading ----------------------------------------------------------------------------------------------------------


def from_document(text: str, tables: Catalog | None = None) -> tuple[str, AnyPlan]:
    """The query and the plan described by a document, over the tables it lists or those given."""
    data = _loaded(text)
    catalog = Catalog() if tables is None else tables
    for i, ddl in enumerate(data["tables"] if tables is None else ()):
        try:
            catalog.tables.update(Catalog.from_ddl(ddl).tables)
        except FreshetError as e:
            raise PlanError(f"tables[{i}]: {e}") from None
    wanted = tuple(_wanted(tree, f"trees[{i}]") for i, tree in enumerate(data.get("trees", [])))
    return data["sql"], _built(bind_query(data["sql"], catalog), wanted)


def check(sql: str, root: AnyPlan, catalog: Catalog) -> None:
    """Raises PlanError unless this is a plan of the query over the tables of the catalog."""
    bound = bind_query(sql, catalog)
    for table in schemas(root):
        if not is_internal(table) and catalog.table(table.name) != table:
            raise PlanError(f"the plan was made for another table {table.name}; make it again from the query")
    if build_plan(bound) != root and _built(bound, tuple(_wanted(_tree(q), "the plan") for q in selects(root))) != root:
        raise PlanError("the plan is not one of its query; make it again from the query")


def replanned(query: AnyQuery, root: AnyPlan) -> AnyPlan:
    """The plan of a query with the trees of another plan."""
    return _built(query, tuple(_wanted(_tree(q), "the plan") for q in selects(root)))


def _built(query: AnyQuery, wanted: tuple[WantedTree, ...]) -> AnyPlan:
    """The plan with the required trees; if none are given, all are chosen. The relations of the trees show which
    rewrites it was made with."""
    chosen: dict[Rewrites, AnyPlan] = {}
    for rewrites in MADE_WITH:
        chosen[rewrites] = build_plan(query, rewrites=rewrites)
        if not wanted or _same(chosen[rewrites], wanted):
            return chosen[rewrites]
    rewrites = next((r for r, plan in chosen.items() if _reads(plan, wanted)), ALL_REWRITES)
    ours = list(selects(chosen[rewrites]))
    if len(ours) != len(wanted):
        raise PlanError(f"the query has {len(ours)} join trees, but the plan has {len(wanted)}; give one for each")
    for i, (select, tree) in enumerate(zip(ours, wanted, strict=True)):
        known = _relations(select)
        unknown, missing = sorted(tree.relations() - known), sorted(known - tree.relations())
        if unknown:
            raise PlanError(f"trees[{i}]: the query has no {unknown[0]} there; it has {', '.join(sorted(known))}")
        if missing:
            raise PlanError(f"trees[{i}]: {missing[0]} is missing; the query reads it")
    root = build_plan(query, trees=WantedTrees(wanted), rewrites=rewrites)
    for i, (select, tree) in enumerate(zip(selects(root), wanted, strict=True)):
        _compare(select, tree, f"trees[{i}]")
    return root


def _reads(plan: AnyPlan, wanted: tuple[WantedTree, ...]) -> bool:
    """Whether the selects of a plan have the same relations as the trees."""
    return [_relations(select) for select in selects(plan)] == [tree.relations() for tree in wanted]


def _relations(plan: QueryPlan) -> frozenset[str]:
    return frozenset(name for name in node_labels(plan) if not name.startswith("["))


def _same(chosen: AnyPlan, wanted: tuple[WantedTree, ...]) -> bool:
    made = [_wanted(_tree(q), "") for q in selects(chosen)]
    return [(set(t.nodes), t.shares) for t in made] == [(set(t.nodes), t.shares) for t in wanted]


def _compare(query: QueryPlan, tree: WantedTree, where: str) -> None:
    shown = node_labels(query)
    made = {(shown[i], None if n.parent < 0 else shown[n.parent]) for i, n in enumerate(query.nodes)}
    for name, parent in tree.nodes:
        if (name, parent) in made:
            continue
        instead = [p for n, p in made if n == name]
        if not instead:
            raise PlanError(f"{where}: the query has no node {name}; there are {', '.join(sorted(shown))}")
        raise PlanError(
            f"{where}: {name} {_attachment(parent)} in the plan, and can only be where it {_attachment(instead[0])}: "
            "EXISTS, IN and LEFT JOIN are attached to the table whose columns they read"
        )
    if len(made) > len(tree.nodes):
        missing = sorted(n for n, _ in made - set(tree.nodes))
        raise PlanError(f"{where}: node {missing[0]} is missing; the query needs it")


def _attachment(parent: str | None) -> str:
    return "is the root" if parent is None else f"is attached to {parent}"


def _loaded(text: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise PlanError(f"the plan is not JSON: {e}") from None
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise PlanError(f"the plan's format is not {FORMAT}; make it again with `freshet plan` of this version")
    _known(data, _PARTS, "the plan")
    if not isinstance(data.get("sql"), str):
        raise PlanError("the plan has no sql; give the query it keeps fresh")
    for part in ("tables", "trees"):
        if not isinstance(data.get(part, []), list):
            raise PlanError(f"{part} is not a list; give one")
    if not all(isinstance(t, str) for t in data.get("tables", [])):
        raise PlanError("tables contains an item that is not text; give CREATE TABLE statements")
    data.setdefault("tables", [])
    return data


def _known(data: dict[str, Any], parts: tuple[str, ...], what: str) -> None:
    unknown = sorted(data.keys() - set(parts))
    if unknown:
        raise PlanError(f"{what} has an unknown part {unknown[0]!r}; the known parts are {', '.join(parts)}")


def _wanted(tree: Any, where: str) -> WantedTree:
    if not isinstance(tree, dict) or not isinstance(tree.get("nodes"), list):
        raise PlanError(f"{where} has no nodes; give a list of them")
    _known(tree, _TREE_PARTS, where)
    nodes: list[tuple[str, str | None]] = []
    for i, node in enumerate(tree["nodes"]):
        spot = f"{where}.nodes[{i}]"
        if not isinstance(node, dict) or not isinstance(node.get("node"), str):
            raise PlanError(f"{spot} has no node; give its name")
        _known(node, _NODE_PARTS, spot)
        parent = node.get("parent")
        if parent is not None and not isinstance(parent, str):
            raise PlanError(f"{spot}: parent is {parent!r}; give a node's name, or null at the root")
        nodes.append((node["node"], parent))
    _check_tree(nodes, where)
    shares = tree.get("shares", {})
    if not isinstance(shares, dict) or not all(_is_share(v) for v in shares.values()):
        raise PlanError(f"{where}.shares is {shares!r}; give an object of dimension to whole number, 1 or more")
    return WantedTree(tuple(nodes), tuple(shares.items()))


def _is_share(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _check_tree(nodes: list[tuple[str, str | None]], where: str) -> None:
    names = [n for n, _ in nodes]
    plain = [n for n in names if not n.startswith("[")]
    if len(set(plain)) < len(plain):
        twice = next(n for n in plain if plain.count(n) > 1)
        raise PlanError(f"{where}: {twice} occurs twice; a relation is one node")
    for name, parent in nodes:
        if parent is not None and parent not in names:
            raise PlanError(
                f"{where}: the parent of {name} is {parent}, which does not exist; the nodes are {', '.join(names)}"
            )
    roots = [n for n, p in nodes if p is None]
    if len(roots) != 1:
        shown = " and ".join(roots) or "none"
        raise PlanError(f"{where}: a tree has one root (parent null), but this one has {shown}")
    above = dict(nodes)
    for name in names:
        at: str | None = name
        for _ in range(len(names) + 1):
            at = None if at is None else above[at]
        if at is not None:
            raise PlanError(f"{where}: {name} is its own ancestor; give the root no parent")
