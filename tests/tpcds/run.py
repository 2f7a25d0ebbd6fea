"""Every TPC-DS query kept as a view over random transactions and compared with DuckDB after each of them.

`python -m tests.tpcds.run --queries 1-99 --transactions 30 --seed 7` prints for each query how many answers were
compared and how many had rows.
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

import numpy as np

import freshet
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


def main() -> int:
    options = argparse.ArgumentParser(description="The 99 queries of TPC-DS, kept and compared with DuckDB.")
    options.add_argument("--queries", default="1-99", help="a number, or a range such as 10-19")
    options.add_argument("--transactions", type=int, default=30)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
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
