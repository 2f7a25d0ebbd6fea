"""The properties in the records of window functions: rewrites rely on them, so a wrong record leads to wrong
answers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

import freshet
from freshet.plans import codec
from freshet.plans.model import WindowPlan, inputs
from freshet.scalar.column import Column
from freshet.scalar.expression import SortKey
from freshet.scalar.types import BIGINT
from freshet.state.arena import Arena
from freshet.state.strings import StringPool
from freshet.windows import NEEDS_OVER, SPELLED, WINDOW_FUNCTIONS, WindowFunction
from freshet.windows.call import WHOLE, WindowCall
from freshet.windows.ordered_rows import OrderedRows

POOL = StringPool(Arena().scope("pool"))
TABLES = "CREATE TABLE t (a INT, b INT)"
UNFRAMED = [f for f in WINDOW_FUNCTIONS.values() if not f.framed]


def partition(keys: list[int]) -> OrderedRows:
    """One partition, in the order of a key; the second column is what functions read."""
    key = np.array(keys, np.int64)
    fresh = np.zeros(len(key), np.bool_)
    fresh[0] = True
    differs = np.concatenate([[False], key[1:] != key[:-1]])
    columns = [Column(BIGINT, key), Column(BIGINT, np.arange(len(key)) * 10)]
    return OrderedRows.of(columns, fresh, differs, (SortKey(0, False, True),), POOL)


def values(name: str, rows: OrderedRows) -> list[object]:
    function = WINDOW_FUNCTIONS[name]
    made = function.values(WindowCall(name, (1,), BIGINT, WHOLE, constant=2), rows)
    known = np.ones(len(rows), np.bool_) if made.valid is None else made.valid
    return [value if there else None for value, there in zip(made.data.tolist(), known, strict=True)]


ORDERED_KEYS = st.lists(st.integers(0, 3), min_size=1, max_size=8).map(sorted)


@given(keys=ORDERED_KEYS)
def test_what_rows_before_decide_does_not_change_with_rows_after(keys: list[int]) -> None:
    for function in UNFRAMED:
        whole = values(function.name, partition(keys))
        prefixes = [values(function.name, partition(keys[:end])) for end in range(1, len(keys) + 1)]
        if function.by_rows_before:
            assert all(prefix == whole[: len(prefix)] for prefix in prefixes), function.name


@pytest.mark.parametrize("function", [f for f in UNFRAMED if not f.by_rows_before], ids=lambda f: f.name)
def test_the_others_do_change(function: WindowFunction) -> None:
    keys = [0, 0, 1, 1, 2]
    whole = values(function.name, partition(keys))
    assert any(values(function.name, partition(keys[:end])) != whole[:end] for end in range(1, len(keys)))


@given(keys=ORDERED_KEYS, first=st.integers(1, 4))
def test_a_number_up_to_k_takes_the_first_k_rows_and_those_that_tie(keys: list[int], first: int) -> None:
    for function in UNFRAMED:
        if function.shared_by_ties is None:
            continue
        numbers = values(function.name, partition(keys))
        taken = [isinstance(n, int) and n <= first for n in numbers]
        last = keys[min(first, len(keys)) - 1]
        expected = [i < first or (function.shared_by_ties and key == last) for i, key in enumerate(keys)]
        assert taken == expected, function.name


def window_calls(call: str) -> tuple[WindowCall, ...]:
    plan = freshet.plan(f"SELECT {call} OVER (ORDER BY a) AS x FROM t", TABLES)
    ((_, below),) = inputs(plan.root)
    assert isinstance(below, WindowPlan)
    return below.calls


def test_a_negative_distance_looks_the_other_way() -> None:
    for written, same in (("LAG(b, -2)", "LEAD(b, 2)"), ("LEAD(b, -1, 0)", "LAG(b, 1, 0)")):
        assert window_calls(written) == window_calls(same)


def test_every_form_is_of_a_registered_function() -> None:
    bound_to = {"session_start", "session_end"}  # of SESSION_WINDOW in GROUP BY
    assert {f.name for f, _ in SPELLED.values()} | bound_to == {*WINDOW_FUNCTIONS}
    assert {SPELLED[form][0] for form in NEEDS_OVER} == {f for f in WINDOW_FUNCTIONS.values() if f.needs_over}
    assert exp.Sum not in NEEDS_OVER


@pytest.mark.parametrize(
    "frame", ["ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", "RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING"]
)
def test_frames_are_written_as_words_and_read_back(frame: str) -> None:
    plan = freshet.plan(f"SELECT SUM(b) OVER (ORDER BY a {frame}) AS x FROM t", TABLES)
    text = codec.to_json(plan)
    assert f'"unit": "{frame.split()[0].lower()}"' in text
    assert codec.from_json(text) == plan
