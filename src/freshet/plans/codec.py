"""Plans and bound queries as JSON and back: each dataclass an object that names its class, fields by name."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from freshet.errors import PlanError
from freshet.plans import model
from freshet.sql import bound, expression
from freshet.types import Type

FORMAT = 1  # raised whenever a reader of the old format would misread the new one

_CLASSES: dict[str, Any] = {
    c.__name__: c
    for c in (
        Type, expression.ColumnRef, expression.Literal, expression.Call, expression.AggregateCall,
        bound.Field, bound.TableSchema, bound.ForeignKey, bound.Grouping, bound.SortKey, bound.Frame, bound.WindowCall,
        bound.Relation, bound.Block, bound.Arm, bound.Query, bound.UnionAll, bound.SetOperation, bound.Values,
        bound.TopK, bound.Sorted, bound.Windowed, bound.BoundedSums,
        model.RelationPlan, model.Comparison, model.Edge, model.Assertion, model.Node, model.Guarantee, model.QueryPlan,
        model.UnionAllPlan, model.SetPlan, model.ValuesPlan, model.TopPlan, model.SortPlan, model.WindowPlan,
        model.BagPlan, model.BoundedSumsPlan,
    )
}  # fmt: skip


def register(part: type) -> None:
    _CLASSES[part.__name__] = part


def encode(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: encode(getattr(value, f.name)) for f in dataclasses.fields(value)}
        return {"is": type(value).__name__, **fields}
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    return value


def decode(value: Any) -> Any:
    if isinstance(value, dict):
        name = value.get("is")
        made = _CLASSES.get(str(name))
        if made is None:
            raise PlanError(f"a plan holds no {name!r}; its parts are {', '.join(sorted(_CLASSES))}")
        given = {k: decode(v) for k, v in value.items() if k != "is"}
        known = {f.name for f in dataclasses.fields(made)}
        unknown = sorted(given.keys() - known)
        if unknown:
            raise PlanError(f"{name} has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
        try:
            return made(**given)
        except TypeError as e:
            raise PlanError(f"{name} lacks a field: {e}") from None
    if isinstance(value, list):
        return tuple(decode(v) for v in value)
    return value


def to_json(value: Any, indent: int | None = 2) -> str:
    return json.dumps({"format": FORMAT, **encode(value)}, indent=indent, ensure_ascii=False)


def from_json(text: str) -> Any:
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as e:
        raise PlanError(f"the plan is not JSON: {e}") from None
    if not isinstance(data, dict) or data.pop("format", None) != FORMAT:
        raise PlanError(f"the plan's format is not {FORMAT}; make it again with this version of Freshet")
    return decode(data)
