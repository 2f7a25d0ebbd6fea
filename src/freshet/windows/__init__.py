"""Window functions, one family per file: each defines its syntax, its type, its values, and the meaning of its frame.

Importing a family registers its functions; `WINDOW_FUNCTIONS` finds them by name, `SPELLED` by the parsed form. To add
one, write it next to similar ones and list its file here.
"""

from freshet.windows import (  # noqa: F401  (importing a family registers its functions)
    framed_values,
    neighbours,
    ranks,
    sessions,
    totals,
)
from freshet.windows.function import (
    NEEDS_OVER,
    SPELLED,
    WINDOW_FUNCTIONS,
    BoundFunction,
    WindowFunction,
    window_function_of,
)

__all__ = [
    "NEEDS_OVER",
    "SPELLED",
    "WINDOW_FUNCTIONS",
    "BoundFunction",
    "WindowFunction",
    "window_function_of",
]
