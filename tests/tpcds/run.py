"""Every TPC-DS query kept as a view over random transactions and compared with DuckDB after each of them.

`python -m tests.tpcds.run --queries 1-99 --transactions 30 --seed 7` prints for each query how many answers were
compared and how many had rows; `--table` prints the table of docs/tpcds.md.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator

import numpy as np

import freshet
from freshet.logical.query import Sorted
from freshet.plans.claims import claim
from freshet.plans.model import AnyPlan, QueryPlan, inputs
from tests.tpcds.rows import CALENDAR, known_rows
from tests.tpcds.texts import EASED, NUMBERS, columns_of, ddl, eased, for_oracle, official
from tests.twin import Twin, drain, transaction


def follow(number: int, transactions: int, seed: int) -> list[int]:
    """Keeps a query as a view, from half of the rows over the given number of transactions until nothing is left. The
    number of rows of each answer."""
    rng = np.random.default_rng([number, seed])
    tables = known_rows(number, rng)
    db = freshet.connect()
    for statement in ddl(columns_of(number)):
        db.execute(statement)
    for table in tables:
        outside = rng.permutation(table.outside())
        first = outside[np.unique(table.keys()[outside], return_index=True)[1]]
        first = first[rng.random(len(first)) < 0.8]
        table.held[first] += 1
        db.apply({table.name: table.weighted((first, np.ones(len(first), np.int64)))})
    texts = {"q": official(number)} | ({"eased": eased(number)} if number in EASED else {})
    twin = Twin(db, tables, texts, {name: for_oracle(number, text) for name, text in texts.items()})
    for step in range(transactions):
        chosen = [t for t in tables if rng.random() < 0.6] or tables
        moves = {
            t.name: transaction(t, rng, max(1, t.known.num_rows // 12), t.name != "date_dim" or number not in CALENDAR)
            for t in chosen
        }
        twin.move(moves, ("weights", "feed", "upserts")[step % 3])
    drain(twin)
    return twin.rows["eased" if number in EASED else "q"]


def table() -> list[str]:
    """The table of the docs: how each query is planned."""
    lines = ["| query | selects | other operators | a change costs |", "|---|---|---|---|"]
    for number in NUMBERS:
        whole = freshet.plan(official(number), "; ".join(ddl(columns_of(number)))).root
        plans = list({id(p): p for p in _parts(whole)}.values())  # what several parts read is kept once
        selects = [p.guarantee.query_class for p in plans if isinstance(p, QueryPlan)]
        others = [str(p.guarantee.query_class) for p in plans if not isinstance(p, (QueryPlan, Sorted))]
        costs = [claim(p).every_stream for p in plans]
        worst = max(costs, key=_COSTS.index)
        lines.append(f"| {number} | {_counted(selects)} | {_counted(others)} | O({worst}) |")
    return lines


_COSTS = ("1", "λ", "λ_T", "n")


def _parts(plan: AnyPlan) -> Iterator[AnyPlan]:
    yield plan
    for _, below in inputs(plan):
        yield from _parts(below)


def _counted(words: list[str]) -> str:
    return ", ".join(f"{n} {word}" if n > 1 else word for word, n in Counter(words).items())


def main() -> int:
    options = argparse.ArgumentParser(description="The 99 queries of TPC-DS, kept and compared with DuckDB.")
    options.add_argument("--queries", default="1-99", help="a number, or a range such as 10-19")
    options.add_argument("--transactions", type=int, default=30)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--table", action="store_true", help="print the table of the docs instead")
    given = options.parse_args()
    if given.table:
        print("\n".join(table()))
        return 0
    low, _, high = given.queries.partition("-")
    wrong = 0
    for number in range(int(low), int(high or low) + 1):
        start = time.process_time()
        try:
            sizes = follow(number, given.transactions, given.seed)
            line = f"{len(sizes)} answers equal, {sum(s > 0 for s in sizes)} with rows"
        except freshet.UnsupportedError as error:
            line = f"refused: {error}"
        except Exception:
            wrong += 1
            line = "FAILED\n" + "".join(traceback.format_exc().splitlines(keepends=True)[-12:])
        print(f"q{number:<3} {time.process_time() - start:6.1f} s  {line}", flush=True)
    print(f"{wrong} of {len(NUMBERS)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
