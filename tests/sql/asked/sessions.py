"""Session windows: where they merge, their other keys, gaps that depend on the row, and what is refused."""

from __future__ import annotations

_SHOWN = "session_window.start AS s, session_window.end AS e, COUNT(*) AS n, SUM(x) AS total"
_FIVE = "session_window(ts, '5 minutes')"

QUERIES = [
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(ts, '5 minutes')",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(ts, '4 minutes 59 seconds')",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(ts, '1 day')",
    f"SELECT k, {_SHOWN} FROM ev GROUP BY session_window(ts, '5 minutes'), k",
    f"SELECT k, {_SHOWN} FROM ev GROUP BY k, session_window(ts, '10 minutes')",
    f"SELECT k, {_SHOWN} FROM ev WHERE x > 1 GROUP BY k, session_window(ts, '5 minutes') HAVING COUNT(*) > 1",
    "SELECT session_window(ts, '5 minutes') AS w, COUNT(*) AS n FROM ev GROUP BY session_window(ts, '5 minutes')",
    "SELECT session_window, COUNT(*) AS n FROM ev GROUP BY session_window(ts, '5 minutes')",
    f"SELECT {_FIVE}.start AS s, k + 1 AS k1 FROM ev GROUP BY {_FIVE}, k + 1",
    "SELECT session_window(ts, '5 minutes') AS w, COUNT(*) AS n FROM ev GROUP BY w",
    "SELECT session_window(ts, '5 minutes') AS w, k, COUNT(*) AS n FROM ev GROUP BY 1, 2",
    "SELECT session_window(ts, '5 minutes') AS w, k, COUNT(*) AS n FROM ev GROUP BY ALL",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(d, '12 hours')",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(d, '1 day')",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(ts, INTERVAL '5' MINUTE)",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(ts, CASE WHEN k = 1 THEN '5 minutes' ELSE '1 minute' END)",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(ts, '0 minutes')",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(ts, '-5 minutes')",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(x, '5 minutes')",
    f"SELECT {_SHOWN} FROM ev GROUP BY session_window(ts)",
    ("SELECT a.k, session_window.start AS s, COUNT(*) AS n FROM ev AS a JOIN ev AS b ON a.k = b.k GROUP BY "
     "session_window(b.ts, '5 minutes'), a.k"),
    ("SELECT s, MAX(n) AS m FROM (SELECT k, session_window.start AS s, COUNT(*) AS n FROM ev GROUP BY "
     f"{_FIVE}, k) GROUP BY s"),
]  # fmt: skip
