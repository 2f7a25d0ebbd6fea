"""Regular expressions compared with Python's: the same spans, groups, counts and replacements, in few steps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from freshet.errors import EvaluationError, SqlError, UnsupportedError
from freshet.scalar.column import Column
from freshet.scalar.evaluate import evaluate
from freshet.scalar.expression import ColumnRef, Literal
from freshet.scalar.functions import build
from freshet.scalar.functions.pattern import read
from freshet.scalar.types import INT, STRING, Type
from freshet.state.arrays import TEXT

LETTERS = "ab\r\n\x85\u2028é😀K"
#: Java's `$`: the end, or before a line end that ends the text; never between the two halves of \r\n.
END = r"(?:\Z|(?=[\r\x85\u2028\u2029]\Z)|(?=\r\n\Z)|(?<!\r)(?=\n\Z))"
WORD = "[0-9A-Za-z_]"
#: The same atom as Spark reads it and as Python does.
ATOMS = [
    ("a", "a"), ("b", "b"), ("é", "é"), ("😀", "😀"), (r"\n", r"\n"), (".", "[^\n\r\x85\u2028\u2029]"),
    ("[ab]", "[ab]"),
    ("[^a]", "[^a]"), (r"\s", r"[ \t\n\x0b\f\r]"), (r"\W", "[^0-9A-Za-z_]"), ("[a-é]", "[a-é]"), ("[b😀]", "[b😀]"),
    ("^", r"\A"), ("$", END), (r"\z", r"\Z"), (r"\b", f"(?:(?<!{WORD})(?={WORD})|(?<={WORD})(?!{WORD}))"),
    (r"\B", f"(?:(?<!{WORD})(?!{WORD})|(?<={WORD})(?={WORD}))"), (r"\p{L}", "[abéK]"), (r"\P{Lower}", "[^ab]"),
]  # fmt: skip


@dataclass(frozen=True)
class Both:
    """A pattern in both dialects."""

    spark: str
    python: str


def _quantified(part: Both, mark: str) -> Both:
    return Both(f"(?:{part.spark}){mark}", f"(?:{part.python}){mark}")


def _ahead(part: Both, sign: str) -> Both:
    return Both(f"(?{sign}{part.spark})", f"(?{sign}{part.python})")


def _behind(parts: list[tuple[str, str]], sign: str) -> Both:
    """Of characters, since those that Python looks back at must have one length."""
    return Both(*(f"(?<{sign}{'|'.join(p[i] for p in parts)})" for i in (0, 1)))


def _grouped(part: Both) -> Both:
    return Both(f"({part.spark})", f"({part.python})")


def _between(parts: list[Both], mark: str) -> Both:
    return Both(mark.join(p.spark for p in parts), mark.join(p.python for p in parts))


CHARACTERS = [atom for atom in ATOMS[:11] if "😀" not in atom[0]]
MARKS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{0,2}?", "{2,}"]
PATTERNS = st.recursive(
    st.sampled_from([Both(*atom) for atom in ATOMS]),
    lambda inner: st.one_of(
        st.builds(_quantified, inner, st.sampled_from(MARKS)),
        st.builds(_grouped, inner),
        st.builds(_ahead, inner, st.sampled_from("=!")),
        st.builds(_behind, st.lists(st.sampled_from(CHARACTERS), min_size=1, max_size=2), st.sampled_from("=!")),
        st.builds(_between, st.lists(inner, min_size=2, max_size=3), st.just("")),
        st.builds(lambda parts: Both(*(f"(?:{p})" for p in vars(_between(parts, "|")).values())),
                  st.lists(inner, min_size=2, max_size=3)),
    ),
    max_leaves=8,
)  # fmt: skip


def called(name: str, texts: Sequence[str | None], *args: object, type_: Type = STRING) -> list[object]:
    """A function of a column and literals, over texts."""
    literals = [Literal(INT if isinstance(a, int) else STRING, a) for a in args]  # type: ignore[arg-type]
    valid = np.array([t is not None for t in texts])
    column = Column(STRING, pa.array([t or "" for t in texts], TEXT), None if valid.all() else valid)
    made = evaluate(build(name, [ColumnRef(STRING, 0, 0, "s"), *literals]), lambda _: column, len(texts))
    values = made.data.tolist() if type_ is not STRING else made.data.to_pylist()
    known = [True] * len(texts) if made.valid is None else made.valid.tolist()
    return [v if ok else None for v, ok in zip(values, known, strict=True)]


def matches(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """All matches in Java's order: after an empty one the search continues one character further."""
    at = 0
    while at <= len(text) and (match := pattern.search(text, at)) is not None:
        yield match
        at = match.end() + (match.end() == match.start())


def replaced(pattern: re.Pattern[str], text: str, group: int) -> str:
    made, last = "", 0
    for m in matches(pattern, text):
        made += f"{text[last : m.start()]}<{m[group] or ''}>"
        last = m.end()
    return made + text[last:]


@given(PATTERNS, st.lists(st.text(LETTERS, max_size=6), min_size=1, max_size=8))
def test_all_that_is_found_is_what_python_finds(pattern: Both, texts: list[str]) -> None:
    try:
        groups = read(pattern.spark).groups
    except UnsupportedError:  # a repetition of a pattern that may be empty, or a group in look-around
        assume(False)
    twin = re.compile(pattern.python, re.DOTALL)
    first = [twin.search(t) for t in texts]
    assert called("rlike", texts, pattern.spark, type_=INT) == [int(m is not None) for m in first]
    assert called("regexp_instr", texts, pattern.spark, type_=INT) == [0 if m is None else m.start() + 1 for m in first]
    assert called("regexp_substr", texts, pattern.spark) == [None if m is None else m[0] or None for m in first]
    assert called("regexp_count", texts, pattern.spark, type_=INT) == [len(list(matches(twin, t))) for t in texts]
    for g in range(groups + 1):
        texts_found = ["" if m is None else m[g] or "" for m in first]
        assert called("regexp_extract", texts, pattern.spark, g) == texts_found
        assert called("regexp_replace", texts, pattern.spark, f"<${g}>") == [replaced(twin, t, g) for t in texts]


def test_rows_that_are_null_are_passed_over() -> None:
    texts = ["ab", None, "b"]
    assert called("regexp_extract", texts, "(b)") == ["b", None, "b"]
    assert called("regexp_replace", texts, "b", "-") == ["a-", None, "-"]
    assert called("regexp_count", texts, "b", type_=INT) == [1, None, 1]


EVIL = ["(a+)+$", "(a|aa)+$", "(a|a?b)+c", "(.*a){12}b", "(a+a+)+b", "(x+x+)+y|a*b"]


@pytest.mark.parametrize("pattern", EVIL)
@pytest.mark.parametrize(
    ("name", "args"),
    [("regexp_extract", (0,)), ("regexp_substr", ()), ("regexp_instr", ()), ("rlike", ()), ("regexp_replace", ("-",)),
     ("regexp_count", ())],
)  # fmt: skip
def test_patterns_that_a_backtracking_engine_never_ends_on(pattern: str, name: str, args: tuple[object, ...]) -> None:
    text = "a" * 10_000 + "!"
    type_ = STRING if name in ("regexp_extract", "regexp_substr", "regexp_replace") else INT
    (result,) = called(name, [text], pattern, *args, type_=type_)
    assert result == {"regexp_replace": text, "regexp_substr": None, "regexp_extract": ""}.get(name, 0)


@pytest.mark.parametrize("pattern", ["(?=(?:a+)+$)b", "(?!(?:a|aa)+b)a!", "(?<=a{0,20})(?:a+a+)+b", "(?=.*b(?!.*c))c"])
def test_look_around_takes_linear_time(pattern: str) -> None:
    assert called("regexp_instr", ["a" * 10_000 + "!"], pattern, type_=INT) == [10_000 if "a!" in pattern else 0]


def test_a_look_behind_counts_in_utf_16_as_java_does() -> None:
    """What Spark answers: a pattern matches what lies one or two units before, and half a character is no letter."""
    assert called("regexp_replace", ["a😀b", "aéb", "😀b"], "(?<=a.)b", "-") == ["a😀b", "aé-", "😀b"]
    assert called("regexp_replace", ["a😀b", "aéb", "😀b"], "(?<=a.{1,2})b", "-") == ["a😀-", "aé-", "😀b"]
    assert called("rlike", ["𝐀b", "éb"], r"(?<=\p{L})b", type_=INT) == [0, 1]


def test_matches_that_each_look_through_the_rest_are_refused() -> None:
    with pytest.raises(EvaluationError, match=r"REGEXP_COUNT takes more than [\d,]+ steps for 2 rows; use a simpler"):
        called("regexp_count", ["b", "a" * 200_000], "a*b|a", type_=INT)


def test_a_long_program_takes_no_more_steps_than_a_text_may() -> None:
    long = "[ab]{1,1000}" * 4 + "c"
    with pytest.raises(EvaluationError, match=r"RLIKE takes more than [\d,]+ steps"):
        called("rlike", ["ab" * 200_000], long, type_=INT)
    assert called("rlike", ["ab" * 200 + "c"], long, type_=INT) == [1]


@pytest.mark.parametrize("pattern", ["(?:a{1000}){1000}", "((a{1000}){1000}){1000}", "a" * 20_000, "a|" * 20_000])
def test_a_pattern_whose_program_is_too_long_is_refused(pattern: str) -> None:
    with pytest.raises(SqlError, match="more than 10,000 instructions") as refused:
        read(pattern)
    assert len(str(refused.value)) < 400
