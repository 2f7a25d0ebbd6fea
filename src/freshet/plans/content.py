"""What a plan computes: plans of equal content store the same rows, and can be maintained once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from freshet.logical.query import Above, Field, TableSchema
from freshet.plans.model import AnyPlan, Node, QueryPlan, RelationPlan
from freshet.scalar.expression import Reference

_MOST = 1024  # plans whose content is kept


class Content:
    """A plan without the parts that are only for people: names, and what is said about it."""

    __slots__ = ("_hash", "_parts")

    def __init__(self, plan: AnyPlan | Above[Any]) -> None:
        self._parts = _parts(plan)
        self._hash = hash(self._parts)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Content) and self._hash == other._hash and self._parts == other._parts


#: Fields that are only for people, by class.
_UNREAD: Mapping[type, frozenset[str]] = {
    RelationPlan: frozenset(("alias",)),
    QueryPlan: frozenset(("attributes", "guarantee", "shares")),
    Node: frozenset(("attributes",)),
    Field: frozenset(("name",)),
}


_GUARANTEED, _NAMED = frozenset(("guarantee",)), frozenset(("name",))

_known: dict[int, tuple[object, Content]] = {}  # by identity, which is stable because the plan is kept alive


def content_of(plan: AnyPlan | Above[Any]) -> Content:
    """The content of a plan, computed once for each of its parts, however often it is asked for."""
    known = _known.get(id(plan))
    if known is None:
        if len(_known) >= _MOST:
            _known.clear()
        known = _known[id(plan)] = plan, Content(plan)
    return known[1]


def _content(part: object) -> Hashable:
    if isinstance(part, tuple):
        return tuple(map(_content, part))
    if isinstance(part, float):
        return part.hex()  # 0.0 is equal to -0.0 and NaN to nothing, but the one is not the other
    if isinstance(part, (QueryPlan, Above)):
        return content_of(part)
    return _parts(part)


def _parts(part: object) -> Hashable:
    kind: Any = type(part)
    names = _read(kind)
    if names is None:
        assert isinstance(part, Hashable)
        return part
    return kind, *(_content(getattr(part, name)) for name in names)


@cache
def _read(kind: Any) -> tuple[str, ...] | None:
    """The fields of a class that count; None if its objects count as they are."""
    names = [f.name for f in fields(kind)] if is_dataclass(kind) else None
    if names is None or issubclass(kind, TableSchema):
        return None
    unread = _NAMED if issubclass(kind, Reference) else _UNREAD.get(kind, _GUARANTEED)
    return tuple(name for name in names if name not in unread)
