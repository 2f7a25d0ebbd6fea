"""Calls with functions of elements, x -> x + 1: their parameters are variables, numbered by how deep they are.

So the same text has the same meaning wherever it is written, as expressions of GROUP BY require.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from freshet.logical.references import OuterRef
from freshet.scalar import functions, types
from freshet.scalar.expression import Call, Expression, Variable, walk
from freshet.scalar.types import BOOLEAN, INT, Type, array_of, map_of
from freshet.sql.source import Statement, sql_of

Bind = Callable[[exp.Expr], Expression]

#: How many parameters the function of elements may have, and whether it is one of a map.
OF_ELEMENTS = {
    "transform": (1, 2, "ARRAY"), "filter": (1, 2, "ARRAY"), "exists": (1, 1, "ARRAY"), "forall": (1, 1, "ARRAY"),
    "map_filter": (2, 2, "MAP"), "transform_values": (2, 2, "MAP"),
}  # fmt: skip
_NODES: dict[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Transform: ("transform", ("this", "expression")),
    exp.ArrayFilter: ("filter", ("this", "expression")),
    exp.Exists: ("exists", ("this", "expression")),
    exp.Reduce: ("aggregate", ("this", "initial", "merge", "finish")),
}


def lambda_call_of(node: exp.Expr) -> tuple[str, list[exp.Expr]] | None:
    """The name and the arguments of a call with a function of elements."""
    if isinstance(node, exp.Anonymous):
        name, parts = node.name.lower(), list(node.expressions)
    elif type(node) in _NODES:
        name, slots = _NODES[type(node)]
        parts = [part for part in (node.args.get(slot) for slot in slots) if part is not None]
    else:
        return None
    return (name, parts) if any(isinstance(part, exp.Lambda) for part in parts) else None


class LambdaBinder:
    """The variables in scope while the body of a function of elements is bound."""

    def __init__(self, statement: Statement, bind: Bind) -> None:
        self.statement, self.bind = statement, bind
        self.variables: list[Variable] = []

    def variable(self, node: exp.Expr) -> Variable | None:
        """The innermost variable of a name."""
        return next((v for v in reversed(self.variables) if v.name.lower() == node.name.lower()), None)

    def call(self, name: str, parts: Sequence[exp.Expr], node: exp.Expr) -> Expression:
        if name in ("aggregate", "reduce"):
            return self._aggregate(parts, node)
        if name not in OF_ELEMENTS:
            self.statement.refuse(f"{name.upper()} with a function of elements", "write it with other functions", node)
        least, most, kind = OF_ELEMENTS[name]
        self._count(name, parts, 2, 2, node)
        value = self.bind(parts[0])
        if value.type.name != kind:
            article = "an array" if kind == "ARRAY" else "a map"
            self.statement.fail(f"{name.upper()} takes {article} and a function, not {value.type}", node)
        holds = list(value.type.parts)
        body, variables = self._body(parts[1], [*holds, INT] if kind == "ARRAY" else holds, least, most)
        type = BOOLEAN if name in ("exists", "forall") else value.type
        if name == "transform":
            type = array_of(body.type)
        elif name == "transform_values":
            type = map_of(holds[0], body.type)
        elif body.type != BOOLEAN:
            if body.type.name != "VOID":
                self.statement.fail(f"{name.upper()} needs a condition, not {body.type}; compare it", parts[1])
            body = functions.cast(body, BOOLEAN)
        return Call(type, name, (value, body, *variables))

    def _aggregate(self, parts: Sequence[exp.Expr], node: exp.Expr) -> Expression:
        self._count("aggregate", parts, 3, 4, node)
        value, start = self.bind(parts[0]), self.bind(parts[1])
        if value.type.name != "ARRAY":
            self.statement.fail(f"AGGREGATE takes an array, not {value.type}", node)
        (items,) = value.type.parts
        merge, (accumulator, element) = self._body(parts[2], [start.type, items], 2, 2)
        if merge.type != start.type:
            message = f"AGGREGATE starts with {start.type}, but its function gives {merge.type}; CAST one of them"
            self.statement.fail(message, parts[2])
        if len(parts) == 4:
            finish, (result,) = self._body(parts[3], [start.type], 1, 1)
        else:
            result = self._entered("result", start.type, len(self.variables))
            finish = result
        return Call(finish.type, "aggregate", (value, start, merge, finish, accumulator, element, result))

    def _count(self, name: str, parts: Sequence[exp.Expr], least: int, most: int, node: exp.Expr) -> None:
        if not least <= len(parts) <= most or isinstance(parts[0], exp.Lambda):
            self.statement.fail(f"{sql_of(node)} is not a call of {name.upper()}; see the list of functions", node)

    def _body(
        self, node: exp.Expr, kinds: Sequence[Type], least: int, most: int
    ) -> tuple[Expression, tuple[Variable, ...]]:
        """The body of a function of values of these types, and its parameters."""
        if not isinstance(node, exp.Lambda) or not least <= len(node.expressions) <= most:
            many = f"{least}" if least == most else f"{least} or {most}"
            self.statement.fail(f"a function of {many} parameters is needed here, as in x -> x + 1", node)
        depth = len(self.variables)
        for place, name in enumerate(node.expressions):
            self.variables.append(self._entered(name.name, kinds[place], depth + place))
        entered = tuple(self.variables[depth:])
        try:
            body = self.bind(node.this)
        finally:
            del self.variables[depth:]
        for part in walk(body):
            if isinstance(part, OuterRef):
                what = "a column of the enclosing query in a function of elements"
                self.statement.refuse(what, "join with the enclosing query", node)
        if body.type == types.VOID:
            self.statement.fail("a function of elements that is always NULL has no type; CAST it", node)
        return body, entered

    def _entered(self, name: str, kind: Type, number: int) -> Variable:
        return Variable(kind, number, name)
