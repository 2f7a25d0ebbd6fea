r"""Random regular expressions with look-around, compared with what Java makes of them in Spark.

    python -m tests.fuzz.patterns_spark --seed 7 --patterns 500

Texts have characters beyond U+FFFF only for patterns that cannot match the empty text, and no letters beyond ASCII,
which \b of Java 17 counts as parts of words: docs/sql.md says where Java differs. What is left is that Java may match
half a character.
"""

from __future__ import annotations

import argparse
import random
import sys

import freshet.spark
from freshet.errors import SqlError
from freshet.scalar.functions.pattern import Pattern, read
from freshet.scalar.types import INT
from tests.state.test_regex import called

_ATOMS = (
    "a", "b", ".", "[ab]", "[^a]", r"\s", r"\W", r"\w", "^", "$", r"\z", r"\n", "ab", "_", r"\x{20AC}",
    r"[^b\x{1F600}]", r"\p{Lu}",
)  # fmt: skip
_MANY, _FEW = ("*", "+", "?", "*?", "+?", "{1,2}", "{0,2}?"), ("?", "??", "{1,2}", "{2}", "{0,2}?", "{0,3}")
_CALLS = ("rlike(t, {0})", "regexp_instr(t, {0})", "regexp_count(t, {0})", "regexp_replace(t, {0}, '<$0>')",
          "regexp_substr(t, {0})")  # fmt: skip


def drawn(rng: random.Random, depth: int, behind: bool = False) -> str:
    """A pattern; `behind`: one of limited length without look-around."""
    kind = rng.randrange(9)
    if depth == 0 or kind < 3 or (behind and kind > 6):
        return rng.choice((*_ATOMS, r"\b", r"\B"))
    if kind < 5:
        return "".join(drawn(rng, depth - 1, behind) for _ in range(rng.randrange(1, 4)))
    if kind == 5:
        return f"(?:{'|'.join(drawn(rng, depth - 1, behind) for _ in range(rng.randrange(1, 4)))})"
    if kind == 6:
        return f"(?:{drawn(rng, depth - 1, behind)}){rng.choice(_FEW if behind else _MANY)}"
    if kind == 7:
        return f"({rng.choice(('?=', '?!'))}{drawn(rng, depth - 1)})"
    return f"({rng.choice(('?<=', '?<!'))}{drawn(rng, depth - 1, True)})"


def taken(text: str) -> Pattern | None:
    try:
        pattern = read(text)
    except SqlError:
        return None
    return pattern if pattern.looks else None


def texts(rng: random.Random, letters: str) -> list[str]:
    return ["", "a", "b\n", "a\r\n", *("".join(rng.choices(letters, k=rng.randrange(7))) for _ in range(60))]


def here(given: list[str], pattern: str) -> list[tuple[object, ...]]:
    found = [called(name, given, pattern, type_=INT) for name in ("rlike", "regexp_instr", "regexp_count")]
    found[0] = [bool(v) for v in found[0]]
    found += [called("regexp_replace", given, pattern, "<$0>"), called("regexp_substr", given, pattern)]
    return list(zip(*found, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(description="Regular expressions with look-around, compared with Spark.")
    parser.add_argument("--patterns", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng, spark = random.Random(given.seed), freshet.spark.session()
    spark.sparkContext.setLogLevel("OFF")
    sets = {wide: texts(rng, "aab\r\n\u2028 K_€" + "😀𝐀" * wide) for wide in (False, True)}
    frames = {wide: spark.createDataFrame(list(enumerate(set_)), "i INT, t STRING").coalesce(1).cache()
              for wide, set_ in sets.items()}  # fmt: skip
    done = differ = halves = refused = 0
    while done < given.patterns:
        written = drawn(rng, 3)
        pattern = taken(written)
        if pattern is None:
            continue
        done += 1
        wide = not pattern.may_be_empty and r"\b" not in written.lower()
        calls = [call.format(f"r'{written}'") for call in _CALLS]
        try:
            rows = frames[wide].selectExpr("i", *calls).orderBy("i").collect()
        except Exception as e:
            if "does not have an obvious maximum length" not in str(e):
                raise
            refused += 1  # Java finds no limit where there is one
            continue
        for text, row, found in zip(sets[wide], rows, here(sets[wide], written), strict=True):
            if tuple(row)[1:] != found:
                is_half = "?" in str(row[4]) or "\ufffd" in str(row[4])
                differ, halves = differ + (not is_half), halves + is_half
                print(
                    "HALF" if is_half else "DIFFERS", repr(written), repr(text), "Spark", tuple(row)[1:], "here", found
                )
                break
    print(
        f"{done} patterns: {differ} differ, {halves} where Java matches half of a character, {refused} that it refuses"
    )
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
