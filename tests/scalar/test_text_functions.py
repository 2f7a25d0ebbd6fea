"""Text functions in SQL: the parser's many nodes, refusals, and errors that name a row. The values of each function are
compared with Spark in test_functions_spark.
"""

from __future__ import annotations

from typing import Any

import pytest

import freshet
from freshet.errors import ChangeError, SqlError, UnsupportedError
from freshet.scalar.functions.pattern import read

ROWS = "(1, 'hello wörld, a.b', 1234.5), (2, NULL, NULL), (3, '', 0), (4, 'ab', -7.125)"


def shown(expression: str) -> list[Any]:
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, s STRING, n DECIMAL(10,3))")
    view = db.create_view("v", f"SELECT k, {expression} AS x FROM t")
    db.execute(f"INSERT INTO t VALUES {ROWS}")
    return [row["x"] for row in sorted(view.to_arrow().to_pylist(), key=lambda row: row["k"])]


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("instr(s, 'b')", [16, None, 0, 2]),
        ("position('b' IN s)", [16, None, 0, 2]),
        ("position('b', s, 3)", [16, None, 0, 0]),
        ("locate('b', s, 3)", [16, None, 0, 0]),
        ("locate('b', s, NULL)", [0, 0, 0, 0]),
        ("charindex('b', s)", [16, None, 0, 2]),
        ("concat_ws('-', s, 'x')", ["hello wörld, a.b-x", "x", "-x", "ab-x"]),
        ("concat_ws('-', 'x', 'y')", ["x-y"] * 4),
        ("concat_ws(s, 'x', 'y')", ["xhello wörld, a.by", None, "xy", "xaby"]),
        ("initcap(s)", ["Hello Wörld, A.b", None, "", "Ab"]),
        ("space(2) || s", ["  hello wörld, a.b", None, "  ", "  ab"]),
        ("repeat(s, k - 2)", ["", None, "", "abab"]),
        ("translate(s, 'abl', 'xy')", ["heo wörd, x.y", None, "", "xy"]),
        ("split_part(s, '.', -1)", ["b", None, "", "ab"]),
        ("substring_index(s, 'l', 2)", ["hel", None, "", "ab"]),
        ("chr(65) || char(66)", ["AB"] * 4),
        ("btrim(s, 'ahb')", ["ello wörld, a.", None, "", ""]),
        ("trim(BOTH 'ahb' FROM s)", ["ello wörld, a.", None, "", ""]),
        ("trim(LEADING 'ahb' FROM s)", ["ello wörld, a.b", None, "", ""]),
        ("trim(TRAILING 'b' FROM s)", ["hello wörld, a.", None, "", "a"]),
        ("octet_length(s) + bit_length(s) / 8", [34.0, None, 0.0, 4.0]),
        ("overlay(s PLACING 'XY' FROM 2 FOR 1)", ["hXYllo wörld, a.b", None, "XY", "aXY"]),
        ("overlay(s, 'XY', 2)", ["hXYlo wörld, a.b", None, "XY", "aXY"]),
        ("levenshtein(s, 'abc', 2)", [-1, None, -1, 1]),
        ("elt(k, s, 'two', 'three', s)", ["hello wörld, a.b", "two", "three", "ab"]),
        ("find_in_set(s, 'x,ab,')", [0, None, 3, 2]),
        ("s ILIKE 'A_'", [False, None, False, True]),
        ("s NOT ILIKE 'A_'", [True, None, True, False]),
        ("s ILIKE 'A/_' ESCAPE '/'", [False, None, False, False]),
        ("s LIKE ANY ('a%', 'h%')", [True, None, False, True]),
        ("s LIKE SOME ('a%')", [False, None, False, True]),
        ("s LIKE ALL ('a%', '%b')", [False, None, False, True]),
        ("s NOT LIKE ANY ('a%', '%b')", [True, None, True, False]),
        ("s NOT LIKE ALL ('a%', '%o%')", [False, None, True, False]),
        ("NOT s LIKE ANY ('a%', NULL)", [None, None, None, False]),
        ("s ILIKE ANY ('A%', 'H%')", [True, None, False, True]),
        ("sha2(s, 1)", [None] * 4),
        ("sha(s) = sha1(s)", [True, None, True, True]),
        ("format_number(n, 1)", ["1,234.5", None, "0.0", "-7.1"]),
        ("s RLIKE '^a.$'", [False, None, False, True]),
        ("s NOT RLIKE r'\\w'", [False, None, True, False]),
        ("s REGEXP '\\\\w'", [True, None, False, True]),
        ("regexp_like(s, '\\w')", [True, None, False, False]),  # the lexer of Spark leaves a w
        ("regexp_replace(s, '([ab])', '<$1>', 1)", ["hello wörld, <a>.<b>", None, "", "<a><b>"]),
        ("regexp_extract(s, '(a)(b)')", ["", None, "", "a"]),
        ("regexp_extract(s, '(a)(b)', 2)", ["", None, "", "b"]),
        ("regexp_substr(s, 'l+')", ["ll", None, None, None]),
        ("regexp_count(s, '[aeiou]')", [3, None, 0, 1]),
        ("regexp_instr(s, 'b')", [16, None, 0, 2]),
    ],
)
def test_what_is_written_is_computed(expression: str, values: list[Any]) -> None:
    assert shown(expression) == values


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        ("s LIKE ANY ('a') ESCAPE '/'", "not supported"),
        ("s RLIKE ANY ('a', 'b')", "not supported"),
        ("char(65 USING latin1)", ""),
        ("format_number(n, '#,##0')", "number of digits"),
        ("regexp_replace(s, 'a', 'b', 2)", "position"),
        ("regexp_replace(s, 'a', 'b', 1, 2)", "leave out the last"),
        ("regexp_replace(s, 'a', s)", "write the replacement out"),
        ("regexp_replace(s, '(?:a)', '${x}')", "number of the group"),
        ("regexp_replace(s, 'a', '$1')", "does not exist"),
        ("regexp_extract(s, 'a')", "no group 1"),
        ("regexp_extract(s, '(a)', 2)", "no group 2"),
        ("regexp_instr(s, 'a', 1)", "leave out the last"),
        ("s RLIKE s", "write the pattern out"),
        ("levenshtein(s, 'a', 1, 2)", "not supported"),
        ("elt(1)", "missing"),
        ("initcap(s, '-')", "not supported"),
    ],
)
def test_what_is_refused(expression: str, says: str) -> None:
    with pytest.raises(SqlError) as refused:
        shown(expression)
    assert says in str(refused.value) and refused.value.line == 1


@pytest.mark.parametrize(
    "pattern",
    [r"\b{g}word", r"a(?=(b))", r"a(?<!b+)", r"(?<name>a)", r"(a)\1", r"a*+", r"a++", r"[a[b]]", r"[a&&b]", r"\p{Cs}",
     r"(a*)*", r"(a|)+", r"(?m)^a", r"a(?i)b", r"\Qa\E", r"^*", r"a\Z", r"\R", r"[]a]", r"[a-\d]", r"a{1001}",
     r"a{2}{3}", r"\h", r"(?i:a)", r"(?>a)", r"\012", r"[a-c-e]"],
)  # fmt: skip
def test_patterns_that_java_reads_otherwise_are_refused(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="is not supported; "):
        read(pattern)


@pytest.mark.parametrize("pattern", ["(a", "a)", "*a", "a{", "a{2,1}", "[b-a]", "[a", "a\\", r"\x1", r"\ud800"])
def test_patterns_that_are_wrong(pattern: str) -> None:
    with pytest.raises(SqlError, match="regular expression") as refused:
        read(pattern)
    assert not isinstance(refused.value, UnsupportedError)


@pytest.mark.parametrize(
    ("expression", "says"), [("split_part(s, '.', k - 3)", "no part 0"), ("elt(k, s, 'b')", "no text 3"),
                             ("repeat(s, 100000000)", "1,700,000,000 bytes; the limit is 16,777,216")],
)  # fmt: skip
def test_a_row_without_a_value_is_refused(expression: str, says: str) -> None:
    with pytest.raises(ChangeError, match=says):
        shown(expression)


def test_a_function_that_skips_nulls_keeps_rows_without_a_partner() -> None:
    """A LEFT JOIN is not an inner join if the condition on its right side can hold for NULLs."""
    db = freshet.connect()
    db.execute("CREATE TABLE a (k INT PRIMARY KEY); CREATE TABLE b (k INT PRIMARY KEY, s STRING)")
    joined = "SELECT a.k FROM a LEFT JOIN b ON a.k = b.k WHERE"
    kept = db.create_view("kept", f"{joined} CONCAT_WS('-', b.s, 'x') = 'x'")
    located = db.create_view("found", f"{joined} LOCATE('q', b.s, b.k) = 0")
    db.execute("INSERT INTO a VALUES (1), (2)")
    db.execute("INSERT INTO b VALUES (2, 'y')")
    assert kept.to_arrow()["k"].to_pylist() == [1]
    assert sorted(located.to_arrow()["k"].to_pylist()) == [1, 2]


def test_concat_ws_of_nothing_but_nulls_is_empty() -> None:
    """Together with rows that have texts: Arrow's join omits such rows."""
    db = freshet.connect()
    db.execute("CREATE TABLE t (k INT PRIMARY KEY, m STRING, s STRING)")
    view = db.create_view("v", "SELECT k, CONCAT_WS('+-', s, s) AS l, CONCAT_WS(m, s, NULL, s) AS c FROM t")
    db.execute("INSERT INTO t VALUES (1, '/', NULL), (2, '/', 'a'), (3, NULL, 'b'), (4, '', '')")
    rows = {row["k"]: (row["l"], row["c"]) for row in view.to_arrow().to_pylist()}
    assert rows == {1: ("", ""), 2: ("a+-a", "a/a"), 3: ("b+-b", None), 4: ("+-", "")}
