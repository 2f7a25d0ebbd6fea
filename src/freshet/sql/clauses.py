"""Which clauses a SELECT may have. A clause that is not listed is refused by name, with an alternative that works."""

from __future__ import annotations

from sqlglot import exp

from freshet.sql.source import Statement

_KNOWN = {
    "with_", "expressions", "from_", "joins", "where", "group", "having", "order", "distinct", "this", "alias", "hint",
    "limit", "offset", "qualify", "windows", "laterals",
}  # fmt: skip

#: Clause → its keywords, and an alternative that works.
_REFUSED = {
    "sort": ("SORT BY", "leave it out: a view is a bag of rows, without order"),
    "cluster": ("CLUSTER BY", "leave it out: a view is a bag of rows, without order"),
    "distribute": ("DISTRIBUTE BY", "leave it out: a view is a bag of rows, without order"),
    "sample": ("TABLESAMPLE", "filter with WHERE on a column"),
    "locks": ("FOR UPDATE", "leave it out: views are always consistent"),
    "into": ("SELECT INTO", "use INSERT INTO ... SELECT"),
}


def check_clauses(statement: Statement, node: exp.Expr) -> None:
    """Refuses unsupported clauses."""
    for slot, value in node.args.items():
        if not value or slot in _KNOWN:
            continue
        words, instead = _REFUSED.get(slot, (slot.strip("_").upper(), "leave it out"))
        statement.refuse(words, instead, words.split()[0])
    if isinstance(node, exp.Select) and not node.expressions:
        statement.fail("a SELECT without columns; name some, or write *", "SELECT")
    distinct, group = node.args.get("distinct"), node.args.get("group")
    if group is not None and group.args.get("all") and len(list(group.iter_expressions())):
        statement.fail("GROUP BY ALL has all the keys; leave out the others, or name each key", group)
    if isinstance(distinct, exp.Distinct) and distinct.args.get("on"):
        statement.refuse("DISTINCT ON", "use GROUP BY with MIN or MAX", "DISTINCT")


def all_keys(node: exp.Select) -> list[exp.Expr]:
    """GROUP BY ALL: by every item of the select list that has no aggregate or window function."""
    return [item.unalias() for item in node.expressions if not _aggregates(item) and not has_window(item)]


def is_grouped(node: exp.Select) -> bool:
    """Whether a select is grouped: by GROUP BY, HAVING, or an aggregate (outside its subqueries)."""
    if node.args.get("group") or node.args.get("having"):
        return True
    return any(_aggregates(item) for item in node.expressions)


def is_grand(node: exp.Expr) -> bool:
    """Whether a query is one group of all its rows: aggregates or HAVING without keys to group by."""
    if not isinstance(node, exp.Select) or not is_grouped(node):
        return False
    group = node.args.get("group")
    return group is None or (bool(group.args.get("all")) and not all_keys(node))


def bare(node: exp.Expr) -> exp.Expr:
    """A query without the parentheses around it."""
    while isinstance(node, exp.Subquery) and not any(v for k, v in node.args.items() if k != "this"):
        node = node.this
    return node


#: Operators that take any number of operands: a chain of one of them is flat, however long.
CHAINS = (exp.And, exp.Or, exp.DPipe)


def operands(node: exp.Expr) -> list[exp.Expr]:
    """The operands of a chain of one operator, left to right."""
    kind, left = type(node), [node]
    parts: list[exp.Expr] = []
    while left:
        part = left.pop()
        if type(part) is kind:
            left += [part.expression, part.this]
        else:
            parts.append(part)
    return parts


def has_window(node: exp.Expr) -> bool:
    """Whether an expression has a window function (outside its subqueries)."""
    return any(isinstance(part, exp.Window) for part in node.walk(prune=lambda part: isinstance(part, exp.Query)))


def _aggregates(node: exp.Expr) -> bool:
    """Whether an expression has an aggregate outside its subqueries. One with OVER is a window function, but its
    arguments may contain aggregates."""
    left = [node]
    while left:
        part = left.pop()
        if isinstance(part, exp.Window):
            call = part.this
            while isinstance(call, (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)):
                left += [e for e in call.iter_expressions() if e is not call.this]
                call = call.this
            left += [*call.iter_expressions(), *(e for e in part.iter_expressions() if e is not part.this)]
        elif isinstance(part, exp.AggFunc):
            return True
        elif not isinstance(part, exp.Query):
            left += part.iter_expressions()
    return False
