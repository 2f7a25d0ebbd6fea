"""Which queries are shared: those that several operators read, or one operator in several places.

Law: a query that several read is maintained once (shared.py), one with a single reader by its reader. State is arrays
and nothing else, so it changes hands by getting other names, and the operators that had it are attached again: nothing
is computed, and whoever joins the rows of the query finds them in the same slots. Two operators read the same query if
the contents of their plans are equal, over the same tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator

from freshet.budget import unlimited
from freshet.engine.indexed import ANSWER, INDEX, Indexed
from freshet.engine.maintained import STEPS, Maintained, PlanOver, Tables
from freshet.engine.query import Select
from freshet.engine.shared import QUERY, ROWS, Shared, SharedReader, shared_by
from freshet.plans.model import (
    AnyPlan,
    BagPlan,
    FlattenedPlan,
    IndexedPlan,
    LookedUpPlan,
    QueryPlan,
    RecursivePlan,
    SortPlan,
    UnionAllPlan,
    ValuesPlan,
    inputs,
)
from freshet.state.arena import Arena
from freshet.state.strings import StringPool


class Sharing:
    """The shared queries of a core. `attach`: the operator whose state is in a scope."""

    def __init__(
        self, arena: Arena, pool: StringPool, tables: Tables, operators: dict[str, Maintained],
        attach: Callable[[str, AnyPlan], Maintained],
    ) -> None:  # fmt: skip
        self._arena, self._pool, self._tables, self._operators, self._attach = arena, pool, tables, operators, attach
        self.enabled = True
        self.queries: list[Shared] = []  # each after those that it reads
        self.roots: dict[str, Maintained] = {}  # by scope: operators, and the queries that are shared
        self._holders: dict[PlanOver, str] = {}  # of queries that are not shared
        self._stale: list[Shared] = []
        self._numbers = 0

    # Operators ------------------------------------------------------------------------------------------------

    def note(self, root: Maintained) -> None:
        """An operator, or a shared query, that was created."""
        self.roots[root.scope.prefix] = root
        for query in _queries(root):
            self._holders[self._tables.plan_over(query.plan)] = root.scope.prefix

    def forget(self, root: Maintained) -> None:
        self.roots.pop(root.scope.prefix, None)
        self._holders = {key: scope for key, scope in self._holders.items() if scope != root.scope.prefix}

    def prepare(self, plan: AnyPlan) -> None:
        """Makes every query shared that an operator on this plan will read, if others read it too, or the operator does
        in several places."""
        if not self.enabled:
            return
        self._prepare(plan, Counter(self._places(plan)))

    def _places(self, plan: AnyPlan) -> Iterator[PlanOver]:
        """The plan and those below it, as often as they would be maintained."""
        yield self._tables.plan_over(plan)
        below = [*_below(plan)]
        if isinstance(plan, QueryPlan):
            below = [*{self._tables.plan_over(each): each for each in below}.values()]
        elif isinstance(plan, BagPlan):
            below = [*dict.fromkeys(below)]
        for each in below:
            yield from self._places(each)

    def _prepare(self, plan: AnyPlan, places: Counter[PlanOver]) -> None:
        known = self._tables.plan_over(plan)
        if known in self._tables.shared:
            return
        if _has_state(plan):
            if known in self._holders:
                self._take(known)
                return
            for below in _below(plan):
                self._prepare(below, places)
            if places[known] > 1:
                self._make(plan)
        else:
            for below in _below(plan):
                self._prepare(below, places)

    # Shared queries -------------------------------------------------------------------------------------------

    def attach(self, number: int, plan: AnyPlan, joined: bool) -> Shared:
        """A shared query whose state is in its scope. Those that it reads were attached before."""
        self._numbers = max(self._numbers, number)
        query = Shared(number, self._arena, plan, self._tables, self._pool, joined)
        self._tables.shared[query.known_as] = query
        self.queries.append(query)
        self.note(query.query)
        return query

    def _make(self, plan: AnyPlan) -> None:
        query = self.attach(self._numbers + 1, plan, False)
        try:
            query.load()
        except BaseException:
            self._end(query)
            raise

    def _take(self, known: PlanOver) -> None:
        """Makes a query shared that one operator maintains."""
        root, number = self.roots[self._holders[known]], self._numbers + 1
        owner, query = next(
            (owner, query)
            for owner, query in _owned(root)
            if _has_state(query.plan) and self._tables.plan_over(query.plan) == known
        )
        rows = _rows_scope(owner, query)
        apart = (ANSWER, INDEX) if isinstance(root, Indexed) and query.scope.prefix == root.scope.prefix else ()
        with unlimited():
            self._close(root)
            self._arena.move(f"{query.scope.prefix}/", f"shared{number}/{QUERY}/", apart)
            if rows is not None:
                self._arena.move(f"{rows}/", f"shared{number}/{ROWS}/")
            self.attach(number, query.plan, rows is not None)
            self._open(root)
            self._sort()

    def _give_back(self, query: Shared, root: Maintained) -> None:
        """Returns a query to the only operator that still reads it."""
        owner, reader = next(
            (owner, found) for owner, found in _owned(root) if isinstance(found, SharedReader) and found.shared is query
        )
        rows = _rows_scope(owner, reader)
        with unlimited():
            self._close(root)
            self._close(query.query)
            del self._tables.shared[query.known_as]
            self.queries.remove(query)
            self._arena.drop(f"{reader.scope.prefix}/{STEPS}")  # the reader's own, which stay 0
            self._arena.move(f"{query.scope.prefix}/{QUERY}/", f"{reader.scope.prefix}/")
            if rows is not None:
                self._arena.move(f"{query.scope.prefix}/{ROWS}/", f"{rows}/")
            query.scope.drop()
            self._open(root)

    def _close(self, root: Maintained) -> None:
        self.forget(root)
        root.close()
        self._arena.forget_watchers(f"{root.scope.prefix}/")

    def _open(self, root: Maintained) -> None:
        """Attaches an operator again, in its place."""
        scope = root.scope.prefix
        for query in self.queries:
            if query.query is root:
                query.query = made = query.attach()
                break
        else:
            made = self._attach(scope, root.plan)
            for name, operator in self._operators.items():
                if operator is root:
                    self._operators[name] = made
        self.note(made)

    def _sort(self) -> None:
        """Queries come after those that they read."""
        depths: dict[int, int] = {}

        def depth(query: Shared) -> int:
            if id(query) not in depths:
                depths[id(query)] = 1 + max(map(depth, shared_by(query.query)), default=0)
            return depths[id(query)]

        self.queries.sort(key=depth)

    def end_unread(self) -> None:
        """Ends the queries that nothing reads any more, and returns those with one reader to it."""
        while True:
            readers = self._readers()
            query = next((q for q in reversed(self.queries) if len(readers[id(q)]) < 2), None)
            if query is None:
                return
            if readers[id(query)]:
                self._give_back(query, readers[id(query)][0])
            else:
                self._end(query)

    def _readers(self) -> dict[int, list[Maintained]]:
        """The operators that read each query, as often as they do."""
        found: dict[int, list[Maintained]] = {id(query): [] for query in self.queries}
        for root in self.roots.values():
            for _, query in _owned(root):
                if isinstance(query, SharedReader):
                    found[id(query.shared)].append(root)
        return found

    def _end(self, query: Shared) -> None:
        self._close(query.query)
        del self._tables.shared[query.known_as]
        self.queries.remove(query)
        query.scope.drop()

    # Rebuilding -----------------------------------------------------------------------------------------------

    def spoil(self, stale: Collection[str]) -> None:
        """Notes the queries that only stale operators read: they are stale too."""
        fresh = [operator for name, operator in self._operators.items() if name not in stale]
        kept = {id(query) for operator in fresh for query in self.read_by(operator)}
        self._stale = [query for query in self.queries if id(query) not in kept or query in self._stale]

    def rebuild(self) -> None:
        """Rebuilds the stale queries; those who read them have to be rebuilt after that."""
        for query in self.queries:
            if query in self._stale:
                self._close(query.query)
                query.rebuild()
                self.note(query.query)
                self._stale.remove(query)

    def read_by(self, operator: Maintained) -> list[Shared]:
        """The queries that an operator reads, also through others, each after those that it reads."""
        found: dict[int, Shared] = {}
        left = shared_by(operator)
        while left:
            query = left.pop()
            found[id(query)] = query
            left += shared_by(query.query)
        return [query for query in self.queries if id(query) in found]

    def reading(self) -> dict[int, list[str]]:
        """The names of the operators that read each query, also through others, by its id."""
        found: dict[int, list[str]] = {}
        for name, operator in self._operators.items() if self.queries else ():
            for query in self.read_by(operator):
                found.setdefault(id(query), []).append(name)
        return found

    def close(self) -> None:
        for query in self.queries:
            query.query.close()


def _below(plan: AnyPlan) -> Iterator[AnyPlan]:
    """The plans that a plan reads; a recursion keeps what it reads to itself."""
    if not isinstance(plan, RecursivePlan):
        for _, below in inputs(plan):
            yield below


def _has_state(plan: AnyPlan) -> bool:
    """Whether sharing it saves anything; if not, the queries below it may be shared."""
    if isinstance(plan, QueryPlan):
        return plan.grouping is not None or plan.distinct or (bool(plan.nodes) and not plan.passes)
    return not isinstance(plan, FlattenedPlan | IndexedPlan | LookedUpPlan | SortPlan | UnionAllPlan | ValuesPlan)


def _rows_scope(owner: Maintained | None, query: Maintained) -> str | None:
    """Where the operator above a query keeps the rows of it, if it joins them."""
    return owner.rows_scope(query) if isinstance(owner, Select) and not owner.plan.passes else None


def _owned(root: Maintained) -> Iterator[tuple[Maintained | None, Maintained]]:
    """An operator and the queries below it, each with the one above it."""

    def visit(owner: Maintained | None, query: Maintained) -> Iterator[tuple[Maintained | None, Maintained]]:
        yield owner, query
        if not isinstance(query.plan, RecursivePlan):
            for below in query.below:
                yield from visit(query, below)

    return visit(None, root)


def _queries(root: Maintained) -> Iterator[Maintained]:
    """The queries that an operator maintains, and that could be shared."""
    for _, query in _owned(root):
        if not isinstance(query, SharedReader) and _has_state(query.plan):
            yield query
