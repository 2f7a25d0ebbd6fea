"""Maps each parsed operator or call to its function, as recorded in scalar/functions."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from freshet.scalar.functions import FUNCTIONS


@dataclass(frozen=True, slots=True)
class Shape:
    """A function, and the slots of the parsed node that hold its arguments, in order; a list is flattened."""

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

#: The subset that is recognized by name and argument list alone, regardless of what the parser makes of the call.
BY_NAME = frozenset(name for name in SPELLED if not FUNCTIONS[name].parsed and FUNCTIONS[name].operator is None)

#: Functions whose value does not depend on their arguments alone; a view over them could not be maintained.
NONDETERMINISTIC = frozenset(
    {"random", "rand", "randn", "uuid", "current_timezone", "current_database", "monotonically_increasing_id"}
    | {"now", "localtimestamp", "curdate", "spark_partition_id", "input_file_name", "shuffle"}
)
