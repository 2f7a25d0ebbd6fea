"""Runs cases on Spark and reports the results: `make chaos-spark`."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter

from tests.chaos.spark_case import run_case


def main() -> int:
    options = argparse.ArgumentParser(description="Streams on Spark whose drivers, workers and executors are killed.")
    options.add_argument("--cases", type=int, default=10)
    options.add_argument("--seed", type=int, default=None, help="of the first case; each next one is one more")
    given = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that child processes are ended
    first = int(time.time()) % (1 << 31) if given.seed is None else given.seed
    print(f"seeds {first} to {first + given.cases - 1}", flush=True)
    killed: Counter[str] = Counter()
    restarts = failed = 0
    for seed in range(first, first + given.cases):
        outcome = run_case(seed)
        killed += outcome.killed
        restarts += outcome.restarts
        failed += bool(outcome.wrong)
        counts = ", ".join(f"{n} {what}" for what, n in outcome.killed.items()) or "nothing"
        print(f"seed {seed}: {counts} killed, {outcome.restarts} restarts", flush=True)
        if outcome.wrong:
            print(f"FAILED with seed {seed}: {outcome.wrong}\n" + "\n".join(outcome.script), flush=True)
    counts = ", ".join(f"{n} {what}s" for what, n in killed.items()) or "nothing"
    print(f"{given.cases - failed} cases agreed, {failed} failed; {counts} killed, {restarts} restarts")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
