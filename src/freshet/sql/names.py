"""What a name means in each clause of a SELECT, as Spark reads it.

| clause | a name means the first of these that has it |
|---|---|
| WHERE, ON, arguments of aggregates | a column of FROM; a column of the queries around |
| the select list | a column of FROM; an alias to its left; a column of the queries around |
| GROUP BY | a column of FROM; an alias, the first of that name; a column of the queries around |
| HAVING | a column of FROM that GROUP BY has, alone or within a key; an output; a column of the queries around |
| QUALIFY | a column of FROM; an output; a column of the queries around |
| ORDER BY | an output; a column of FROM; a column of the queries around |

Names ignore case. A qualified name (t.a) never means an output, but for a column shown as it is. A name that several
outputs have, with different values, is ambiguous; ORDER BY then reads the column of FROM. Where the select list
has a window function, a name in QUALIFY that means one thing in FROM and another in the select list is ambiguous too.
Window specifications follow the clause they stand in. Above DISTINCT and set operations only outputs exist. Subqueries
read the columns of FROM, not the outputs.
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
    """The names of one select. `at_outputs` says what a column of FROM is where outputs are computed: with a grouping
    one of the group's row, or None where it is not grouped by."""

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
            found = None if self._in_from(node) else self._output(node, [o for o in left if o.alias])
            return self._column(node) if found is None else found

        return column

    def in_group_by(self, items: Sequence[exp.Expr], bind: Callable[[exp.Expr, Columns], Expression]) -> Columns:
        """`items`: the select list as written; `bind` binds what an alias stands for."""

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
            found = self._output(node, outputs)
            return self._column(node) if found is None else found

        return column

    def in_qualify(self, outputs: Sequence[Output]) -> Columns:
        decided = not any(has_window(o.node) for o in outputs)

        def column(node: exp.Column) -> Expression:
            if decided and self._in_from(node):
                return self._column(node)
            found = self._output(node, outputs)
            if found is not None and self._differs(node, found):
                what = f"column {node.name} is ambiguous: FROM has one and the select list another"
                self.statement.fail(f"{what}; qualify it, or rename the output with AS", node)
            return self._column(node) if found is None else found

        return column

    def in_order_by(self, outputs: Sequence[Output]) -> Columns:
        def column(node: exp.Column) -> Expression:
            several = len(_named(node, outputs)) > 1
            found = None if several and self._in_from(node) else self._output(node, outputs)
            return self._column(node) if found is None else found

        return column

    def _column(self, node: exp.Column) -> Expression:
        return self.scope.resolve(node, self.statement)

    def _in_from(self, node: exp.Column) -> bool:
        return bool(self.scope.here(node.name, node.text("table") or None))

    def _differs(self, node: exp.Column, output: Expression) -> bool:
        """Whether FROM has a column of that name that can be read here, and is not the output."""
        if not self._in_from(node):
            return False
        column = self.at_outputs(self._column(node))
        return column is not None and output != column

    def _within_keys(self, condition: exp.Expr, keys: Sequence[exp.Expr]) -> set[int]:
        """The column nodes of a condition that stand in an expression written like a key, where columns mean those of
        FROM."""
        known: dict[object, int] = {}
        shapes = self._shapes(condition, known)
        wanted, found, left = {self._shapes(k, known)[id(k)] for k in keys}, set[int](), [condition]
        while left:
            node = left.pop()
            if shapes[id(node)] in wanted:
                found.update(id(column) for column in node.find_all(exp.Column))
            else:
                left += operands(node) if isinstance(node, CHAINS) else node.iter_expressions()
        return found

    def _shapes(self, node: exp.Expr, known: dict[object, int]) -> dict[int, int]:
        """A number for each part of an expression, by its identity: the same for what is written alike, without regard
        to parentheses and with columns as what they are. `known`: the number of each shape."""
        shapes: dict[int, int] = {}

        def shown(part: exp.Expr, value: object) -> object:
            if isinstance(value, list):
                return tuple(shown(part, each) for each in value)
            if isinstance(value, exp.Expr):
                return shapes[id(value)]
            return value.lower() if isinstance(value, str) and not isinstance(part, exp.Literal) else value

        for part in reversed(list(node.walk(bfs=True))):  # what a part is made of comes before it
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
        found = _named(node, outputs)
        if len(found) > 1:
            what = f"column {node.name} is ambiguous: the select list has {len(found)} of that name"
            self.statement.fail(f"{what}; rename them with AS", node)
        return found[0] if found else None


def _named(node: exp.Column, outputs: Sequence[Output]) -> list[Expression]:
    """The different values that outputs of a name have."""
    if node.table:
        return []
    return list(dict.fromkeys(o.expression for o in outputs if o.name.lower() == node.name.lower()))
