"""Are the promises of `explain` kept? Random queries over streams that double in length: the cost of each operator per
change, in counted steps, must not grow faster than its claim.

A claim is an upper bound, so steps are divided by it: λ and λ_T are those of the stream, joined rows those that were
enumerated; the state of groups that are not stored is divided by the stream's length. A ratio that keeps growing as the
stream doubles breaks the promise; before it is reported, it has to keep growing over even longer streams. Streams
consist of single changes, and views are created before the first.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import freshet
from freshet.errors import FreshetError, PlanError, UnsupportedError
from tests.fuzz.claim_cases import Case, described, draw

GROWS = 1.3  # from one doubling to the next: more than logarithms and chance
LEAST = 1.5  # steps for each step claimed, below which nothing is said
FIXED, PER_ROW = (
    20_000,
    500,
)  # bytes of state that a view with groups that are not stored may have, however many there are
_SET_OPERATIONS = ("union", "except", "intersect", "except all", "intersect all")
MOST_STEPS = 400_000  # a stream that takes more is not doubled again


@dataclass
class Outcome:
    kind: str  # "kept", "refused", "too large" or "broken"
    why: str = ""
    ratios: dict[str, list[float]] = field(default_factory=dict)


def check(case: Case) -> Outcome:
    ratios: dict[str, list[float]] = {}
    sizes = list(case.sizes)
    try:
        plan = freshet.plan(case.sql, case.ddl)
    except (UnsupportedError, PlanError) as e:
        return Outcome("refused", str(e))
    for size in sizes:
        costs, steps = paid(case, plan, size)
        for name, ratio in costs.items():
            ratios.setdefault(name, []).append(ratio)
        if steps > MOST_STEPS and len(ratios) and size != sizes[-1]:
            break
    measured = max(map(len, ratios.values()), default=0)
    suspects = [name for name, series in ratios.items() if growing(series)]
    longer = sizes[measured - 1]
    for _ in range(2):
        if not suspects:
            return Outcome("kept" if measured > 2 else "too large", ratios=ratios)
        longer *= 2
        costs, _ = paid(case, plan, longer)
        for name in ratios:
            ratios[name].append(costs.get(name, 0.0))
        suspects = [name for name in suspects if growing(ratios[name])]
    if not suspects:
        return Outcome("kept", ratios=ratios)
    shown = "; ".join(f"{name}: {', '.join(f'{r:.2f}' for r in ratios[name])}" for name in suspects)
    return Outcome("broken", f"steps for each step claimed, as the stream doubles: {shown}", ratios)


def growing(series: list[float]) -> bool:
    last = series[-3:]
    return len(last) == 3 and last[2] > LEAST and last[2] > GROWS * last[1] and last[1] > GROWS * last[0]


def paid(case: Case, plan: freshet.Plan, size: int) -> tuple[dict[str, float], int]:
    """For each operator and each kind of step, steps paid for each step claimed; and all steps there were."""
    db = freshet.connect(adapt=False)
    db.execute(case.ddl)
    view = db.create_view("v", case.sql)
    stream = case.stream(size)
    delta_rows = 0
    for change in stream:
        delta = db.apply(change).deltas["v"]
        delta_rows += sum(map(abs, delta.column("_weight").to_pylist()))
    explained = json.loads(view.explain("json"))
    operators = list(_operators(explained, "v"))
    named = any("λ" in claim_of(o, case.kind) for _, o in operators)
    trees = iter(freshet.enclosure(stream, plan).trees) if named else iter(())
    changes = Counter(table for change in stream for table in change)
    ratios: dict[str, float] = {}
    steps = 0
    for name, operator in operators:
        tree = next(trees, None) if operator.get("tree") else None
        for what, ratio in _ratios(operator, case.kind, changes, tree):
            ratios[f"{name}, {what}"] = ratio
        steps += sum(operator["paid"].values())
    top = operators[0][1]
    if top["guarantee"]["claim"]["rows"] == "delta":
        ratios["v, rows of the delta"] = top["paid"]["joined"] / (delta_rows + len(stream))
    if case.searched is not None:
        (key,) = (node["key"] for node in top["tree"] if node["key"])
        promised = len(stream) + case.searched(stream, key)
        places = top["paid"]["placed"] + top["paid"]["checked"]
        ratios["v, places searched"] = places / (promised * math.log2(len(stream) + 2))
    looked_up = top["class"] in _SET_OPERATIONS and not any("state" in " ".join(_lost(o)) for _, o in operators)
    if looked_up or top["guarantee"]["totals"].startswith("factorised"):
        ratios["v, bytes of state"] = _state(view) / (FIXED + PER_ROW * len(stream))
    db.close()
    return ratios, steps


def _lost(operator: dict[str, Any]) -> list[str]:
    lost: list[str] = operator["guarantee"]["lost"]
    return lost


def _state(view: freshet.View) -> int:
    (line,) = (line for line in view.explain().splitlines() if line.startswith("state "))
    return int(line.split()[1].replace(",", ""))


def claim_of(operator: dict[str, Any], kind: str) -> str:
    return str(operator["guarantee"]["claim"][kind])


def _operators(explained: dict[str, Any], name: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield name, explained
    for alias, below in explained["inputs"].items():
        yield from _operators(below, f"{name} / {alias}")


def _ratios(operator: dict[str, Any], kind: str, changes: Counter[str], tree: Any) -> Iterator[tuple[str, float]]:
    claim, steps = operator["guarantee"]["claim"], operator["paid"]
    tables = {n["table"] for n in operator.get("tree", ()) if n["table"] is not None}
    read = 1 + steps["fed"] + sum(changes[table] for table in tables)
    bound = read * _value(claim_of(operator, kind), read, tree)
    logs = math.log2(read + 2) if claim["logarithmic"] else 1.0
    yield "counters", steps["counters"] / (bound + (steps["joined"] if claim["by_delta"] else 0))
    above = steps["checked"] + steps["grouped"] + steps["distinct"]
    rows = 0 if claim["rows"] == "bounded" else steps["joined"]
    yield "places in order", steps["placed"] / ((bound + rows) * logs)
    if claim["rows"] == "bounded":
        yield "rows", (steps["joined"] + above) / (bound * logs)
    else:
        yield "rows above the join", above / ((steps["joined"] + read) * logs)


def _value(bound: str, read: int, tree: Any) -> float:
    if bound == "1":
        return 1.0
    if bound.startswith("n"):
        return float(read) ** int(bound.partition("^")[2] or 1)
    assert tree is not None
    values: dict[str, float] = {"λ": tree.sequence, "λ_T": tree.tree}
    return sum(values[part] for part in bound.split(" + "))


def main() -> int:
    options = argparse.ArgumentParser(description="Compares what views pay with what explain promises.")
    options.add_argument("--cases", type=int, default=10_000)
    options.add_argument("--seed", type=int, default=None, help="of the first case; each next one is one more")
    options.add_argument("--failures", type=int, default=10, help="stop after so many")
    given = options.parse_args()
    first = int(time.time()) * 100_000 % (1 << 31) if given.seed is None else given.seed
    freshet.connect()
    print(f"seeds {first} to {first + given.cases - 1}", flush=True)
    kinds: Counter[str] = Counter()
    for number in range(given.cases):
        case = draw(first + number)
        try:
            outcome = check(case)
        except FreshetError as e:
            outcome = Outcome("broken", f"{type(e).__name__}: {e}")
        kinds[outcome.kind] += 1
        if outcome.kind == "broken":
            print(f"BROKEN with seed {first + number}: {outcome.why}", flush=True)
            print("\n".join(f"  {what}: {text}" for what, text in described(case).items()), flush=True)
        if (number + 1) % 100 == 0:
            print(f"{number + 1:>6} cases: {_line(kinds)}", flush=True)
        if kinds["broken"] >= given.failures:
            break
    print(_line(kinds))
    return 1 if kinds["broken"] else 0


def _line(kinds: Counter[str]) -> str:
    return ", ".join(f"{kinds[k]} {k}" for k in ("kept", "refused", "too large", "broken"))


if __name__ == "__main__":
    sys.exit(main())
