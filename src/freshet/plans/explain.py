"""Describes a plan: its class, its tree, what is guaranteed and what is not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, repeat
from typing import Any, NamedTuple

from freshet.logical.query import TableSchema
from freshet.plans.claims import claim
from freshet.plans.model import (
    AnyPlan,
    BoundedSumsPlan,
    Edge,
    FlattenedPlan,
    Node,
    QueryPlan,
    RecursivePlan,
    SortPlan,
    TimedPlan,
    TopPlan,
    ValuesPlan,
    WindowPlan,
    inputs,
)
from freshet.scalar.describe import describe
from freshet.scalar.expression import AggregateCall, ColumnRef, Expression, SortKey

#: Optional properties of an operator, printed one per line.
_TITLES = (
    "residual", "group by", "aggregates", "having", "distinct", "partition", "order", "time", "taken", "iterations",
    "rows",
)  # fmt: skip


class Standing(NamedTuple):
    """The size and cost of a running view: tuples and alive tuples of each node of its tree, the steps it has taken,
    and the same for its inputs."""

    nodes: Sequence[tuple[int, int]]
    below: Sequence[Standing]
    paid: Mapping[str, int] = {}


def explain(plan: AnyPlan, statistics: Standing | None = None) -> str:
    """As text."""
    return "\n".join(_lines(as_dict(plan, statistics)))


def _lines(d: dict[str, Any]) -> Iterator[str]:
    yield f"class      {d['class']}"
    if "height" in d:
        yield f"height     {d['height']}"
    yield f"update     {d['guarantee']['update']}"
    yield f"delay      {d['guarantee']['delay']}"
    yield from (f"lost       {reason}" for reason in d["guarantee"]["lost"])
    if d["guarantee"]["totals"]:
        yield f"totals     {d['guarantee']['totals']}"
    yield from (f"attribute  {name}: {meaning}" for name, meaning in d.get("attributes", {}).items())
    if "tree" in d:
        yield "tree"
        yield from _branch(d["tree"], -1)
    for title in _TITLES:
        if d.get(title):
            shown = ", ".join(d[title]) if isinstance(d[title], list) else str(d[title])
            yield f"{title:<10} {shown}"
    yield f"output     {', '.join(d['output'])}"
    if d.get("sorted"):
        yield f"sorted     {', '.join(d['sorted'])}, when it is read"
    for name, nested in d["inputs"].items():
        yield f"input {name}"
        yield from ("  " + line for line in _lines(nested))


def as_dict(plan: AnyPlan, statistics: Standing | None = None) -> dict[str, Any]:
    """The same as data."""
    if isinstance(plan, SortPlan):
        names = [f.name for f in plan.source.fields]
        order = [_sort_key(k, names) for k in plan.order]
        return {**as_dict(plan.source, statistics), "output": [f.name for f in plan.fields], "sorted": order}
    g = plan.guarantee
    held = chain(() if statistics is None else statistics.below, repeat(None))
    described: dict[str, Any] = {
        "class": g.query_class,
        "guarantee": {
            "update": g.update,
            "delay": g.delay,
            "lost": list(g.lost),
            "totals": g.totals,
            "claim": asdict(claim(plan)),
        },
        **({} if statistics is None else {"paid": dict(statistics.paid)}),
        **(_select(plan, statistics) if isinstance(plan, QueryPlan) else {}),
        "output": [f.name for f in plan.fields],
        "inputs": {name: as_dict(below, at) for (name, below), at in zip(inputs(plan), held, strict=False)},
    }
    if isinstance(plan, (TopPlan, WindowPlan)):
        names = [f.name for f in plan.source.fields]
        described["partition"] = [names[i] for i in plan.partition]
        described["order"] = [_sort_key(k, names) for k in plan.order]
    if isinstance(plan, TopPlan):
        described["taken"] = f"{'all' if plan.limit is None else f'{plan.limit:,}'} rows from place {plan.offset:,} on"
        described["taken"] += ", and those that tie with the last" if plan.ties else ""
    if isinstance(plan, BoundedSumsPlan):
        value, bound = plan.rows.fields[plan.keys].name, plan.bounds.fields[plan.keys].name
        described["partition"] = [f.name for f in plan.fields[: plan.keys]]
        described["taken"] = f"rows with {value} {plan.operator} {bound}, by partial sums in order"
    if isinstance(plan, TimedPlan):
        names = [f.name for f in plan.source.fields]
        now = (
            "NOW()" if not plan.final else f"the {'least ' * (len(plan.final) > 1)}watermark of {', '.join(plan.final)}"
        )
        described["time"] = [m.described(names[m.column], m in plan.until, now) for m in (*plan.since, *plan.until)]
        described["time"] += [f"whether {m.described(names[m.column], False, now)}" for m in plan.flags]
    if isinstance(plan, RecursivePlan):
        each = "the first of them that derives it" if plan.distinct else "each of them that derives it"
        described["iterations"] = f"up to {plan.levels:,}; a row is in {each}"
    if isinstance(plan, FlattenedPlan):
        described["elements"] = f"of {plan.source.fields[plan.list].name}{', or one NULL' if plan.outer else ''}"
    if isinstance(plan, ValuesPlan):
        described["rows"] = [f"({', '.join(map(describe, row))})" for row in plan.rows]
    return described


def _sort_key(key: SortKey, names: Sequence[str]) -> str:
    return f"{names[key.column]} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _select(plan: QueryPlan, statistics: Standing | None) -> dict[str, Any]:
    grouping = plan.grouping
    shown = _names(plan)
    return {
        "height": plan.guarantee.height,
        "attributes": dict(plan.attributes),
        "tree": [_node(plan, i, statistics) for i in range(len(plan.nodes))],
        "residual": [describe(e, shown) for e in plan.residual],
        "group by": None if grouping is None else [describe(k, shown) for k in grouping.keys],
        "aggregates": None if grouping is None else [_aggregate(c, plan) for c in grouping.aggregates],
        "having": None if grouping is None or grouping.having is None else describe(grouping.having, shown),
        "distinct": "by the tree itself" if plan.distinct_tree else "by counting rows" if plan.distinct else None,
    }


def _node(plan: QueryPlan, i: int, statistics: Standing | None) -> dict[str, Any]:
    node, shown = plan.nodes[i], _names(plan)
    source = plan.relations[node.relation].source
    out: dict[str, Any] = {
        "node": i,
        "parent": node.parent,
        "depth": _depth(plan.nodes, i),
        "relation": plan.relations[node.relation].alias,
        "table": source.name if isinstance(source, TableSchema) and not node.generalized else None,
        "generalized": node.generalized,
        "output": node.output,
        "counted": node.edge is not None and node.edge.comparison is not None and node.edge.comparison.counted,
        "kind": None if node.edge is None else node.edge.kind,
        "key": [] if node.edge is None else _key(node.edge, shown),
        "filter": [describe(f, shown) for f in node.filter],
        "assertions": [f"{describe(a.left_value, shown)} = {describe(a.right_value, shown)}" for a in node.assertions],
    }
    if statistics is not None and statistics.nodes:
        out["tuples"], out["alive"] = statistics.nodes[i]
    return out


def _key(edge: Edge, shown: Any) -> list[str]:
    children = [describe(e, shown) for e in edge.child_key]
    parents = [describe(e, shown) for e in edge.parent_key]
    keys = [f"{p} = {c}" for p, c in zip(parents, children, strict=True)] if parents else children
    if edge.comparison is not None:
        c = edge.comparison
        band = "" if c.band is None else f" and no further than {c.band:,}"
        keys.append(f"{describe(c.parent, shown)} {c.operator} {describe(c.child, shown)}{band}")
        keys += [f"{describe(f.parent, shown)} {f.operator} {describe(f.child, shown)}" for f in c.further]
    return keys + [f"if {describe(c, shown)}" for c in edge.condition]


def _branch(tree: Sequence[dict[str, Any]], parent: int) -> Iterator[str]:
    """The nodes below one, each followed by its descendants: arms come after the whole tree they are attached to."""
    for n in tree:
        if n["parent"] == parent:
            yield _line(n)
            yield from _branch(tree, n["node"])


def _line(n: dict[str, Any]) -> str:
    parts = ["  " * (n["depth"] + 1) + n["relation"]]
    if n["kind"]:
        parts.append(f"{n['kind']} on {', '.join(n['key']) or 'anything'}")
    if n["filter"]:
        parts.append("where " + " and ".join(n["filter"]))
    parts += [f"assert {a}" for a in n["assertions"]]
    if n["output"]:
        parts.append("counted" if n["counted"] else "output")
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
        return f"{plan.relations[c.relation].alias}.{c.name}"

    return name


def _aggregate(call: AggregateCall, plan: QueryPlan) -> str:
    args: Sequence[Expression] = call.args
    inside = ", ".join(describe(a, _names(plan)) for a in args) or "*"
    text = f"{call.function.upper()}({'DISTINCT ' if call.distinct else ''}{inside})"
    if call.filter is not None:
        text += f" FILTER (WHERE {describe(call.filter, _names(plan))})"
    if call.copies is not None:
        text += f" times {describe(call.copies, _names(plan))}"
    return f"{text}, rest {call.term}" if call.term else text
