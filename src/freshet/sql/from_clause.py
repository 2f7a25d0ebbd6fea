"""FROM and WHERE: text → a draft block, as close to the text as is sound.

Law: inner joins, commas and parentheses around them all mean one bag of relations and one bag of conjuncts, so they
share one draft. A LEFT JOIN opens a separate draft that becomes an arm; a RIGHT JOIN is a LEFT JOIN with its sides
swapped; a FULL JOIN is a separate relation. Conjuncts stay where they were written (ON of a LEFT JOIN in its arm, all
others in the block); the rewrites move them to where they can be checked.

As in Spark, a comma has the same precedence as JOIN: each item is joined to everything on its left. Columns joined by
USING or NATURAL become one, which `*` shows before the other columns of that join; the other column of the pair (for a
FULL JOIN, both) can only be read by a qualified name.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from freshet.logical.apply import Apply, ApplyKind
from freshet.logical.kinds import JoinKind
from freshet.logical.query import AnyQuery, Arm, Field, Relation, TableSchema, Values
from freshet.logical.rewrite.blocks import NAMELESS
from freshet.scalar.types import BOOLEAN
from freshet.sql.binder import Binder, Draft, SelfReference
from freshet.sql.common_table import read_from
from freshet.sql.full_join import join_full
from freshet.sql.generator import bind_generator, generator_of, lateral_of, table_function_of
from freshet.sql.limit import as_bag
from freshet.sql.pivot import without_pivot
from freshet.sql.scope import Columns, Entry, NameScope, Seat
from freshet.sql.source import closest_first, sql_of
from freshet.sql.values import bind_range


def bind_from(binder: Binder, select: exp.Select, scope: NameScope, draft: Draft) -> None:
    """Joins the items of FROM to the draft. A comma means CROSS JOIN, as in Spark."""
    clause, columns = select.args.get("from_"), Columns()
    if clause is not None:
        columns = _bind_item(binder, clause.this, scope, draft)
    for join in select.args.get("joins") or []:
        columns = _bind_join(binder, join, scope, draft, columns, 0)
    for lateral in select.args.get("laterals") or []:
        columns = _bind_elements(binder, lateral, scope, draft, columns, 0)
    scope.columns = columns


def _bind_item(binder: Binder, node: exp.Expr, scope: NameScope, draft: Draft) -> Columns:
    statement, start = binder.statement, len(scope.entries)
    generator = None
    if isinstance(node, exp.Table):
        generator = generator_of(node.this, statement) or table_function_of(node.this, statement)
    if generator is not None:
        statement.only(node, ("this", "alias", "joins"))
        alias = node.args.get("alias")
        names = () if alias is None else tuple(c.name for c in alias.columns)
        columns = bind_generator(binder, replace(generator, alias=node.alias, names=names), NameScope(), draft, start)
        number = draft.relations[-1]
        columns = scope.add(Entry(node.alias, number, binder.relations[number].fields), statement, node)
    elif node.args.get("pivots"):
        columns = _bind_pivots(binder, node, scope, draft)
    elif isinstance(node, exp.Table):
        statement.only(node, ("this", "alias", "joins", "db", "catalog"))
        columns = _add(binder, _source(binder, node), node.name, node, scope, draft)
    elif isinstance(node, exp.Subquery):
        statement.only(node, ("this", "alias", "joins", "with_"))
        is_join = isinstance(node.this, (exp.Table, exp.Subquery))
        if is_join and not node.args.get("alias"):
            columns = _bind_item(binder, node.this, scope, draft)
        elif is_join:  # (a JOIN b) AS c
            columns = _add(binder, binder.nested(_all_of(node.this), scope), node.alias, node, scope, draft)
        else:
            columns = _add(binder, binder.nested(node, scope), node.alias, node, scope, draft)
    elif isinstance(node, exp.Values):
        columns = _add(binder, binder.nested(node), node.alias, node, scope, draft)
    elif isinstance(node, exp.Lateral) and lateral_of(node, statement) is not None:
        scope.columns = Columns()
        columns = _bind_elements(binder, node, scope, draft, scope.columns, start)
    elif isinstance(node, exp.Lateral):
        columns = _bind_lateral(binder, node, scope, draft)
    else:
        written = sql_of(node)
        statement.refuse(f"{written} in FROM", "name a table, a view or a subquery", node)
    for join in node.args.get("joins") or []:
        columns = _bind_join(binder, join, scope, draft, columns, start)
    return columns


def _bind_pivots(binder: Binder, node: exp.Expr, scope: NameScope, draft: Draft) -> Columns:
    """A table or query with PIVOT or UNPIVOT, each of which reads the one before it."""
    pivots, source = node.args["pivots"], node.copy()
    source.set("pivots", None)
    source.set("joins", None)
    for pivot in pivots:
        read = source if pivot is pivots[0] else exp.Subquery(this=source)
        fields = binder.nested(_all_of(read.copy()), scope).fields
        source = without_pivot(binder, pivot, read, fields)
    return _add(binder, binder.nested(source, scope), pivots[-1].alias, pivots[-1], scope, draft)


def _bind_elements(
    binder: Binder, node: exp.Expr, scope: NameScope, draft: Draft, left: Columns, start: int
) -> Columns:
    """LATERAL VIEW, or LATERAL with a generator; returns the columns on its left and its own."""
    generator = lateral_of(node, binder.statement) if isinstance(node, exp.Lateral) else None
    if generator is None:
        remedy = "use EXPLODE, POSEXPLODE or INLINE"
        binder.statement.refuse(f"LATERAL VIEW of {sql_of(node.this)}", remedy, node)
    scope.columns = left
    return left + bind_generator(binder, generator, scope, draft, start)


def _bind_lateral(binder: Binder, node: exp.Lateral, scope: NameScope, draft: Draft) -> Columns:
    """A query that reads the items on its left: a relation without rows, and the condition that stands for them."""
    statement = binder.statement
    statement.only(node, ("this", "alias"))
    if node.args.get("view") or not isinstance(node.this, exp.Subquery):
        statement.refuse("LATERAL of anything but a subquery", "write LATERAL (SELECT ...)", "LATERAL")
    query, around = binder.subquery(node.this, scope, False)
    columns = _add(binder, Values((), query.fields), node.alias, node, scope, draft)
    number, args = draft.relations[-1], tuple(around.read)
    spot = statement.spot(node.this)
    draft.predicates.append(
        Apply(BOOLEAN, ApplyKind.LATERAL, query, args, "LATERAL", False, select=scope.mark, spot=spot, relation=number)
    )
    return columns


def _all_of(node: exp.Expr) -> exp.Select:
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=node))


def _source(binder: Binder, node: exp.Table) -> TableSchema | AnyQuery:
    """The table, view or common table that a name in FROM refers to, or a table function."""
    statement, name = binder.statement, node.name
    if node.args.get("db"):
        written = sql_of(node)
        statement.refuse(f"the qualified name {written}", f"write {node.name}: there is one namespace", node)
    if isinstance(node.this, exp.Anonymous) and node.this.name.lower() == "range":
        return bind_range(binder, node.this)
    if not isinstance(node.this, exp.Identifier):
        statement.refuse(f"{sql_of(node.this)} in FROM", "name a table, a view or a subquery", node)
    common = binder.ctes.get(name.lower())
    if common is not None and isinstance(common.query, SelfReference):
        return common.query.source(statement, node)
    source = binder.catalog.source(name) if common is None else read_from(common, binder.around)
    if source is None:
        known = [*binder.ctes, *binder.catalog.names()]
        listed = closest_first(name, known) if known else "none yet, so CREATE TABLE first"
        statement.fail(f"no table {name}; known tables and views: {listed}", node)
    return source if isinstance(source, TableSchema) else as_bag(source)


def _add(
    binder: Binder, source: TableSchema | AnyQuery, name: str, node: exp.Expr, scope: NameScope, draft: Draft
) -> Columns:
    alias = node.args.get("alias")
    fields: tuple[Field, ...] = source.fields
    if alias is not None and alias.columns:
        if len(alias.columns) != len(fields):
            message = f"{alias.name} names {len(alias.columns)} columns, but there are {len(fields)}; name each once"
            binder.statement.fail(message, alias)
        fields = tuple(replace(f, name=c.name) for f, c in zip(fields, alias.columns, strict=True))
    shown = node.alias or name
    number = binder.add_relation(Relation(shown or NAMELESS, source, fields), node)
    draft.relations.append(number)
    return scope.add(Entry(shown, number, fields), binder.statement, node)


def _bind_join(binder: Binder, join: exp.Join, scope: NameScope, draft: Draft, left: Columns, start: int) -> Columns:
    """Joins an item to the draft, whose entries begin at `start`; returns the columns of both."""
    side, kind, statement = join.side.upper(), join.kind.upper(), binder.statement
    if join.method.upper() not in ("", "NATURAL") or kind not in ("", "INNER", "CROSS", "OUTER", "SEMI", "ANTI"):
        statement.refuse(f"{join.method or kind} JOIN", "use JOIN or LEFT JOIN with ON", join)
    statement.only(join, ("this", "on", "using", "side", "kind", "method"))
    if isinstance(join.this, exp.Lateral) and (side in ("RIGHT", "FULL") or kind in ("SEMI", "ANTI")):
        what = f"{side or kind} JOIN LATERAL"
        statement.refuse(what, "use JOIN LATERAL, LEFT JOIN LATERAL, or EXISTS", "LATERAL")
    if isinstance(join.this, exp.Lateral) and lateral_of(join.this, statement) is not None:
        return _join_elements(binder, join, scope, draft, left, start)
    middle, item, on = len(scope.entries), Draft(), Draft()
    scope.columns = left
    right = _bind_item(binder, join.this, scope, item)
    scope.columns = left + right
    if join.args.get("on") is not None:
        binder.conditions(join.args["on"], scope, on, "ON")
    pairs = _shared(binder, join, scope, left, right)
    mine, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    on.predicates += [binder.equal(scope.column(a), scope.column(b), join) for a, b in pairs]
    if side == "FULL":
        sides = (draft, scope.entries[start:middle]), (item, scope.entries[middle:])
        made = [(scope.entries[a.entry], a.position, scope.entries[b.entry], b.position) for a, b in pairs]
        scope.entries[start:] = join_full(binder, join, *sides, on, made)
        merged = [Seat(len(scope.entries) - 1, i, a.name) for i, a in enumerate(mine)]
        return _joined(left, right, merged, mine + theirs, (mine, theirs))
    if kind in ("SEMI", "ANTI"):
        item.take(on)
        draft.arms.append(Arm(JoinKind(kind.lower()), item.block()))
        del scope.entries[middle:]
        return _joined(left, Columns(), mine, [], (mine, []))
    if side == "LEFT":
        item.take(on)
        draft.arms.append(Arm(JoinKind.LEFT, item.block()))
        for entry in scope.entries[middle:]:
            entry.optional = True
    elif side == "RIGHT":
        missing = Draft()
        missing.take(draft)
        missing.take(on)
        draft.relations, draft.predicates, draft.arms = item.relations, item.predicates, item.arms
        draft.arms.append(Arm(JoinKind.LEFT, missing.block()))
        for entry in scope.entries[start:middle]:
            entry.optional = True
        return _joined(left, right, theirs, mine, (mine, theirs))  # the side that always has a row represents both
    else:
        draft.take(item)
        draft.take(on)
    return _joined(left, right, mine, theirs, (mine, theirs))


def _join_elements(
    binder: Binder, join: exp.Join, scope: NameScope, draft: Draft, left: Columns, start: int
) -> Columns:
    """JOIN LATERAL EXPLODE(...)."""
    if join.side or join.method or join.args.get("using"):
        what = f"{join.side or join.method or 'USING with'} JOIN LATERAL of elements"
        binder.statement.refuse(what, "write LATERAL VIEW OUTER to keep rows without elements", "LATERAL")
    scope.columns = columns = _bind_elements(binder, join.this, scope, draft, left, start)
    if join.args.get("on") is not None:
        binder.conditions(join.args["on"], scope, draft, "ON")
    return columns


def _joined(
    left: Columns, right: Columns, keys: list[Seat], hidden: list[Seat], gone: tuple[list[Seat], list[Seat]]
) -> Columns:
    """The columns of a join: the merged ones, then the rest of each side."""
    rest = [s for s in left.shown if s not in gone[0]] + [s for s in right.shown if s not in gone[1]]
    return Columns(keys + rest, hidden + left.hidden + right.hidden)


def _shared(binder: Binder, join: exp.Join, scope: NameScope, left: Columns, right: Columns) -> list[tuple[Seat, Seat]]:
    """USING and NATURAL: pairs of columns with the same name on both sides, which are merged; if one side has several,
    the first is used, as in Spark."""
    names: list[exp.Identifier] = list(join.args.get("using") or [])
    if join.method.upper() == "NATURAL":
        common = dict.fromkeys(s.name for s in left.shown if right.named(s.name, False))
        names = [exp.to_identifier(name) for name in common]
    pairs: list[tuple[Seat, Seat]] = []
    for name in names:
        pair = []
        for side in (left, right):
            seats = side.named(name.name.lower(), False)
            if not seats:
                NameScope(entries=scope.entries, columns=side).resolve(exp.Column(this=name), binder.statement)
            pair.append(seats[0])
        if (pair[0], pair[1]) in pairs:
            binder.statement.fail(f"USING names {name.name} twice; name it once", name)
        pairs.append((pair[0], pair[1]))
    return pairs
