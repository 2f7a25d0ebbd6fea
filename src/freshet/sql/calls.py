"""Which function each parsed operator or call is, as the records of scalar/functions have it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from freshet.scalar.functions import FUNCTIONS


@dataclass(frozen=True, slots=True)
class Shape:
    """A function, and the parsed node's slots that hold its arguments in order; a list is spread out."""

    name: str
    slots: tuple[str, ...]

    def arguments(self, node: exp.Expr) -> list[exp.Expr]:
        arguments: list[exp.Expr] = []
        for slot in self.slots:
            value = node.args.get(slot)
            if isinstance(value, list):
                arguments += value
            elif value is not None:
                arguments.append(value)
        return arguments


BINARY: dict[type[exp.Expr], str] = {f.operator: f.name for f in FUNCTIONS.values() if f.operator is not None}
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)

CALLS: dict[type[exp.Expr], Shape] = {
    node: Shape(f.name, slots) for f in FUNCTIONS.values() for node, slots in f.parsed.items() if slots is not None
}

#: Functions that SQL calls by name.
SPELLED = frozenset(name for name, f in FUNCTIONS.items() if f.resolver is not None and f.spelled)

#: Of those, the ones that are read by name and argument list alone, whatever the parser would make of them.
BY_NAME = frozenset(name for name in SPELLED if not FUNCTIONS[name].parsed and FUNCTIONS[name].operator is None)

#: Functions whose value is not decided by their arguments; no view over them could be kept right.
NEVER_THE_SAME = frozenset(
    {"now", "random", "rand", "randn", "uuid", "current_timezone", "current_database", "monotonically_increasing_id"}
    | {"localtimestamp", "curdate", "spark_partition_id", "input_file_name", "shuffle"}
)
