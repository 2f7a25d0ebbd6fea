"""Change types and weights of rows are read in the same way for every source."""

from __future__ import annotations

import pyarrow as pa
import pytest

import freshet
from freshet.database.change_type import ChangeType, ChangeTypes, read_change_types, read_weights
from freshet.errors import ChangeError


def test_signs_and_codes() -> None:
    assert [kind.value for kind in ChangeType] == [
        "insert", "update_postimage", "upsert", "delete", "update_preimage",
    ]  # fmt: skip
    read = read_change_types(pa.array([kind.value for kind in ChangeType]), "t")
    assert read.codes.tolist() == [kind.code for kind in ChangeType] == [0, 1, 2, 3, 4]
    assert read.signs.tolist() == [kind.sign for kind in ChangeType] == [1, 1, 1, -1, -1]
    assert read.are(ChangeType.DELETE).tolist() == [False, False, False, True, False]
    assert ChangeTypes.of_weights(read_weights(pa.array([2, -1]), "t")).signs.tolist() == [1, -1]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (pa.array(["insert", "replace"]), "table t, row 8: _change_type is 'replace'; give one of insert, "),
        (pa.array(["insert", None]), "table t, row 8: _change_type is None; give one of insert, "),
        (pa.array([1, 2]), "table t: _change_type is int64, not text; give one of insert, "),
    ],
)
def test_bad_types(given: pa.Array, reason: str) -> None:
    with pytest.raises(ChangeError) as refused:
        read_change_types(given, "t", 7)
    assert str(refused.value).startswith(reason)


def test_change_types_that_are_not_allowed() -> None:
    with pytest.raises(ChangeError, match=r"'upsert'; give one of insert, update_postimage, delete, update_preimage$"):
        read_change_types(pa.array(["insert", "upsert"]), "t", among=[k for k in ChangeType if k.names_removed_rows])
    with pytest.raises(freshet.ChangeError, match="'upsert'; give one of"):
        freshet.enclosure(pa.table({"a": [1], "_change_type": ["upsert"]}))


def test_bad_weights() -> None:
    with pytest.raises(ChangeError, match=r"table t, row 4: _weight is NULL"):
        read_weights(pa.array([1, None]), "t", 3)
    with pytest.raises(ChangeError, match=r"row 4: _weight is 1\.5, not a whole number"):
        read_weights(pa.array([1.0, 1.5]), "t", 3)
    with pytest.raises(ChangeError, match=r"row 3: _weight is .*; give at most"):
        read_weights(pa.array([1 << 60]), "t", 3)
