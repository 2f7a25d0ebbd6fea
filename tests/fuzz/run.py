"""Runs random cases and reports the results; a failing case is shrunk and printed with its seed."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections import Counter

import freshet
from tests.fuzz.case import run_case, shortest
from tests.fuzz.choices import Choices


class _TooLongError(BaseException):
    """No Exception, which a case would take for its own failure."""


def _give_up(*_: object) -> None:
    raise _TooLongError


def main() -> int:
    options = argparse.ArgumentParser(description="Random queries and transactions, compared with DuckDB.")
    options.add_argument("--cases", type=int, default=5_000)
    options.add_argument("--seed", type=int, default=None, help="of the first case; each next one is one more")
    options.add_argument("--failures", type=int, default=10, help="stop after so many")
    options.add_argument("--shrink", type=int, default=1_000, help="tries to make a failing case smaller")
    options.add_argument(
        "--seconds", type=int, default=60, help="of processor time, then a case is given up: cross joins"
    )
    given = options.parse_args()
    signal.signal(signal.SIGVTALRM, _give_up)
    first = int(time.time()) * 100_000 % (1 << 31) if given.seed is None else given.seed
    freshet.connect()  # kernels are compiled here, not on a case's time
    print(f"seeds {first} to {first + given.cases - 1}", flush=True)
    kinds: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for number in range(given.cases):
        signal.setitimer(signal.ITIMER_VIRTUAL, given.seconds)
        try:
            outcome = run_case(Choices(seed=first + number))
        except _TooLongError:
            kinds["too long"] += 1
            print(f"seed {first + number} took more than {given.seconds} s", flush=True)
            continue
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        kinds[outcome.kind] += 1
        if outcome.kind in ("refused", "no oracle", "oracles differ"):
            reasons[f"{outcome.kind}: {outcome.why[:90]}"] += 1
        if outcome.kind == "failed":
            print(f"FAILED with seed {first + number}\n{shortest(outcome, given.shrink).report()}\n", flush=True)
        if (number + 1) % 100 == 0:
            print(f"{number + 1:>6} cases: {_line(kinds)}", flush=True)
        if kinds["failed"] >= given.failures:
            break
    for reason, times in reasons.most_common(20):
        print(f"  {times:>6}  {reason}")
    print(_line(kinds))
    return 1 if kinds["failed"] else 0


KINDS = ("agreed", "refused", "no oracle", "oracles differ", "too long", "failed")


def _line(kinds: Counter[str]) -> str:
    return ", ".join(f"{kinds[kind]} {kind}" for kind in KINDS)


if __name__ == "__main__":
    sys.exit(main())
