"""What `--json` prints: JSON on standard output, one value a line, and nothing else there.

Law: while a command runs with `--json`, descriptor 1 is standard error, for this process and its child processes such
as Spark; only `emit` writes to the original standard output. A refusal is one object with the key `error`, in addition
to the message on standard error.
"""

from __future__ import annotations

import base64
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TextIO

OPTION = "--json"

_output: TextIO | None = None  # the original standard output, while only results are written to it


def wanted(arguments: Sequence[str]) -> bool:
    """Whether a command line requests JSON, even if it cannot be parsed; options may be abbreviated."""
    return any(a.startswith("--j") and OPTION.startswith(a) for a in arguments)


@contextmanager
def results_only() -> Iterator[None]:
    global _output
    before, kept = sys.stdout, None
    with suppress(OSError, ValueError):  # a stream without a descriptor is left unchanged
        if before.fileno() == 1:
            before.flush()
            kept = os.dup(1)
    if kept is None:
        _output = before
    else:
        _output = os.fdopen(kept, "w", encoding="utf-8", errors="backslashreplace", newline="\n")
        os.dup2(2, 1)
    sys.stdout = sys.stderr
    try:
        yield
    finally:
        output, _output, sys.stdout = _output, None, before
        if kept is not None:
            os.dup2(kept, 1)
            with suppress(BrokenPipeError):  # the reader has closed the pipe
                output.close()


def as_json() -> bool:
    return _output is not None


def emit(*values: Any) -> None:
    assert _output is not None
    for value in values:
        print(json.dumps(plain(value), ensure_ascii=False), file=_output)
    _output.flush()


def plain(value: Any) -> Any:
    """A value for JSON: dates, decimals and non-finite numbers as texts, binary values in base 64."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, str)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, float):
        return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
