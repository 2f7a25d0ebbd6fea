"""The current best-selling products, redrawn whenever a sale changes the ranking.

python -m examples.top_sellers          # a hundred sales, one after the other
python -m examples.top_sellers 10000
"""

from __future__ import annotations

import random
import sys
import time

import freshet

PRODUCTS = ("tea", "coffee", "cocoa", "juice", "milk", "water", "soup", "wine")
TOP = """
SELECT product, COUNT(*) AS sold, SUM(cents) AS cents FROM sale
GROUP BY product ORDER BY sold DESC, product LIMIT 5
"""


def draw(view: freshet.View, version: int) -> str:
    rows = view.to_dicts()  # in the order of the query
    most = max((row["sold"] for row in rows), default=1)
    bars = (f"{row['product']:<8}{'█' * (24 * row['sold'] // most):<24} {row['sold']:>5} sold" for row in rows)
    return "\n".join([f"best sellers after {version:,} sales", *bars])


def main(sales: int = 100, seconds: float = 0.02) -> None:
    screen, draws = sys.stdout.isatty(), random.Random(7)
    with freshet.connect() as db:
        db.execute("CREATE TABLE sale (id BIGINT PRIMARY KEY, product STRING, cents BIGINT)")
        top = db.create_view("top", TOP)
        drawn = 0

        def show(tx: freshet.Transaction) -> None:
            nonlocal drawn
            if screen and tx.deltas["top"].num_rows:
                print(f"\x1b[2J\x1b[H{draw(top, tx.version)}", flush=True)
            drawn += tx.deltas["top"].num_rows > 0

        top.subscribe(show)
        for number in range(sales):
            product = PRODUCTS[min(draws.randrange(9), draws.randrange(8))]
            db.apply({"sale": [(number, product, draws.randrange(100, 900))]})
            time.sleep(seconds if screen else 0)
        print(draw(top, db.version))
        print(f"{drawn} of {sales} sales changed the ranking or its figures")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
