"""Name resolution: the columns a name could mean, and the one it does.

A scope lists the relations named so far in FROM. An unqualified name must occur in exactly one of them; if it occurs in
none, it is looked up in the scope around the subquery that contains the select. A column found there becomes an
argument of the subquery, and the name resolves to the OuterRef of that argument.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn

from sqlglot import exp

from freshet.logical.query import AnyQuery, Field
from freshet.logical.references import OuterRef
from freshet.scalar.expression import ColumnRef
from freshet.sql.source import Statement, closest_first


@dataclass(slots=True)
class Entry:
    """A relation visible under an alias. `optional`: a LEFT JOIN may fill it with NULLs. `first`: the position of
    the entry's first column in the relation, which several entries share if their join is a single relation."""

    alias: str
    relation: int
    fields: tuple[Field, ...]
    optional: bool = False
    first: int = 0

    def column(self, position: int) -> ColumnRef:
        field = self.fields[position]
        place, nullable = self.first + position, field.nullable or self.optional
        return ColumnRef(field.type, self.relation, place, field.name, nullable)

    def has(self, column: ColumnRef) -> bool:
        return self.relation == column.relation and 0 <= column.column - self.first < len(self.fields)


class Seat(NamedTuple):
    """A column of a scope: its entry, its position there, and its name in lower case."""

    entry: int
    position: int
    name: str


@dataclass(slots=True)
class Columns:
    """The columns of FROM or of a part of it: those that `*` shows, in order, and those merged away by USING or
    NATURAL, which can only be read by a qualified name."""

    shown: list[Seat] = field(default_factory=list)
    hidden: list[Seat] = field(default_factory=list)
    _named: dict[tuple[str, bool], list[Seat]] = field(default_factory=dict)

    def __add__(self, other: Columns) -> Columns:
        return Columns(self.shown + other.shown, self.hidden + other.hidden)

    def named(self, name: str, hidden: bool) -> list[Seat]:
        """The columns with a name, given in lower case; `hidden`: include the hidden ones."""
        if not self._named:
            for is_hidden, seats in ((True, self.hidden), (False, self.shown)):
                for seat in seats:
                    self._named.setdefault((seat.name, is_hidden), []).append(seat)
        shown = self._named.get((name, False), [])
        return [*self._named.get((name, True), []), *shown] if hidden else shown


class Around:
    """The surroundings of a subquery: the scope that contains it, and the columns it reads from that scope, each with
    the argument that represents it in the subquery. All selects of the subquery share it, except those of nested
    subqueries."""

    def __init__(self, scope: NameScope) -> None:
        self.scope = scope
        self.read: dict[ColumnRef | OuterRef, OuterRef] = {}

    def find(self, name: str, qualifier: str | None) -> list[OuterRef]:
        return [self.argument(column) for column in self.scope.find(name, qualifier)]

    def argument(self, column: ColumnRef | OuterRef) -> OuterRef:
        """A column of the enclosing scope, as the subquery reads it."""
        made = OuterRef(column.type, len(self.read), column.name, column.nullable)
        return self.read.setdefault(column, made)


@dataclass(slots=True)
class NameScope:
    around: Around | None = None
    entries: list[Entry] = field(default_factory=list)
    columns: Columns = field(default_factory=Columns)
    outputs: frozenset[str] = frozenset()  # the aliases of its select list, in lower case
    beyond: NameScope | None = None  # the enclosing scope that it must not read, for error messages
    mark: object = field(default_factory=object)  # identifies its select
    #: The outputs that items of the select list stand for, by the identity of their nodes: those that explode.
    generated: dict[int, list[tuple[str, ColumnRef]]] = field(default_factory=dict)
    subqueries: dict[int, tuple[AnyQuery, Around]] = field(
        default_factory=dict
    )  # already bound, by the identity of their nodes

    @classmethod
    def of(cls, entry: Entry) -> NameScope:
        """The scope of one relation alone."""
        made = cls(entries=[entry])
        made.columns = made.columns_of(0)
        return made

    def add(self, entry: Entry, statement: Statement, node: exp.Expr) -> Columns:
        if entry.alias and any(e.alias.lower() == entry.alias.lower() for e in self.entries):
            statement.fail(f"two relations are called {entry.alias}; give one of them another alias", node)
        self.entries.append(entry)
        return self.columns_of(len(self.entries) - 1)

    def columns_of(self, entry: int) -> Columns:
        return Columns([Seat(entry, i, f.name.lower()) for i, f in enumerate(self.entries[entry].fields)])

    def column(self, seat: Seat) -> ColumnRef:
        return self.entries[seat.entry].column(seat.position)

    def here(self, name: str, qualifier: str | None) -> list[ColumnRef]:
        """Every column the name could mean in this scope, without the enclosing ones."""
        seats = self.columns.named(name.lower(), qualifier is not None)
        if qualifier is not None:
            seats = [s for s in seats if self.entries[s.entry].alias.lower() == qualifier.lower()]
        return [self.column(seat) for seat in seats]

    def find(self, name: str, qualifier: str | None) -> Sequence[ColumnRef | OuterRef]:
        """Every column the name could mean in the nearest scope that has it."""
        columns = self.here(name, qualifier)
        return columns if columns or self.around is None else self.around.find(name, qualifier)

    def knows(self, name: str) -> bool:
        """Whether an unqualified name is a column in this scope or an enclosing one."""
        return any(scope.here(name, None) for scope in self._enclosing())

    def resolve(self, node: exp.Column, statement: Statement) -> ColumnRef | OuterRef:
        """The column a name means, or an error that lists what it could have meant."""
        name, qualifier = node.name, node.text("table") or None
        columns = self.find(name, qualifier)
        if len(columns) == 1:
            return columns[0]
        if len(columns) > 1:
            holder = next(scope for scope in self._enclosing() if scope.here(name, qualifier))
            columns = holder.here(name, qualifier)
            owners = [next(e.alias for e in holder.entries if e.has(c)) or "the query" for c in columns]
            choices = [f"{owner}.{c.name}" for owner, c in zip(owners, columns, strict=True)]
            if len({choice.lower() for choice in choices}) == 1:
                statement.fail(f"column {name} is ambiguous: {owners[0]} has two; rename one with an alias", node)
            statement.fail(f"column {name} is ambiguous; write {' or '.join(choices)}", node)
        self._unknown(name, qualifier, node, statement)

    def visible(self) -> list[Entry]:
        """The relations whose columns can be read, those of enclosing queries last."""
        numbers = sorted({seat.entry for seat in (*self.columns.hidden, *self.columns.shown)})
        return [self.entries[n] for n in numbers] + (self.around.scope.visible() if self.around else [])

    def _enclosing(self) -> Iterator[NameScope]:
        """This scope and those around it, innermost first."""
        scope: NameScope | None = self
        while scope is not None:
            yield scope
            scope = None if scope.around is None else scope.around.scope

    def _unknown(self, name: str, qualifier: str | None, node: exp.Column, statement: Statement) -> NoReturn:
        self._out_of_reach(name, qualifier, node, statement)
        entries = self.visible()
        if qualifier:
            entry = next((e for e in entries if e.alias.lower() == qualifier.lower()), None)
            if entry is None:
                known = closest_first(qualifier, (e.alias for e in entries if e.alias)) or "no named tables"
                statement.fail(f"no table or alias {qualifier} in FROM; it has {known}", node)
            entries = [entry]
        if not entries:
            statement.fail(f"no column {name}: the query has no FROM clause; add one", node)
        columns = closest_first(name, (f.name for e in entries for f in e.fields))
        tables = list(dict.fromkeys(e.alias for e in entries if e.alias)) or ["the query"]
        statement.fail(f"no column {name}; {', '.join(tables)} {'has' if len(tables) == 1 else 'have'} {columns}", node)

    def _out_of_reach(self, name: str, qualifier: str | None, node: exp.Column, statement: Statement) -> None:
        """Refuses a name that is known but cannot be read in this place."""
        written = f"{qualifier}.{name}" if qualifier else name
        for scope in self._enclosing():
            if not qualifier and name.lower() in scope.outputs:
                message = f"{name} is an output of the select list, which cannot be read here; write its expression"
                statement.fail(message, node)
            beyond = () if scope.beyond is None else scope.beyond._enclosing()
            if any(other.here(name, qualifier) for other in beyond):
                message = f"{written} is a column of the enclosing query, which a query in FROM or WITH cannot read"
                statement.fail(f"{message}; compare it outside, in ON or WHERE", node)
