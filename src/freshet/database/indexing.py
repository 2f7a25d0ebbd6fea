"""CREATE INDEX and DROP INDEX: a view is rebuilt on its plan with one index more, or one fewer."""

from __future__ import annotations

from freshet.database.state import State
from freshet.database.views import Views, indexes_of
from freshet.errors import SqlError
from freshet.logical.statements import CreateIndex, DropIndex


def change_index(views: Views, state: State, statement: CreateIndex | DropIndex) -> None:
    """The change takes full effect, also on disk, or none."""
    with state.lock:
        name = statement.name.lower()
        held = {index: key for key, d in state.definitions.items() for index in indexes_of(d)}
        if isinstance(statement, CreateIndex):
            key = statement.view.lower()
            if name not in held:
                _reindex(views, state, key, {**indexes_of(state.definitions[key]), name: list(statement.columns)})
            elif not statement.if_not_exists:
                raise SqlError(f"index {statement.name} already exists; drop it first, or choose another name")
        elif name in held:
            kept = {index: c for index, c in indexes_of(state.definitions[held[name]]).items() if index != name}
            _reindex(views, state, held[name], kept)
        elif not statement.if_exists:
            raise SqlError(f"no index {statement.name}; the indexes are {', '.join(sorted(held)) or 'none yet'}")


def _reindex(views: Views, state: State, key: str, indexes: dict[str, list[int]]) -> None:
    view, number = views.named[key], state.number()
    made = views.build(view.plan, number, indexes)
    old = view.operator
    try:
        with views.defining():
            state.definitions[key] = {**state.definitions[key], "number": number, "indexes": indexes}
            state.core.operators[key] = made
    except BaseException:
        state.core.discard(made)
        raise
    view.paid.carry(old.work(), made)
    state.core.discard(old)
