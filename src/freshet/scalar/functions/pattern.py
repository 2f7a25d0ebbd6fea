"""Regular expressions that mean the same in Java, where Spark runs them, and in the two engines that run them here.

A pattern is parsed into characters, sets of characters, ends of the text, groups, alternatives and repetitions, and
written for RE2 (Arrow's, which tests whether a text matches) and as a program of `state.regex` (which finds where),
with every set spelled out: `.` excludes Java's line ends, \\d \\w \\s are ASCII, (?i) folds ASCII letters only, `$`
also matches before a last line end, \\b is where a word of \\w begins or ends, \\p{..} is a category of Unicode or a
class of ASCII. Both engines take time linear in the text. Look-around is found by `state.regex` alone; of it, groups
inside are refused, and look-behind over any number of characters. Other syntax is refused: back references, possessive
quantifiers, classes inside classes, repetitions of patterns that may be empty, whose groups engines fill differently,
and patterns whose program is too long.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NoReturn

from freshet.errors import SqlError, UnsupportedError, brief
from freshet.scalar.functions.program import Code, LookAround, Program, Ranges, program
from freshet.scalar.functions.properties import property_named
from freshet.state import regex

_LAST = 0x10FFFF
_MOST = 1000  # repetitions that RE2 accepts
_LONGEST = 10_000  # instructions of a program
_FURTHEST = 50  # characters that a look-behind reads: each place of a text is tried with as many
_QUICK = 100  # instructions up to which RE2 is fast: it takes a few steps for each of them per character


def _ranges(spans: Sequence[tuple[int, int]]) -> Ranges:
    merged: list[tuple[int, int]] = []
    for low, high in sorted(spans):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return tuple(merged)


def _others(ranges: Ranges) -> Ranges:
    edges = [-1, *(edge for low, high in ranges for edge in (low, high)), _LAST + 1]
    gaps = [(edges[i] + 1, edges[i + 1] - 1) for i in range(0, len(edges), 2)]
    return tuple((low, high) for low, high in gaps if low <= high)


def _of(characters: str) -> Ranges:
    return _ranges([(ord(c), ord(c)) for c in characters])


LINE_ENDS = "\n\r\x85\u2028\u2029"
_ALL: Ranges = ((0, _LAST),)
_DIGIT = _ranges([(48, 57)])
_WORD = _ranges([(48, 57), (65, 90), (97, 122), (95, 95)])
_SPACE = _of(" \t\n\x0b\f\r")
_SETS = {"d": _DIGIT, "w": _WORD, "s": _SPACE, "D": _others(_DIGIT), "W": _others(_WORD), "S": _others(_SPACE)}
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\x07", "e": "\x1b"}
_ANCHORS = ("\\A", "\\z", "\\b", "\\B")
_REPEATS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True)
class PatternNode:
    """A part of a pattern written for both engines, the code that reads it backwards, and how many characters it reads
    at least and at most, if there is a limit."""

    re2: str
    code: Code
    back: Code
    least: int
    most: int | None

    @property
    def may_be_empty(self) -> bool:
        return self.least == 0


@dataclass(frozen=True)
class Pattern:
    text: str
    re2: str
    code: Code
    groups: int
    #: Whether it contains `$`, which in RE2 is the very end: wrong for texts that end in a line end.
    has_dollar: bool
    #: Whether it can match the empty text.
    may_be_empty: bool
    looks: tuple[LookAround, ...]

    @property
    def is_quick(self) -> bool:
        """Whether RE2 tests it in a few steps per character."""
        return len(self.code) <= _QUICK and not self.looks

    def program(self, *groups: int) -> Program:
        """The program that finds it, and the spans of some of its groups."""
        return program(self.code, groups, self.looks)

    @cached_property
    def whole(self) -> Program:
        return self.program()


def read(text: str) -> Pattern:
    """The pattern, or an error that says which construct is refused."""
    reader = _PatternReader(text)
    node = reader.alternatives(0)
    if reader.at < len(text):
        reader.wrong("closes a group that is not open; write \\\\) for the character")
    if any(look.behind for look in reader.looks) and any(ord(c) > 0xFFFF for c in text):
        reader.refuse("a character beyond U+FFFF next to look-behind", "leave one of them out")
    return Pattern(
        text, node.re2, node.code, reader.groups, reader.has_dollar, node.may_be_empty, tuple(reader.looks)
    )  # fmt: skip


@dataclass
class _PatternReader:
    text: str
    at: int = 0
    groups: int = 0
    has_dollar: bool = False
    fold: bool = False
    dot_all: bool = False
    looks: list[LookAround] = field(default_factory=list)  # inner ones first

    def __post_init__(self) -> None:
        flags = re.match(r"\(\?([is]+)\)", self.text)
        if flags:
            self.fold, self.dot_all, self.at = "i" in flags[1], "s" in flags[1], flags.end()

    def refuse(self, what: str, instead: str) -> NoReturn:
        raise UnsupportedError(f"{what} in the regular expression {brief(self.text)} is not supported; {instead}")

    def wrong(self, what: str) -> NoReturn:
        remedy = "" if ";" in what else "; correct it"
        raise SqlError(f"the regular expression {brief(self.text)} {what}{remedy}")

    def bounded(self, instructions: int) -> None:
        if instructions > _LONGEST:
            what = f"a program of more than {_LONGEST:,} instructions ({instructions:,} so far)"
            self.refuse(what, "repeat fewer times, or write fewer characters")

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead : self.at + ahead + 1]

    def take(self) -> str:
        if self.at >= len(self.text):
            self.wrong("ends too early")
        self.at += 1
        return self.text[self.at - 1]

    # Structure ----------------------------------------------------------------------------------------------------

    def alternatives(self, depth: int) -> PatternNode:
        if depth > 50:
            self.refuse("a group this deep", "use fewer levels")
        branches = [self.sequence(depth)]
        while self.peek() == "|":
            self.at += 1
            branches.append(self.sequence(depth))
            self.bounded(sum(len(b.code) + 2 for b in branches))
        if len(branches) == 1:
            return branches[0]
        re2, code = f"(?:{'|'.join(b.re2 for b in branches)})", _choice([b.code for b in branches])
        most = [b.most for b in branches]
        greatest = None if None in most else max(m for m in most if m is not None)
        return PatternNode(re2, code, _choice([b.back for b in branches]), min(b.least for b in branches), greatest)

    def sequence(self, depth: int) -> PatternNode:
        parts: list[PatternNode] = []
        instructions = 0
        while self.peek() not in ("", "|", ")"):
            parts.append(self.repeated(depth))
            instructions += len(parts[-1].code)
            self.bounded(instructions)
        code = tuple(instruction for p in parts for instruction in p.code)
        back = tuple(instruction for p in reversed(parts) for instruction in p.back)
        most = [p.most for p in parts]
        greatest = None if None in most else sum(m for m in most if m is not None)
        return PatternNode("".join(p.re2 for p in parts), code, back, sum(p.least for p in parts), greatest)

    def repeated(self, depth: int) -> PatternNode:
        begin, is_end = self.at, self.peek() in ("^", "$") or self.text[self.at : self.at + 2] in _ANCHORS
        node = self.atom(depth)
        bounds = self.bounds()
        if bounds is None:
            return node
        if is_end:
            self.refuse(f"the repeated {self.text[begin : self.at]}", "an anchor cannot be repeated: write it once")
        if node.may_be_empty:
            what = f"the repetition {self.text[begin : self.at]} of a pattern that may be empty"
            self.refuse(what, "repeat something that matches at least one character")
        least, most = bounds
        mark = f"{{{least}}}" if most == least else f"{{{least},{'' if most is None else most}}}"
        lazy = self.peek() == "?"
        if lazy:
            self.at += 1
            mark += "?"
        if self.peek() in ("+", "*", "?", "{"):
            what = f"the quantifier {self.peek()} after a quantifier"
            self.refuse(what, "write one quantifier, greedy or lazy, and (?:...) around what is repeated twice")
        self.bounded((len(node.code) + 2) * max(least, most or 0, 1))
        code, back = (_repetition(c, least, most, lazy) for c in (node.code, node.back))
        greatest = None if node.most is None or most is None else node.most * most
        return PatternNode(f"(?:{node.re2}){mark}", code, back, node.least * least, greatest)

    def bounds(self) -> tuple[int, int | None] | None:
        """How often the part before is repeated; None if no quantifier follows."""
        if self.peek() in ("*", "+", "?"):
            return _REPEATS[self.take()]
        if self.peek() != "{":
            return None
        match = re.compile(r"\{([0-9]{1,9})(?:(,)([0-9]{1,9})?)?\}").match(self.text, self.at)
        if match is None:
            self.wrong("has { that does not begin a repetition; write \\\\{ for the character")
        least = int(match[1])
        most = int(match[3]) if match[3] else None if match[2] else least
        if max(least, most or 0) > _MOST:
            self.refuse(f"the repetition {match[0]}", f"repeat at most {_MOST} times")
        if most is not None and most < least:
            self.wrong(f"repeats {match[0]}, whose minimum is above its maximum")
        self.at = match.end()
        return least, most

    def atom(self, depth: int) -> PatternNode:
        character = self.take()
        if character == "(":
            return self.group(depth)
        if character == "[":
            return self.written(self.char_class())
        if character == ".":
            return self.written(_ALL if self.dot_all else _others(_of(LINE_ENDS)))
        if character == "^":
            return _condition(r"\A", (regex.BEGIN, 0, 0))
        if character == "$":
            self.has_dollar = True
            return _condition(r"\z", (regex.DOLLAR, 0, 0))
        if character in "*+?":
            self.wrong(f"has nothing that {character} could repeat")
        if character == "{":
            self.wrong("has { that does not begin a repetition; write \\\\{ for the character")
        if character != "\\":
            return self.written(self.folded(_of(character)))
        if self.peek() in ("A", "z"):
            begins = self.take() == "A"
            return _condition(r"\A" if begins else r"\z", (regex.BEGIN if begins else regex.END, 0, 0))
        if self.peek() in ("b", "B"):
            if self.text[self.at : self.at + 2] == "b{":
                self.refuse("\\b{...}", "use \\\\b")
            edge = self.take()
            return _condition(f"\\{edge}", (regex.EDGE, int(edge == "b"), 0))
        return self.written(self.escaped())

    def look(self, depth: int) -> PatternNode:
        """(?=...), (?!...), (?<=...) and (?<!...)."""
        begin, groups, inner = self.at - 1, self.groups, len(self.looks)
        behind = self.peek(1) == "<"
        wanted = self.peek(1 + behind) == "="
        self.at += 2 + behind
        inside = self.alternatives(depth + 1)
        if self.peek() != ")":
            self.wrong("does not close a group")
        self.at += 1
        written = self.text[begin : self.at]
        if self.groups > groups:
            self.refuse(f"a group in {written}", "write (?:...)")
        if behind and len(self.looks) > inner:
            self.refuse(f"look-around in {written}", "write it next to that")
        if behind and (inside.most is None or inside.most > _FURTHEST):
            self.refuse(
                f"{written}, which looks behind without a limit of {_FURTHEST} characters,", "repeat less often"
            )
        self.looks.append(LookAround(behind, inside.code if behind else inside.back, inside.least, inside.most or 0))
        self.bounded(sum(len(look.code) for look in self.looks))
        return _condition("(?:)", (regex.LOOK, len(self.looks) - 1, int(wanted)))

    def group(self, depth: int) -> PatternNode:
        if re.compile(r"\?<?[=!]").match(self.text, self.at):
            return self.look(depth)
        if self.peek() == "?":
            if self.text[self.at : self.at + 2] != "?:":
                what = f"the group ({self.text[self.at : self.at + 3]}...)"
                self.refuse(what, "use (...) and (?:...), and (?i) or (?s) at the very beginning")
            self.at += 2
            inside = self.alternatives(depth + 1)
            code, back = inside.code, inside.back
        else:
            self.groups += 1
            number = self.groups
            inside = self.alternatives(depth + 1)
            code = ((regex.SAVE, 2 * number, 0), *inside.code, (regex.SAVE, 2 * number + 1, 0))
            back = inside.back
        if self.peek() != ")":
            self.wrong("does not close a group")
        self.at += 1
        return PatternNode(f"(?:{inside.re2})", code, back, inside.least, inside.most)

    # Characters ---------------------------------------------------------------------------------------------------

    def escaped(self) -> Ranges:
        """The meaning of an escape, in a class or outside."""
        character = self.take()
        if character in _SETS:
            return _SETS[character]
        if character in _ESCAPES:
            return _of(_ESCAPES[character])
        if character in ("p", "P"):
            members = self.property()
            return _others(members) if character == "P" else members
        if character in ("x", "u"):
            digits = r"([0-9A-Fa-f]{4})" if character == "u" else r"([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\}"
            match = re.compile(digits).match(self.text, self.at)
            code = int(next(g for g in match.groups() if g), 16) if match else _LAST + 1
            if match is None or code > _LAST or 0xD800 <= code <= 0xDFFF:
                self.wrong(f"has \\{character} without the digits of a character")
            self.at = match.end()
            return self.folded(_of(chr(code)))
        if character.isascii() and not character.isalnum():
            return _of(character)
        self.refuse(f"\\{character}", "use characters, [classes], \\\\d, \\\\w, \\\\s, and \\\\ before punctuation")

    def property(self) -> Ranges:
        """The characters with a property: \\pL, \\p{Lu}, \\p{IsLu}, \\p{Alpha}."""
        match = re.compile(r"([A-Z])|\{(\w+)\}", re.ASCII).match(self.text, self.at)
        name = match and (match[1] or match[2])
        spans = property_named(name) if name else None
        if match is None or spans is None:
            self.refuse(f"\\p{self.text[self.at : self.at + 20]}", "use a category such as \\\\p{L}, or \\\\p{Alpha}")
        if self.fold and name and re.fullmatch(r"(Is)?L[ult]|Lower|Upper", name):
            self.refuse(f"\\p{{{name}}} under (?i)", "use \\\\p{L}, or leave out (?i)")
        self.at = match.end()
        return _ranges(spans)

    def char_class(self) -> Ranges:
        negated = self.peek() == "^"
        self.at += negated
        members: list[tuple[int, int]] = []
        if self.peek() == "]":
            self.refuse("] as the first character of a class", "write \\\\]")
        while self.peek() != "]":
            low = self.member()
            if self.peek() != "-" or self.peek(1) in ("]", ""):
                members += low
                continue
            self.at += 1
            high = self.member()
            if len(low) != 1 or len(high) != 1 or low[0][0] != low[0][1] or high[0][0] != high[0][1]:
                self.refuse("a range between sets of characters", "write \\\\- for the character")
            if low[0][0] > high[0][0]:
                self.wrong("has a range that ends before it begins")
            members.append((low[0][0], high[0][0]))
            if self.peek() == "-" and self.peek(1) != "]":
                self.refuse("- after a range", "write \\\\- for the character")
        self.at += 1
        ranges = self.folded(_ranges(members))
        return _others(ranges) if negated else ranges

    def member(self) -> Ranges:
        """One character of a class, or a set of them; not yet folded, because it may begin a range."""
        character = self.take()
        if character == "[":
            self.refuse("[ inside a class", "write \\\\[ for the character, or one class")
        if character == "&" and self.peek() == "&":
            self.refuse("&& inside a class", "write \\\\& for the character, or one class")
        if character != "\\":
            return _of(character)
        fold, self.fold = self.fold, False
        made = self.escaped()
        self.fold = fold
        return made

    def folded(self, ranges: Ranges) -> Ranges:
        """Adds the other case of ASCII letters, under (?i)."""
        if not self.fold:
            return ranges
        more = list(ranges)
        for low, high in ranges:
            for begin, end, shift in ((65, 90, 32), (97, 122, -32)):
                if max(low, begin) <= min(high, end):
                    more.append((max(low, begin) + shift, min(high, end) + shift))
        return _ranges(more)

    def written(self, ranges: Ranges) -> PatternNode:
        code: Code = ((regex.SET, ranges, 0),)
        if not ranges:
            return PatternNode(r"[^\x00-\x{10FFFF}]", code, code, 1, 1)
        if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
            return PatternNode(_re2(ranges[0][0]), code, code, 1, 1)
        return PatternNode("[" + "".join(f"{_re2(low)}-{_re2(high)}" for low, high in ranges) + "]", code, code, 1, 1)


def _condition(re2: str, instruction: tuple[int, int, int]) -> PatternNode:
    """What holds at a place, and reads nothing."""
    return PatternNode(re2, (instruction,), (instruction,), 0, 0)


def _choice(branches: Sequence[Code]) -> Code:
    code = branches[-1]
    for branch in reversed(branches[:-1]):
        code = ((regex.FORK, 1, len(branch) + 2), *branch, (regex.JUMP, len(code) + 1, 0), *code)
    return code


def _repetition(code: Code, least: int, most: int | None, lazy: bool) -> Code:
    """A repetition between two counts; the repeated part matches at least one character."""

    def fork(on: int, past: int) -> Code:
        return ((regex.FORK, past, on),) if lazy else ((regex.FORK, on, past),)

    size = len(code)
    if most is None:
        return (*code * least, *fork(1, size + 2), *code, (regex.JUMP, -(size + 1), 0))
    optional = [i for left in range(most - least, 0, -1) for i in (*fork(1, left * (size + 1)), *code)]
    return (*code * least, *optional)


def _re2(code: int) -> str:
    return chr(code) if chr(code).isascii() and chr(code).isalnum() else f"\\x{{{code:X}}}"
