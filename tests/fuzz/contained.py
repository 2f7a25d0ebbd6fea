"""Runs random cases in child processes with limits for memory and processor time. A case that takes too long, or too
much memory, has failed; one that ends its process (a crash, a hang) has failed too, and another process continues after
it.
"""

from __future__ import annotations

import argparse
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

import freshet
from tests.fuzz.choices import Choices

T = TypeVar("T")
SECONDS, KILL_SECONDS = 2.0, 20.0  # of processor time: more is a failure; beyond the second limit the process ends
MEMORY = 2 << 30  # bytes beyond the memory of the process at its start


class WrongError(Exception):
    """Something that must hold of every case does not."""


def contained(module: str, title: str, draw: Callable[[Choices], T], run: Callable[[T], str]) -> int:
    """The command line of a module: draws cases by seeds and runs them; the words that `run` returns are counted."""
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first case; each next one is one more")
    parser.add_argument("--failures", type=int, default=50, help="stop after so many")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        _child(draw, run, *given.child)
        return 0
    return _parent(module, draw, given.seed, given.calls, given.failures)


def _child(draw: Callable[[Choices], T], run: Callable[[T], str], first: int, last: int) -> None:
    """Cases of some seeds, with a line on standard output before and after each."""
    warnings.simplefilter("error")
    freshet.connect()
    run(draw(Choices(seed=first)))  # initial compilation and imports are not counted for a case
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    for seed in range(first, last):
        print(f"at {seed}", flush=True)
        case = draw(Choices(seed=seed))
        signal.setitimer(signal.ITIMER_PROF, KILL_SECONDS)
        start = time.process_time()
        try:
            kind = run(case)
            spent = time.process_time() - start
            if spent > SECONDS:
                kind = f"FAILED took {spent:.1f} s: {case}"
        except Exception as e:
            reason = e if isinstance(e, WrongError) else f"{type(e).__name__}: {e}"
            kind = f"FAILED {str(reason)[:300]!r}: {case}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(f"was {kind}", flush=True)


def _parent(module: str, draw: Callable[[Choices], T], first: int, cases: int, failures: int) -> int:
    counts: Counter[str] = Counter()
    at, last = first, first + cases
    while at < last and counts["failed"] < failures:
        command = [sys.executable, "-m", module, "--child", str(at), str(last)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "at":
                at = int(rest)
                continue
            failed = rest.startswith("FAILED")
            counts["failed" if failed else rest] += 1
            if failed:
                print(f"seed {at}: {rest}", flush=True)
            at += 1
            if (at - first) % 10_000 == 0:
                print(f"{at - first:>8} calls: {dict(counts)}", flush=True)
            if counts["failed"] >= failures:
                process.kill()
                break
        if process.wait() != 0 and at < last and counts["failed"] < failures:
            counts["failed"] += 1
            print(f"seed {at}: FAILED, ended with {process.returncode}: {draw(Choices(seed=at))}", flush=True)
            at += 1
    print(f"{sum(counts.values())} calls: {dict(counts)}", flush=True)
    return 1 if counts["failed"] else 0
