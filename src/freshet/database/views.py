"""The views of a database: created, rebuilt, switched to other join trees, described for the disk.

Law: a view's state is a function of its plan and the tables' rows, so it can be rebuilt from them at any moment between
two transactions, on the same plan or on another plan of its query, and its answer stays the same. The old state is kept
until the new one is complete, and permanently if that fails: a working view is worth more than a cheaper one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, replace
from typing import Any

from freshet.database.adapt import Adapt, CurrentTree, Following
from freshet.database.kept_view import KeptView
from freshet.database.metrics import Clock, CostMeter
from freshet.database.state import State
from freshet.database.transaction import Subscription
from freshet.durable.record import number_of
from freshet.engine.core import tables_of
from freshet.engine.maintained import Maintained
from freshet.errors import ChangeError, EvaluationError, FreshetError, SqlError, StateError
from freshet.logical.columns import without_columns
from freshet.logical.query import CLOCK, Altered, AnyQuery, TableSchema
from freshet.logical.statements import DropView
from freshet.plans import Plan, build_plan, codec
from freshet.plans.content import content_of
from freshet.plans.document import replanned
from freshet.plans.model import indexed, schemas
from freshet.plans.soundness import is_sound
from freshet.sql.output_names import apart, named_apart
from freshet.sql.parse import bind_reading


def nothing() -> None:
    """Stores nothing: a database in memory."""


class Views:
    """`adapt`: when views switch to another join tree; `save` stores definitions."""

    def __init__(self, state: State, adapt: Adapt | None = None, save: Callable[[], None] = nothing) -> None:
        self._state = state
        self._adapt = adapt
        self._save = save
        self.clock = Clock()
        self.named: dict[str, KeptView] = {}
        self.on_time: Callable[[], None] = lambda: None  # advances the clock, if it follows the system's
        self._look_at = 0  # number of changes at which a view may next switch trees

    def subscriptions(self) -> list[tuple[str, Subscription]]:
        """All current subscriptions, with the names of their views."""
        with self._state.lock:
            return [(view.name, each) for view in self.named.values() for each in view.subscriptions]

    def listed(self) -> str:
        """The views' names, as listed in messages."""
        return ", ".join(sorted(self.named)) or "none yet"

    def note(self) -> None:
        """Records the cost of maintaining the views so far, if it is time."""
        now = self.clock.due()
        if now is not None:
            for view in self.named.values():
                view.paid.note(now, view.operator)

    @contextmanager
    def defining(self) -> Iterator[None]:
        """A block that changes definitions: all of it takes effect, also on disk, or nothing."""
        kept: list[dict[str, Any]] = [*self._state.entries(), self.named]
        before = [dict(entries) for entries in kept]
        try:
            yield
            self._save()
        except BaseException:
            for entries, old in zip(kept, before, strict=True):
                entries.clear()
                entries.update(old)
            raise

    def have_clock(self) -> None:
        """The clock is a table whose only row changes as time passes; it is created when first needed."""
        state = self._state
        if CLOCK.name not in state.core.tables:
            with state.lock, self.defining():
                state.add_table(CLOCK, state.number())

    def create(self, name: str, query: str | Plan) -> KeptView:
        state, given = self._state, isinstance(query, Plan)
        sql = query.sql if isinstance(query, Plan) else query
        bound, reads = bind_reading(sql, state.catalog)
        if name.lower() in self.named:  # it is replaced
            state.catalog.dropped(DropView(name))  # refuses if other views read it
            if name.lower() in reads:
                raise SqlError(f"view {name} would read itself; choose another name")
        counts = state.row_counts()
        plan = query.checked(state.catalog) if isinstance(query, Plan) else Plan(sql, build_plan(bound, counts))
        known = "changes were estimated by the tables' rows" if counts else "all tables were given the same weight"
        why = "the plan was given, and is kept" if given else f"when the view was created, {known}"
        self._rehearse(bound, plan)
        if CLOCK.name in tables_of(plan.root):
            self.have_clock()
            self.on_time()
        with state.lock:
            return self.make(name, bound, reads, plan, given, why)

    def _rehearse(self, query: AnyQuery, plan: Plan) -> None:
        """Skipped if the view calls Python functions, which must be called only with existing rows."""
        self._state.rehearse(schemas(plan.root), None if codec.functions_in(plan.root) else (query, plan))

    def make(self, name: str, bound: AnyQuery, reads: set[str], plan: Plan, fixed: bool, why: str) -> KeptView:
        """Creates a view of a bound query on one of its plans; `fixed`: it keeps that plan."""
        state, key = self._state, name.lower()
        try:
            operator = self.build(plan, number := state.number(), {})
        except EvaluationError as e:
            reason = f"no answer over the existing rows: {e.reason}; correct them, or guard the expression"
            raise ChangeError(reason) from e
        definition = {
            "name": name, "number": number, "account": number, "fixed": fixed, "made": state.version,
            "reads": sorted(reads),
        }  # fmt: skip
        try:
            with self.defining():
                old = self.take(key) if key in self.named else None
                state.definitions[key] = definition
                state.catalog.add_view(key, bound, reads)
                view = self._begin(key, plan, operator, CurrentTree(state.version, why))
        except BaseException:
            self._state.core.discard(operator)
            state.core.arena.drop(f"account{number}/")
            raise
        if old is not None:
            self.end(*old)
        return view

    def _begin(self, key: str, plan: Plan, operator: Maintained, chosen: CurrentTree) -> KeptView:
        """A view whose state was just built."""
        view = self._add(key, plan, operator, chosen)
        view.paid.begin(operator)
        view.paid.note(self.clock.now(), operator)
        self._define(key)
        return view

    def attach(self, definition: dict[str, Any]) -> None:
        """A view whose state already exists."""
        state, key = self._state, definition["name"].lower()
        plan, bound = self._kept(definition)
        operator = state.core.attach(f"view{definition['number']}", indexed(plan.root, indexes_of(definition)))
        state.core.sharing.note(operator)
        state.catalog.add_view(key, bound, self._reads(definition, plan, bound))
        state.definitions[key] = definition
        view = self._add(key, plan, operator, CurrentTree(**definition["chosen"]))
        view.paid.note(self.clock.now(), operator)
        self._rehearse(bound, plan)

    def attach_shared(self, described: dict[str, Any]) -> None:
        """A shared query whose state already exists."""
        with self._calling():
            self._state.core.sharing.attach(described["number"], codec.decode(described["plan"]), described["joined"])

    def check_shared(self, read: Mapping[str, Sequence[int]]) -> None:
        """Rebuilds the views whose state was laid out for other shared queries than they now read."""
        sharing, operators = self._state.core.sharing, self._state.core.operators
        now = {key: [query.number for query in sharing.read_by(operators[key])] for key in self.named}
        wrong = [key for key in self.named if now[key] != [*read.get(key, ())]]
        if wrong:
            self.rebuild(wrong)
        sharing.end_unread()

    def restore(self, definition: dict[str, Any]) -> None:
        """A view of which only the definition exists. If another version wrote it, the plan may not be readable, or not
        be sound; then the view is planned again."""
        state, key = self._state, definition["name"].lower()
        try:
            plan, bound = self._kept(definition)
            if not is_sound(plan.root):
                plan = Plan(plan.sql, build_plan(bound, state.row_counts()))
        except StateError:
            raise
        except FreshetError:
            sql = json.loads(definition["plan"])["sql"]
            bound, _ = bind_reading(sql, state.catalog)
            plan = Plan(sql, build_plan(bound, state.row_counts()))
        try:
            operator = self.build(plan, definition["number"], indexes_of(definition))
        except EvaluationError as e:
            raise StateError(f"view {definition['name']} has no answer: {e.reason}; restore an older copy") from e
        state.definitions[key] = definition
        state.catalog.add_view(key, bound, self._reads(definition, plan, bound))
        self._begin(key, plan, operator, CurrentTree(**definition["chosen"]))
        self._rehearse(bound, plan)

    def _reads(self, definition: dict[str, Any], plan: Plan, query: AnyQuery) -> list[str]:
        """The names that a view reads. Older versions did not record them: if its text still binds to the same query,
        they are the names in the text; if a view it read was dropped, they are the tables below that view."""
        if "reads" not in definition:
            definition["reads"] = sorted(tables_of(plan.root))
            with suppress(FreshetError):  # some names may no longer exist
                bound, reads = bind_reading(plan.sql, self._state.catalog)
                if bound == query:
                    definition["reads"] = sorted(reads)
        names: list[str] = definition["reads"]
        return names

    def take(self, key: str) -> tuple[KeptView, Maintained]:
        """Removes a view from the catalog; its state still exists."""
        self._state.catalog.drop(key)
        del self._state.definitions[key]
        return self.named.pop(key), self._state.core.operators.pop(key)

    def forget(self, key: str) -> None:
        self.end(*self.take(key))

    def end(self, view: KeptView, operator: Maintained) -> None:
        view.close()
        self._state.core.discard(operator)
        view.paid.scope.drop()

    def in_order(self, keys: Sequence[str]) -> None:
        """Brings the views into this order, in which they were created."""
        catalog, state = self._state.catalog, self._state
        kept: list[dict[str, Any]] = [self.named, state.definitions, state.core.operators]
        for entries in (*kept, catalog.views, catalog.reads):
            before = dict(entries)
            entries.clear()
            entries.update({key: before[key] for key in keys if key in before})

    def _add(self, key: str, plan: Plan, operator: Maintained, chosen: CurrentTree) -> KeptView:
        state, definition = self._state, self._state.definitions[key]
        updates = {name: state.core.tables[name].scope for name in sorted(tables_of(plan.root))}
        paid = CostMeter(state.core.arena.scope(f"account{definition['account']}"), updates)
        following = Following(None if definition["fixed"] else self._adapt, chosen, paid.counts())
        view = KeptView(state, definition["name"], plan, paid, following, int(definition.get("made", 0)))
        self.named[key], state.core.operators[key] = view, operator
        self._look_at = 0
        return view

    def _define(self, key: str) -> None:
        """Records what is stored of a view on disk, including the bound query: a view it reads may be dropped, or
        replaced by a different one."""
        if self._state.on_disk:
            view = self.named[key]
            self._state.definitions[key] |= {
                "plan": codec.to_json(view.plan, None),
                "query": codec.encode(self._state.catalog.views[key]),
                "chosen": asdict(view.following.chosen),
            }

    def _kept(self, definition: dict[str, Any]) -> tuple[Plan, AnyQuery]:
        """The stored plan and query of a view; columns with the same name get unique names."""
        functions = self._state.catalog.functions
        with self._calling():
            plan = codec.from_json(definition["plan"])
            plan = replace(plan, root=replace(plan.root, fields=apart(plan.root.fields)))
            query = named_apart(codec.decode(definition["query"]))
        for function in codec.functions_in(plan.root):
            functions.setdefault(function.name.lower(), function)
        return plan, query

    def _calling(self) -> AbstractContextManager[None]:
        functions = self._state.catalog.functions
        return codec.calling(self._state.given | {name: f.body for name, f in functions.items()})

    def alter(self, schema: TableSchema, columns: Sequence[int]) -> None:
        """Rebuilds the views that read an altered table, all or none. Their queries and subscribers stay the same."""
        state, name = self._state, schema.name.lower()
        table, keys = state.core.tables[name], self.reading({name})
        if list(columns) == list(range(len(table.fields))):
            with self.defining():  # only names changed: views do not read them
                state.catalog.add(replace(schema, altered=state.catalog.tables[name].altered))
            return
        altered = replace(schema, altered=Altered(number_of(table), tuple(columns)))
        queries = without_columns(state.catalog.views, state.catalog.tables[name], altered)
        plans = {
            key: self.named[key].plan if queries[key] is state.catalog.views[key]
            else Plan(self.named[key].plan.sql, replanned(queries[key], self.named[key].plan.root))
            for key in keys
        }  # fmt: skip
        made: dict[str, str] = {}  # scopes
        number, before = state.number(), {key: self.named[key].plan for key in keys}
        try:
            with self.defining():
                state.alter_table(altered, number)
                state.catalog.views.update(queries)
                for key in keys:
                    own = state.number()
                    made[key] = self.build(plans[key], own, indexes_of(state.definitions[key])).scope.prefix
                    state.definitions[key] = {**state.definitions[key], "number": own}
                    self.named[key].plan = plans[key]
                    self._define(key)
        except BaseException:
            state.core.discard(*(state.core.sharing.roots[scope] for scope in made.values()))
            for key, plan in before.items():
                self.named[key].plan = plan
            state.core.arena.drop(f"table{number}/")
            raise
        old = {key: state.core.operators[key] for key in made}
        for key, scope in made.items():
            view, operator = self.named[key], state.core.sharing.roots[scope]
            view.paid.follow(name, state.core.tables[name].scope)
            state.core.operators[key] = operator
            view.paid.carry(old[key].work(), operator)
        state.core.discard(*old.values())  # all at once: what they share is over the old table
        table.scope.drop()

    # Building -------------------------------------------------------------------------------------------------

    def build(self, plan: Plan, number: int, indexes: Mapping[str, Sequence[int]]) -> Maintained:
        """The operator of a view, with these indexes on its answer."""
        return self._state.core.build(f"view{number}", indexed(plan.root, indexes), self._state.memory)

    def reading(self, tables: Collection[str]) -> list[str]:
        """The views that read some of these tables."""
        return [key for key, view in self.named.items() if not tables_of(view.plan.root).isdisjoint(tables)]

    def rebuild(self, keys: Collection[str]) -> None:
        """Rebuilds views whose tables had rows restored, or have their rows in other slots. Until all are rebuilt, the
        database cannot be read."""
        core = self._state.core
        core.spoil(keys)
        before = {key: core.operators[key].work() for key in self.named if key in core.stale}
        for key, work in before.items():
            core.rebuild(key, self._state.memory)
            self.named[key].paid.carry(work, core.operators[key])

    # Following the data ---------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Switches views to another tree that has become clearly better for their changes. Called between two
        transactions, when there is no active reader: those of the version before cannot continue, those of this one
        have not begun."""
        state = self._state
        if state.changes < self._look_at:
            return
        waits = []
        for key, view in self.named.items():
            following, counts = view.following, view.paid.counts()
            if following.adapt is None:
                continue
            rows = sum(state.core.tables[name].tuples.live for name in counts)
            if following.wait(counts, rows) <= 0:
                self._look(key, view, counts)
            waits.append(following.wait(counts, rows))
        self._look_at = state.changes + max(1, min(waits, default=sys.maxsize))

    def _look(self, key: str, view: KeptView, counts: dict[str, int]) -> None:
        """Checks one view. The transaction before is complete: if this fails, it stays applied and the view is
        unchanged."""
        query, spent = self._state.catalog.views[key], view.paid.total(view.operator)
        try:
            better = view.following.look(counts, spent, query, view.plan.root)
        except Exception as e:
            view.following.chosen = replace(view.following.chosen, failed=f"{type(e).__name__}: {e}")
            return
        if better is not None:
            same = content_of(view.plan.root)
            for other, alike in [*self.named.items()]:  # what they share, they keep sharing
                root = alike.plan.root
                if other == key or (alike.following.adapt is not None and content_of(root) == same):
                    plan = replace(better.plan, fields=root.fields)
                    self.move(other, Plan(alike.plan.sql, plan), better.why)

    def move(self, key: str, plan: Plan, why: str) -> None:
        """Rebuilds a view on another plan of its query, if possible."""
        state, view, number = self._state, self.named[key], self._state.number()
        chosen = view.following.chosen
        definition = dict(state.definitions[key])
        try:
            made = self.build(plan, number, indexes_of(definition))
        except Exception as e:
            view.following.chosen = replace(chosen, failed=f"{type(e).__name__}: {e}")
            return
        old = view.plan, view.operator
        view.plan, state.core.operators[key] = plan, made
        view.following.chosen = CurrentTree(state.version, why, chosen.moves + 1)
        try:
            state.definitions[key]["number"] = number
            self._define(key)
            self._save()
        except BaseException as e:
            view.plan, state.core.operators[key] = old
            view.following.chosen = replace(chosen, failed=f"{type(e).__name__}: {e}")
            state.definitions[key] = definition
            self._state.core.discard(made)
            if not isinstance(e, (OSError, StateError)):
                raise
            return
        view.paid.carry(old[1].work(), made)
        self._state.core.discard(old[1])


def indexes_of(definition: dict[str, Any]) -> dict[str, list[int]]:
    """The indexes of a view by name, each as a list of columns."""
    indexes: dict[str, list[int]] = definition.get("indexes", {})
    return indexes
