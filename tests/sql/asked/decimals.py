"""Types of decimal arithmetic: literals have the digits they are written with, and so have integers next to a decimal."""

# ruff: noqa: E501
from __future__ import annotations

COLUMNS = ("ti", "i", "b", "d", "e", "w")
OTHERS = (
    "7", "-7", "- 7", "100000", "0", "7L", "3000000000", "7S", "7Y", "0.5", "-0.05", "100.0", "1.50", "00.5",
    "12345678901234567890", "1e2", "1.5BD", "7BD", "2.5D", "'2'", "NULL", "CAST(NULL AS DECIMAL)", "CAST(NULL AS INT)",
    "CAST(NULL AS DECIMAL(5,2))", "CAST(7 AS INT)", "CAST(7 AS BIGINT)", "CAST(7 AS DECIMAL(3))", "(3 + 4)", "(-7)",
    "(3.5 * 2)", "ABS(-7)", "(+ 7)", "(- -7)", "-7L", "CAST(0.5 AS DECIMAL(10,4))", "CAST(90 AS TINYINT)", "d", "w", "s",
)  # fmt: skip
OPERATORS = ("+", "-", "*", "/", "%", "DIV")
FORMS = ("COALESCE({c}, {o})", "IF(i = 3, {c}, {o})", "GREATEST({c}, {o})", "{c} = {o}", "{c} IN ({o}, 3)")


def _asked() -> list[str]:
    made = []
    for operator in OPERATORS:
        for other in OTHERS:
            if operator == "DIV" and ("D" in other or "e" in other or len(other) == 20):
                continue
            pairs = [] if other == "0" and operator in ("/", "%", "DIV") else [(c, other) for c in COLUMNS]
            pairs += [(other, c) for c in COLUMNS]
            made.append(
                "SELECT " + ", ".join(f"{a} {operator} {b} AS x{i}" for i, (a, b) in enumerate(pairs)) + " FROM dec"
            )
    for other in OTHERS:
        listed = [form.format(c=c, o=other) for form in FORMS for c in COLUMNS]
        made.append("SELECT " + ", ".join(f"{e} AS x{i}" for i, e in enumerate(listed)) + " FROM dec")
    return made


QUERIES = [
    *_asked(),
    "SELECT CAST(NULL AS DECIMAL) * 90 / 11 AS x, CAST(NULL AS DECIMAL) * 90 AS y, CAST(NULL AS DECIMAL(5,2)) / 11 AS z, NULL * 0.5 AS w",
    "SELECT d * 90 / 11 AS x, d * (90 / 11) AS y, d * 2 * 3 AS z, d * (2 * 3) AS w, (d + 1) * (d - 1) AS v, d / 3 / 3 AS u FROM dec",
    "SELECT 90 * CAST(NULL AS DECIMAL) AS x, - CAST(NULL AS DECIMAL) * 2 AS y, ABS(CAST(NULL AS DECIMAL)) + 1 AS z",
    "SELECT SUM(d) * 2 AS x, AVG(d) * 2 AS y, SUM(d) / COUNT(*) AS z, SUM(d * 90) AS w, SUM(d) / 7 AS v, MAX(d) + 1 AS u, AVG(i) * 1.5 AS t, SUM(i) * 1.5 AS s FROM dec",
    "SELECT d + CASE WHEN i = 3 THEN 1 ELSE 2 END AS x, d + COALESCE(NULL, 1) AS y, d + IF(true, 1, 2) AS z, d + (SELECT 1) AS w, d * CAST('2' AS INT) AS v FROM dec",
    "SELECT ROUND(d * 3, 1) AS x, CEIL(d * 2) AS y, FLOOR(d / 3) AS z, ROUND(0.125, 2) AS w, -0.5 AS v, -(0.5) AS u, +0.5 AS t, ABS(-0.5) AS s FROM dec",
    "SELECT 0.5 AS a, 1.50 AS b, 00.5 AS c, 100.0 AS d, .5 AS e, 5. AS f, 1e2 AS g, 1.5BD AS h, 0BD AS i, 12345678901234567890 AS j, 9223372036854775808 AS k, -9223372036854775808 AS l, 0.0 AS m, 0.00 AS n, 123.450 AS o",
    "SELECT 1 / 3 AS a, 1.0 / 3 AS b, 1 / 3.0 AS c, 2 * 0.5 AS d, 7 % 2.5 AS e, 7 DIV 2.5 AS f, 1 + 0.5 AS g, 3000000000 * 0.5 AS h, 7L * 0.5 AS i, 7S * 0.5 AS j, 100Y * 0.5 AS k, 0 * 0.5 AS l, -7 * 0.5 AS m, 0.5 * -7 AS n",
    "SELECT d + 1 AS x FROM dec UNION ALL SELECT 5 UNION ALL SELECT 0.12345",
    "SELECT d FROM dec WHERE d > 12 OR d * 2 > 24.7 OR d / 3 = 4.115",
    "SELECT d * 1.0 AS x, COUNT(*) AS c FROM dec GROUP BY d * 1.0",
    "SELECT VAR_POP(d) AS x, STDDEV(d) AS y, SUM(d * 0.5) AS z, AVG(d / 3) AS w, MEDIAN(d) AS v FROM dec",
    "SELECT POWER(d, 2) AS x, SQRT(d * d) AS y, MOD(d, 5) AS z, PMOD(d, 5) AS w, SIGN(d) AS v, ROUND(d) AS u, ROUND(i, 2) AS t FROM dec",
    "SELECT +d AS a, +'2' AS b, +NULL AS c, + + i AS d, CAST(NULL AS DECIMAL) * - 90 / + 11 AS e FROM dec",
    "SELECT +DATE'2024-01-01' AS a",
    "SELECT +true AS a",
    "SELECT 7::BIGINT * 0.5 AS a, 7L * 0.5 AS b, '7'::INT * 0.5 AS c",
    "SELECT TRY_ADD(d, 1) AS x, TRY_MULTIPLY(d, 90) AS y, TRY_DIVIDE(d, 7) AS z, TRY_SUBTRACT(1, d) AS w FROM dec",
    "SELECT SUM(x) AS a, AVG(x) AS b, MAX(x) AS c FROM VALUES (1), (2.5), (NULL) AS v(x)",
    "SELECT x FROM VALUES (1.5), (22.25) AS v(x)",
    "SELECT LAG(d, 1, 0) OVER (ORDER BY i) AS x, SUM(d) OVER () * 2 AS y, NVL(d, 0) AS z, NVL2(d, 1, 0.5) AS w, ZEROIFNULL(d) AS v FROM dec",
]
