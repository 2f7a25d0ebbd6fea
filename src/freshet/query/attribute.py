"""What relations share. The theory asks of an attribute only that it can be compared with others and has a name: any
hashable value will do. Where attributes have to be in some order, it is that of their names, so that equal queries
always get equal trees.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TypeVar

Attribute = Hashable
AttributeSet = frozenset[Attribute]
A = TypeVar("A", bound=Hashable)


def in_order(attributes: Iterable[A]) -> list[A]:
    return sorted(attributes, key=str)


def listed(attributes: Iterable[Attribute]) -> str:
    return ", ".join(map(str, in_order(attributes)))


def as_set(attributes: Iterable[Attribute]) -> str:
    return "{" + listed(attributes) + "}"
