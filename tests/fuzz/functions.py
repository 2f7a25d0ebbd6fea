"""Calls functions with extreme arguments, under limits of memory and time, and checks what must hold of every call.

Law: a call either is refused with an error of ours or has a value of its type on every row; a row has the same value
alone, among others, and as literals; what is called total never fails. Calls run in a child process, whose memory and
processor time the system bounds: a call that dies there has failed, and the next child goes on behind it.

    python -m tests.fuzz.functions --seed 7 --calls 100000
"""

from __future__ import annotations

import argparse
import math
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from typing import Any

import freshet
from freshet.column import Column
from freshet.errors import EvaluationError, SqlError
from freshet.sql.evaluate import evaluate, text_of, to_arrow
from freshet.sql.expression import Expression
from freshet.sql.functions import nullable
from freshet.sql.functions.compiled import is_total
from freshet.types import INTEGER_RANGE, Type
from tests.fuzz.choices import Choices
from tests.fuzz.function_calls import DAY, FIRST_DAY, LAST_DAY, FunctionCall, draw

SECONDS, KILL_SECONDS, MEMORY = (
    2.0,
    20.0,
    2 << 30,
)  # processor time of a call, of one that hangs; bytes beyond the start


class WrongError(Exception):
    """Something that must hold of every call does not."""


def run(call: FunctionCall) -> str:
    """How a call went: "value", "no value" or "refused"; raises whatever is wrong."""
    try:
        expression = call.expression()
    except SqlError:
        return "refused"
    alone = [_alone(call, expression, row) for row in range(call.rows)]
    columns = call.columns()
    try:
        made = evaluate(expression, lambda c: columns[c.column], call.rows)
    except EvaluationError as e:
        if is_total(expression):
            raise WrongError(f"total, but: {e.reason}") from e
        if not any(isinstance(a, str) for a in alone):
            raise WrongError(f"refused among other rows only: {e.reason}") from e
        if e.row is not None and not isinstance(alone[e.row], str):
            raise WrongError(f"row {e.row} is blamed, but has a value alone: {e.reason}") from e
        return "no value"
    if len(made) != call.rows or made.type != expression.type:
        raise WrongError(f"{len(made)} values of {made.type}, not {call.rows} of {expression.type}")
    to_arrow(made).validate(full=True)
    values = [_value(made, row) for row in range(call.rows)]
    for row, value in enumerate(values):
        _check(value, expression)
        if isinstance(alone[row], str) or not _same(value, alone[row][0]):
            raise WrongError(f"row {row} is {value!r:.100} among others, alone {alone[row]!r:.100}")
    for row in range(min(call.rows, 2)):
        _check_folded(call, row, values[row], expression.type)
    return "value"


def _alone(call: FunctionCall, expression: Expression, row: int) -> Any:
    """The value of one row evaluated by itself, in a list; the reason where it has none."""
    columns = call.columns(row)
    try:
        return [_value(evaluate(expression, lambda c: columns[c.column], 1), 0)]
    except EvaluationError as e:
        return e.reason


def _check_folded(call: FunctionCall, row: int, value: Any, type_: Type) -> None:
    try:
        folded = call.expression(row)
    except SqlError:
        return  # a literal without a value is refused even where nothing would come to it
    alone = _value(evaluate(folded, lambda c: call.columns()[c.column], 1), 0)
    if folded.type == type_ and not _same(value, alone):  # of literals, decimals have only the digits they need
        raise WrongError(f"row {row} is {value!r:.100}, as literals {alone!r:.100}")


def _value(column: Column, row: int) -> Any:
    if column.valid is not None and not column.valid[row]:
        return None
    if column.type.name == "STRING":
        return text_of(column)[row].as_py()
    if column.hi is not None:
        return (int(column.hi[row]) << 64) + (int(column.data[row]) & 0xFFFFFFFFFFFFFFFF)
    return column.data[row].item()


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=1e-15)
    return bool(a == b)


def _check(value: Any, expression: Expression) -> None:
    type_ = expression.type
    if value is None:
        if not nullable(expression):
            raise WrongError("NULL, but it is said not to be")
    elif type_.is_integer:
        least, greatest = INTEGER_RANGE[type_.name]
        if not least <= value <= greatest:
            raise WrongError(f"{value} is no {type_}")
    elif type_.name == "DECIMAL" and abs(value) >= 10**type_.precision:
        raise WrongError(f"{value} has too many digits for {type_}")
    elif type_.name in ("DATE", "TIMESTAMP"):
        day = value if type_.name == "DATE" else value // DAY
        if not FIRST_DAY <= day <= LAST_DAY:
            raise WrongError(f"{value} is outside of time")
    elif type_.name == "BOOLEAN" and value not in (0, 1):
        raise WrongError(f"{value} is no BOOLEAN")


# Running many ------------------------------------------------------------------------------------------------------


def child(first: int, last: int) -> None:
    """Calls of some seeds, with a line on standard output before and after each."""
    warnings.simplefilter("error")
    freshet.connect()  # kernels are compiled here, not on a call's time
    draw(Choices(seed=0))
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    for seed in range(first, last):
        print(f"at {seed}", flush=True)
        call = draw(Choices(seed=seed))
        signal.setitimer(signal.ITIMER_PROF, KILL_SECONDS)
        start = time.process_time()
        try:
            kind = run(call)
            spent = time.process_time() - start
            if spent > SECONDS:
                kind = f"FAILED took {spent:.1f} s: {call}"
        except Exception as e:
            reason = e if isinstance(e, WrongError) else f"{type(e).__name__}: {e}"
            kind = f"FAILED {str(reason)[:300]!r}: {call}"
        signal.setitimer(signal.ITIMER_PROF, 0)
        print(f"was {kind}", flush=True)


def main(given: argparse.Namespace) -> int:
    counts: Counter[str] = Counter()
    at, last = given.seed, given.seed + given.calls
    while at < last and counts["failed"] < given.failures:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.functions", "--child", str(at), str(last)],
            stdout=subprocess.PIPE,
            text=True,
        )
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
            if at % 10_000 == 0:
                print(f"{at - given.seed:>8} calls: {dict(counts)}", flush=True)
        if process.wait() != 0 and at < last:
            counts["failed"] += 1
            print(f"seed {at}: FAILED, killed with {process.returncode}: {draw(Choices(seed=at))}", flush=True)
            at += 1
    print(f"{sum(counts.values())} calls: {dict(counts)}", flush=True)
    return 1 if counts["failed"] else 0


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Functions called with extreme arguments, under limits.")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0, help="of the first call; each next one is one more")
    parser.add_argument("--failures", type=int, default=50, help="stop after so many")
    parser.add_argument("--child", nargs=2, type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


if __name__ == "__main__":
    chosen = options()
    if chosen.child:
        child(*chosen.child)
    else:
        sys.exit(main(chosen))
