"""A scalar expression: parsed node → bound, typed Expression.

Names are resolved by the caller's `column`, aggregates by its `aggregate` (None where aggregates are not allowed).
Every supported node is listed in the table at the end or in the function records (sql/calls.py); any other is refused
by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from freshet.errors import SqlError
from freshet.logical.extent import check_parts
from freshet.scalar import functions, types
from freshet.scalar.clock import Now
from freshet.scalar.expression import FALSE, NULL, TRUE, Expression, Literal
from freshet.scalar.functions.python import PythonFunction
from freshet.scalar.types import Type
from freshet.sql import function_nodes
from freshet.sql.calls import ARITHMETIC, BINARY, CALLS, NONDETERMINISTIC, SPELLED
from freshet.sql.clauses import CHAINS, operands
from freshet.sql.datatype import bind_type
from freshet.sql.lambdas import LambdaBinder, lambda_call_of
from freshet.sql.literal import as_written, bind_interval, bind_number, computed, has_suffix
from freshet.sql.row_value import RowComparison, row_of
from freshet.sql.scope import NameScope
from freshet.sql.source import PREDICATE, Statement, sql_of
from freshet.windows import NEEDS_OVER

Columns = Callable[[exp.Column], Expression]
Aggregates = Callable[[exp.Expr], Expression]
Windows = Callable[[exp.Expr, "ScalarBinder"], Expression]
Subqueries = Callable[[exp.Expr], Expression]


class ScalarBinder:
    """Binds expressions of one clause. `clause` names it in messages, as in "aggregate SUM in WHERE"."""

    def __init__(
        self,
        statement: Statement,
        column: Columns,
        clause: str,
        aggregate: Aggregates | None = None,
        window: Windows | None = None,
        subquery: Subqueries | None = None,
    ) -> None:
        self.statement, self.column, self.clause, self.aggregate = statement, column, clause, aggregate
        self.window, self.subquery = window, subquery
        self.lambdas = LambdaBinder(statement, self._bind_body)
        self.scope: NameScope | None = None  # to distinguish fields of structs from columns of tables

    def within(self, clause: str) -> ScalarBinder:
        """A binder with the same names and aggregates for a place where window functions are not allowed."""
        made = ScalarBinder(self.statement, self.column, clause, self.aggregate, None, self.subquery)
        made.scope = self.scope
        return made

    def bind(self, node: exp.Expr | None) -> Expression:
        if node is None:
            self.statement.fail("an argument is missing; complete it", None)
        bound = self._bind(node)
        return self.build("not", [bound], node) if node.args.get("negate") else bound  # NOT LIKE is one node

    def _bind_body(self, node: exp.Expr) -> Expression:
        """The body of a function of elements, or another argument of its call."""
        if not self.lambdas.variables:
            return self.bind(node)
        aggregate, window, subquery = self.aggregate, self.window, self.subquery
        self.aggregate = self.window = self.subquery = None
        try:
            return self.bind(node)
        finally:
            self.aggregate, self.window, self.subquery = aggregate, window, subquery

    def _bind(self, node: exp.Expr) -> Expression:
        called = lambda_call_of(node)
        if called is not None:
            return self.lambdas.call(*called, node)
        if isinstance(node, exp.Identifier):
            variable = self.lambdas.variable(node)
            return self.unknown(node) if variable is None else variable
        for kind, slots, method in _FORMS:
            if isinstance(node, kind):
                if slots is not None:
                    self.statement.only(node, slots)
                return method(self, node)
        binary = BINARY.get(type(node))
        if binary and isinstance(node.expression, (exp.Any, exp.All)):
            return self._quantified(node, binary)
        if binary and (row_of(node.this) or row_of(node.expression)):
            return self._rows(node).compare(binary, node.this, node.expression)
        if binary and functions.FUNCTIONS[binary].compares:
            self._check_sides(node)
        if isinstance(node, CHAINS):
            return self._call(BINARY[type(node)], operands(node), node)
        if isinstance(node, ARITHMETIC):
            return self._arithmetic(node)
        if binary:
            self.statement.only(node, _BOTH)
            return self._call(binary, [node.this, node.expression], node)
        call = CALLS.get(type(node))
        if call:
            self.statement.only(node, call.slots)
            return self._call(call.name, call.arguments(node), node)
        return self.unknown(node)

    def _arithmetic(self, node: exp.Expr) -> Expression:
        """a + b - c is (a + b) - c. A long chain is deep on its left side, so this loops instead of recursing."""
        steps = [node]
        while isinstance(steps[-1].this, ARITHMETIC) and not row_of(steps[-1].expression):
            steps.append(steps[-1].this)
        value = self.bind(steps[-1].this)
        for step in reversed(steps):
            self.statement.only(step, _BOTH)
            value = self.build(BINARY[type(step)], [value, self.bind(step.expression)], step)
        return value

    def _call(self, name: str, parts: list[exp.Expr], node: exp.Expr) -> Expression:
        if functions.FUNCTIONS[name].guards and parts:
            first = self.bind(parts[0])
            return self._lazily(lambda: self.build(name, [first, *map(self.bind, parts[1:])], node), node)
        return self.build(name, [self.bind(p) for p in parts], node)

    def _lazily(self, make: Callable[[], Expression], node: exp.Expr) -> Expression:
        """The result of `make`, for an expression whose parts are not all evaluated on every row: a constant part
        without a value is an error only for the rows that evaluate it. If all parts are constant, it is folded."""
        with functions.unreached():
            made = make()
        try:
            return functions.fold(made)
        except SqlError as error:
            raise self.statement.placed(error, node) from None

    def _check_sides(self, node: exp.Expr) -> None:
        """Refuses a comparison next to IN, LIKE, BETWEEN or NOT without parentheses, which Spark parses differently or
        rejects."""
        for side in (node.this, node.expression):
            if side.meta.get(PREDICATE) or isinstance(side, exp.Not):
                what = f"{sql_of(side)} next to a comparison can be read in two ways"
                self.statement.fail(f"{what}; put parentheses around it", side)

    def _quantified(self, node: exp.Expr, name: str) -> Expression:
        """x LIKE ANY (p, q) is x LIKE p OR x LIKE q. NOT applies to each of them, which gives NOT (x LIKE p AND
        x LIKE q); the caller adds the NOT."""
        inside = node.expression.this
        if name not in ("like", "ilike") or not isinstance(inside, (exp.Tuple, exp.Paren)):
            return self._subquery(node)
        self.statement.only(node, ("this", "expression", "negate"))
        patterns = inside.expressions if isinstance(inside, exp.Tuple) else [inside.this]
        operand, is_any = self.bind(node.this), isinstance(node.expression, exp.Any)
        tests = [self.build(name, [operand, self.bind(p)], node) for p in patterns]
        connective = "or" if is_any != bool(node.args.get("negate")) else "and"
        return tests[0] if len(tests) == 1 else self.build(connective, tests, node)

    def condition(self, node: exp.Expr) -> Expression:
        bound = self.bind(node)
        if bound.type == types.VOID:
            return self.cast(bound, types.BOOLEAN, node)
        if bound.type != types.BOOLEAN:
            self.statement.fail(f"{self.clause} needs a condition, not {bound.type}; compare it to a value", node)
        return bound

    def build(self, name: str, args: Sequence[Expression], node: exp.Expr) -> Expression:
        try:
            made = functions.build(name, tuple(args))
        except SqlError as error:
            raise self.statement.placed(error, node) from None
        check_parts(self.statement.extents.parts(made), self.statement, node)
        return made

    def cast(self, value: Expression, to: Type, node: exp.Expr) -> Expression:
        try:
            return functions.cast(value, to)
        except SqlError as error:
            raise self.statement.placed(error, node) from None

    # Nodes whose arguments are not simply bound one by one --------------------------------------------------------

    def _column(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Column)
        if isinstance(node.this, exp.Star):
            self.statement.fail("* means several columns, but one value is needed here; name the column", node)
        parts = [part for part in (node.args.get(p) for p in ("catalog", "db", "table", "this")) if part is not None]
        named = 1 if len(parts) == 1 else self._named_parts(parts)
        if named in (0, len(parts)):
            if len(parts) > 2:
                self.statement.refuse(sql_of(node), "qualify a column with its table or alias only", node)
            return self.column(node)  # not a copy: a clause may recognize its columns by identity
        value = self.column(exp.Column(this=parts[named - 1].copy(), table=parts[0].copy() if named == 2 else None))
        for field in parts[named:]:
            value = self.build("field", [value, Literal(types.STRING, field.name)], node)
        return value

    def _named_parts(self, parts: list[exp.Identifier]) -> int:
        """How many of the parts of a qualified name are a column, before fields of structs: two are its table and its
        name. 0 if there is no such column."""
        if self.scope is None or self.scope.find(parts[1].name, parts[0].name):
            return 0 if self.scope is None else 2
        known = self.scope.knows(parts[0].name) or parts[0].name.lower() in self.scope.outputs
        return 1 if known else 0

    def _dot(self, node: exp.Expr) -> Expression:
        if not isinstance(node.expression, exp.Identifier):
            return self.unknown(node)
        return self.build("field", [self.bind(node.this), Literal(types.STRING, node.expression.name)], node)

    def _bracket(self, node: exp.Expr) -> Expression:
        if len(node.expressions) != 1:
            return self.unknown(node)
        return self.build("item", [self.bind(node.this), self.bind(node.expressions[0])], node)

    def _struct(self, node: exp.Expr) -> Expression:
        """STRUCT(a, b + 1, c AS d): fields have the names of columns, aliases, or col1, col2, ... by their places."""
        args: list[Expression] = []
        for place, part in enumerate(node.expressions):
            inner = part.this if isinstance(part, (exp.Alias, exp.PropertyEQ)) else part
            is_named = isinstance(part, (exp.Alias, exp.PropertyEQ, exp.Column, exp.Dot))
            name = part.name if isinstance(part, exp.PropertyEQ) else part.output_name if is_named else ""
            if isinstance(inner, exp.Star) or isinstance(inner.this, exp.Star):
                self.statement.refuse("STRUCT(*)", "name the columns", node)
            args += [Literal(types.STRING, name or f"col{place + 1}"), self.bind(inner)]
        return self.build("named_struct", args, node)

    def _literal(self, node: exp.Expr) -> Expression:
        assert isinstance(node, exp.Literal)
        if node.is_string:
            return Literal(types.STRING, node.this)
        return bind_number(node.this, self.statement, node)

    def _bytes(self, node: exp.Expr) -> Expression:
        """X'ABC' is X'0ABC'."""
        value = functions.build("unhex", (Literal(types.STRING, node.this),))
        assert isinstance(value, Literal)
        if value.value is None:
            self.statement.fail(
                f"X'{node.this}' has characters other than 0 to 9 and A to F; write hexadecimal digits", node
            )
        return value

    def _negative(self, node: exp.Expr) -> Expression:
        if isinstance(node.this, exp.Literal) and not node.this.is_string:
            return bind_number("-" + node.this.this, self.statement, node)
        if has_suffix(node.this):
            return as_written(self.build("negate", [self.bind(node.this)], node))
        operand = self.bind(node.this)
        return self.build("negate", [operand], node)

    def _not(self, node: exp.Expr) -> Expression:
        return self.build("not", [self.bind(node.this)], node)

    def _rows(self, node: exp.Expr) -> RowComparison:
        return RowComparison(self.statement, self.bind, lambda name, args: self.build(name, args, node), node)

    def _is(self, node: exp.Expr) -> Expression:
        row = row_of(node.this)
        if row and isinstance(node.expression, exp.Null):
            for part in row:
                self.bind(part)
            return FALSE
        operand, test = self.bind(node.this), node.expression
        if isinstance(test, exp.Null):
            return self.build("is_null", [operand], node)
        if isinstance(test, exp.Boolean):
            return self.build("not_distinct", [operand, TRUE if test.this else FALSE], node)
        return self.unknown(node)

    def _between(self, node: exp.Expr) -> Expression:
        if row_of(node.this):
            rows = self._rows(node)
            ends = [("ge", node.args["low"]), ("le", node.args["high"])]
            return self.build("and", [rows.compare(name, node.this, end) for name, end in ends], node)
        operand = self.bind(node.this)
        least = self.build("ge", [operand, self.bind(node.args["low"])], node)

        def both() -> Expression:
            greatest = self.build("le", [operand, self.bind(node.args["high"])], node)
            return self.build("and", [least, greatest], node)

        return self._lazily(both, node)

    def _in(self, node: exp.Expr) -> Expression:
        if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
            return self._subquery(node)
        if row_of(node.this) and node.expressions:
            return self._rows(node).one_of(node.this, node.expressions)
        return self.build("in", [self.bind(node.this), *(self.bind(e) for e in node.expressions)], node)

    def _case(self, node: exp.Expr) -> Expression:
        row = row_of(node.this)
        operand = None if node.this is None or row else self.bind(node.this)

        def condition(test: exp.Expr) -> Expression:
            if row:
                return self._rows(node).compare("eq", node.this, test)
            return self.bind(test) if operand is None else self.build("eq", [operand, self.bind(test)], test)

        branches, default = node.args["ifs"], node.args.get("default")
        first = condition(branches[0].this)

        def case() -> Expression:
            args: list[Expression] = []
            for branch in branches:
                args.append(condition(branch.this) if args else first)
                args.append(self.bind(branch.args["true"]))
            args.append(NULL if default is None else self.bind(default))
            return self.build("case", args, node)

        return self._lazily(case, node)

    def _if(self, node: exp.Expr) -> Expression:
        other = node.args.get("false")
        return self._call("if", [node.this, node.args["true"], exp.Null() if other is None else other], node)

    def _cast(self, node: exp.Expr) -> Expression:
        value = self.bind(node.this)
        if value.type == types.VARIANT or node.args["to"].this == exp.DataType.Type.VARIANT:
            return function_nodes.variant_cast(self, value, node.args["to"], isinstance(node, exp.TryCast), node)
        to = bind_type(node.args["to"], self.statement)
        if node.args["to"].this == exp.DataType.Type.TIMESTAMPNTZ and value.type.name == "STRING":
            attempts = isinstance(node, exp.TryCast)
            return self.build("try_to_timestamp_ntz" if attempts else "to_timestamp_ntz", [value], node)
        if isinstance(node, exp.TryCast):
            try:
                return functions.try_cast(value, to)
            except SqlError as error:
                raise self.statement.placed(error, node) from None
        made = self.cast(value, to, node)
        return as_written(made) if has_suffix(node) else computed(made)

    def _escape(self, node: exp.Expr) -> Expression:
        name, pattern = BINARY.get(type(node.this)), node.this.args.get("expression")
        if name not in ("like", "ilike") or isinstance(pattern, (exp.Any, exp.All)):
            return self.unknown(node)
        self.statement.only(node.this, _BOTH)
        parts = [node.this.this, pattern, node.expression]
        bound = self.build(name, [self.bind(p) for p in parts], node)
        return self.build("not", [bound], node) if node.this.args.get("negate") else bound

    def _anonymous(self, node: exp.Expr) -> Expression:
        name = node.name.lower()
        if name == "now" and not node.expressions:
            return self._now(node)
        if name in NONDETERMINISTIC or (name == "unix_timestamp" and not node.expressions):
            self._nondeterministic(node)
        if name == "struct" and node.expressions:
            return self._struct(node)
        if name in self.statement.functions:
            return self._python(self.statement.functions[name], node)
        if name not in SPELLED:
            remedy = "write it in Python, with create_function, or compute it into a column of the table"
            self.statement.refuse(f"function {name}", remedy, node)
        if name == "from_json":
            return function_nodes.from_json(self, node)
        if name in ("variant_get", "try_variant_get"):
            return function_nodes.variant_get(self, node)
        return self._call(name, node.expressions, node)

    def _python(self, function: PythonFunction, node: exp.Expr) -> Expression:
        if not function.deterministic and self.statement.now is None:
            remedy = "store its value with the row, by INSERT INTO ... SELECT or UPDATE"
            self.statement.refuse(f"function {function.name}, which is not deterministic, in a view", remedy, node)
        self.statement.varies |= not function.deterministic
        if not node.expressions:
            self.statement.refuse(f"function {function.name} without arguments", "give it a column", node)
        args = [self.bind(part) for part in node.expressions]
        for arg, part in zip(args, node.expressions, strict=True):
            if arg.type.is_nested or arg.type in (types.VOID, types.VARIANT):
                self.statement.refuse(f"{function.name} of {arg.type}", "cast its argument to a type", part)
        made = function.call(args)
        check_parts(self.statement.extents.parts(made), self.statement, node)
        return made

    def _aggregate(self, node: exp.Expr) -> Expression:
        if self.aggregate is None:
            what = sql_of(node.this if isinstance(node, exp.Filter) else node)
            remedy = "filter groups in HAVING" if self.clause in ("WHERE", "ON") else "aggregate in a FROM subquery"
            self.statement.fail(f"aggregate {what} in {self.clause}; {remedy}", node)
        return self.aggregate(node)

    def _subquery(self, node: exp.Expr) -> Expression:
        if self.subquery is None:
            self.statement.refuse(f"a subquery in {self.clause}", "join with a FROM subquery instead", node)
        return self.subquery(node)

    def _window(self, node: exp.Expr) -> Expression:
        if self.window is None:
            what = sql_of(node)
            self.statement.fail(f"window function {what} in {self.clause}; compute it in a FROM subquery", node)
        return self.window(node, self)

    def _without_over(self, node: exp.Expr) -> Expression:
        self.statement.fail(f"window function {sql_of(node)} without OVER; write OVER (ORDER BY ...) after it", node)

    def _now(self, node: exp.Expr) -> Expression:
        """The clock's time: where a statement runs once, as it stands then."""
        if isinstance(node, (exp.CurrentTimestamp, exp.CurrentDate)) and node.this is not None:
            self.statement.refuse(sql_of(node), "leave out its argument; time is in UTC", node)
        at = self.statement.now
        self.statement.varies = True
        now = Now(spot=self.statement.spot(node)) if at is None else Literal(types.TIMESTAMP, at)
        return functions.cast(now, types.DATE) if isinstance(node, exp.CurrentDate) else now

    def _nondeterministic(self, node: exp.Expr) -> Expression:
        what = sql_of(node)
        remedy = "its value changes over time, so store it in a column instead"
        self.statement.refuse(f"{what} in a maintained query", remedy, node)

    def unknown(self, node: exp.Expr) -> Expression:
        if isinstance(node, exp.Dot) and isinstance(node.expression, exp.Anonymous):
            written = f"{sql_of(node.this)}.{node.expression.name}"
            self.statement.refuse(f"function {written}", "compute it before the change arrives, into a column", node)
        if row_of(node):
            self.statement.refuse(f"the row {sql_of(node)} here", "compare it, or name its fields", node)
        if "this" in node.arg_types and node.args.get("this") is None:
            self.statement.fail("an argument is missing; complete it", node)
        self.statement.refuse(sql_of(node), "rewrite it with plain operators and functions", node)


_Kinds = type[exp.Expr] | tuple[type[exp.Expr], ...]
_Method = Callable[[ScalarBinder, exp.Expr], Expression]
_BOTH = ("this", "expression", "negate")

#: The first class that a node is an instance of decides, so subclasses come before their bases. Each entry lists the
#: parts that are read; a node with other parts is refused (None: the method checks them itself, or refuses the node).
_FORMS: tuple[tuple[_Kinds, tuple[str, ...] | None, _Method], ...] = (
    (exp.Paren, ("this",), lambda self, node: self.bind(node.this)),
    (exp.Column, ("this", "table", "db", "catalog"), ScalarBinder._column),
    (exp.Dot, ("this", "expression"), ScalarBinder._dot),
    (exp.Bracket, ("this", "expressions"), ScalarBinder._bracket),
    (exp.Literal, ("this", "is_string"), ScalarBinder._literal),
    (exp.Placeholder, ("this",), lambda self, node: self.statement.parameter(node)),
    (exp.Null, (), lambda self, node: NULL),
    (exp.Boolean, ("this",), lambda self, node: TRUE if node.this else FALSE),
    (exp.Interval, ("this", "unit"), lambda self, node: bind_interval(node, self.statement)),
    (exp.Neg, ("this",), ScalarBinder._negative),
    (exp.Not, ("this",), ScalarBinder._not),
    (exp.Is, _BOTH, ScalarBinder._is),
    (exp.Between, ("this", "low", "high"), ScalarBinder._between),
    (exp.In, ("this", "expressions", "query", "unnest", "field"), ScalarBinder._in),
    (exp.Case, ("this", "ifs", "default"), ScalarBinder._case),
    (exp.If, ("this", "true", "false"), ScalarBinder._if),
    (exp.Cast, ("this", "to"), ScalarBinder._cast),
    (exp.TsOrDsToDate, ("this",), function_nodes.to_date),
    (exp.TsOrDsAdd, ("this", "expression", "unit"), function_nodes.add_days),
    (exp.Escape, ("this", "expression"), ScalarBinder._escape),
    (exp.Trim, ("this", "expression", "position"), function_nodes.trim),
    (exp.Initcap, ("this", "expression"), function_nodes.initcap),
    (exp.HexString, ("this",), ScalarBinder._bytes),
    (exp.RawString, ("this",), lambda self, node: Literal(types.STRING, node.this)),
    (exp.Pad, ("this", "expression", "fill_pattern", "is_left"), function_nodes.pad),
    (exp.Extract, ("this", "expression"), function_nodes.extract),
    (exp.JSONExtract, ("this", "expression", "variant_extract"), function_nodes.variant_part),
    (exp.DateDiff, ("this", "expression", "unit"), function_nodes.days_between),
    (
        exp.TimestampDiff,
        ("this", "expression", "unit"),
        lambda self, node: function_nodes.between_moments(self, node, node.expression, node.this),
    ),
    (exp.TimestampAdd, ("this", "expression", "unit"), function_nodes.add_units),
    (exp.Window, None, ScalarBinder._window),
    (tuple(NEEDS_OVER), None, ScalarBinder._without_over),
    ((exp.Rand, exp.Randn, exp.Uuid, exp.Shuffle, exp.CurrentUser), None, ScalarBinder._nondeterministic),
    ((exp.CurrentTimestamp, exp.CurrentDate), ("this",), ScalarBinder._now),
    (exp.CurrentTime, None, ScalarBinder._nondeterministic),
    ((exp.Localtimestamp, exp.Localtime), None, ScalarBinder._nondeterministic),
    ((exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls, exp.AggFunc), None, ScalarBinder._aggregate),
    ((exp.Subquery, exp.Query, exp.Exists, exp.Any, exp.All), None, ScalarBinder._subquery),
    (exp.Anonymous, ("this", "expressions"), ScalarBinder._anonymous),
)
