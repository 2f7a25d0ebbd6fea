"""Runs random cases and reports the results; a failing case is shrunk and printed with its seed."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter

import freshet
from tests.chaos.case import run_case, shortest
from tests.chaos.kills import run_kill
from tests.fuzz.choices import Choices


def main() -> int:
    options = argparse.ArgumentParser(description="Databases that are killed, interrupted, damaged and out of space.")
    options.add_argument("--cases", type=int, default=1_000)
    options.add_argument("--seed", type=int, default=None, help="of the first case; each next one is one more")
    options.add_argument("--kills", type=int, default=None, help="processes killed (default: a tenth of the cases)")
    options.add_argument("--failures", type=int, default=5, help="stop after so many")
    given = options.parse_args()
    logging.getLogger("freshet").setLevel(logging.ERROR)
    first = int(time.time()) * 100_000 % (1 << 31) if given.seed is None else given.seed
    freshet.connect()  # kernels are compiled here, not on a case's time
    print(f"seeds {first} to {first + given.cases - 1}", flush=True)
    kinds: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    for number in range(given.cases):
        outcome = run_case(Choices(seed=first + number))
        kinds[outcome.kind] += 1
        faults += outcome.faults
        if outcome.kind == "failed":
            print(f"FAILED with seed {first + number}\n{shortest(outcome).report()}\n", flush=True)
        if (number + 1) % 100 == 0:
            print(f"{number + 1:>6} cases: {dict(kinds)}; {dict(faults)}", flush=True)
        if kinds["failed"] >= given.failures:
            break
    for number in range(given.cases // 10 if given.kills is None else given.kills):
        lost = run_kill(first + number)
        kinds["processes killed"] += 1
        if lost:
            kinds["failed"] += 1
            print(f"FAILED: process killed with seed {first + number}: {lost}", flush=True)
        if (number + 1) % 100 == 0:
            print(f"{number + 1:>6} processes killed: {dict(kinds)}", flush=True)
    for fault, times in faults.most_common():
        print(f"  {times:>6}  {fault}")
    print(", ".join(f"{n} {kind}" for kind, n in kinds.items()))
    return 1 if kinds["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
