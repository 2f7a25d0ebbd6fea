"""The frame of a window: ROWS counts rows, RANGE measures the distance between keys.

Law: an offset of RANGE is a constant that can be added to the single key of ORDER BY: a number of the key's type,
days or months for a DATE, an interval for a TIMESTAMP. A negative offset points before the row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from freshet.errors import SqlError
from freshet.scalar import functions, types
from freshet.scalar.expression import Expression, Literal
from freshet.scalar.types import Type
from freshet.sql.scalar import ScalarBinder
from freshet.sql.source import Statement, sql_of
from freshet.windows.call import SO_FAR, WHOLE, Frame, FrameEnd, FrameUnit


@dataclass(frozen=True, slots=True)
class FrameBinder:
    """Binds the frames of one select. `keys`: the expressions the window orders by."""

    statement: Statement
    scalar: ScalarBinder
    keys: Sequence[Expression]

    def bind(self, spec: exp.Expr | None, node: exp.Expr) -> Frame:
        if spec is None:
            return SO_FAR if self.keys else WHOLE
        self.statement.only(spec, ("kind", "start", "start_side", "end", "end_side"))
        kind = spec.text("kind").lower()
        if kind not in list(FrameUnit):
            self.statement.refuse(sql_of(spec), "write a frame of ROWS or RANGE", node)
        unit = FrameUnit(kind)
        start = self._edge(unit, spec.args["start"], spec.text("start_side"), "FOLLOWING", node)
        end: FrameEnd = 0
        if spec.args.get("end") is not None:
            end = self._edge(unit, spec.args["end"], spec.text("end_side"), "PRECEDING", node)
        if isinstance(spec.args["start"], exp.Expr) and isinstance(spec.args.get("end"), exp.Expr):
            self._check_order(start, end, spec, node)
        if unit is FrameUnit.RANGE and not self.keys:
            if start is not None or end is not None:
                self.statement.fail("a frame of RANGE depends on an order; add ORDER BY, or count ROWS", node)
            return WHOLE
        return Frame(unit, start, end)

    def _check_order(self, start: FrameEnd, end: FrameEnd, spec: exp.Expr, node: exp.Expr) -> None:
        written = sql_of(spec)
        (kind, first), (other, last) = (
            (e.type, e.value) if isinstance(e, Literal) else (types.INT, e) for e in (start, end)
        )
        if kind != other:
            self.statement.fail(f"{written} mixes months and days; use the same unit at both ends", node)
        assert isinstance(first, (int, float)) and isinstance(last, (int, float))
        if first > last:
            self.statement.fail(f"{written} ends before it begins; write the earlier end first", node)

    def _edge(self, unit: FrameUnit, edge: object, side: str, wrong: str, node: exp.Expr) -> FrameEnd:
        if edge == "UNBOUNDED":
            if side.upper() == wrong:
                end = "begin with UNBOUNDED FOLLOWING" if wrong == "FOLLOWING" else "end with UNBOUNDED PRECEDING"
                self.statement.fail(f"a frame cannot {end}; it would have no rows", node)
            return None
        if edge == "CURRENT ROW":
            return 0
        if not isinstance(edge, exp.Expr):
            self.statement.fail(
                "a frame without an end; write one, as in ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", node
            )
        bound = self.scalar.bind(edge)
        written = sql_of(edge)
        if not isinstance(bound, Literal) or bound.value is None:
            self.statement.fail(f"a frame's bound must be a constant, not {written}; write one", node)
        before = side.upper() == "PRECEDING"
        if unit is FrameUnit.ROWS:
            if bound.type not in (types.TINYINT, types.SMALLINT, types.INT):
                self.statement.fail(f"ROWS counts whole rows, not {written}; write an INT", node)
            assert isinstance(bound.value, int)
            return -bound.value if before else bound.value
        return self._distance(bound, before, written, node)

    def _distance(self, bound: Literal, before: bool, written: str, node: exp.Expr) -> FrameEnd:
        if len(self.keys) != 1:
            many = len(self.keys)
            self.statement.fail(
                f"RANGE with {written} measures from one key, not {many}; order by one, or use ROWS", node
            )
        key = self.keys[0].type
        try:
            offset = _fitted(bound, key)
        except SqlError as error:
            raise self.statement.placed(error, node) from None
        if offset is None or not isinstance(offset.value, (int, float)) or abs(offset.value) == float("inf"):
            wanted = "write a number" if key.is_numeric else "order by a number, DATE or TIMESTAMP, or use ROWS"
            if key.is_interval or key.name in ("DATE", "TIMESTAMP"):
                wanted = "write whole days or months" if key.name == "DATE" else "write an INTERVAL"
            self.statement.fail(f"{written} cannot be added to the key of RANGE, of type {key}; {wanted}", node)
        return Literal(offset.type, -offset.value) if before else offset


def _fitted(bound: Literal, key: Type) -> Literal | None:
    """The offset in a type that can be added to the key; None if there is none."""
    assert isinstance(bound.value, (int, float, str))
    if key.is_numeric:
        made = functions.cast(bound, key)
        assert isinstance(made, Literal)
        return made
    if key.name == "DATE":
        if bound.type.span == "DAY":
            made = functions.cast(bound, types.INT)
            assert isinstance(made, Literal)
            return made
        return bound if bound.type == types.INT or bound.type.name == "MONTHS" else None
    if key.is_interval:
        return bound if bound.type.name == key.name else None
    return bound if key.name == "TIMESTAMP" and bound.type.is_interval else None
