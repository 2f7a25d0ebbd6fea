"""The block to which subqueries are joined, while it is being filled, and the values for which they are computed."""

from __future__ import annotations

from collections.abc import Sequence

from freshet.logical.apply import Apply
from freshet.logical.kinds import JoinKind
from freshet.logical.query import AnyQuery, Arm, Block, Field, Query, Relation, Values
from freshet.logical.references import OuterRef
from freshet.logical.rewrite.blocks import NAMELESS, optional, reads, reads_all, subtree
from freshet.scalar import functions
from freshet.scalar.expression import Expression, references


class Place:
    """A block being filled. `known`: the relations of the whole select; `above`: the block it is attached to."""

    def __init__(self, known: list[Relation], above: Place | None = None) -> None:
        self.known, self.above = known, above
        self.relations: list[int] = []
        self.predicates: list[Expression] = []
        self.arms: list[Arm] = []
        self.values: dict[Apply, Expression] = {}  # of the subqueries joined here, each once

    def block(self) -> Block:
        return Block(tuple(self.relations), tuple(self.predicates), tuple(self.arms))

    def add(self, query: AnyQuery) -> int:
        """A relation of the select, for the caller to join."""
        others = sum(r.alias.startswith(NAMELESS) for r in self.known)
        self.known.append(Relation(f"{NAMELESS} {others + 1}" if others else NAMELESS, query, query.fields))
        return len(self.known) - 1

    def missing(self) -> frozenset[int]:
        """The relations that a LEFT JOIN may have filled with NULLs, of this block and those above it."""
        own = optional(self.block())
        return own if self.above is None else own | self.above.missing()


class Domain:
    """The values for which a subquery is computed: SELECT DISTINCT over the values that it reads of the outer rows."""

    def __init__(self, place: Place, apply: Apply) -> None:
        self._place, self._apply = place, apply
        self._made: dict[tuple[OuterRef, ...], Relation] = {}

    def relation(self, columns: Sequence[OuterRef]) -> Relation:
        """A column for each outer column that the subquery reads. Additional values do no harm."""
        wanted = tuple(columns)
        if wanted not in self._made:
            query = self._query([self._apply.outer[c.column] for c in wanted])
            self._made[wanted] = Relation("values asked for", query, query.fields)
        return self._made[wanted]

    def _query(self, values: Sequence[Expression]) -> Query:
        place, hosts = self._place, reads_all(values)
        missing = place.missing()
        block = self._with_arms(hosts) if hosts & missing else Block(tuple(sorted(hosts)), self._filters(hosts))
        fields = tuple(
            Field(getattr(v, "name", "value"), v.type, functions.nullable(v) or bool(references(v) & missing))
            for v in values
        )
        return Query(tuple(place.known), block, (), None, tuple(values), fields, True)

    def _with_arms(self, hosts: frozenset[int]) -> Block:
        """Where the values are those of LEFT JOINs: the block, with the arms that have them."""
        place = self._place
        left = [arm for arm in place.arms if arm.kind is JoinKind.LEFT]
        wanted, arms = hosts, list[Arm]()
        for arm in reversed(left):  # an arm reads the block and the arms before it
            if subtree(arm.block) & wanted:
                arms.insert(0, arm)
                wanted |= reads(arm.block)
        own = subtree(Block(tuple(place.relations), (), tuple(arms)))
        instead = "correlate it by equalities (inner = outer) under AND in its WHERE"
        if any(isinstance(s := place.known[r].source, Values) and not s.rows for r in place.relations):
            # A LATERAL that is not joined yet has no rows, so there would be no values.
            self._apply.refuse("LATERAL next to a subquery that reads a LEFT JOIN's columns by other than =", instead)
        if not hosts <= own:
            self._apply.refuse("a subquery that reads a LEFT JOIN's columns by other than = in ON", instead)
        if not frozenset().union(*(reads(arm.block) for arm in arms)) <= own:
            self._apply.refuse("a subquery below a LEFT JOIN whose ON reads the query around it", instead)
        return Block(tuple(place.relations), self._filters(own), tuple(arms))

    def _filters(self, hosts: frozenset[int]) -> tuple[Expression, ...]:
        return tuple(p for p in self._place.predicates if references(p) <= hosts)
