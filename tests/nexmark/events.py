"""A small stream of Nexmark's events: people who register, auctions that they open, and bids.

Of 50 events one is a person, three are auctions and the others bids, as in the benchmark; time goes on by a second or
two with each. Identifiers of auctions and people stay close to each other, so that bids meet.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import numpy as np

TABLES = {
    "person": "id BIGINT PRIMARY KEY, name STRING, email STRING, city STRING, state STRING, date_time TIMESTAMP",
    "auction": (
        "id BIGINT PRIMARY KEY, item_name STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP, "
        "expires TIMESTAMP, seller BIGINT, category INT"
    ),
    "bid": (
        "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP, "
        "arrived TIMESTAMP, extra STRING"
    ),
    "side_input": "key BIGINT PRIMARY KEY, value STRING",
}
SIDE_INPUT = [{"key": key, "value": f"value {key % 3}"} for key in range(8)]
START = datetime.datetime(2026, 1, 31, 7, 59, 30)

_CHANNELS = ("apple", "Google", "facebook", "baidu", "channel-7", "channel-9")
_STATES = ("OR", "ID", "CA", "AZ", "WA")


def events(seed: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables with new rows, without end."""
    rng = np.random.default_rng(seed)
    time, people, auctions = START, 0, 0
    number = 0
    while True:
        time += datetime.timedelta(milliseconds=int(rng.integers(0, 1500)))
        kind = number % 25 if number > 12 else number % 4  # the first events are people and auctions
        if kind == 0:
            people += 1
            yield (
                "person",
                {
                    "id": people,
                    "name": f"name {people}",
                    "email": f"{people}@example.com",
                    "city": str(rng.choice(["Portland", "Boise", "Bend"])),
                    "state": str(rng.choice(_STATES)),
                    "date_time": time,
                },
            )
        elif kind in (1, 2, 3):
            auctions += 1
            yield (
                "auction",
                {
                    "id": auctions,
                    "item_name": f"item {auctions}",
                    "initial_bid": int(rng.integers(1, 100)),
                    "reserve": int(rng.integers(100, 1000)),
                    "date_time": time,
                    "expires": time + datetime.timedelta(seconds=int(rng.integers(5, 90))),
                    "seller": int(rng.integers(max(1, people - 2), people + 1)),
                    "category": 10 + int(rng.integers(0, 4)),
                },
            )
        else:
            channel = str(rng.choice(_CHANNELS))
            late = datetime.timedelta(seconds=int(rng.integers(0, 12)))
            numbered = f"&channel_id={rng.integers(1, 100)}" if rng.random() < 0.7 else ""
            yield (
                "bid",
                {
                    "auction": int(rng.integers(max(1, auctions - 5), auctions + 1)),
                    "bidder": int(rng.integers(1, people + 1)),
                    "price": int(rng.choice([100, 250, 1_000, 1_500, 2_000_000, 3_000_000])),
                    "channel": channel,
                    "url": f"https://www.nexmark.com/{channel}/item.htm?query=1{numbered}",
                    "date_time": time - (late if rng.random() < 0.2 else datetime.timedelta()),
                    "arrived": time,
                    "extra": str(rng.choice(["abc", "cc", "", "xyz c"])),
                },
            )
        number += 1
