"""How the engine is doing: changes a second, latency of transactions, counter changes per change."""

from __future__ import annotations

import time
from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np

SECONDS = 5.0  # the period over which rates are computed


@dataclass(slots=True)
class Meter:
    """Transactions of the last seconds: when each ended, its rows and how long it took."""

    done: deque[tuple[float, int, float]] = field(default_factory=lambda: deque(maxlen=4_000))
    changes: int = 0
    transactions: int = 0
    tables: Counter[str] = field(default_factory=Counter)  # changed rows by table, in lower case

    def add(self, rows: int, seconds: float) -> None:
        self.done.append((time.monotonic(), rows, seconds))
        self.changes += rows
        self.transactions += 1

    def figures(self) -> dict[str, float]:
        now = time.monotonic()
        recent = [(rows, seconds) for at, rows, seconds in list(self.done) if now - at <= SECONDS]
        span = min(SECONDS, now - self.done[0][0]) if self.done else 0
        times = np.array([s for _, s in recent]) if recent else np.zeros(1)
        return {
            "changes_per_second": round(sum(r for r, _ in recent) / max(span, 0.5), 1),
            "p50_ms": round(1000 * float(np.quantile(times, 0.5)), 3),
            "p99_ms": round(1000 * float(np.quantile(times, 0.99)), 3),
            "changes": self.changes,
            "transactions": self.transactions,
        }
