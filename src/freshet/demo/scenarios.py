"""The scenarios by name, each as a function of a scale."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from freshet.demo import tpch
from freshet.demo.scenario import Scenario
from freshet.errors import PlanError

_GRAPH = "CREATE TABLE edge (src BIGINT, dst BIGINT, PRIMARY KEY (src, dst));"
_GRAPH_QUERIES = {
    "two hops": """SELECT a.src AS first, b.src AS middle, b.dst AS last
FROM edge AS a JOIN edge AS b ON a.dst = b.src""",
    "three hops, counted": """SELECT a.src, COUNT(*) AS paths
FROM edge AS a, edge AS b, edge AS c
WHERE a.dst = b.src AND b.dst = c.src
GROUP BY a.src""",
    "hubs": """SELECT dst, COUNT(*) AS followers
FROM edge
GROUP BY dst
ORDER BY followers DESC, dst
LIMIT 20""",
    "not followed back": """SELECT a.src, a.dst
FROM edge AS a
WHERE NOT EXISTS (SELECT * FROM edge AS b WHERE b.src = a.dst AND b.dst = a.src)""",
    "triangles": """SELECT a.src AS x, b.src AS y, c.src AS z
FROM edge AS a, edge AS b, edge AS c
WHERE a.dst = b.src AND b.dst = c.src AND c.dst = a.src""",
}
_MARKET = """
CREATE TABLE bid (id BIGINT PRIMARY KEY, stock STRING, price DECIMAL(10, 2), quantity INT);
CREATE TABLE ask (id BIGINT PRIMARY KEY, stock STRING, price DECIMAL(10, 2), quantity INT);
"""
_MARKET_QUERIES = {
    "bids that meet an ask": """SELECT b.stock, COUNT(*) AS pairs, MIN(a.price) AS best_ask, MAX(b.price) AS best_bid
FROM bid AS b JOIN ask AS a ON b.stock = a.stock AND b.price >= a.price
GROUP BY b.stock""",
    "asks nobody pays": """SELECT a.stock, COUNT(*) AS asks, SUM(a.quantity) AS quantity
FROM ask AS a
WHERE NOT EXISTS (SELECT * FROM bid AS b WHERE b.stock = a.stock AND b.price >= a.price)
GROUP BY a.stock""",
    "spread": """SELECT a.stock, a.asked, b.offered
FROM (SELECT stock, MIN(price) AS asked FROM ask GROUP BY stock) AS a
JOIN (SELECT stock, MAX(price) AS offered FROM bid GROUP BY stock) AS b ON a.stock = b.stock""",
}
_STOCKS = ("ACE", "BYTE", "CORE", "DUNE", "ECHO", "FLUX", "GRID", "HALO")


def graph(scale: float, seed: int = 1) -> Scenario:
    """A graph with hubs, its edges in random order; scale 1 is a million of them."""
    count = max(100, round(1_000_000 * scale))
    draw = np.random.default_rng(seed)
    ends = (count / 5 * draw.random((3 * count, 2)) ** 2).astype(np.int64)  # the square makes low vertices hubs
    distinct = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    edges = draw.permutation(distinct)[:count]
    rows = pa.table({"src": edges[:, 0], "dst": edges[:, 1]})
    return Scenario("graph", _GRAPH, _GRAPH_QUERIES, len(edges), {"edge": rows}, {"edge": np.arange(len(edges))})


def market(scale: float, seed: int = 1) -> Scenario:
    """Bids and asks whose prices wander; scale 1 is a million of them."""
    count = max(100, round(1_000_000 * scale))
    draw = np.random.default_rng(seed)
    stock = draw.integers(0, len(_STOCKS), count)
    middle = 10_000 + np.cumsum(draw.normal(0, 5, count)) + 500 * stock
    is_bid = draw.random(count) < 0.5
    cents = np.maximum(1, np.round(middle + np.where(is_bid, -60, 60) + draw.normal(0, 60, count))).astype(np.int64)
    every = pa.table(
        {
            "id": np.arange(count),
            "stock": pa.array(_STOCKS).take(pa.array(stock)),
            "price": pa.array(cents).cast(pa.decimal128(19, 0)).cast(pa.decimal128(21, 2)),
            "quantity": pa.array(draw.integers(1, 100, count).astype(np.int32)),
        }
    )
    hundredth = pa.scalar("0.01").cast(pa.decimal128(3, 2))
    price = pa.compute.multiply(pa.array(cents).cast(pa.decimal128(19, 0)), hundredth).cast(pa.decimal128(10, 2))
    every = every.set_column(2, "price", price)
    units = np.arange(count)
    return Scenario(
        "market", _MARKET, _MARKET_QUERIES, count,
        {"bid": every.filter(pa.array(is_bid)), "ask": every.filter(pa.array(~is_bid))},
        {"bid": units[is_bid], "ask": units[~is_bid]},
    )  # fmt: skip


SCENARIOS: dict[str, Callable[[float], Scenario]] = {"tpch": tpch.scenario, "graph": graph, "market": market}


def make_scenario(name: str, scale: float) -> Scenario:
    if name not in SCENARIOS:
        raise PlanError(f"unknown scenario {name}; there are {', '.join(SCENARIOS)}")
    if not 0 < scale <= 10:
        raise PlanError(f"a scale of {scale:g}; give more than 0, and at most 10")
    return SCENARIOS[name](scale)
