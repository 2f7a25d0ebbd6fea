"""SQL texts with words left out, said twice, swapped or put in from elsewhere: whatever comes of it is an answer, or an
error that says where, in words of its own.

`python -m tests.fuzz.mutants --cases 100000` runs many, each case made by its seed.
"""

from __future__ import annotations

import argparse
import random
import re
import signal
import sys
import traceback
from collections import Counter
from collections.abc import Sequence
from functools import cache

from sqlglot import exp
from sqlglot.errors import ErrorLevel, SqlglotError, TokenError

import freshet
from freshet.logical.query import is_query
from freshet.sql.parse import parse
from freshet.sql.source import Reader
from tests.sql.texts import database, texts

LONGEST = 5  # seconds of processor time that one text may take

#: Grammatical, and seldom written.
ODD_CLAUSES = (
    "TABLESAMPLE (10 PERCENT)", "TABLESAMPLE (BUCKET 1 OUT OF 2)", "LATERAL VIEW EXPLODE(a) x AS y", "CLUSTER BY 1",
    "LATERAL VIEW OUTER POSEXPLODE(b)", "DISTRIBUTE BY 1", "SORT BY 1 DESC", "PIVOT (SUM(a) FOR b IN (1, 2))",
    "UNPIVOT (v FOR n IN (a, b))", "UNPIVOT INCLUDE NULLS (v FOR n IN (a AS x))", "WINDOW w AS (PARTITION BY 1)",
    "OVER w", "OVER (w ORDER BY 1)", "QUALIFY ROW_NUMBER() OVER (ORDER BY 1) = 1", "/*+ BROADCAST(t) */", "::INT",
    "[0]", "|> WHERE TRUE", "|> SELECT 1", "GROUP BY ALL", "WITH ROLLUP", "WITH CUBE", "GROUPING SETS ((a), ())",
    "CUBE (a, b)", "FETCH FIRST 1 ROWS ONLY", "FOR UPDATE", "VERSION AS OF 1", "TIMESTAMP AS OF '2020-01-01'",
    "LIMIT ALL", "OFFSET 1", "LIMIT 5 PERCENT", "ORDER BY ALL", "ORDER BY 1 NULLS LAST",
    "NATURAL JOIN (SELECT 1 AS a)", "LEFT SEMI JOIN t ON TRUE", "LEFT ANTI JOIN t USING (a)", "ASOF JOIN t",
    "CROSS JOIN LATERAL (SELECT 1)", "STRAIGHT_JOIN t", "USING (a, a)", "UNION BY NAME SELECT 1",
    "INTERSECT ALL SELECT 1", "MINUS SELECT 1", "EXCEPT ALL (VALUES (1))", "(SELECT 1)", "FILTER (WHERE TRUE)",
    "WITHIN GROUP (ORDER BY 1)", "IGNORE NULLS", "RESPECT NULLS", "DISTINCT", "ALL", "DISTINCT ON (a)",
    "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "RANGE UNBOUNDED PRECEDING", "GROUPS CURRENT ROW", "EXCLUDE TIES",
    "AS (x, y)", "AS STRUCT<a: INT>", "EXCEPT (a)", "REPLACE (1 AS a)", "AT TIME ZONE 'UTC'", "COLLATE UTF8_LCASE",
    "INTERVAL '1' DAY", "INTERVAL '1-2' YEAR TO MONTH", "x -> x + 1", "CASE WHEN TRUE THEN 1 END",
    "LIKE ANY ('a', 'b')", "ESCAPE '!'", "IS NOT DISTINCT FROM NULL", "BETWEEN SYMMETRIC 1 AND 2", "IN (SELECT 1)",
    "= ANY (SELECT 1)", "NOT EXISTS (SELECT 1)", "STRUCT(1 AS a).a", "MAP(1, 2)[1]", "ARRAY(1, 2)",
    "NAMED_STRUCT('a', 1)", "TRANSFORM(a, x -> x)", "@v", "?", ":p", "{{x}}", "$1", "IDENTIFIER('t')", "TABLE t",
    "VALUES (1), (2, 3)", "RANGE(3)", "EXPLODE(ARRAY(1))", "INTO x", "0x1F", "X'1F'", "1e400", "1.5BD", "'a' 'b'",
    "`a``b`", "CAST(1 AS VARIANT)", "TRY_CAST('x' AS INT)", "EXTRACT(EPOCH FROM a)", "-- x\n",
)  # fmt: skip

#: What no message says: names of the machinery, holes, a sentence begun again.
_INTERNAL = re.compile(
    r"\bNone\b|<[a-z]+ |object at|\b[a-z]+_[a-z_]+ in |\b[A-Z]+_[A-Z_]+ in |  |;\s*;|; $|\bMICROS\b|\bMONTHS\b|\bVOID\b"
    r"|in some part|Traceback|dataclass|\bexp\."
)


@cache
def known() -> tuple[tuple[freshet.Database, tuple[str, ...]], ...]:
    """Texts as lists of words, with the tables they are about."""
    found = []
    for ddl, sql in texts():
        words = split(sql)
        if words and len(words) < 400:
            found.append((database(ddl), words))
    return tuple(found)


def split(sql: str) -> tuple[str, ...]:
    try:
        return tuple(sql[t.start : t.end + 1] for t in Reader().tokenize(sql))
    except TokenError:
        return ()


def mutant(rng: random.Random) -> tuple[freshet.Database, str]:
    return rng.choice((grafted, grafted, respelled, respelled, with_odd_clause))(rng)


@cache
def parsed() -> tuple[tuple[freshet.Database, exp.Expr, tuple[exp.Expr, ...]], ...]:
    """The texts as trees, with the parts that may be put elsewhere."""
    found = []
    for db, words in known():
        try:
            tree = Reader().parse(" ".join(words))[0]
        except SqlglotError:
            continue
        if tree is not None:
            found.append((db, tree, tuple(n for n in tree.walk() if n.parent is not None and _is_part(n))))
    return tuple(f for f in found if f[2])


def _is_part(node: exp.Expr) -> bool:
    return isinstance(node, (exp.Condition, exp.Query)) and not isinstance(node, exp.Identifier)


def grafted(rng: random.Random) -> tuple[freshet.Database, str]:
    """A text with parts in the places of others, of the same text or of another."""
    db, tree, _ = rng.choice(parsed())
    tree = tree.copy()
    for _ in range(rng.choice((1, 1, 2, 3))):
        parts = [n for n in tree.walk() if n.parent is not None and _is_part(n)]
        if not parts:
            break
        others = parts if rng.random() < 0.4 else rng.choice(parsed())[2]
        rng.choice(parts).replace(rng.choice(others).copy())
    try:
        return db, tree.sql(dialect=Reader, unsupported_level=ErrorLevel.IGNORE)
    except Exception:  # the generator has no words for it
        return db, "SELECT 1"


def with_odd_clause(rng: random.Random) -> tuple[freshet.Database, str]:
    db, words = rng.choice(known())
    for _ in range(rng.choice((1, 1, 2))):
        at = rng.randrange(len(words) + 1)
        words = (*words[:at], rng.choice(ODD_CLAUSES), *words[at + rng.choice((0, 0, 1)) :])
    return db, " ".join(words)


def respelled(rng: random.Random) -> tuple[freshet.Database, str]:
    db, given = rng.choice(known())
    words = list(given)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at, other = rng.randrange(len(words)), rng.randrange(len(words))
        kind = rng.randrange(6)
        if kind == 0:
            del words[at : at + rng.choice((1, 1, 2))]
        elif kind == 1:
            words.insert(at, words[at])
        elif kind == 2:
            words[at], words[other] = words[other], words[at]
        elif kind == 3:
            words.insert(at, rng.choice(rng.choice(known())[1]))
        elif kind == 4:
            words[at] = rng.choice(rng.choice(known())[1])
        else:
            begin, end = sorted((at, other))
            words[end:end] = words[begin : min(end, begin + 12)]
        if not words:
            words = ["SELECT"]
    return db, " ".join(words)


def outcome(db: freshet.Database, sql: str) -> str:
    """What a text comes to: "read", or the reason it was refused for. Anything else is raised."""
    try:
        if all(is_query(bound) for bound in parse(sql, db.catalog)):
            db.execute(sql)
    except freshet.SqlError as error:
        wrong = fault(error, sql)
        if wrong:
            raise AssertionError(f"{wrong}: {error}") from None
        return error.reason
    except freshet.FreshetError as error:
        first = str(error).partition("\n")[0]
        if len(first) > 320:
            raise AssertionError(f"too long: {error}") from None
        return first
    return "read"


def fault(error: freshet.SqlError, sql: str) -> str | None:
    """What is wrong with a message."""
    plain = re.sub(r"'[^']*'|`[^`]*`", "''", error.reason)
    if error.line is None or error.column is None:
        return "no place"
    if not 1 <= error.line <= sql.count("\n") + 1:
        return "a place outside of the text"
    if len(str(error)) > 700:
        return "too long"
    if "\n" in error.reason or len(error.reason) > 300:
        return "not a short line"
    if ";" not in plain:
        return "no remedy"
    written = set(re.findall(r"\w+", sql))
    for found in _INTERNAL.finditer(plain):
        if not set(found[0].split()) & written and not (found[0].isspace() and "  " in sql):
            return f"{found[0]!r} in it"
    parts = [part.strip() for part in plain.split(";")]
    return "said twice" if len(set(parts)) < len(parts) else None


class _TooLongError(BaseException):
    pass


def _give_up(*_: object) -> None:
    raise _TooLongError


def run(seeds: Sequence[int], failures: int = 20) -> tuple[Counter[str], list[str]]:
    """How the mutants of these seeds came out, and what went wrong."""
    told: Counter[str] = Counter()
    failed: list[str] = []
    before = signal.signal(signal.SIGVTALRM, _give_up)
    try:
        for seed in seeds:
            db, sql = mutant(random.Random(seed))
            signal.setitimer(signal.ITIMER_VIRTUAL, LONGEST)
            try:
                told["read" if outcome(db, sql) == "read" else "refused"] += 1
            except _TooLongError:
                failed.append(f"seed {seed}: more than {LONGEST} s\n  {sql}")
            except AssertionError as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                failed.append(f"seed {seed}: {error} ({where.filename}:{where.lineno})\n  {sql}")
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                failed.append(
                    f"seed {seed}: {type(error).__name__}: {error} ({where.filename}:{where.lineno})\n  {sql}"
                )
            finally:
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            if len(failed) >= failures:
                break
    finally:
        signal.signal(signal.SIGVTALRM, before)
    return told, failed


def main() -> int:
    options = argparse.ArgumentParser(description="SQL texts with words changed: each is read, or refused in words.")
    options.add_argument("--cases", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--failures", type=int, default=20)
    given = options.parse_args()
    told, failed = run(range(given.seed, given.seed + given.cases), given.failures)
    print("\n".join(failed))
    print(f"{told['read']} read, {told['refused']} refused, {len(failed)} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
