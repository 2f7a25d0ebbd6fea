"""Queries of every kind that guarantees speak of, and streams of any length to keep them over, easy and adversarial."""

from __future__ import annotations

import math
import operator
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Change = dict[str, list[dict[str, int]]]

BAGS, KEYED = ("r", "s", "t", "u"), ("p", "q", "w")
_BAG = "CREATE TABLE {name} (a INT NOT NULL, b INT NOT NULL)"
_KEYED = "CREATE TABLE {name} (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL{references})"
_NESTED = (
    "(SELECT a, COUNT(*) % 2 AS b FROM {0} GROUP BY a)",
    "(SELECT b AS a, COUNT(*) % 2 AS b FROM {0} GROUP BY b)",
    "(SELECT a, SUM(b) AS b FROM {0} GROUP BY a)",
    "(SELECT a, MAX(b) AS b FROM {0} GROUP BY a)",
    "(SELECT DISTINCT a, b FROM {0})",
    "(SELECT DISTINCT x.a, y.b FROM {0} x JOIN {1} y ON x.b = y.a)",
    "(SELECT x.a, y.b FROM {0} x JOIN {1} y ON x.b = y.a)",
    "(SELECT x.a, COUNT(*) AS b FROM {0} x JOIN {1} y ON x.b = y.a GROUP BY x.a)",
    "(SELECT a, b FROM {0} UNION SELECT a, b FROM {1})",
    "(SELECT a, b FROM {0} EXCEPT SELECT a, b FROM {1})",
    "(SELECT a, b FROM {0} UNION ALL SELECT b, a FROM {1})",
)
_ORDERED = (
    "SELECT a, MEDIAN(b) AS m, MAX(b) AS n FROM {r} GROUP BY a",
    "SELECT a, MODE(b) AS m FROM {r} GROUP BY a",
    "SELECT a, ARRAY_AGG(b) AS m FROM {r} GROUP BY a",
    "SELECT a, MAX_BY(a, b) AS m FROM {r} GROUP BY a",
    "SELECT a, b FROM {r} ORDER BY b, a LIMIT 3 OFFSET 1",
    "SELECT DISTINCT {r}.a, {s}.b FROM {r} JOIN {s} ON {r}.b = {s}.a ORDER BY 2, 1 DESC LIMIT 4",
    "SELECT a, b, RANK() OVER (PARTITION BY a ORDER BY b) AS m FROM {r}",
    "SELECT * FROM (SELECT a, b, ROW_NUMBER() OVER (PARTITION BY a ORDER BY b) AS m FROM {r}) AS x WHERE m <= 2",
    """SELECT SUM({r}.b) AS m FROM {r} JOIN (SELECT a, MAX(b) AS n FROM {s} GROUP BY a) AS x
    ON x.a = {r}.a WHERE {r}.b < x.n""",
    "SELECT COUNT(*) AS m FROM {r} JOIN {s} ON {r}.a < {s}.a",
    "SELECT {r}.a, {s}.b FROM {r} JOIN {s} ON {r}.a < {s}.a AND {r}.b > {s}.b",
    "SELECT {r}.a, {s}.b FROM {r} JOIN {s} ON {r}.a < {s}.a AND {s}.a < {r}.a + 3",
)
_SET_OPERATIONS = ("UNION", "UNION", "EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL")
CHAIN = """CREATE TABLE r1 (x1 INT NOT NULL); CREATE TABLE r2 (x1 INT NOT NULL, x2 INT NOT NULL);
CREATE TABLE r3 (x2 INT NOT NULL, x3 INT NOT NULL); CREATE TABLE r4 (x3 INT NOT NULL, x4 INT NOT NULL);
CREATE TABLE r5 (x4 INT NOT NULL)"""
_MIDDLE = "r2 JOIN r3 ON r2.x2 = r3.x2 JOIN r4 ON r3.x3 = r4.x3"
_ENDS = (
    ("JOIN r1 ON r1.x1 = r2.x1 JOIN r5 ON r5.x4 = r4.x4", ""),
    ("", "WHERE EXISTS (SELECT 1 FROM r1 WHERE r1.x1 = r2.x1) AND EXISTS (SELECT 1 FROM r5 WHERE r5.x4 = r4.x4)"),
    ("JOIN r1 ON r1.x1 = r2.x1", "WHERE r4.x4 IN (SELECT x4 FROM r5)"),
)
_SHOWN = ("r2.x1, r2.x2, r3.x3, r4.x4", "COUNT(*) AS n", "DISTINCT r3.x2, r3.x3", "r3.x2, r3.x3")


@dataclass(frozen=True)
class Case:
    """`kind` of the stream: "insert_only", "first_in_first_out" or "every_stream", as claims name them."""

    ddl: str
    sql: str
    kind: str
    stream: Callable[[int], list[Change]]
    sizes: tuple[int, ...]
    name: str
    searched: Callable[[list[Change], list[str]], int] | None = None  # partners that an edge promises to look at


def draw(seed: int) -> Case:
    random = Random(seed)
    if random.random() < 0.08:
        return _theorem(random)
    if seed % 16 == 11:
        return _searched(random)
    sql, tables = _in_order(random) if seed % 16 == 5 else _query(random)
    ddl = "; ".join(_table(random, name, tables) for name in tables)
    shape = random.choice(("inserts", "inserts in turn", "window", "window", "toggles", "toggles", "random"))
    sizes = random.choice((("one", "two", "root", "all"), ("one", "one", "two"), ("two", "root")))
    domains = {(t, c): random.choice(sizes) for t in tables for c in "ab"}
    # A table without rows keeps joins empty: then no row of a delta accounts for the cost.
    filled = random.sample(tables, len(tables) - (len(tables) > 1 and random.random() < 0.4))
    kind = {"i": "insert_only", "w": "first_in_first_out"}.get(shape[0], "every_stream")
    start = random.randrange(1 << 30)

    def stream(n: int) -> list[Change]:
        return _Stream(Random(start), filled, domains, n).made(shape)

    return Case(ddl, sql, kind, stream, (16, 32, 64, 128), f"{shape} of {', '.join(filled)} with {domains}")


# Queries ----------------------------------------------------------------------------------------------------------


def _table(random: Random, name: str, tables: list[str]) -> str:
    if name in BAGS:
        return _BAG.format(name=name)
    others = [t for t in tables if t in KEYED and t != name]
    declared = f", FOREIGN KEY (a) REFERENCES {random.choice(others)} (id)" if others and random.random() < 0.5 else ""
    return _KEYED.format(name=name, references=declared)


def _query(random: Random) -> tuple[str, list[str]]:
    made = _Query(random)
    return made.sides() if random.random() < 0.05 else made.text(), sorted(made.used)


def _in_order(random: Random) -> tuple[str, list[str]]:
    """Queries that keep values or rows in order."""
    r, s = random.sample(BAGS, 2)
    sql = random.choice(_ORDERED).format(r=r, s=s)
    return sql, sorted({r, s} if f" {s}" in sql else {r})


def _searched(random: Random) -> Case:
    """Three or four comparisons on an edge, each of which holds for all pairs, for none, or for some."""
    columns = "abcd"[: random.choice((3, 3, 4))]
    compared = [f"r.{c} {random_order(random)} s.{c}" for c in columns]
    shapes = {c: random.choice(("random", "random", "all", "none", "opposite")) for c in columns}
    ddl = "; ".join(f"CREATE TABLE {t} ({', '.join(f'{c} INT NOT NULL' for c in columns)})" for t in "rs")
    start, deletes = random.randrange(1 << 30), random.random() < 0.5

    def value(table: str, c: str, upwards: bool, place: int, n: int, random: Random) -> int:
        far = n * (table == "s") * (1 if upwards else -1)
        if shapes[c] in ("all", "none"):
            return random.randrange(n) + (far if shapes[c] == "all" else -far)
        return random.randrange(n) if shapes[c] == "random" else (n - place if c in "bd" else place)

    def stream(n: int) -> list[Change]:
        random, changes = Random(start), list[Change]()
        for _ in range(n):
            table, place = random.choice("rs"), random.randrange(n)
            row = {c: value(table, c, "<" in p, place, n, random) for c, p in zip(columns, compared, strict=True)}
            changes.append({table: [{**row, "_weight": 1}]})
        if deletes:
            held = random.sample(changes, n // 2)
            changes += [{t: [{**row, "_weight": -1}] for t, (row,) in change.items()} for change in held]
        return changes

    sql = f"SELECT r.a, s.b FROM r JOIN s ON {' AND '.join(compared)}"
    name = f"searches with {shapes}{', and deletes' if deletes else ''}"
    return Case(ddl, sql, "every_stream", stream, (16, 32, 64, 128), name, best_pairs)


_HOLDS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def best_pairs(stream: list[Change], key: list[str]) -> int:
    """For each change of a table, how many tuples of the other one satisfy the first comparison of an edge and that
    other one which has the fewest."""
    rows: dict[str, list[dict[str, int]]] = {"r": [], "s": []}
    total = 0
    for change in stream:
        for table, (row,) in change.items():
            own = {c: v for c, v in row.items() if c != "_weight"}
            other = "s" if table == "r" else "r"
            if row["_weight"] < 0:
                rows[table].remove(own)
            counts = [0] * (len(key) - 1)
            for partner in rows[other]:
                held = [_holds(comparison, {table: own, other: partner}) for comparison in key]
                for i, holds in enumerate(held[1:]):
                    counts[i] += held[0] and holds
            total += min(counts)
            if row["_weight"] > 0:
                rows[table].append(own)
    return total


def _holds(comparison: str, rows: dict[str, dict[str, int]]) -> bool:
    left, word, right = comparison.split()
    a, b = (rows[place[0]][place[2]] for place in (left, right))
    return bool(_HOLDS[word](a, b))


def random_order(random: Random) -> str:
    return random.choice(("<", "<=", ">", ">="))


class _Query:
    def __init__(self, random: Random) -> None:
        self.random = random
        self.used: set[str] = set()
        self.keyed: dict[str, bool] = {}  # aliases, and whether they have an id
        self.where: list[str] = []
        self.joined: list[str] = []  # one side of each equality between relations

    def any_table(self) -> str:
        name = self.random.choice(BAGS + KEYED)
        self.used.add(name)
        return name

    def column(self, alias: str) -> str:
        columns = ("a", "b", "id", "id") if self.keyed.get(alias, False) else ("a", "b")
        return f"{alias}.{self.random.choice(columns)}"

    def relation(self, alias: str) -> str:
        if self.random.random() < 0.2:
            self.keyed[alias] = False
            nested = self.random.choice(_NESTED)
            first = self.any_table()
            return f"{nested.format(first, self.any_table() if '{1}' in nested else '')} {alias}"
        name = self.any_table()
        self.keyed[alias] = name in KEYED
        return f"{name} {alias}"

    def met(self, left: str, right: str) -> str:
        chance = self.random.random()
        if chance < 0.84:
            self.joined.append(self.column(left))
            return f"{self.joined[-1]} = {self.column(right)}"
        operator = self.random.choice(("<", ">=", "<>"))
        compared = f"{self.column(left)} {operator} {self.column(right)}"
        if chance > 0.975:
            more = (
                f"{self.column(left)} {random_order(self.random)} {self.column(right)}"
                for _ in range(self.random.choice((1, 1, 2)))
            )
            return " AND ".join((compared, *more))
        return compared if chance > 0.94 else f"{self.column(left)} = {self.column(right)} AND {compared}"

    def sides(self) -> str:
        """Set operations of joins, most of which show what identifies their rows."""
        sql = self.side()
        for _ in range(self.random.choice((1, 1, 2))):
            sql = f"({sql}) {self.random.choice(_SET_OPERATIONS)} {self.side()}"
        return sql

    def side(self) -> str:
        left, right = self.random.choice(BAGS), self.random.choice(BAGS)
        self.used |= {left, right}
        shown = self.random.choice(("x.a, x.b, y.b AS c", "x.a, x.b, y.b AS c", "x.a, x.a AS b, y.b AS c"))
        return f"SELECT {shown} FROM {left} x JOIN {right} y ON x.b = y.a"

    def text(self) -> str:
        random, aliases = self.random, ["e0"]
        source = self.relation("e0")
        for i in range(1, random.choice((1, 2, 2, 3, 3, 4))):
            alias, joined = f"e{i}", "LEFT JOIN" if random.random() < 0.15 else "JOIN"
            relation = self.relation(alias)
            source += f" {joined} {relation} ON {self.met(random.choice(aliases), alias)}"
            aliases.append(alias)
        if len(aliases) > 2 and random.random() < 0.15:
            self.where.append(f"{self.column(aliases[0])} = {self.column(aliases[-1])}")
        for i in range(random.choice((0, 0, 1, 1, 2))):
            self.where.append(self.arm(random.choice(aliases), f"f{i}", 0))
        if random.random() < 0.12:
            self.where.append(self.scalar(random.choice(aliases)))
        where = f" WHERE {' AND '.join(self.where)}" if self.where else ""
        return self.shown(aliases, f"{source}{where}")

    def arm(self, host: str, alias: str, depth: int) -> str:
        random, name = self.random, self.any_table()
        self.keyed[alias] = name in KEYED
        inside, also = f"{name} {alias}", ""
        chance = random.random()
        if chance < 0.2:
            other = self.any_table()
            self.keyed[f"{alias}x"] = other in KEYED
            inside += f" JOIN {other} {alias}x ON {self.column(alias)} = {self.column(f'{alias}x')}"
        elif chance < 0.45 and depth < 2:
            also = f" AND {self.arm(alias, f'{alias}{depth}', depth + 1)}"
        if random.random() < 0.25:
            has = random.choice(("IN", "IN", "NOT IN"))
            return f"{self.column(host)} {has} (SELECT {self.column(alias)} FROM {inside} WHERE TRUE{also})"
        has = random.choice(("EXISTS", "NOT EXISTS"))
        return f"{has} (SELECT 1 FROM {inside} WHERE {self.met(host, alias)}{also})"

    def scalar(self, host: str) -> str:
        name, value = self.any_table(), self.random.choice(("MAX(g.b)", "AVG(g.b)", "COUNT(*)", "SUM(g.b)"))
        by = f" WHERE g.a = {self.column(host)}" if self.random.random() < 0.5 else ""
        return f"{self.column(host)} {self.random.choice(('<', '=', '>='))} (SELECT {value} FROM {name} g{by})"

    def shown(self, aliases: list[str], rest: str) -> str:
        random = self.random
        some = [
            f"{self.column(a)} AS c{i}" for i, a in enumerate(random.sample(aliases, random.randint(1, len(aliases))))
        ]
        every = [f"{a}.{c} AS {a}{c}" for a in aliases for c in (("id", "a", "b") if self.keyed[a] else ("a", "b"))]
        kind = random.choice(("every", "every", "some", "distinct", "group", "group", "groups", "total"))
        if kind in ("every", "some"):
            return f"SELECT {', '.join(every if kind == 'every' else some)} FROM {rest}"
        if kind == "distinct":
            return f"SELECT DISTINCT {', '.join(some)} FROM {rest}"
        value = random.choice(
            ("COUNT(*)", "SUM({0})", "MIN({0})", "COUNT(DISTINCT {0})", "COUNT({0})", "SUM(CAST({1} AS DOUBLE) * {0})")
        ).format(self.column(aliases[-1]), self.column(aliases[0]))
        if kind == "total":
            return f"SELECT {value} AS n FROM {rest}"
        if kind == "groups":
            return self.groups(aliases, rest)
        key = self.column(random.choice(aliases))
        return f"SELECT {key} AS k, {value} AS n FROM {rest} GROUP BY {key}"

    def groups(self, aliases: list[str], rest: str) -> str:
        """Groups by columns of several relations: those that they are joined by, and one more of some."""
        random = self.random
        joined = [column for column in self.joined if column.partition(".")[0] in aliases]
        more = [self.column(a) for a in random.sample(aliases, random.randint(1, len(aliases)))]
        keys = list(dict.fromkeys([*joined, *more]))
        value = random.choice(("COUNT(*)", "SUM({0})", "AVG({0})")).format(self.column(aliases[-1]))
        shown = ", ".join(f"{key} AS k{i}" for i, key in enumerate(keys))
        return f"SELECT {shown}, {value} AS n FROM {rest} GROUP BY {', '.join(keys)}"


# Streams ----------------------------------------------------------------------------------------------------------


class _Stream:
    """Single changes over some tables. Values of a column are drawn from domains that stay or grow with the stream."""

    def __init__(self, random: Random, tables: list[str], domains: dict[tuple[str, str], str], n: int) -> None:
        self.random, self.tables, self.domains, self.n = random, tables, domains, n
        self.ids = dict.fromkeys(tables, 0)
        self.changes: list[Change] = []

    def made(self, shape: str) -> list[Change]:
        if shape == "window":
            self.window()
        elif shape == "random":
            self.random_changes()
        else:
            rows = self.inserts(in_turn=shape != "inserts")
            if shape == "toggles":
                self.toggles(rows)
        return self.changes

    def row(self, table: str) -> dict[str, int]:
        made: dict[str, int] = {}
        if table in KEYED:
            made["id"] = self.ids[table]
            self.ids[table] += 1
        for c in "ab":
            size = {"one": 1, "two": 2, "root": math.isqrt(self.n) + 1, "all": self.n}[self.domains[table, c]]
            made[c] = self.random.randrange(size)
        return made

    def change(self, table: str, row: dict[str, int], weight: int) -> None:
        self.changes.append({table: [{**row, "_weight": weight}]})

    def inserts(self, in_turn: bool) -> list[tuple[str, dict[str, int]]]:
        order = [self.tables[i * len(self.tables) // self.n] for i in range(self.n)]
        if not in_turn:
            self.random.shuffle(order)
        rows = [(table, self.row(table)) for table in order]
        for table, row in rows:
            self.change(table, row, 1)
        return rows

    def toggles(self, rows: list[tuple[str, dict[str, int]]]) -> None:
        """The first rows of one or two tables are deleted and inserted again and again."""
        chosen = self.random.sample(self.tables, min(len(self.tables), self.random.randint(1, 2)))
        first = [next((r for r in rows if r[0] == table), None) for table in chosen]
        present = [r for r in first if r is not None]
        for i in range(self.n):
            table, row = present[i // 2 % len(present)]
            self.change(table, row, -1 if i % 2 == 0 else 1)

    def window(self) -> None:
        held: deque[tuple[str, dict[str, int]]] = deque()
        for _ in range(self.n):
            table = self.random.choice(self.tables)
            held.append((table, self.row(table)))
            self.change(*held[-1], 1)
            if len(held) > self.n // 3:
                self.change(*held.popleft(), -1)

    def random_changes(self) -> None:
        held: list[tuple[str, dict[str, int]]] = []
        for _ in range(self.n):
            if held and self.random.random() < 0.4:
                self.change(*held.pop(self.random.randrange(len(held))), -1)
            else:
                table = self.random.choice(self.tables)
                held.append((table, self.row(table)))
                self.change(*held[-1], 1)


def _theorem(random: Random) -> Case:
    """CROWN, theorem 6.2: a first-in-first-out sequence that no join tree of this query can follow in O(1)."""
    joins, where = random.choice(_ENDS)
    sql = f"SELECT {random.choice(_SHOWN)} FROM {_MIDDLE} {joins} {where}"
    start = random.randrange(1 << 30)
    return Case(CHAIN, sql, "first_in_first_out", lambda n: theorem_stream(Random(start), n), (4, 8, 16), "theorem 6.2")


def theorem_stream(random: Random, n: int) -> list[Change]:
    def some() -> list[int]:
        return [j for j in range(n) if random.random() < 0.5]

    ends = [(t, {c: i}) for i in range(n) for t, c in (("r1", "x1"), ("r5", "x4"))]
    matrix = [("r3", {"x2": i, "x3": j}) for i in range(n) for j in some()]
    sides = [
        [("r2", {"x1": i, "x2": j}) for j in some()] + [("r4", {"x3": j, "x4": i}) for j in some()] for i in range(n)
    ]
    steps: list[tuple[str, dict[str, int], int]] = [(*row, 1) for row in ends + matrix]
    for i, side in enumerate(sides):
        steps += [(*row, 1) for row in side]
        steps += [(*row, -1) for row in ends[2 * i : 2 * i + 2]]
    steps += [(*row, -1) for row in matrix]
    steps += [(*row, -1) for side in sides for row in side]
    return [{table: [{**row, "_weight": weight}]} for table, row, weight in steps]


def described(case: Case) -> dict[str, Any]:
    return {"tables": case.ddl, "query": case.sql, "stream": f"{case.kind}: {case.name}"}
