"""Why a query stopped, in Freshet's own words and before Spark's.

Spark wraps what a worker raises into the worker's traceback, the task's failure and the query's, so that what matters
comes last. An error made for the user therefore leaves its worker without a traceback (`plainly`), `reason` finds it
wherever Spark put it, and PySpark's exceptions begin with it (`show_reason_first`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext
from pyspark.errors.exceptions.captured import CapturedException

from freshet.errors import FreshetError

_OUR_ERROR = re.compile(r"freshet\.errors\.\w+: ")
#: What a worker says whose Python has no Freshet, or not all that it needs.
_LACKING = re.compile(r"No module named '(freshet|numba|llvmlite|sqlglot)[.']")
_CANNOT_IMPORT = (
    "the Python of Spark's workers has no module {}; send Freshet to them with freshet.spark.ship(session), or install "
    "it there (PYSPARK_PYTHON says which Python they run)"
)

#: What Spark, Py4J or a traceback goes on with after a message.
_AFTER = re.compile(r"\s*(?: SQLSTATE: \w+|\n\s*at |\n\s*File |\n\n|\nTraceback |\n=== |\nDriver stacktrace|\Z)")


@contextmanager
def plainly() -> Iterator[None]:
    """An error of the user's leaves a worker as one sentence. Others are ours, and keep their traceback."""
    try:
        yield
    except FreshetError:
        if TaskContext.get() is not None:
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"  # of this worker, which ends with the error
        raise


def reason(error: BaseException | str) -> str | None:
    """Find Freshet's own sentence in an error of Spark's.

    Parameters
    ----------
    error
        What Spark raised or `query.exception()` returned, or its text.

    Returns
    -------
    str or None
        None if Freshet is not what stopped the query.

    Examples
    --------
    >>> reason("Job aborted: freshet.errors.ChangeError: table t, row 3: a is NULL; give a value")
    'table t, row 3: a is NULL; give a value'
    """
    if isinstance(error, FreshetError):
        return str(error)
    text = _spark_says(error) if isinstance(error, CapturedException) else str(error)
    found = list(_OUR_ERROR.finditer(text))
    if not found:
        lacking = _LACKING.search(text)
        return None if lacking is None else _CANNOT_IMPORT.format(lacking[1])
    start = found[-1].end()
    end = _AFTER.search(text, start)
    return text[start : end.start() if end is not None else len(text)].strip()


_spark_says = CapturedException.__str__


@functools.wraps(_spark_says)
def _reason_first(error: CapturedException) -> str:
    why = reason(error)
    return _spark_says(error) if why is None else f"{why}\n\n{_spark_says(error)}"


def show_reason_first() -> None:
    """From now on, exceptions that PySpark makes of Spark's begin with Freshet's sentence where they hold one. Spark
    composes their text elsewhere, and PySpark has no other place to put anything before it."""
    CapturedException.__str__ = _reason_first  # type: ignore[method-assign]
