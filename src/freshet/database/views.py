"""The views of a database: made, rebuilt, moved to other join trees, described for the disk.

Law: a view's state is what its plan makes of the tables' rows, so it can be made again from them at any moment between
two transactions, on the same plan or on another plan of its query, and its answer stays the same. The old state is kept
until the new one is whole, and for good where that fails: a view that can be answered is worth more than a cheaper one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from freshet.budget import unlimited
from freshet.database.adapt import Chosen, Following
from freshet.database.metrics import Paid
from freshet.database.publish import Subscription
from freshet.database.rehearsal import rehearse
from freshet.database.view import View
from freshet.engine.indexed import Columns, indexed
from freshet.engine.maintained import Maintained
from freshet.errors import ChangeError, EvaluationError, FreshetError, SqlError, StateError
from freshet.logical.query import AnyQuery, CreateIndex, DropIndex, DropView
from freshet.plans import AnyPlan, Plan, build_plan, codec
from freshet.plans.model import schemas
from freshet.sql.output_names import apart, named_apart
from freshet.sql.parse import bind_reading

if TYPE_CHECKING:
    from freshet.database.db import Database


class Views:
    """`number` gives every view's state a name in the arena that none had before; within `defining` the catalog changes
    as a whole or not at all; `save` writes it down."""

    def __init__(
        self, db: Database, number: Callable[[], int], defining: Callable[[], AbstractContextManager[None]],
        save: Callable[[], None],
    ) -> None:  # fmt: skip
        self._db, self._number, self._defining, self._save = db, number, defining, save
        self.stale = False  # whether state could not be built again after tables were put back
        self.named: dict[str, View] = {}
        self.definitions: dict[str, dict[str, Any]] = {}  # in order of creation, as kept on disk
        self._look_at = 0  # changes applied when a view may next want another tree

    def subscriptions(self) -> list[tuple[str, Subscription]]:
        """All there are at this moment, with the names of their views."""
        with self._db.state_lock:
            return [(view.name, each) for view in self.named.values() for each in view.subscriptions]

    def listed(self) -> str:
        """The views' names, as messages list them."""
        return ", ".join(sorted(self.named)) or "none yet"

    def create(self, name: str, query: str | Plan) -> View:
        db, given = self._db, isinstance(query, Plan)
        sql = query.sql if isinstance(query, Plan) else query
        bound, reads = bind_reading(sql, db.catalog)
        if name.lower() in self.named:
            db.catalog.dropped(DropView(name))  # which refuses where other views read it
            if name.lower() in reads:
                raise SqlError(f"view {name} would read itself; make it under another name")
        plan = query.checked(db.catalog) if isinstance(query, Plan) else Plan(sql, build_plan(bound, db.row_counts()))
        known = "the tables' rows stood for changes to come" if db.tuples() else "all tables counted alike"
        why = "the plan was given, and is kept" if given else f"when the view was made, {known}"
        self._rehearse(bound, plan)
        with db.state_lock:
            return self._create(name, bound, reads, plan, given, why)

    def _rehearse(self, query: AnyQuery, plan: Plan) -> None:
        if self._db.rehearses:
            rehearse(type(self._db), schemas(plan.root), (query, plan))

    def _create(self, name: str, bound: AnyQuery, reads: set[str], plan: Plan, fixed: bool, why: str) -> View:
        db, key = self._db, name.lower()
        try:
            maintained = self._build(plan, number := self._number(), ())
        except EvaluationError as e:
            reason = f"the rows already there have no answer: {e.reason}; correct them, or guard the expression"
            raise ChangeError(reason) from e
        definition = {
            "name": name, "number": number, "account": number, "fixed": fixed, "made": db.version,
            "reads": sorted(reads),
        }  # fmt: skip
        try:
            with self._defining():
                old = self.take(key) if key in self.named else None  # which this one replaces
                self.definitions[key] = definition
                db.catalog.add_view(key, bound, reads)
                view = self._begin(key, plan, maintained, Chosen(db.version, why))
        except BaseException:
            _unmake(maintained)
            db.arena.drop(f"account{number}/")
            raise
        if old is not None:
            self.end(old)
        return view

    def _begin(self, key: str, plan: Plan, maintained: Maintained, chosen: Chosen) -> View:
        """A view whose state was just made."""
        view = self._add(key, plan, maintained, chosen)
        view.paid.begin(maintained)
        view.paid.note(self._db.clock.now(), maintained)
        self._define(key)
        return view

    def attach(self, definition: dict[str, Any]) -> None:
        """A view whose state is there already."""
        db, key = self._db, definition["name"].lower()
        plan, bound = _kept(definition)
        scope = db.arena.scope(f"view{definition['number']}")
        maintained = indexed(scope, plan.root, db.tables, db.pool, _indexes(definition))
        db.catalog.add_view(key, bound, self._reads(definition, plan, bound))
        self.definitions[key] = definition
        view = self._add(key, plan, maintained, Chosen(**definition["chosen"]))
        view.paid.note(db.clock.now(), maintained)
        self._rehearse(bound, plan)

    def restore(self, definition: dict[str, Any]) -> None:
        """A view of which only the definition is there. What another version wrote may not be readable as a plan; then
        its SQL is planned again."""
        db, key = self._db, definition["name"].lower()
        try:
            plan, bound = _kept(definition)
        except FreshetError:
            sql = json.loads(definition["plan"])["sql"]
            bound, _ = bind_reading(sql, db.catalog)
            plan = Plan(sql, build_plan(bound, db.row_counts()))
        try:
            maintained = self._build(plan, definition["number"], _indexes(definition))
        except EvaluationError as e:
            raise StateError(f"view {definition['name']} has no answer: {e.reason}; restore an older copy") from e
        self.definitions[key] = definition
        db.catalog.add_view(key, bound, self._reads(definition, plan, bound))
        self._begin(key, plan, maintained, Chosen(**definition["chosen"]))
        self._rehearse(bound, plan)

    def _reads(self, definition: dict[str, Any], plan: Plan, query: AnyQuery) -> list[str]:
        """What a view reads. A version that did not note it down may have kept it: one that is still bound as it would
        be now reads what its text names; one that outlived a view it read goes on with the tables below that."""
        if "reads" not in definition:
            definition["reads"] = sorted(tables_of(plan.root))
            with suppress(FreshetError):  # some of it is no more
                bound, reads = bind_reading(plan.sql, self._db.catalog)
                if bound == query:
                    definition["reads"] = sorted(reads)
        found: list[str] = definition["reads"]
        return found

    def take(self, key: str) -> View:
        """Takes a view out of the catalog; its state is still there."""
        view = self.named.pop(key)
        self._db.catalog.drop(key)
        del self.definitions[key]
        return view

    def forget(self, key: str) -> None:
        self.end(self.take(key))

    def end(self, view: View) -> None:
        view.close()
        _unmake(view.maintained)
        view.paid.scope.drop()

    def in_order(self, keys: Sequence[str]) -> None:
        """Brings the views into this order, that in which they were made."""
        catalog = self._db.catalog
        kept: tuple[dict[str, Any], ...] = (self.named, self.definitions, catalog.views, catalog.reads)
        for entries in kept:
            found = dict(entries)
            entries.clear()
            entries.update({key: found[key] for key in keys if key in found})

    def _add(self, key: str, plan: Plan, maintained: Maintained, chosen: Chosen) -> View:
        db, definition = self._db, self.definitions[key]
        updates = {name: db.tables[name].scope for name in sorted(tables_of(plan.root))}
        paid = Paid(db.arena.scope(f"account{definition['account']}"), updates)
        following = Following(None if definition["fixed"] else db.adapt, chosen, paid.counts())
        self.named[key] = view = View(
            db, definition["name"], plan, maintained, paid, following, int(definition.get("made", 0))
        )
        self._look_at = 0
        return view

    def _define(self, key: str) -> None:
        """Notes down what is kept of a view on disk. The bound query, too: a view it reads may be dropped, or made
        again as something else."""
        if self._db.on_disk:
            view = self.named[key]
            self.definitions[key] |= {
                "plan": codec.to_json(view.plan, None),
                "query": codec.encode(self._db.catalog.views[key]),
                "chosen": asdict(view.following.chosen),
            }

    # Indexes --------------------------------------------------------------------------------------------------

    def index(self, statement: CreateIndex | DropIndex) -> None:
        """Builds a view again with an index more, or fewer; with the same plan, so that its answer is the same."""
        with self._db.state_lock:
            held = {name: key for key, d in self.definitions.items() for name in d.get("indexes", {})}
            known = held.get(statement.name.lower())
            if isinstance(statement, CreateIndex):
                if known is None:
                    key = statement.view.lower()
                    self._reindex(key, {**self._indexes(key), statement.name.lower(): list(statement.columns)})
                elif not statement.if_not_exists:
                    raise SqlError(f"there is an index {statement.name} already; drop it first, or name this one")
            elif known is not None:
                kept = {n: c for n, c in self._indexes(known).items() if n != statement.name.lower()}
                self._reindex(known, kept)
            elif not statement.if_exists:
                listed = ", ".join(sorted(held)) or "none yet"
                raise SqlError(f"no index {statement.name}; the indexes are {listed}")

    def _indexes(self, key: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = self.definitions[key].get("indexes", {})
        return found

    def _reindex(self, key: str, indexes: dict[str, list[int]]) -> None:
        view, number = self.named[key], self._number()
        made = self._build(view.plan, number, [tuple(c) for c in indexes.values()])
        old = view.maintained
        try:
            with self._defining():
                self.definitions[key] = {**self.definitions[key], "number": number, "indexes": indexes}
                view.maintained = made
        except BaseException:
            view.maintained = old
            _unmake(made)
            raise
        view.paid.carry(old.work()[0], made)
        _unmake(old)

    # Building -------------------------------------------------------------------------------------------------

    def _build(self, plan: Plan, number: int, indexes: Sequence[Columns]) -> Maintained:
        """State made of the tables' rows; nothing is left of it if that fails."""
        db = self._db
        scope = db.arena.scope(f"view{number}")
        try:
            maintained = indexed(scope, plan.root, db.tables, db.pool, indexes)
            try:
                with db.memory.lend():
                    maintained.load([db.tables[n] for n in sorted(tables_of(plan.root))])
            except BaseException:
                maintained.close()
                raise
        except BaseException:
            scope.drop()
            raise
        return maintained

    def reading(self, tables: Collection[str]) -> list[str]:
        """The views that read some of these tables."""
        return [key for key, view in self.named.items() if not tables_of(view.plan.root).isdisjoint(tables)]

    def rebuild(self, keys: Collection[str] | None = None) -> None:
        """All views, or those given, after rows of tables were put back or have other slots. Until that has succeeded,
        nothing can be asked."""
        self.stale = True
        for key, view in self.named.items():
            if keys is not None and key not in keys:
                continue
            before = view.maintained.work()[0]
            _unmake(view.maintained)
            with unlimited():
                definition = self.definitions[key]
                view.maintained = self._build(view.plan, int(definition["number"]), _indexes(definition))
            view.paid.carry(before, view.maintained)
        self.stale = False

    # Following the data ---------------------------------------------------------------------------------------

    def follow(self) -> None:
        """Views for whose changes another tree has become clearly better move to it. Called between two transactions,
        when no reader is under way: those of the version before cannot go on, those of this one have not begun."""
        db = self._db
        if db.changes < self._look_at:
            return
        waits = []
        for key, view in self.named.items():
            following, counts = view.following, view.paid.counts()
            if following.adapt is None:
                continue
            rows = sum(db.tables[name].tuples.live for name in counts)
            if following.wait(counts, rows) <= 0:
                self._look(key, view, counts)
            waits.append(following.wait(counts, rows))
        self._look_at = db.changes + max(1, min(waits, default=sys.maxsize))

    def _look(self, key: str, view: View, counts: dict[str, int]) -> None:
        """The transaction before is over: whatever goes wrong here, it stands, and the view stays as it is."""
        query, spent = self._db.catalog.views[key], view.paid.total(view.maintained)
        try:
            better = view.following.look(counts, spent, query, view.plan.root)
        except Exception as e:
            view.following.chosen = replace(view.following.chosen, failed=f"{type(e).__name__}: {e}")
            return
        if better is not None:
            self.move(key, Plan(view.plan.sql, better.plan), better.why)

    def move(self, key: str, plan: Plan, why: str) -> None:
        """Rebuilds a view on another plan of its query, if that can be done."""
        view, number = self.named[key], self._number()
        old, chosen = (view.plan, view.maintained), view.following.chosen
        definition = dict(self.definitions[key])
        try:
            made = self._build(plan, number, _indexes(definition))
        except Exception as e:
            view.following.chosen = replace(chosen, failed=f"{type(e).__name__}: {e}")
            return
        view.plan, view.maintained = plan, made
        view.following.chosen = Chosen(self._db.version, why, chosen.moves + 1)
        try:
            self.definitions[key]["number"] = number
            self._define(key)
            self._save()
        except BaseException as e:
            view.plan, view.maintained = old
            view.following.chosen = replace(chosen, failed=f"{type(e).__name__}: {e}")
            self.definitions[key] = definition
            _unmake(made)
            if not isinstance(e, (OSError, StateError)):
                raise
            return
        view.paid.carry(old[1].work()[0], made)
        _unmake(old[1])


def _kept(definition: dict[str, Any]) -> tuple[Plan, AnyQuery]:
    """A view's plan and query as they are kept; columns that an older version gave one name are told apart."""
    plan = codec.from_json(definition["plan"])
    plan = replace(plan, root=replace(plan.root, fields=apart(plan.root.fields)))
    return plan, named_apart(codec.decode(definition["query"]))


def _indexes(definition: dict[str, Any]) -> list[Columns]:
    return [tuple(columns) for columns in definition.get("indexes", {}).values()]


def _unmake(maintained: Maintained) -> None:
    maintained.close()
    maintained.scope.drop()


def tables_of(plan: AnyPlan) -> set[str]:
    return {s.name.lower() for s in schemas(plan)}
