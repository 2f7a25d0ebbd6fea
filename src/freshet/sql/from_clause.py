"""FROM and WHERE: text → a draft block, in the rawest sound form.

Law: inner joins, commas and parentheses around them all mean one bag of relations and one bag of conjuncts, so they
land in one draft. A LEFT JOIN opens a draft of its own that becomes an arm; a RIGHT JOIN is a LEFT JOIN the other way
round; a FULL JOIN is a relation of its own. Conjuncts stay where they were written (ON of a LEFT JOIN in its arm, all
else in the block); the rewrites move them to where they can be checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NoReturn

from sqlglot import exp

from freshet.sql.bound import AnyQuery, Arm, Block, Field, Relation, TableSchema
from freshet.sql.expression import Expression
from freshet.sql.full_join import join_full
from freshet.sql.rewrite.blocks import NAMELESS
from freshet.sql.scope import Entry, Scope
from freshet.sql.source import closest_first

if TYPE_CHECKING:
    from freshet.sql.select import SelectBinder


@dataclass(slots=True)
class Draft:
    """A block being filled."""

    relations: list[int] = field(default_factory=list)
    predicates: list[Expression] = field(default_factory=list)
    arms: list[Arm] = field(default_factory=list)
    values: dict[str, Expression] = field(default_factory=dict)  # subqueries in it, by their text

    def take(self, other: Draft) -> None:
        """Everything of another draft, joined."""
        self.relations += other.relations
        self.predicates += other.predicates
        self.arms += other.arms

    def block(self) -> Block:
        return Block(tuple(self.relations), tuple(self.predicates), tuple(self.arms))


def bind_from(binder: SelectBinder, select: exp.Select, scope: Scope, draft: Draft) -> None:
    """Commas and joins alike join an item to all before it, as in Spark. What the draft has already stays beside."""
    clause = select.args.get("from_")
    if clause is None:
        return
    part, start = Draft(), len(scope.entries)
    _bind_item(binder, clause.this, scope, part)
    for join in select.args.get("joins") or []:
        _bind_join(binder, join, scope, part, start)
    draft.take(part)


def _bind_item(binder: SelectBinder, node: exp.Expr, scope: Scope, draft: Draft) -> None:
    statement, start = binder.statement, len(scope.entries)
    if isinstance(node, exp.Table):
        for pivot in node.args.get("pivots") or ():
            _refuse_pivot(binder, pivot)
        statement.only(node, ("this", "alias", "joins", "db", "catalog"))
        if not isinstance(node.this, exp.Identifier):
            statement.refuse(f"{node.this.sql(dialect='spark')} in FROM", "name a table, a view or a subquery", node)
        if node.args.get("db"):
            written = node.sql(dialect="spark")
            statement.refuse(f"the qualified name {written}", f"write {node.name}: there is one namespace", node)
        name = node.name
        source = binder.ctes.get(name.lower()) or binder.catalog.view(name) or binder.catalog.table(name)
        if source is None:
            known = [*binder.ctes, *binder.catalog.names()]
            listed = closest_first(name, known) if known else "none yet, so CREATE TABLE first"
            statement.fail(f"no table {name}; known tables and views: {listed}", node)
        _add(binder, source, name, node, scope, draft)
    elif isinstance(node, exp.Subquery):
        statement.only(node, ("this", "alias", "joins", "with_"))
        inner = node.this
        if isinstance(inner, (exp.Table, exp.Subquery)) and not (inner.args.get("alias") and node.args.get("alias")):
            if node.args.get("alias") and isinstance(inner, exp.Table):
                statement.refuse("an alias on a parenthesized join", "write (SELECT * FROM ...) AS alias", node)
            if isinstance(inner, exp.Subquery) and node.args.get("alias"):
                inner.set("alias", node.args["alias"])
            _bind_item(binder, inner, scope, draft)
        else:
            _add(binder, binder.nested(node), node.alias, node, scope, draft)
    elif isinstance(node, exp.Values):
        _add(binder, binder.nested(node), node.alias, node, scope, draft)
    elif isinstance(node, exp.Lateral):
        statement.refuse("LATERAL", "join with a plain FROM subquery ON the columns it shares", "LATERAL")
    else:
        written = node.sql(dialect="spark")
        statement.refuse(f"{written} in FROM", "name a table, a view or a subquery", node)
    for join in node.args.get("joins") or []:
        _bind_join(binder, join, scope, draft, start)


def _refuse_pivot(binder: SelectBinder, pivot: exp.Expr) -> NoReturn:
    if pivot.args.get("unpivot"):
        binder.statement.refuse("UNPIVOT", "write UNION ALL of one select for each column", "UNPIVOT")
    binder.statement.refuse("PIVOT", "write an aggregate for each column, as in SUM(x) FILTER (WHERE y = 1)", "PIVOT")


def _add(
    binder: SelectBinder, source: TableSchema | AnyQuery, name: str, node: exp.Expr, scope: Scope, draft: Draft
) -> None:
    alias = node.args.get("alias")
    fields: tuple[Field, ...] = source.fields
    if alias is not None and alias.columns:
        if len(alias.columns) != len(fields):
            message = f"{alias.name} names {len(alias.columns)} columns, but there are {len(fields)}; name each once"
            binder.statement.fail(message, alias)
        fields = tuple(replace(f, name=c.name) for f, c in zip(fields, alias.columns, strict=True))
    shown = node.alias or name
    number = binder.add_relation(Relation(shown or NAMELESS, source, fields), node)
    scope.add(Entry(shown, number, fields), binder.statement, node)
    draft.relations.append(number)


def _bind_join(binder: SelectBinder, join: exp.Join, scope: Scope, draft: Draft, start: int) -> None:
    """Joins an item to what the draft has; `start`: where the entries of that begin."""
    side, kind, statement = join.side.upper(), join.kind.upper(), binder.statement
    if join.method.upper() not in ("", "NATURAL") or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"):
        statement.refuse(f"{join.method or kind} JOIN", "use JOIN or LEFT JOIN with ON", join)
    statement.only(join, ("this", "on", "using", "side", "kind", "method"))
    middle, shared_before = len(scope.entries), list(scope.shared)
    item, on = Draft(), Draft()
    _bind_item(binder, join.this, scope, item)
    if join.args.get("on") is not None:
        binder.conditions(join.args["on"], scope, on, "ON")
    left, right = scope.entries[start:middle], scope.entries[middle:]
    pairs = _shared(binder, join, left, right)
    on.predicates += [binder.equal(a.column(i), b.column(j), join) for a, i, b, j in pairs]
    scope.shared += [a.fields[i].name.lower() for a, i, _, _ in pairs if a.fields[i].name.lower() not in scope.shared]
    if side == "FULL":
        scope.entries[start:] = join_full(binder, join, (draft, left), (item, right), on, pairs)
        return
    for a, i, b, j in pairs:  # the column of the side that always has a row stands for both
        (a if side == "RIGHT" else b).merged.add(i if side == "RIGHT" else j)
    if kind in ("SEMI", "ANTI"):
        item.take(on)
        draft.arms.append(Arm(kind.lower(), item.block()))
        del scope.entries[middle:]
        scope.shared = shared_before
    elif side == "LEFT":
        item.take(on)
        draft.arms.append(Arm("left", item.block()))
        for entry in right:
            entry.optional = True
    elif side == "RIGHT":
        missing = Draft()
        missing.take(draft)
        missing.take(on)
        draft.relations, draft.predicates, draft.arms = item.relations, item.predicates, item.arms
        draft.arms.append(Arm("left", missing.block()))
        for entry in left:
            entry.optional = True
    else:
        draft.take(item)
        draft.take(on)


Pair = tuple[Entry, int, Entry, int]


def _shared(binder: SelectBinder, join: exp.Join, left: list[Entry], right: list[Entry]) -> list[Pair]:
    """USING and NATURAL: the columns of the same name on both sides, which become one."""
    names: list[exp.Identifier] = list(join.args.get("using") or [])
    if join.method.upper() == "NATURAL":
        theirs = {f.name.lower() for e in left for f in e.fields}
        mine = [f.name for e in right for i, f in enumerate(e.fields) if i not in e.merged]
        names = [exp.to_identifier(n) for n in mine if n.lower() in theirs]
    found = []
    for name in names:
        column = exp.column(name)
        here = Scope(entries=left).resolve(column, binder.statement)
        there = Scope(entries=right).resolve(column, binder.statement)
        a, b = (next(e for e in side if e.has(c)) for side, c in ((left, here), (right, there)))
        found.append((a, here.column - a.first, b, there.column - b.first))
    return found
