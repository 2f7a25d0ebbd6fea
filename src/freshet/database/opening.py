"""Opening a database: its parts are created, and filled from the checkpoint and the log of its folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from freshet.budget import Memory
from freshet.database.adapt import Adapt
from freshet.database.instance import Instance
from freshet.database.rehearsal import rehearse
from freshet.database.replay import Replay
from freshet.database.state import unrehearsed
from freshet.durable.store import Store
from freshet.engine.crew import Crew
from freshet.errors import StateError
from freshet.plans import codec
from freshet.state.allocators import give_back_compiler


def open_instance(
    store: Store | None = None, adapt: Adapt | None = None, memory: Memory | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None, crew: Crew | None = None,
) -> Instance:  # fmt: skip
    """The database of a folder, or an empty one in memory. A read-only database is not rehearsed."""
    give_back_compiler()  # which importing it has read
    reads_only = store is not None and store.read_only
    try:
        made = Instance(store, adapt, memory, unrehearsed if reads_only else rehearse, crew)
        made.state.given.update({name.lower(): body for name, body in (functions or {}).items()})
        if store is not None:
            _restore(made, store)
    except BaseException:
        if store is not None:
            store.release()
        raise
    return made


def _restore(made: Instance, store: Store) -> None:
    catalog = store.catalog()
    _attach(made, catalog)
    replay = Replay(made.state, made.views, store.log, catalog)
    replay.run()
    while (damaged := store.damaged()) and store.read_only and replay.run():
        pass  # the writer was in the middle of an append
    if damaged:
        raise StateError(
            f"{store.log.path} is damaged at byte {store.log.end:,} of {store.log.size:,}; the log before that, up to "
            f"version {made.state.version}, can be recovered with: freshet recover {store.path}"
        )
    store.restored(made.state, catalog)


def _attach(made: Instance, catalog: dict[str, Any]) -> None:
    """Tables, shared queries and views whose state the checkpoint holds."""
    made.state.numbers = int(catalog["numbers"])
    for described in catalog["tables"].values():
        made.state.add_table(codec.decode(described["schema"]), int(described["number"]))
    shared = catalog.get("shared", {"queries": [], "read": {}})
    for described in shared["queries"]:
        made.views.attach_shared(described)
    for definition in catalog["views"].values():
        made.views.attach(definition)
    made.views.check_shared(shared["read"])
