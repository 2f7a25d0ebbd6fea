"""A plan in words: its class, its tree, what is guaranteed and what is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from freshet.plans.model import Edge, Node, QueryPlan
from freshet.sql.bound import GROUP
from freshet.sql.expression import AggregateCall, ColumnRef, Expression, describe


def explain(plan: QueryPlan, statistics: Sequence[tuple[int, int]] | None = None) -> str:
    """As text. `statistics`: tuples and alive tuples of each node of a running view."""
    d = as_dict(plan, statistics)
    lines = [f"class      {d['class']}", f"height     {d['height']}"]
    lines += [f"update     {d['guarantee']['update']}", f"delay      {d['guarantee']['delay']}"]
    lines += [f"lost       {reason}" for reason in d["guarantee"]["lost"]]
    lines += [f"attribute  {name}: {meaning}" for name, meaning in d["attributes"].items()]
    lines.append("tree")
    lines += [_line(n) for n in d["tree"]]
    for title in ("residual", "group by", "aggregates", "having", "distinct"):
        if d.get(title):
            shown = ", ".join(d[title]) if isinstance(d[title], list) else str(d[title])
            lines.append(f"{title:<10} {shown}")
    lines.append(f"output     {', '.join(d['output'])}")
    for alias, nested in d["inputs"].items():
        lines.append(f"input {alias}")
        lines += ["  " + line for line in explain(nested).splitlines()]
    return "\n".join(lines)


def as_dict(plan: QueryPlan, statistics: Sequence[tuple[int, int]] | None = None) -> dict[str, Any]:
    """The same as data; nested plans stay plans under `inputs`."""
    g = plan.guarantee
    grouping = plan.grouping
    shown = _names(plan)
    return {
        "class": g.query_class,
        "height": g.height,
        "guarantee": {"update": g.update, "delay": g.delay, "lost": list(g.lost)},
        "attributes": dict(plan.attributes),
        "tree": [_node(plan, i, statistics) for i in range(len(plan.nodes))],
        "residual": [describe(e, shown) for e in plan.residual],
        "group by": None if grouping is None else [describe(k, shown) for k in grouping.keys],
        "aggregates": None if grouping is None else [_aggregate(c, plan) for c in grouping.aggregates],
        "having": None if grouping is None or grouping.having is None else describe(grouping.having, shown),
        "distinct": "by the tree itself" if plan.distinct_tree else "by counting rows" if plan.distinct else None,
        "output": [f.name for f in plan.fields],
        "inputs": {r.alias: r.source for r in plan.relations if isinstance(r.source, QueryPlan)},
    }


def _node(plan: QueryPlan, i: int, statistics: Sequence[tuple[int, int]] | None) -> dict[str, Any]:
    node, shown = plan.nodes[i], _names(plan)
    out: dict[str, Any] = {
        "node": i,
        "parent": node.parent,
        "depth": _depth(plan.nodes, i),
        "relation": plan.relations[node.relation].alias,
        "generalized": node.generalized,
        "output": node.output,
        "kind": None if node.edge is None else node.edge.kind,
        "key": [] if node.edge is None else _key(node.edge, shown),
        "filter": [describe(f, shown) for f in node.filter],
        "assertions": [f"{describe(a.left_value, shown)} = {describe(a.right_value, shown)}" for a in node.assertions],
    }
    if statistics is not None:
        out["tuples"], out["alive"] = statistics[i]
    return out


def _key(edge: Edge, shown: Any) -> list[str]:
    children = [describe(e, shown) for e in edge.child_key]
    parents = [describe(e, shown) for e in edge.parent_key]
    keys = [f"{p} = {c}" for p, c in zip(parents, children, strict=True)] if parents else children
    if edge.comparison is not None:
        c = edge.comparison
        keys.append(f"{describe(c.parent, shown)} {c.operator} {describe(c.child, shown)}")
    return keys + [f"if {describe(c, shown)}" for c in edge.condition]


def _line(n: dict[str, Any]) -> str:
    parts = ["  " * (n["depth"] + 1) + n["relation"]]
    if n["kind"]:
        parts.append(f"{n['kind']} on {', '.join(n['key']) or 'anything'}")
    if n["filter"]:
        parts.append("where " + " and ".join(n["filter"]))
    parts += [f"assert {a}" for a in n["assertions"]]
    if n["output"]:
        parts.append("output")
    if "tuples" in n:
        parts.append(f"{n['tuples']:,} tuples, {n['alive']:,} alive")
    return " · ".join(parts)


def _depth(nodes: tuple[Node, ...], i: int) -> int:
    depth = 0
    while nodes[i].parent >= 0:
        i, depth = nodes[i].parent, depth + 1
    return depth


def _names(plan: QueryPlan) -> Any:
    def name(c: ColumnRef) -> str:
        if c.relation == GROUP:
            return c.name
        return f"{plan.relations[c.relation].alias}.{c.name}"

    return name


def _aggregate(call: AggregateCall, plan: QueryPlan) -> str:
    args: Sequence[Expression] = call.args
    inside = ", ".join(describe(a, _names(plan)) for a in args) or "*"
    text = f"{call.function.upper()}({'DISTINCT ' if call.distinct else ''}{inside})"
    return text if call.filter is None else f"{text} FILTER (WHERE {describe(call.filter, _names(plan))})"
