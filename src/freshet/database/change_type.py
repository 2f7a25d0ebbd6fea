"""The two columns that say what a row does to its table, read here for every way in which rows arrive.

`_weight` adds copies of a row, or removes them if it is negative; `_change_type` names the kind of change, as in change
feeds of Spark and Delta. Without either, every row is an insert.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from freshet.errors import ChangeError, EvaluationError, brief
from freshet.scalar.arrow import from_arrow, plain
from freshet.scalar.types import BIGINT
from freshet.state.arrays import TEXT, Bools, Int64s, is_text
from freshet.state.arrow_rows import MOST_GIVEN

WEIGHT, CHANGE_TYPE = "_weight", "_change_type"
_WEIGHS = "+n adds n copies, -n removes n"


class ChangeType(Enum):
    """What a row does to its table. Checkpoints on Spark store a type as its position here, so the order must not
    change."""

    INSERT = "insert"
    UPDATE_POSTIMAGE = "update_postimage"
    UPSERT = "upsert"
    DELETE = "delete"
    UPDATE_PREIMAGE = "update_preimage"

    @property
    def sign(self) -> int:
        """1 if the row is in the table afterwards, -1 if not."""
        return -1 if self in (ChangeType.DELETE, ChangeType.UPDATE_PREIMAGE) else 1

    @property
    def code(self) -> int:
        """Its position among all types."""
        return _ALL.index(self)

    @property
    def names_removed_rows(self) -> bool:
        """Whether the rows themselves say which row is removed; an upsert replaces the row that has its key."""
        return self is not ChangeType.UPSERT


_ALL = tuple(ChangeType)
_SIGNS = np.array([kind.sign for kind in _ALL], np.int64)

#: All of them, as listed in messages.
CHANGE_TYPES = ", ".join(kind.value for kind in _ALL)


@cache
def _names() -> pa.Array:
    """Created at first use: pa.array imports pandas to check whether its argument is a Series."""
    return pa.array([kind.value for kind in _ALL], TEXT)


@dataclass(frozen=True, slots=True)
class ChangeTypes:
    """The change type of each row, as codes."""

    codes: Int64s

    @classmethod
    def alike(cls, kind: ChangeType, rows: int) -> ChangeTypes:
        return cls(np.full(rows, kind.code, np.int64))

    @classmethod
    def of_weights(cls, weights: Int64s) -> ChangeTypes:
        """The change types for weights, in a table in which each row occurs at most once."""
        return cls(np.where(weights > 0, ChangeType.INSERT.code, ChangeType.DELETE.code).astype(np.int64))

    @property
    def signs(self) -> Int64s:
        return _SIGNS[self.codes]

    def are(self, kind: ChangeType) -> Bools:
        matches: Bools = self.codes == kind.code
        return matches


def read_weights(array: pa.Array, table: str | None, first: int = 0) -> Int64s:
    """Weights as given; `first` is the number of the first row, for messages."""
    weights = whole_weights(array, table, first)
    too_many = (weights > MOST_GIVEN) | (weights < -MOST_GIVEN)
    if too_many.any():
        row = int(np.argmax(too_many))
        raise ChangeError(f"{WEIGHT} is {weights[row]}; give at most {MOST_GIVEN} copies per row", table, first + row)
    return weights


def whole_weights(array: pa.Array, table: str | None, first: int = 0) -> Int64s:
    """Weights of any size."""
    array = plain(array)
    if not (pt.is_integer(array.type) or pt.is_floating(array.type) or pt.is_null(array.type)):
        raise ChangeError(f"{WEIGHT} is {array.type}, not whole numbers; {_WEIGHS}", table)
    if array.null_count:
        row = int(np.argmax(np.asarray(array.is_null())))
        raise ChangeError(f"{WEIGHT} is NULL; {_WEIGHS}", table, first + row)
    try:
        return np.array(from_arrow(array, BIGINT).data, np.int64)
    except EvaluationError as e:
        given = "" if e.row is None else brief(array[e.row].as_py())
        at = None if e.row is None else first + e.row
        raise ChangeError(f"{WEIGHT} is {given}, not a whole number; {_WEIGHS}", table, at) from None


def read_change_types(
    array: pa.Array, table: str | None, first: int = 0, among: Collection[ChangeType] = _ALL
) -> ChangeTypes:
    """Change types as given; each must be one of `among`."""
    array, names = plain(array), [kind.value for kind in _ALL if kind in among]
    if not (is_text(array.type) or pt.is_null(array.type)):
        raise ChangeError(f"{CHANGE_TYPE} is {array.type}, not text; give one of {', '.join(names)}", table)
    codes = np.asarray(pc.index_in(array.cast(TEXT), value_set=_names()).fill_null(-1)).astype(np.int64)
    other = ~np.isin(codes, [kind.code for kind in among])
    if other.any():
        row = int(np.argmax(other))
        given = brief(array[row].as_py())
        raise ChangeError(f"{CHANGE_TYPE} is {given}; give one of {', '.join(names)}", table, first + row)
    return ChangeTypes(codes)
