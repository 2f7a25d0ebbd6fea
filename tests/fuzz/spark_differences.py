"""Permitted differences from Spark's answers: each with a narrow test and its reason, as in docs/sql.md."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.fuzz.spark_run import Answer


def named_apart(names: tuple[str, ...]) -> tuple[str, ...]:
    """The second column of a name gets _2."""
    taken: set[str] = set()
    apart = []
    for name in names:
        new, number = name, 1
        while new.lower() in taken:
            number += 1
            new = f"{name}_{number}"
        taken.add(new.lower())
        apart.append(new)
    return tuple(apart)


def type_name(written: str) -> str:
    return "NULL" if written == "VOID" else written


_INSIDE = (
    "NoSuchElementException", "INTERNAL_ERROR", "IllegalStateException", "PLAN_VALIDATION_FAILED", "tempresolvedcolumn"
)  # fmt: skip
Test = Callable[[str, "Answer", "Answer", str], bool]


def _written(pattern: str, *errors: str) -> Test:
    """A query that matches this is answered here, and refused by Spark with one of these errors."""
    regex = re.compile(pattern, re.I)
    return lambda sql, ours, theirs, why: bool(regex.search(sql)) and any(e in theirs.error for e in errors)


def _refused(pattern: str) -> Test:
    """A query that is refused here with such an error, and answered by Spark."""
    return lambda sql, ours, theirs, why: not theirs.error and bool(re.match(pattern, ours.error))


_NO_VALUE = re.compile(r"/ 0|% 0|CAST\('x' AS INT\)|9223372036854775807 \+ 1", re.I)
_SETTLED = re.compile(r"AND FALSE|TRUE OR|\bNULL\b", re.I)
_FAILS = ("division by zero", "does not fit", "cannot be cast", "is no ", "is not a")


def _never_reached(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    return bool(_NO_VALUE.search(sql)) and not theirs.error and any(f in ours.error for f in _FAILS)


def _found_by(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """WHERE s.b = o.b: under one o.b, s.b is the same in all rows of the group."""
    refused = "UNRESOLVED_COLUMN" in theirs.error or "MISSING_AGGREGATION" in theirs.error
    return (
        refused and "`s`.`b`" in theirs.error and bool(re.search(r"s\.b = o\.b.*(ORDER BY|HAVING) .*s\.b", sql, re.I))
    )


def _unknown_in(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """Rows that differ only in truth values: NULL here, false in Spark."""
    places = [i for i, t in enumerate(ours.types) if t == "BOOLEAN"]
    if not why.startswith("rows") or not re.search(r"IN \(SELECT", sql, re.I) or not places:
        return False

    def known(rows: tuple[tuple[object, ...], ...]) -> list[str]:
        settled = (tuple(False if v is None and i in places else v for i, v in enumerate(r)) for r in rows)
        return sorted(map(str, settled))

    return known(ours.rows) == known(theirs.rows)


def _two_queries_out(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """A name of a relation in the text, read where Spark sees only the next enclosing query."""
    match = re.search(r"UNRESOLVED_COLUMN.* name `(\w+)`\.`\w+` cannot be resolved", theirs.error)
    if not match or len(re.findall(r"\bSELECT\b", sql, re.I)) < 3:
        return False
    return bool(re.search(rf"\bAS {match[1]}\b", sql, re.I))


def _key_of_sets(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """HAVING over a key of grouping sets that the select list does not show."""
    match = re.search(r"UNRESOLVED_COLUMN.* name (?:`\w+`\.)?`(\w+)` cannot .*UnresolvedHaving", theirs.error)
    return bool(match and re.search(rf"GROUP BY .*\b{match[1]}\b.*HAVING .*\b{match[1]}\b", sql, re.I))


def _shown_twice(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """A name that Spark cannot resolve because two outputs have it."""
    pattern = r"UNRESOLVED_COLUMN.* name `(\w+)` cannot .* following\? \[.*`\1`.*`\1`"
    return "ORDER BY" in sql.upper() and bool(re.search(pattern, theirs.error, re.I))


def _only_x(ours: Answer, theirs: Answer, why: str) -> bool:
    """Rows that differ only in x, the value of a subquery."""
    if not why.startswith("rows"):
        return False
    shown = [i for i, name in enumerate(ours.names) if name.lower() != "x"]
    mine, others = (sorted(str([row[i] for i in shown]) for row in answer.rows) for answer in (ours, theirs))
    return mine == others


def _any_row(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """A subquery with LIMIT takes x from any row."""
    return bool(re.search(r"\(SELECT (?:(?!ORDER BY).)*LIMIT \d+\) AS x", sql, re.I)) and _only_x(ours, theirs, why)


def _on_reads_outside(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """A join in a subquery with LIMIT whose ON is true by a column of the enclosing query alone."""
    pattern = r"\(SELECT .* JOIN \w+ AS u ON (?:(?! WHERE ).)* OR (?:(?! WHERE ).)*\bo\.\w+.* LIMIT \d+\) AS x"
    return bool(re.search(pattern, sql, re.I)) and _only_x(ours, theirs, why)


def _one_row_of_with(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """An aggregate without GROUP BY in a WITH that reads the enclosing query: one row here, whatever matches."""
    return why.startswith("rows") and bool(
        re.search(r"FROM \(WITH r\d+ AS \(SELECT [A-Z_]+\((?!.*GROUP BY.*\) SELECT)", sql, re.I)
    )


def _named_by_another_key(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """ORDER BY b, r.b: an ambiguous name that Spark takes for the column that another key names."""
    match = re.match(r"column (\w+) is ambiguous; write", ours.error)
    return bool(match and not theirs.error and re.search(rf"ORDER BY .*\b\w+\.{match[1]}\b", sql, re.I))


def _short_cut(sql: str, ours: Answer, theirs: Answer, why: str) -> bool:
    """FALSE AND, TRUE OR, an operation with NULL: the other side is not computed here, whichever side it is."""
    fails = ("CAST_INVALID_INPUT", "DIVIDE_BY_ZERO", "REMAINDER_BY_ZERO", "ARITHMETIC_OVERFLOW")
    return bool(_SETTLED.search(sql)) and not ours.error and any(f in theirs.error for f in fails)


#: A reason, and the test that finds it.
ALLOWED: list[tuple[str, Test]] = [
    ("comparisons with ANY or ALL of a subquery", _written(r"\b(ANY|ALL)\s*\(+SELECT", "PARSE_SYNTAX_ERROR")),
    ("NATURAL with a SEMI or ANTI join", _written(r"NATURAL\s+(LEFT\s+)?(SEMI|ANTI)", "Unsupported natural join type")),
    ("a constant without a value is refused though no row reaches it", _never_reached),
    ("IN of a subquery is NULL where it is not known", _unknown_in),
    ("bytes that are no text, as a text", _refused(r".*is not text in UTF-8; show it")),
    ("sums and averages of timestamps and texts", _refused(r"no aggregate (SUM|AVG)\((TIMESTAMP|STRING)\)")),
    ("a column that EXCEPT names twice, in other letters", _refused("EXCEPT names")),
    ("an alias that two outputs of one value have", _written(" AS ", "AMBIGUOUS_LATERAL_COLUMN_ALIAS")),
    ("ORDER BY of a name that two outputs of one value have", _shown_twice),
    ("ORDER BY of a name that two outputs have", _refused(r"column \w+ is ambiguous: the select list has")),
    ("ORDER BY of an ambiguous name next to a qualified one", _named_by_another_key),
    ("the frame that LAG and LEAD have anyway", _refused("(LAG|LEAD) takes no frame")),
    ("an output that reads an alias, as a key", _written("GROUP BY", "LATERAL_COLUMN_ALIAS_IN_GROUP_BY")),
    ("an alias of the select list in its window functions", _written(r"OVER \(", "LATERAL_COLUMN_ALIAS_IN_WINDOW")),
    ("columns of a chain of USING", _written("USING .*USING", "RESOLVED_ATTRIBUTE_APPEAR_IN")),
    ("columns of USING under grouping sets", _written(r"USING .*(ROLLUP|CUBE|SETS)", "RESOLVED_ATTRIBUTE_APPEAR_IN")),
    (
        "an aggregate of the query around, inside a subquery",
        _refused("an aggregate of the enclosing query inside a subquery"),
    ),
    ("one group of a correlated subquery has the column it is found by", _found_by),
    (
        "correlated subqueries that Spark does not support",
        _written("SELECT.*SELECT", "UNSUPPORTED_SUBQUERY_EXPRESSION"),
    ),
    ("a name of a query further out than the next", _two_queries_out),
    ("HAVING over a key of grouping sets that is not shown", _key_of_sets),
    (
        "HAVING over a key of grouping sets whose name outputs have",
        _written("(CUBE|ROLLUP|SETS) .*HAVING", "AMBIGUOUS_REFERENCE"),
    ),
    ("operations whose other side decides", _short_cut),
    (
        "rows whose fields have other names and a wider type",
        _written(r"\(\w+, ", "BINARY_OP_DIFF_TYPES", "DATA_DIFF_TYPES"),
    ),
    ("LIMIT without ORDER BY in a subquery: any row", _any_row),
    ("ON with OR and an outer column, below a LIMIT", _on_reads_outside),
    ("an aggregate without GROUP BY in a correlated WITH has a row", _one_row_of_with),
    ("a name in QUALIFY that FROM and the select list have, of one value", _written("QUALIFY", "AMBIGUOUS_REFERENCE")),
    ("a name in QUALIFY that FROM and the select list have", _refused(r"column \w+ is ambiguous: FROM has one and")),
    ("ORDER BY of a DISTINCT by what its columns are made of", _written("DISTINCT .*ORDER BY", "UNRESOLVED_COLUMN")),
    ("ORDER BY of an aggregate after HAVING", _written("HAVING .*ORDER BY .*COUNT", "UNSUPPORTED_EXPR_FOR_OPERATOR")),
    ("names of windows in another case", _written(r"WINDOW w AS", "MISSING_WINDOW_SPECIFICATION")),
    ("Spark fails inside", _written("SELECT", *_INSIDE)),
]


def allowed(sql: str, ours: Answer, theirs: Answer, why: str) -> str:
    for reason, test in ALLOWED:
        if test(sql, ours, theirs, why):
            return reason
    return ""
