"""Plans and bound queries as JSON and back: each dataclass an object that names its class, fields by name."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cache
from typing import Any

from freshet.errors import PlanError, StateError, brief
from freshet.logical import query as bound
from freshet.logical.kinds import JoinKind, SetKind
from freshet.plans import model
from freshet.scalar import expression
from freshet.scalar.clock import Moment, Step, StepKind
from freshet.scalar.comparison_operator import ComparisonOperator
from freshet.scalar.functions.python import PythonCall, PythonFunction
from freshet.scalar.types import Type
from freshet.windows.call import Frame, FrameUnit, WindowCall

FORMAT = 1  # raised whenever a reader of the old format would misread the new one
_BYTES = "bytes"  # the tag of a BINARY constant, which is written as hexadecimal digits

_CLASSES: dict[str, Any] = {
    c.__name__: c
    for c in (
        Type, expression.ColumnRef, expression.GroupRef, expression.Variable, expression.Literal, expression.Call,
        PythonCall,
        expression.AggregateCall, expression.SortKey, bound.Field, bound.TableSchema, bound.Watermark, bound.Retention,
        bound.Lateness, bound.Altered, bound.ForeignKey, bound.Grouping, Frame, WindowCall,
        bound.Relation, bound.Block, bound.Arm, bound.Query, bound.UnionAll, bound.SetOperation, bound.Values,
        bound.TopK, bound.Sorted, bound.Windowed, bound.BoundedSums, bound.Timed, bound.Flattened, bound.Recursive,
        bound.RecursiveRows, Moment, Step,
        model.RelationPlan, model.Comparison, model.Edge, model.Assertion, model.Node, model.Guarantee, model.QueryPlan,
        model.UnionAllPlan, model.SetPlan, model.ValuesPlan, model.TopPlan, model.SortPlan, model.WindowPlan,
        model.BagPlan, model.BoundedSumsPlan, model.TimedPlan, model.FlattenedPlan, model.LookedUpPlan,
        model.RecursivePlan,
    )
}  # fmt: skip


#: Fields that are written as the values of an enum.
_KINDS: dict[tuple[Any, str], type[StrEnum]] = {
    ("Edge", "kind"): JoinKind,
    ("Frame", "unit"): FrameUnit,
    ("Arm", "kind"): JoinKind,
    ("Step", "kind"): StepKind,
    ("SetPlan", "kind"): SetKind,
    ("LookedUpPlan", "kind"): SetKind,
    ("SetOperation", "kind"): SetKind,
    ("Comparison", "operator"): ComparisonOperator,
    ("BoundedSums", "operator"): ComparisonOperator,
    ("BoundedSumsPlan", "operator"): ComparisonOperator,
}


#: Fields that earlier versions did not have. They are not written when they have their default, so that a plan keeps
#: the form by which stored state identifies it.
_LATER: dict[tuple[Any, str], Any] = {
    ("QueryPlan", "key"): (),
    ("QueryPlan", "copies"): (),
    ("Query", "copies"): (),
    ("LookedUpPlan", "all"): False,
    ("Comparison", "second"): None,
    ("Comparison", "counted"): False,
    ("TableSchema", "retention"): None,
    ("TableSchema", "altered"): None,
    ("TableSchema", "lateness"): None,
    ("Timed", "final"): (),
    ("TimedPlan", "final"): (),
    ("Dimension", "heavy"): (),
    ("Dimension", "row"): (),
    ("Operator", "trunk"): "",
    ("Operator", "expected"): (),
    ("Type", "keys"): None,
    ("Type", "fields"): (),
}


#: Fields that are not written: Python functions are found by name when a plan is read.
_UNWRITTEN = {("PythonCall", "function")}

_functions: ContextVar[Mapping[str, Callable[..., Any]]] = ContextVar("functions")


@contextmanager
def calling(functions: Mapping[str, Callable[..., Any]]) -> Iterator[None]:
    """Plans that are read within this block call these Python functions."""
    before = _functions.set(functions)
    try:
        yield
    finally:
        _functions.reset(before)


def functions_in(value: Any) -> list[PythonFunction]:
    """The Python functions that a plan or query calls, each once."""
    found: dict[str, PythonFunction] = {}
    seen: dict[int, Any] = {}
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part  # kept alive, so that its id() is not reused
        if isinstance(part, PythonCall):
            found[part.name] = part.function
            waiting += part.args
        elif isinstance(part, (tuple, list)):
            waiting += part
        else:
            waiting += [getattr(part, f) for f in _fields(part.__class__) or ()]
    return list(found.values())


def register(part: type) -> None:
    _CLASSES[part.__name__] = part


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


@cache
def _fields(made: Any) -> tuple[str, ...] | None:
    return tuple(f.name for f in dataclasses.fields(made)) if dataclasses.is_dataclass(made) else None


def encode(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [encode(v) for v in value]
    fields = _fields(value.__class__)
    if fields is not None:
        name = type(value).__name__
        given = ((f, getattr(value, f)) for f in fields if (name, f) not in _UNWRITTEN)
        return {"is": name, **{f: encode(v) for f, v in given if (name, f) not in _LATER or v != _LATER[name, f]}}
    return {"is": _BYTES, "hex": value.hex()} if isinstance(value, bytes) else value


def _part(name: Any, field: str, value: Any) -> Any:
    kinds = _KINDS.get((name, field))
    if kinds is None:
        return decode(value)
    if value not in list(kinds):
        raise PlanError(f"{name} has no {field} {value!r}; it is one of {', '.join(kinds)}")
    return kinds(value)


def _renewed(value: dict[str, Any]) -> dict[str, Any]:
    """Converts what earlier versions wrote: arrays were texts, and references had a single class, in which relation -1
    was the group's row."""
    if value.get("is") == "Type" and value.get("name") == "STRING" and value.get("items") is not None:
        return {**value, "name": "ARRAY"}
    if value.get("is") != "ColumnRef" or "outer" not in value:
        return value
    kept = {k: v for k, v in value.items() if k != "outer"}
    if value.get("relation") != -1:
        return kept
    del kept["relation"]
    return {**kept, "is": "GroupRef"}


def decode(value: Any) -> Any:
    if isinstance(value, dict):
        value = _renewed(value)
        name = value.get("is")
        if name == _BYTES:
            return _bytes(value)
        made = _CLASSES.get(str(name))
        if made is None:
            raise PlanError(f"a plan holds no {name!r}; its parts are {', '.join(sorted(_CLASSES))}")
        given = {k: _part(name, k, v) for k, v in value.items() if k != "is"}
        known = {f.name for f in dataclasses.fields(made)}
        unknown = sorted(given.keys() - known)
        if unknown:
            raise PlanError(f"{name} has no field {unknown[0]!r}; it has {', '.join(sorted(known))}")
        if made is PythonCall:
            given["function"] = _function(given)
        lacking = [f.name for f in dataclasses.fields(made) if f.name not in given and _is_required(f)]
        if lacking:
            raise PlanError(f"{name} lacks field {lacking[0]!r}; it has {', '.join(sorted(known))}")
        return made(**given)
    if isinstance(value, list):
        return tuple(decode(v) for v in value)
    return value


def _function(call: dict[str, Any]) -> PythonFunction:
    name = str(call.get("name"))
    body = _functions.get({}).get(name.lower())
    if body is None:
        remedy = f"give it, as in functions={{{name!r}: ...}}"
        raise StateError(f"a view calls function {name}, which is written in Python; {remedy}")
    return PythonFunction(name, body, call["type"])


def _bytes(value: dict[str, Any]) -> bytes:
    try:
        return bytes.fromhex(value["hex"])
    except (KeyError, TypeError, ValueError):
        raise PlanError(f"{brief(value)} is not bytes; write them as hexadecimal digits") from None


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
