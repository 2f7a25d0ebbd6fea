"""Functions called with extreme arguments; `python -m tests.fuzz.functions` calls many more."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from freshet.scalar.column import Column
from freshet.scalar.functions.registry import FUNCTIONS
from freshet.scalar.types import INT, STRING
from tests.fuzz.contained import WrongError
from tests.fuzz.function_calls import Argument, FunctionCall
from tests.fuzz.functions import run

CALLS = 4_000


def test_calls_have_a_value_or_are_refused_within_their_limits() -> None:
    arguments = ["-m", "tests.fuzz.functions", "--seed", "0", "--calls", str(CALLS)]
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    assert done.returncode == 0 and f"{CALLS} calls" in done.stdout, done.stdout + done.stderr


def test_a_wrong_value_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    call = FunctionCall("ascii", (Argument(STRING, ("a", "b"), False),), 2)
    assert run(call) == "value"
    wrong = replace(FUNCTIONS["ascii"], strict=lambda _: lambda a: Column(INT, np.arange(len(a)), a.valid))
    monkeypatch.setitem(FUNCTIONS, "ascii", wrong)
    with pytest.raises(WrongError, match="row 1 is 1 among others, alone"):
        run(FunctionCall("ascii", call.args, 2))
