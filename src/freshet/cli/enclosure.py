"""`freshet enclosure`: how hard a stream of changes is to maintain."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.json as pajson
import pyarrow.parquet as pq

import freshet
from freshet.cli.commands import Subparsers, command
from freshet.cli.explain import read_plan
from freshet.cli.progress import working
from freshet.cli.reading import check_file
from freshet.cli.results import emit
from freshet.database.change_type import CHANGE_TYPE, WEIGHT
from freshet.errors import ChangeError

_TEACHING = """\
λ is roughly the average cost of an update: 1 for inserts alone and for sliding windows, more if many short-lived rows
are inserted and deleted during the life of long-lived ones.

The file holds changes in order: a table's columns and _weight (+1, −1) or _change_type. With a column _table it holds
changes of several tables, and --plan gives λ for that join tree, too.

  freshet enclosure changes.parquet
  freshet enclosure changes.parquet --plan query.sql --schema tables.sql
"""
_TABLE = "_table"
_READERS = {".parquet": pq.read_table, ".csv": pacsv.read_csv, ".json": pajson.read_json, ".jsonl": pajson.read_json}


def add(commands: Subparsers) -> None:
    parser = command(commands, "enclosure", _TEACHING)
    parser.add_argument("changes", help="file of changes: .parquet, .csv or .json, one object a line")
    parser.add_argument("--plan", help="a query, or a plan as JSON: also λ for its join tree")
    parser.add_argument("--schema", help="with a query: the CREATE TABLE statements of its tables")
    parser.add_argument("--json", action="store_true", help="the figures as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    plan = None if options.plan is None else read_plan(options.plan, options.schema)
    with working(f"reading {options.changes}") as work:
        changes = read_changes(Path(options.changes))
        work.say("computing λ")
        found = freshet.enclosure(changes, plan)
    if options.json:
        emit(asdict(found))
        return 0
    print(f"changes    {found.changes:,}\ntuples     {found.tuples:,}\nλ          {found.sequence:.3f}")
    if found.tree is not None:
        print(f"λ of tree  {found.tree:.3f}")
    return 0


def read_changes(path: Path) -> Any:
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise ChangeError(f"{path} is not a file of changes; give one that ends in {', '.join(_READERS)}")
    check_file(path)
    try:
        table = reader(str(path))
    except (pa.ArrowException, OSError) as e:
        raise ChangeError(f"{path} cannot be read: {e}") from None
    if _TABLE not in table.column_names:
        return table
    return list(_by_table(table))


def _by_table(table: pa.Table) -> Iterator[dict[str, pa.Table]]:
    """One transaction for each run of changes of one table with the same change type; columns that a table does not
    have are NULL there."""
    if not table.num_rows:
        return
    if table.column(_TABLE).null_count:
        row = table.column(_TABLE).to_pylist().index(None)
        raise ChangeError(f"{_TABLE} is NULL; name the table each change is of", row=row)
    own = {}
    for name in table.column(_TABLE).unique().to_pylist():
        part = table.filter(pc.equal(table.column(_TABLE), name)).drop_columns([_TABLE])
        own[name] = [c for c in part.column_names if part.column(c).null_count < part.num_rows]
    differs = np.zeros(max(0, table.num_rows - 1), np.bool_)
    for column in (c for c in (_TABLE, WEIGHT, CHANGE_TYPE) if c in table.column_names):
        codes = table.column(column).combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        differs |= codes[1:] != codes[:-1]
    edges = [0, *(np.flatnonzero(differs) + 1).tolist(), table.num_rows]
    for start, end in itertools.pairwise(edges):
        name = table.column(_TABLE)[start].as_py()
        yield {name: table.slice(start, end - start).select(own[name])}
