"""The delay from a transaction to the page: 10,000 changes a second into a view of 100,000 rows.

python -m benchmarks.page [--rows 100000] [--speed 10000] [--seconds 10]

A client has a live connection with a sorted window. For each message the delay is measured from the application of its
version to its arrival.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from websockets.sync.client import connect
from websockets.typing import Origin

from freshet.web.feed import BEATS, Settings
from freshet.web.hub import Hub
from freshet.web.server import Server


def options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.page", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="rows of the view")
    parser.add_argument("--speed", type=int, default=10_000, help="changed rows a second")
    parser.add_argument("--seconds", type=float, default=10)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    given = options(arguments)
    hub = Hub(Settings(source="graph", scale=0.001))
    server = Server(hub)
    hub.start({}, paused=True)
    server.start()
    engine, applied = hub.engine, dict[int, float]()
    rows = np.arange(given.rows)
    engine.apply({"edge": pa.table({"src": rows, "dst": rows % 7 + given.rows * 10})})
    hub.create("wide", f"SELECT src, dst FROM edge WHERE dst >= {given.rows * 10}")
    done = threading.Event()

    def feed() -> None:
        at, size = given.rows, given.speed // BEATS // 2
        while not done.is_set():
            started = time.monotonic()
            new, old = np.arange(at, at + size), np.arange(at - given.rows, at - given.rows + size)
            src = np.concatenate([new, old])
            weights = np.repeat([1, -1], size)
            changes = pa.table({"src": src, "dst": src % 7 + given.rows * 10, "_weight": weights})
            engine.apply({"edge": changes})
            applied[engine.version] = time.monotonic()
            at += size
            done.wait(max(0.0, 1 / BEATS - (time.monotonic() - started)))

    thread = threading.Thread(target=feed, daemon=True)
    thread.start()
    delays, messages = [], 0
    with connect(
        server.address.replace("http", "ws") + "api/live", origin=Origin(server.address.rstrip("/"))
    ) as socket:
        socket.send(json.dumps({"view": "wide", "sort": "src", "descending": True, "size": 50}))
        end = time.monotonic() + given.seconds
        while time.monotonic() < end:
            message = json.loads(socket.recv())
            messages += 1
            version = message.get("seen", {}).get("version")
            if version in applied:
                delays.append(time.monotonic() - applied[version])
    done.set()
    thread.join()
    figures = hub.status()["health"]
    server.close()
    hub.close()
    taken = 1000 * np.array(delays)
    print(
        f"{figures['changes_per_second']:,.0f} changes/s into {given.rows:,} rows; "
        f"{messages / given.seconds:.1f} messages/s; "
        f"transaction to page: p50 {np.quantile(taken, 0.5):.0f} ms, p99 {np.quantile(taken, 0.99):.0f} ms"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
