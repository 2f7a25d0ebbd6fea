"""Which columns a name may mean, and the one it does.

A scope lists the relations named so far in FROM. An unqualified name must be found in exactly one of them; if it is in
none, the scope around the subquery that the select stands in is asked: what is found there is an argument of the
subquery, and the answer an OuterRef that says which.
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
    """A relation visible under an alias. `optional`: a LEFT JOIN may have filled it with NULLs. `first`: where the
    entry's columns begin in the relation, which several entries share when their join is a relation of its own."""

    alias: str
    relation: int
    fields: tuple[Field, ...]
    optional: bool = False
    first: int = 0

    def column(self, position: int) -> ColumnRef:
        found = self.fields[position]
        place, nullable = self.first + position, found.nullable or self.optional
        return ColumnRef(found.type, self.relation, place, found.name, nullable)

    def has(self, column: ColumnRef) -> bool:
        return self.relation == column.relation and 0 <= column.column - self.first < len(self.fields)


class Seat(NamedTuple):
    """A column of a scope: its entry and its place there, with its name in lower case."""

    entry: int
    position: int
    name: str


@dataclass(slots=True)
class Columns:
    """What FROM, or a part of it, offers: the columns that `*` shows, in its order, and those that USING or NATURAL hid
    behind another, which only a qualified name reads."""

    shown: list[Seat] = field(default_factory=list)
    hidden: list[Seat] = field(default_factory=list)
    _named: dict[tuple[str, bool], list[Seat]] = field(default_factory=dict)

    def __add__(self, other: Columns) -> Columns:
        return Columns(self.shown + other.shown, self.hidden + other.hidden)

    def named(self, name: str, hidden: bool) -> list[Seat]:
        """The columns of a name, in lower case; hidden ones too if wanted."""
        if not self._named:
            for is_hidden, seats in ((True, self.hidden), (False, self.shown)):
                for seat in seats:
                    self._named.setdefault((seat.name, is_hidden), []).append(seat)
        found = self._named.get((name, False), [])
        return [*self._named.get((name, True), []), *found] if hidden else found


class Around:
    """What is around a subquery: the scope it stands in, and the columns of it that it reads, with what they are to it.
    All selects of the subquery share it, but those of subqueries further in."""

    def __init__(self, scope: NameScope) -> None:
        self.scope = scope
        self.read: dict[ColumnRef | OuterRef, OuterRef] = {}

    def find(self, name: str, qualifier: str | None) -> list[OuterRef]:
        return [self.argument(column) for column in self.scope.find(name, qualifier)]

    def argument(self, column: ColumnRef | OuterRef) -> OuterRef:
        """A column of the scope around, as the subquery reads it."""
        made = OuterRef(column.type, len(self.read), column.name, column.nullable)
        return self.read.setdefault(column, made)


@dataclass(slots=True)
class NameScope:
    around: Around | None = None
    entries: list[Entry] = field(default_factory=list)
    columns: Columns = field(default_factory=Columns)
    outputs: frozenset[str] = frozenset()  # the aliases of its select list, in lower case
    beyond: NameScope | None = None  # the scope around it of which it cannot read anything
    mark: object = field(default_factory=object)  # tells its select from others
    subqueries: dict[int, tuple[AnyQuery, Around]] = field(default_factory=dict)  # bound, by their nodes' identity

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
        """Every column the name could mean in this scope alone."""
        seats = self.columns.named(name.lower(), qualifier is not None)
        if qualifier is not None:
            seats = [s for s in seats if self.entries[s.entry].alias.lower() == qualifier.lower()]
        return [self.column(seat) for seat in seats]

    def find(self, name: str, qualifier: str | None) -> Sequence[ColumnRef | OuterRef]:
        """Every column the name could mean in the nearest scope that has it."""
        found = self.here(name, qualifier)
        return found if found or self.around is None else self.around.find(name, qualifier)

    def knows(self, name: str) -> bool:
        """Whether an unqualified name means some column."""
        return any(scope.here(name, None) for scope in self._asked())

    def resolve(self, node: exp.Column, statement: Statement) -> ColumnRef | OuterRef:
        """The column a name means, or an error that lists what it could have meant."""
        name, qualifier = node.name, node.text("table") or None
        found = self.find(name, qualifier)
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            holder = next(scope for scope in self._asked() if scope.here(name, qualifier))
            columns = holder.here(name, qualifier)
            owners = [next(e.alias for e in holder.entries if e.has(c)) or "the query" for c in columns]
            choices = [f"{owner}.{c.name}" for owner, c in zip(owners, found, strict=True)]
            if len({choice.lower() for choice in choices}) == 1:
                statement.fail(f"column {name} is ambiguous: {owners[0]} has two; alias one", node)
            statement.fail(f"column {name} is ambiguous; write {' or '.join(choices)}", node)
        self._unknown(name, qualifier, node, statement)

    def visible(self) -> list[Entry]:
        """The relations whose columns can be read, those of the queries around it last."""
        numbers = sorted({seat.entry for seat in (*self.columns.hidden, *self.columns.shown)})
        return [self.entries[n] for n in numbers] + (self.around.scope.visible() if self.around else [])

    def _asked(self) -> Iterator[NameScope]:
        """This scope and those that are asked after it."""
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
                known = closest_first(qualifier, (e.alias for e in entries if e.alias)) or "nothing of a name"
                statement.fail(f"no table or alias {qualifier} in FROM; it has {known}", node)
            entries = [entry]
        if not entries:
            statement.fail(f"no column {name}; there is no FROM to take it from", node)
        columns = closest_first(name, (f.name for e in entries for f in e.fields))
        tables = list(dict.fromkeys(e.alias for e in entries if e.alias)) or ["the query"]
        statement.fail(f"no column {name}; {', '.join(tables)} {'has' if len(tables) == 1 else 'have'} {columns}", node)

    def _out_of_reach(self, name: str, qualifier: str | None, node: exp.Column, statement: Statement) -> None:
        """Refuses a name that is known, and cannot be read where it stands."""
        written = f"{qualifier}.{name}" if qualifier else name
        for scope in self._asked():
            if not qualifier and name.lower() in scope.outputs:
                message = f"{name} is an output of the select list, which is not read here; write its expression"
                statement.fail(message, node)
            beyond = () if scope.beyond is None else scope.beyond._asked()
            if any(other.here(name, qualifier) for other in beyond):
                message = f"{written} is of the query around this one, which a query in FROM or WITH does not read"
                statement.fail(f"{message}; compare it outside, in ON or WHERE", node)
