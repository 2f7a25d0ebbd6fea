"""EXPLODE, POSEXPLODE and INLINE: the rows of FROM, each once for every element of an array or map. Functions in Python
that return rows are called in the same places.

Law: a generator reads the rows on its left, so those become one relation with the elements as further columns. Where it
reads a single relation that every row has, only that relation does: the others are joined to it as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from freshet.logical.apply import Apply, has_apply
from freshet.logical.query import AnyQuery, Block, Field, Flattened, Query, Relation, key
from freshet.logical.references import OuterRef
from freshet.logical.rewrite.blocks import reads, subtree
from freshet.scalar import functions
from freshet.scalar.expression import ColumnRef, Expression, references, transform, walk
from freshet.scalar.types import INT
from freshet.sql.binder import Binder, Draft
from freshet.sql.scope import Columns, Entry, NameScope
from freshet.sql.source import Statement, sql_of

_NAMES = ("explode", "explodeouter", "posexplode", "posexplodeouter", "inline", "inlineouter")


@dataclass(frozen=True, slots=True)
class WrittenGenerator:
    """A generator as it is written: `names` are those given to its columns, if any."""

    node: exp.Expr
    name: str
    argument: exp.Expr
    alias: str = ""
    names: tuple[str, ...] = ()
    outer: bool = False

    @property
    def shown(self) -> str:
        return self.name.upper()


def generator_of(node: exp.Expr | None, statement: Statement) -> WrittenGenerator | None:
    """The generator that a node is."""
    if isinstance(node, exp.Anonymous):
        name, args = node.name.lower().replace("_", ""), node.expressions
    elif isinstance(node, exp.Func):
        name, args = node.key.lstrip("_"), [node.args.get("this"), *(node.args.get("expressions") or ())]
    else:
        return None
    if name not in _NAMES:
        return None
    if len(args) != 1 or args[0] is None:
        statement.fail(f"{sql_of(node)} takes one array or map; write one", node)
    return WrittenGenerator(node, name.removesuffix("outer"), args[0], outer=name.endswith("outer"))


def table_function_of(node: exp.Expr | None, statement: Statement) -> WrittenGenerator | None:
    """A call of a function in Python whose values are rows: INLINE of it."""
    known = statement.functions.get(node.name.lower()) if isinstance(node, exp.Anonymous) else None
    return WrittenGenerator(node, "inline", node) if node is not None and known is not None and known.is_table else None


def lateral_of(node: exp.Lateral, statement: Statement) -> WrittenGenerator | None:
    """The generator of LATERAL VIEW or LATERAL."""
    made = generator_of(node.this, statement) or table_function_of(node.this, statement)
    if made is None:
        return None
    statement.only(node, ("this", "alias", "view", "outer"))
    alias = node.args.get("alias")
    names = () if alias is None else tuple(c.name for c in alias.columns)
    return replace(made, alias=node.alias, names=names, outer=made.outer or bool(node.args.get("outer")))


def bind_generator(binder: Binder, generator: WrittenGenerator, scope: NameScope, draft: Draft, start: int) -> Columns:
    """Makes the elements columns of the draft, whose entries begin at `start`; returns these columns."""
    value = _argument(binder, generator, scope)
    return add_elements(binder, generator, value, _elements(binder, generator, value), scope, draft, start)


def add_elements(
    binder: Binder,
    generator: WrittenGenerator,
    value: Expression,
    elements: tuple[Field, ...],
    scope: NameScope,
    draft: Draft,
    start: int,
) -> Columns:
    """The same of an array or map that is bound already."""
    read = tuple(references(value))
    if not read:
        number = _alone(binder, generator, value, elements)
        draft.relations.append(number)
        first = 0
    elif len(read) == 1 and _stays_in_place(binder, draft, read[0]):
        number, first = read[0], _in_place(binder, generator, value, elements, read[0])
    else:
        number, first = _of_all(binder, generator, value, elements, scope, draft, start)
    return scope.add(Entry(generator.alias, number, elements, first=first), binder.statement, generator.node)


def _argument(binder: Binder, generator: WrittenGenerator, scope: NameScope) -> Expression:
    statement, node = binder.statement, generator.node
    value = binder.scalar(scope, generator.shown).bind(generator.argument)
    if any(isinstance(part, OuterRef) for part in walk(value)):
        remedy = f"write {generator.shown} in the FROM of the enclosing query"
        statement.refuse(f"{generator.shown} of a column of the enclosing query", remedy, node)
    is_struct = value.type.name == "ARRAY" and value.type.parts[0].name == "STRUCT"
    if generator.name == "inline" and not is_struct:
        statement.fail(f"INLINE takes an array of structs, not {value.type}", node)
    if value.type.name not in ("ARRAY", "MAP"):
        statement.fail(f"{generator.shown} takes an array or a map, not {value.type}", node)
    if any(part.name == "VOID" for part in value.type.parts):
        statement.fail(f"{generator.shown} of elements without a type; CAST the array", node)
    return value


def _elements(binder: Binder, generator: WrittenGenerator, value: Expression) -> tuple[Field, ...]:
    """The columns that the generator adds."""
    if generator.name == "inline":
        columns = list(value.type.parts[0].fields)
    elif value.type.name == "MAP":
        columns = list(zip(("key", "value"), value.type.parts, strict=True))
    else:
        columns = [("col", value.type.parts[0])]
    if generator.name == "posexplode":
        columns.insert(0, ("pos", INT))
    if generator.names and len(generator.names) != len(columns):
        many, given = len(columns), len(generator.names)
        message = f"{generator.shown} has {many} columns, but {given} are named; name each once"
        binder.statement.fail(message, generator.node)
    names = generator.names or [name for name, _ in columns]
    kinds = [kind for _, kind in columns]
    return tuple(
        Field(name, kind, generator.outer or kind is not INT or i > 0 or generator.name != "posexplode")
        for i, (name, kind) in enumerate(zip(names, kinds, strict=True))
    )


def _flattened(
    generator: WrittenGenerator, source: Query, shown: Sequence[Field], elements: tuple[Field, ...]
) -> Flattened[AnyQuery]:
    """The rows of a select, whose last column is flattened."""
    numbered, inline = generator.name == "posexplode", generator.name == "inline"
    return Flattened(source, len(shown), numbered, inline, generator.outer, (*shown, *elements))


def _select(
    relations: tuple[Relation, ...], block: Block, shown: Sequence[Expression], value: Expression, names: Sequence[str]
) -> Query:
    outputs = (*shown, value)
    fields = (Field(n, e.type, functions.nullable(e)) for n, e in zip((*names, "list"), outputs, strict=True))
    return Query(relations, block, (), None, outputs, tuple(fields))


def _alone(binder: Binder, generator: WrittenGenerator, value: Expression, elements: tuple[Field, ...]) -> int:
    """A generator that reads nothing is a relation of its own."""
    source = _flattened(generator, _select((), Block((), ()), (), value, ()), (), elements)
    return binder.add_relation(Relation(generator.alias or generator.name, source, source.fields), generator.node)


def _in_place(
    binder: Binder, generator: WrittenGenerator, value: Expression, elements: tuple[Field, ...], number: int
) -> int:
    """The elements become the last columns of a relation; returns the position of the first."""
    old = binder.relations[number]

    def moved(e: Expression) -> Expression:
        return replace(e, relation=0) if isinstance(e, ColumnRef) else e

    shown = [key(0, i, f) for i, f in enumerate(old.fields)]
    source = _select((old,), Block((0,), ()), shown, transform(value, moved), [f.name for f in old.fields])
    made = _flattened(generator, source, old.fields, elements)
    binder.relations[number] = Relation(old.alias, made, made.fields)
    return len(old.fields)


def _of_all(
    binder: Binder,
    generator: WrittenGenerator,
    value: Expression,
    elements: tuple[Field, ...],
    scope: NameScope,
    draft: Draft,
    start: int,
) -> tuple[int, int]:
    """Everything on the left becomes one relation; returns its number, and the position of the first element."""
    shown, names = everything(binder, (value,), scope, draft, start, generator.shown, generator.node)
    source = _select(tuple(binder.relations), draft.block(), shown, value, names)
    made = _flattened(generator, source, source.fields[:-1], elements)
    return in_place_of_all(binder, made, scope, draft, start, generator.node)


def everything(
    binder: Binder,
    values: Sequence[Expression],
    scope: NameScope,
    draft: Draft,
    start: int,
    what: str,
    node: exp.Expr,
) -> tuple[list[Expression], list[str]]:
    """All columns of the draft, whose entries begin at `start`, and their names; refused if they are not those of one
    join that has the values too."""
    block = draft.block()
    unread = any(map(has_apply, (*values, *draft.predicates))) or reads(block) - subtree(block)
    if unread or any(not references(value) <= subtree(block) for value in values):
        what += " of a join with subqueries, or of columns of several parts of FROM,"
        binder.statement.refuse(what, "join in a FROM subquery first", node)
    columns = [(e, i) for e in scope.entries[start:] for i in range(len(e.fields))]
    return [e.column(i) for e, i in columns], [e.fields[i].name for e, i in columns]


def in_place_of_all(
    binder: Binder, made: AnyQuery, scope: NameScope, draft: Draft, start: int, node: exp.Expr
) -> tuple[int, int]:
    """Makes a query with all columns of the draft, and others after them, the draft's one relation; returns its number,
    and the position of the first other column."""
    entries = scope.entries[start:]
    alias = " and ".join(e.alias for e in entries if e.alias)
    number = binder.add_relation(Relation(alias, made, made.fields), node)
    draft.relations, draft.arms, draft.predicates = [number], [], []
    first = 0
    for place, entry in enumerate(entries, start):
        fields = made.fields[first : first + len(entry.fields)]
        scope.entries[place] = Entry(entry.alias, number, fields, first=first)
        first += len(fields)
    return number, first


def _stays_in_place(binder: Binder, draft: Draft, number: int) -> bool:
    """Whether the elements can be further columns of that relation: it is of this block, no side of a FULL JOIN, and
    does not stand for a LATERAL subquery."""
    lateral = (p.relation for p in draft.predicates if isinstance(p, Apply))
    return number in draft.relations and number not in binder.full and number not in lateral
