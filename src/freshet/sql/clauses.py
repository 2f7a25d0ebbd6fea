"""Which clauses a SELECT may have here. What is not listed as known is refused by name, with what works instead."""

from __future__ import annotations

from sqlglot import exp

from freshet.sql.source import Statement

_KNOWN = {
    "with_", "expressions", "from_", "joins", "where", "group", "having", "order", "distinct", "this", "alias", "hint",
    "limit", "offset", "qualify", "windows",
}  # fmt: skip

#: Clause → its words, and what works instead.
_REFUSED = {
    "laterals": ("LATERAL VIEW", "flatten the rows before they arrive, into a table of their own"),
    "sort": ("SORT BY", "leave it out: a view is a bag of rows, without order"),
    "cluster": ("CLUSTER BY", "leave it out: a view is a bag of rows, without order"),
    "distribute": ("DISTRIBUTE BY", "leave it out: a view is a bag of rows, without order"),
    "sample": ("TABLESAMPLE", "filter with WHERE on a column"),
    "locks": ("FOR UPDATE", "leave it out: views are always consistent"),
    "into": ("SELECT INTO", "use INSERT INTO ... SELECT"),
}


def check_clauses(statement: Statement, node: exp.Expr) -> None:
    """Refuses clauses that are not kept."""
    for slot, value in node.args.items():
        if not value or slot in _KNOWN:
            continue
        words, instead = _REFUSED.get(slot, (slot.strip("_").upper(), "leave it out"))
        statement.refuse(words, instead, words.split()[0])
    distinct, group = node.args.get("distinct"), node.args.get("group")
    if group is not None and group.args.get("all"):
        _name_all(node, group)
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        statement.refuse("DISTINCT ON", "use GROUP BY with MIN or MAX", "DISTINCT")


def _name_all(node: exp.Expr, group: exp.Expr) -> None:
    """GROUP BY ALL: by every item of the select list that has no aggregate or window function."""
    items = enumerate(node.expressions, 1)
    plain = [i for i, item in items if not _aggregates(item) and not item.find(exp.Window)]
    if plain:
        group.set("all", None)
        group.set("expressions", [exp.Literal.number(i) for i in plain])
    else:
        node.set("group", None)


def is_grouped(node: exp.Select) -> bool:
    """Whether a select groups: by GROUP BY, HAVING, or an aggregate of its own (not of a subquery's)."""
    if node.args.get("group") or node.args.get("having"):
        return True
    return any(_aggregates(item) for item in node.expressions)


def is_grand(node: exp.Expr) -> bool:
    """Whether a query is one group of all its rows: aggregates or HAVING without GROUP BY."""
    return isinstance(node, exp.Select) and is_grouped(node) and not node.args.get("group")


def bare(node: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it."""
    while isinstance(node, exp.Subquery) and not any(v for k, v in node.args.items() if k != "this"):
        node = node.this
    return node


def _aggregates(node: exp.Expr) -> bool:
    if isinstance(node, (exp.Query, exp.Window)):
        return False
    return isinstance(node, exp.AggFunc) or any(_aggregates(child) for child in node.iter_expressions())
