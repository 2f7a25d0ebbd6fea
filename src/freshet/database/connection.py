"""Opening a database."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from freshet.budget import Memory, parse_size
from freshet.database.adapt import Adapt
from freshet.database.db import Database
from freshet.database.opening import open_instance
from freshet.database.ticking import Ticking
from freshet.durable.store import Store
from freshet.engine.crew import Crew
from freshet.state.kernel_cache import compile_kernels


def connect(
    directory: str | os.PathLike[str] | None = None, *, adapt: bool | Adapt = True, durability: str = "fsync",
    read_only: bool = False, retain: int = 0, memory_limit: int | str | None = None, clock: str = "advance",
    functions: Mapping[str, Callable[..., Any]] | None = None, threads: int = 1,
) -> Database:  # fmt: skip
    """Open a database, in memory or in a folder.

    A folder is opened in the state in which the last process left it, however that process ended: every acknowledged
    transaction is recovered.

    Parameters
    ----------
    directory
        The folder of the database, created if it does not exist. Without a folder the database is in memory.
    adapt
        Whether, or when, views switch to another join tree as the changes of their tables shift.
    durability
        What a transaction survives once `apply` has returned: ``"fsync"`` a loss of power, ``"os"`` the end of the
        process, ``"none"`` neither, until the database is closed.
    read_only
        Read the last published version, while another process may write.
    retain
        How many versions back `View.changes` and `View.at` can read at least; more if the log still has them.
    memory_limit
        Bytes that tables, views, queries and answers being read may take together, a number or a text such as
        ``"2GB"``. An operation that would take more is refused with `BudgetError` and changes nothing.
    clock
        The value of NOW() in views. ``"advance"``: the time last given to `Database.advance`, so the program controls
        it. ``"system"``: the time of this machine, checked five times a second.
    functions
        Python functions that views of the folder call, by name (see `Database.create_function`).
    threads
        How many threads a large transaction may use: views that have nothing in common but their tables are then
        updated side by side. Answers and deltas do not depend on it.

    Returns
    -------
    Database
        Safe to use from any thread, and a context manager that closes it.

    Raises
    ------
    StateError
        The folder is in use by another process, damaged, or of a newer version; the message says what to do.

    Examples
    --------
    >>> import freshet
    >>> db = freshet.connect()
    >>> db.execute("CREATE TABLE orders (id BIGINT PRIMARY KEY, customer STRING, total BIGINT)")
    >>> view = db.create_view("spent", "SELECT customer, SUM(total) AS total FROM orders GROUP BY customer")
    >>> tx = db.apply({"orders": [{"id": 1, "customer": "Ann", "total": 30}]})
    >>> tx.deltas["spent"].to_pylist()
    [{'customer': 'Ann', 'total': 30, '_weight': 1}]
    >>> db.close()
    """
    if clock not in ("advance", "system"):
        raise ValueError(f'clock is {clock!r}; give "advance" or "system"')
    if clock == "system" and read_only:
        raise ValueError("a read-only database cannot set its clock; the process that writes sets it")
    if type(threads) is not int or threads < 1:
        raise ValueError(f"threads is {threads!r}; give a whole number from 1 on")
    if not isinstance(adapt, bool | Adapt):
        raise ValueError(f"adapt is {adapt!r}; give True, False or a freshet.Adapt")
    for name, body in (functions or {}).items():
        if type(name) is not str or not callable(body):
            raise ValueError(f"functions has {name!r}: {body!r}; give names and what can be called")
    memory = Memory(parse_size(memory_limit))
    compile_kernels()
    when = (Adapt() if adapt else None) if isinstance(adapt, bool) else adapt
    if directory is None:
        if read_only:
            raise ValueError("a database in memory cannot be opened read-only; give a folder")
        inner = open_instance(None, when, memory, functions, Crew(threads))
    else:
        store = Store(Path(directory), durability, read_only, retain)
        inner = open_instance(store, when, memory, functions, Crew(threads))
    if clock == "system":
        Ticking(inner)
    return Database(inner)
