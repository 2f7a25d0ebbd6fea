"""A stream of card payments, and a callback for cards that pay in two countries within half an hour.

python -m examples.fraud_alerts
"""

from __future__ import annotations

from decimal import Decimal

import freshet

TABLES = """
CREATE TABLE card (id BIGINT PRIMARY KEY, owner STRING);
CREATE TABLE payment (id BIGINT PRIMARY KEY, card BIGINT REFERENCES card, country STRING, amount DECIMAL(10,2),
                      minute BIGINT);
"""
TWO_PLACES = """
SELECT c.owner, a.id AS first, b.id AS second, a.country AS here, b.country AS there, a.amount + b.amount AS amount
FROM card AS c JOIN payment AS a ON a.card = c.id JOIN payment AS b ON b.card = a.card
WHERE a.country <> b.country AND a.minute <= b.minute AND b.minute - a.minute <= 30
"""


def alert(tx: freshet.Transaction) -> None:
    for row in tx.deltas["two_places"].sort_by("first").to_pylist():
        word = "ALERT" if row["_weight"] > 0 else "withdrawn"
        print(f"{word}: {row['owner']} paid in {row['here']} and {row['there']}, {row['amount']} in total")


def main() -> None:
    with freshet.connect() as db:
        db.execute(TABLES)
        db.create_view("two_places", TWO_PLACES)
        db.view("two_places").subscribe(alert, where="amount >= 100")  # not for small amounts
        db.apply({"card": [{"id": 1, "owner": "Ada"}, {"id": 2, "owner": "Grace"}]})
        for payment in (
            (10, 1, "NO", Decimal("80.00"), 600),
            (11, 2, "SE", Decimal("20.00"), 605),
            (12, 2, "DK", Decimal("30.00"), 610),  # two countries, but 50.00 in total
            (13, 1, "BR", Decimal("950.00"), 615),
        ):
            db.apply({"payment": [payment]})
        db.apply({"payment": [{"id": 13, "_change_type": "delete"}]})  # the bank has cancelled it
        print(f"open cases: {db.view('two_places').count()}")


if __name__ == "__main__":
    main()
