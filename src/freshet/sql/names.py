"""What a name means in each clause of a SELECT, as Spark reads it.

| clause | a name means the first of these that has it |
|---|---|
| WHERE, ON, arguments of aggregates | a column of FROM; a column of an enclosing query |
| the select list | a column of FROM; an alias to its left; a column of an enclosing query |
| GROUP BY | a column of FROM; an alias, the first of that name; a column of an enclosing query |
| HAVING | a column of FROM that is a key of GROUP BY or part of one; an output; a column of an enclosing query |
| QUALIFY | a column of FROM; an output; a column of an enclosing query |
| ORDER BY | an output; a column of FROM; a column of an enclosing query |

Names are case-insensitive. A qualified name (t.a) never means an output, except a column that is output unchanged. A
name shared by several outputs with different values is ambiguous; ORDER BY then reads the column of FROM. If the select
list has a window function, a name in QUALIFY that means one thing in FROM and another in the select list is ambiguous
too. Window specifications follow the rules of the clause they are in. Above DISTINCT and set operations only outputs
exist. Subqueries read the columns of FROM, not the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from freshet.scalar.expression import Expression
from freshet.sql.clauses import CHAINS, has_window, operands
from freshet.sql.projection import Output
from freshet.sql.scalar import Columns
from freshet.sql.scope import NameScope
from freshet.sql.source import Statement


class Names:
    """The names of one select. `at_outputs` maps a column of FROM to what it is where outputs are computed: with a
    grouping, a column of the group's row, or None if it is not a key."""

    def __init__(
        self,
        scope: NameScope,
        statement: Statement,
        at_outputs: Callable[[Expression], Expression | None] = lambda e: e,
    ) -> None:
        self.scope, self.statement, self.at_outputs = scope, statement, at_outputs

    def in_select_list(self, left: Sequence[Output]) -> Columns:
        """`left`: the outputs bound so far."""

        def column(node: exp.Column) -> Expression:
            output = None if self._in_from(node) else self._output(node, [o for o in left if o.alias])
            return self._column(node) if output is None else output

        return column

    def in_group_by(self, items: Sequence[exp.Expr], bind: Callable[[exp.Expr, Columns], Expression]) -> Columns:
        """`items`: the select list as written; `bind` binds the expression an alias names."""

        def column(node: exp.Column) -> Expression:
            if not node.table and not self._in_from(node):
                for at, item in enumerate(items):
                    if isinstance(item, exp.Alias) and item.alias.lower() == node.name.lower():
                        return bind(item.this, self.in_group_by(items[:at], bind))
            return self._column(node)

        return column

    def in_having(self, outputs: Sequence[Output], condition: exp.Expr, keys: Sequence[exp.Expr]) -> Columns:
        """`keys`: of GROUP BY, as written."""
        within: set[int] | None = None

        def column(node: exp.Column) -> Expression:
            nonlocal within
            if _named(node, outputs) and self._in_from(node):
                within = self._within_keys(condition, keys) if within is None else within
                if id(node) in within:
                    return self._column(node)
            output = self._output(node, outputs)
            return self._column(node) if output is None else output

        return column

    def in_qualify(self, outputs: Sequence[Output]) -> Columns:
        decided = not any(has_window(o.node) for o in outputs)

        def column(node: exp.Column) -> Expression:
            if decided and self._in_from(node):
                return self._column(node)
            output = self._output(node, outputs)
            if output is not None and self._differs(node, output):
                what = f"column {node.name} is ambiguous: FROM has one and the select list another"
                self.statement.fail(f"{what}; qualify it, or rename the output with AS", node)
            return self._column(node) if output is None else output

        return column

    def in_order_by(self, outputs: Sequence[Output]) -> Columns:
        def column(node: exp.Column) -> Expression:
            several = len(_named(node, outputs)) > 1
            output = None if several and self._in_from(node) else self._output(node, outputs)
            return self._column(node) if output is None else output

        return column

    def _column(self, node: exp.Column) -> Expression:
        return self.scope.resolve(node, self.statement)

    def _in_from(self, node: exp.Column) -> bool:
        return bool(self.scope.here(node.name, node.text("table") or None))

    def _differs(self, node: exp.Column, output: Expression) -> bool:
        """Whether FROM has a column of that name that can be read here and differs from the output."""
        if not self._in_from(node):
            return False
        column = self.at_outputs(self._column(node))
        return column is not None and output != column

    def _within_keys(self, condition: exp.Expr, keys: Sequence[exp.Expr]) -> set[int]:
        """The column nodes of a condition that are part of an expression written like a key, where columns mean those
        of FROM."""
        known: dict[object, int] = {}
        shapes = self._shapes(condition, known)
        key_shapes = {self._shapes(k, known)[id(k)] for k in keys}
        columns: set[int] = set()
        left = [condition]
        while left:
            node = left.pop()
            if shapes[id(node)] in key_shapes:
                columns.update(id(column) for column in node.find_all(exp.Column))
            else:
                left += operands(node) if isinstance(node, CHAINS) else node.iter_expressions()
        return columns

    def _shapes(self, node: exp.Expr, known: dict[object, int]) -> dict[int, int]:
        """A number for each part of an expression, by its identity. Parts written the same way have the same number;
        parentheses are ignored and columns compared after resolution. `known`: the number of each shape."""
        shapes: dict[int, int] = {}

        def shown(part: exp.Expr, value: object) -> object:
            if isinstance(value, list):
                return tuple(shown(part, each) for each in value)
            if isinstance(value, exp.Expr):
                return shapes[id(value)]
            return value.lower() if isinstance(value, str) and not isinstance(part, exp.Literal) else value

        for part in reversed(list(node.walk(bfs=True))):  # the operands of a part come before it
            here = self.scope.here(part.name, part.text("table") or None) if isinstance(part, exp.Column) else []
            if isinstance(part, exp.Paren):
                shapes[id(part)] = shapes[id(part.this)]
                continue
            shape: object = type(part), tuple((k, shown(part, v)) for k, v in sorted(part.args.items()) if v)
            if len(here) == 1:
                shape = here[0].relation, here[0].column
            shapes[id(part)] = known.setdefault(shape, len(known))
        return shapes

    def _output(self, node: exp.Column, outputs: Sequence[Output]) -> Expression | None:
        values = _named(node, outputs)
        if len(values) > 1:
            what = f"column {node.name} is ambiguous: the select list has {len(values)} of that name"
            self.statement.fail(f"{what}; rename them with AS", node)
        return values[0] if values else None


def _named(node: exp.Column, outputs: Sequence[Output]) -> list[Expression]:
    """The distinct expressions of the outputs with that name."""
    if node.table:
        return []
    return list(dict.fromkeys(o.expression for o in outputs if o.name.lower() == node.name.lower()))
