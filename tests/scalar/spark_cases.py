"""Writes functions_spark.json: Spark's result (ANSI mode, UTC) for each function over typed arguments.

Run it manually with PySpark installed, `python tests/scalar/spark_cases.py`; the tests read only the file it writes. An
argument is [type, text] for a column of that type, or [type, text, "literal"] for a literal; text null is NULL. The
text of BINARY is its hexadecimal digits, of an argument and of an answer.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path
from typing import Any

INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulo": "%", "div": "div",
    "eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "not_distinct": "<=>",
    "and": "AND", "or": "OR", "like": "LIKE", "concat": "||", "bit_and": "&", "bit_or": "|", "bit_xor": "^",
}  # fmt: skip

Argument = list[str | None]


def columns(*pairs: tuple[str, str | None]) -> list[Argument]:
    return [list(p) for p in pairs]


def literal(type_name: str, text: str) -> Argument:
    return [type_name, text, "literal"]


NUMBERS = columns(
    ("TINYINT", "100"), ("SMALLINT", "-7"), ("INT", "2147483647"), ("INT", "3"), ("BIGINT", "9223372036854775807"),
    ("BIGINT", "-4"), ("FLOAT", "1.1"), ("DOUBLE", "-2.5"), ("DOUBLE", "0"), ("DECIMAL(5,2)", "-12.35"),
    ("DECIMAL(15,2)", "1234567890123.45"), ("DECIMAL(38,10)", "1234567890123456789.0123456789"),
    ("DECIMAL(38,0)", "99999999999999999999999999999999999999"), ("INT", None),
    ("DECIMAL(20,18)", "0.000000000000000003"),
)  # fmt: skip
ODD = columns(("STRING", "12"), ("DATE", "2024-02-29"), ("TIMESTAMP", "2024-02-29 13:14:15.5"), ("BOOLEAN", "true"))
LITERALS = [literal("INT", "7"), literal("DECIMAL(2,2)", "0.05"), literal("INT", "0")]


def cases() -> list[tuple[str, list[Argument], str | None]]:
    made: list[tuple[str, list[Argument], str | None]] = []

    def case(name: str, *args: Argument, to: str | None = None) -> None:
        made.append((name, list(args), to))

    for op in ("add", "subtract", "multiply", "divide", "modulo", "div"):
        for a, b in itertools.product(NUMBERS, [*NUMBERS, *LITERALS]):
            case(op, a, b)
        for a in ODD:
            case(op, a, NUMBERS[3])
            case(op, a, NUMBERS[9])
            case(op, NUMBERS[3], a)
            case(op, a, a)
    for op in ("eq", "lt", "ge", "not_distinct"):
        for a, b in itertools.combinations(
            [*NUMBERS, *ODD, literal("STRING", "7"), literal("STRING", "2024-02-29")], 2
        ):
            if len(a) + len(b) < 6:  # not two literals: a case has a column
                case(op, a, b)
    for x in NUMBERS:
        for name in ("negate", "abs", "ceil", "floor", "round", "sqrt"):
            case(name, x)
        for digits in ("1", "-1", "3"):
            case("round", x, literal("INT", digits))
    for x, digits in itertools.product(
        [*NUMBERS, *columns(("INT", "25"), ("INT", "-15"), ("BIGINT", "5000000000000000000"), ("DECIMAL(5,1)", "-2.5"),
                            ("DECIMAL(5,1)", "3.5"), ("DOUBLE", "2.345"), ("DOUBLE", "3.5"), ("FLOAT", "0.125"),
                            ("DECIMAL(38,1)", "12345678901234567890.5"))],
        ("0", "1", "-1", "2", "-19"),
    ):  # fmt: skip
        case("bround", x, literal("INT", digits))
    for value in ("2.5", "-2.5", "2.675", "1.005", "0.15", "1e300", "NaN", "-0.0", "0.285"):
        case("round", ["DOUBLE", value])
        case("round", ["DOUBLE", value], literal("INT", "2"))
        case("cast", ["DOUBLE", value], to="STRING")
        case("cast", ["DOUBLE", value], to="INT")
        case("cast", ["DOUBLE", value], to="DECIMAL(10,2)")
    for left, right in itertools.product(("NaN", "-0.0", "0.0", "Infinity"), repeat=2):
        for op in ("eq", "lt", "gt"):
            case(op, ["DOUBLE", left], ["DOUBLE", right])
    targets = ("BOOLEAN", "TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "STRING", "DATE", "TIMESTAMP", "DECIMAL(10,2)",
               "DECIMAL(38,4)")  # fmt: skip
    for x, to in itertools.product([*NUMBERS, *ODD], targets):
        case("cast", x, to=to)
    for text in (" 12 ", "+5", "-3", "1.5", "1e3", "", "abc", "0x1F", "99999999999", "1.005", "NaN", "inf", "-Infinity",
                 "1d", "yes", "F", "TRUE", "no", ".5", "5.", "1_000", "99999999.999", "-0.004"):  # fmt: skip
        for to in ("BOOLEAN", "INT", "BIGINT", "DOUBLE", "DECIMAL(10,2)"):
            case("cast", ["STRING", text], to=to)
    for text in ("2024", "2024-2", "2024-2-3", " 2024-02-03 ", "2024-02-30", "2024-02-03 04:05", "2024-02-03T04:05:06Z",
                 "2024-02-03 04:05:06.123456789", "2024-02-03 04:05:06+02:00", "24-01-01", "x", "2024-02-03 4:5:6.7",
                 "1582-10-10", "0001-01-01", "2024-02-03 25:00:00", "2024-02-03 04"):  # fmt: skip
        case("cast", ["STRING", text], to="DATE")
        case("cast", ["STRING", text], to="TIMESTAMP")
    for value in ("1.0", "100000.0", "12345678.9", "1e7", "0.001", "0.0001", "1.5e-10", "123456789012345680", "-1e21"):
        case("cast", ["DOUBLE", value], to="STRING")
        case("cast", ["FLOAT", value], to="STRING")
        case("cast", ["DOUBLE", value], to="DECIMAL(38,10)")
    for value in ("0.00000001", "-0.00000012", "0", "-1.5"):
        case("cast", ["DECIMAL(20,8)", value], to="STRING")
        case("cast", ["DECIMAL(20,8)", value], to="DECIMAL(4,1)")
        case("cast", ["DECIMAL(20,8)", value], to="DOUBLE")
    samples = [*NUMBERS, *ODD]
    for a, b in itertools.combinations(samples, 2):
        case("coalesce", ["INT", None], a, b)
        case("greatest", a, b)
    for a, b in itertools.combinations(samples[:14:2], 2):
        case("least", a, b)
        case("nullif", a, b)
        case("if", ["BOOLEAN", "false"], a, b)
        case("in", a, b, NUMBERS[3])
    for p, q in itertools.product(("true", "false", None), repeat=2):
        case("and", ["BOOLEAN", p], ["BOOLEAN", q])
        case("or", ["BOOLEAN", p], ["BOOLEAN", q])
    for p in ("true", None):
        case("not", ["BOOLEAN", p])
        case("is_null", ["BOOLEAN", p])
    for s in columns(*(("STRING", text) for text in ("hello wörld", "", "  pad ", None, "a%b_c\\d", "ab\ncd"))):
        for name in ("upper", "lower", "trim", "ltrim", "rtrim", "length", "char_length"):
            case(name, s)
        for pos, size in itertools.product(("0", "1", "3", "-3", "-20", "50"), (None, "0", "2", "-1", "40")):
            extra = [] if size is None else [literal("INT", size)]
            case("substring", s, literal("INT", pos), *extra)
            case("substring", s, ["INT", pos], *extra)
        for pattern in ("%", "h%", "%ld", "%lo%", "h_llo%", "", "a\\%b%", "a\\%b\\_c\\\\d", "%\n%", "ab_cd", "%w%r%"):
            case("like", s, literal("STRING", pattern))
            case("like", s, ["STRING", pattern])
        case("replace", s, literal("STRING", "l"), literal("STRING", "LL"))
        case("replace", s, literal("STRING", ""), literal("STRING", "x"))
        case("concat", s, ["STRING", "x"])
        case("concat", s, ["INT", "5"], ["DATE", "2024-01-02"])
        for name in ("startswith", "endswith", "contains"):
            case(name, s, literal("STRING", "h"))
            case(name, s, ["STRING", "d"])
        for n in ("2", "0", "-1"):
            case("left", s, literal("INT", n))
            case("right", s, literal("INT", n))
    for when in ("2024-02-29", "1969-12-31", "2000-01-01", "1900-03-01", None):
        for kind in ("DATE", "TIMESTAMP"):
            for name in ("year", "month", "day", "quarter", "dayofweek", "hour", "minute", "second", "to_date",
                         "dayofyear"):  # fmt: skip
                case(name, [kind, when])
            for n in ("1", "-13", "0", "24"):
                case("add_months", [kind, when], ["INT", n])
                case("date_add", [kind, when], ["INT", n])
                case("date_sub", [kind, when], ["INT", n])
            for interval in ("INTERVAL '1' MONTH", "INTERVAL '2' YEAR", "INTERVAL '90' DAY", "INTERVAL '36' HOUR",
                             "INTERVAL '1' SECOND", "INTERVAL '48' HOUR"):  # fmt: skip
                case("add", [kind, when], literal("INTERVAL", interval))
                case("subtract", [kind, when], literal("INTERVAL", interval))
        case("datediff", ["DATE", when], ["DATE", "2023-12-31"])
        case("datediff", ["TIMESTAMP", when], ["STRING", "2023-12-31"])
    for when in ("2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5"):
        for name in ("year", "hour", "minute", "second", "day"):
            case(name, ["TIMESTAMP", when])
        case("cast", ["TIMESTAMP", when], to="DATE")
        case("cast", ["TIMESTAMP", when], to="BIGINT")
        case("cast", ["TIMESTAMP", when], to="STRING")
        case("cast", ["TIMESTAMP", when], to="DOUBLE")
    for when in ("2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "2024-03-03", None):
        units = ("year", "quarter", "MONTH", "week", "day", "hour", "minute", "second", "mm", "yyyy")
        for unit in units:
            case("date_trunc", literal("STRING", unit), ["TIMESTAMP", when])
        for unit in ("year", "quarter", "MONTH", "week", "mm"):
            case("trunc", ["DATE", when], literal("STRING", unit))
        case("last_day", ["DATE", when])
        case("weekday", ["DATE", when])
    for s in columns(*(("STRING", text) for text in ("abc", "", None, "ö"))):
        for width, filler in itertools.product(("0", "2", "7", "-1"), ("x", "yz", "")):
            case("lpad", s, ["INT", width], literal("STRING", filler))
            case("rpad", s, literal("INT", width), literal("STRING", filler))
    made += text_cases()
    case("nvl", ["INT", None], ["DECIMAL(5,2)", "1.50"])
    for base, power in itertools.product(("2", "-8", "0"), ("0.5", "3", "-1")):
        case("power", ["INT", base], ["DOUBLE", power])
    return [*made, *number_cases(), *calendar_cases(), *binary_cases()]


Case = tuple[str, list[Argument], str | None]


def number_cases() -> list[Case]:
    made: list[Case] = []
    reals = columns(
        *(("DOUBLE", text) for text in ("2.5", "-2.5", "0", "1", "NaN", "Infinity", "-1", "0.5", "-0.0", "3.5"))
    )
    others = columns(("INT", "3"), ("DECIMAL(5,2)", "-12.35"), ("INT", None), ("STRING", "2"), ("BOOLEAN", "true"))
    for x in [*reals, *others]:
        for name in ("exp", "expm1", "cbrt", "rint", "sign", "signum", "sin", "cos", "tan", "asin", "acos", "atan",
                     "sinh", "cosh", "tanh", "degrees", "radians", "ln", "log", "log10", "log2", "log1p",
                     "isnan"):  # fmt: skip
            made += [(name, [x], None)]
        for name in ("atan2", "hypot", "log", "nanvl"):
            made += [(name, [x, y], None) for y in [reals[0], reals[2], reals[4], *columns(("INT", "2"))]]
    integers = columns(("TINYINT", "-7"), ("SMALLINT", "300"), ("INT", "-2147483648"), ("INT", "12"), ("INT", None),
                       ("BIGINT", "-4"), ("BIGINT", "9223372036854775807"), ("INT", "0"))  # fmt: skip
    for x in integers:
        made += [(name, [x], None) for name in ("bit_not", "bit_count", "positive", "zeroifnull", "nullifzero")]
        for y in [*integers, *columns(("DOUBLE", "1.5"))]:
            made += [(name, [x, y], None) for name in ("bit_and", "bit_or", "bit_xor", "equal_null")]
        for y in columns(*(("INT", by) for by in ("1", "33", "-1", "65", None))):
            made += [(name, [x, y], None) for name in ("shiftleft", "shiftright")]
        for y in columns(("INT", "5"), ("INT", "-5"), ("BIGINT", "7"), ("DOUBLE", "2.5"), ("INT", "0")):
            made += [(name, [x, y], None) for name in ("pmod", "try_add", "try_subtract", "try_multiply", "try_mod",
                                                       "try_divide")]  # fmt: skip
    for x in columns(("INT", "-1"), ("INT", "0"), ("INT", "5"), ("INT", "20"), ("INT", "21"), ("INT", None)):
        made.append(("factorial", [x], None))
    for a, b in ((("DECIMAL(10,2)", "5.00"), ("DECIMAL(10,2)", "0.00")), (("DECIMAL(38,0)", "9" * 38), ("INT", "9"))):
        for name in ("try_add", "try_divide", "try_multiply"):
            made.append((name, [list(a), list(b)], None))
    for text in ("12", "x", "", "1e3", "2024-02-29", "2024-02-30", "true", None, "99999999999"):
        for to in ("INT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(4,2)"):
            made.append(("try_cast", [["STRING", text]], to))
    for x in columns(
        ("BIGINT", "9223372036854775807"), ("DOUBLE", "NaN"), ("DOUBLE", "3.7"), ("DECIMAL(5,2)", "999.99")
    ):
        made += [("try_cast", [x], to) for to in ("INT", "TINYINT", "DECIMAL(4,2)", "STRING")]
    for x in columns(("INT", "1"), ("INT", None), ("INT", "3")):
        made.append(("nvl2", [x, ["INT", "5"], ["DOUBLE", "2.5"]], None))
        made.append(("decode", [x, literal("INT", "1"), ["STRING", "one"], ["INT", None], ["STRING", "none"]], None))
        made.append(("decode", [x, ["INT", "1"], ["STRING", "one"], ["STRING", "other"]], None))
    return made


def calendar_cases() -> list[Case]:
    made: list[Case] = []
    moments = ("2024-02-29 23:59:59.999999", "1969-12-31 23:59:59.5", "2024-12-30 00:00:00", "2021-01-03 12:30:01",
               "2023-01-31 08:00:00", "0001-01-01 00:00:00", "2023-02-28 08:00:00", None)  # fmt: skip
    patterns = ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss.SSS", "d/M/yy", "MMM d, yyyy", "EEEE MMMM", "hh:mm a", "E D DDD",
                "yyyy'T'HH", "'o''clock' H m s S SS SSSSSS h", "q/Q y", "", "yyyyMMdd")  # fmt: skip
    parts = ("YEAR", "QTR", "MONTH", "WEEK", "DAY", "DOW", "DOW_ISO", "DOY", "HOUR", "MINUTE", "SECOND", "YEAROFWEEK",
             "fortnight")  # fmt: skip
    units = ("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR")
    for when in moments:
        both = [[kind, when if when is None or kind == "TIMESTAMP" else when[:10]] for kind in ("DATE", "TIMESTAMP")]
        for x in both:
            for name in ("weekofyear", "unix_date", "unix_seconds", "unix_millis", "unix_micros", "unix_timestamp",
                         "to_unix_timestamp", "monthname", "dayname"):  # fmt: skip
                made += [(name, [x], None)]
            made += [("date_format", [x, literal("STRING", p)], None) for p in patterns]
            made += [("date_part", [literal("STRING", p), x], None) for p in parts]
            for other in moments:
                made.append(("months_between", [x, ["TIMESTAMP", other]], None))
                made += [("timestampdiff", [literal("UNIT", u), x, ["TIMESTAMP", other]], None) for u in units]
            for n in ("1", "-13" if when != moments[5] else "13", "0", None):
                made += [("timestampadd", [literal("UNIT", u), ["INT", n], x], None) for u in units]
            made += [("next_day", [x, literal("STRING", d)], None) for d in ("MON", "tu", "Sunday")]
    for n in ("0", "1", "-1", "1700000000", "19000", None):
        for name in ("timestamp_seconds", "timestamp_millis", "timestamp_micros", "date_from_unix_date",
                     "from_unixtime"):  # fmt: skip
            if n != "1700000000" or not name.startswith("date"):
                made.append((name, [["INT" if name.startswith("date") else "BIGINT", n]], None))
        made.append(("from_unixtime", [["BIGINT", n], literal("STRING", "yyyy-MM")], None))
    for y, m, d in (("2024", "2", "29"), ("2023", "2", "29"), ("2023", "13", "1"), ("1", "1", "1"), (None, "1", "1")):
        made.append(("make_date", [["INT", y], ["INT", m], ["INT", d]], None))
    return made


def binary_cases() -> list[Case]:
    """Functions of BINARY, and those that make it."""
    made: list[Case] = []
    data = columns(*(("BINARY", digits) for digits in ("", "00", "DEADBEEF", "6162C3A9", "FF", "2D3132", None)))
    texts = columns(*(("STRING", text) for text in ("", "ab", "é😀", "-12", None)))
    others = columns(("INT", "3"), ("DATE", "2024-02-29"), ("BOOLEAN", "true"), ("DOUBLE", "1.5"))
    targets = ("STRING", "BINARY", "INT", "DOUBLE", "DATE", "TIMESTAMP", "BOOLEAN", "DECIMAL(10,2)")
    for x in data:
        for name in ("length", "char_length", "octet_length", "bit_length", "hex", "base64", "md5", "sha1", "crc32",
                     "upper", "reverse", "soundex", "is_null", "trim", "ascii", "unhex", "abs", "negate", "not",
                     "bit_count", "year", "ceil", "initcap"):  # fmt: skip
            made += [(name, [x], None)]
        for to in targets:
            made += [("cast", [x], to), ("try_cast", [x], to)]
        for n in ("-9", "-2", "0", "2", "9"):
            made += [(name, [x, literal("INT", n)], None) for name in ("left", "right", "substring", "sha2")]
            made += [("substring", [x, ["INT", n], ["INT", size]], None) for size in ("-1", "1", "2147483647")]
            for name in ("lpad", "rpad"):
                made += [(name, [x, ["INT", n]], None), (name, [x, literal("INT", n), ["BINARY", "0102"]], None)]
                made += [(name, [x, literal("INT", n), ["STRING", "xy"]], None)]
        for y in [*data, *texts, *others]:
            for name in ("eq", "lt", "ge", "not_distinct", "concat", "coalesce", "greatest", "nullif", "contains",
                         "startswith", "endswith", "add"):  # fmt: skip
                made += [(name, [x, y], None), (name, [y, x], None)]
            made += [("in", [x, y, ["BINARY", "00"]], None), ("if", [["BOOLEAN", "true"], x, y], None)]
            made += [("elt", [["INT", "1"], x, y], None), ("overlay", [x, y, ["INT", "2"]], None)]
        for charset in ("utf-8", "UTF-16", "utf-16le", "utf-16be", "utf-32", "us-ascii", "iso-8859-1", "latin1"):
            made.append(("decode", [x, literal("STRING", charset)], None))
        for form in ("hex", "BASE64", "utf-8", "x"):
            made.append(("to_char", [x, literal("STRING", form)], None))
    for x in [*texts, *others]:
        made += [(name, [x], None) for name in ("unhex", "unbase64", "to_binary", "base64", "crc32")]
        made += [("cast", [x], "BINARY"), ("try_cast", [x], "BINARY")]
        for charset in ("utf-8", "UTF-16", "utf-16le", "utf-16be", "utf-32", "us-ascii", "iso-8859-1", "latin1"):
            made.append(("encode", [x, literal("STRING", charset)], None))
            made.append(("decode", [x, ["STRING", charset]], None))
    for digits in (
        "feff0061",
        "fffe6100",
        "0000feff00000061",
        "fffe000061000000",
        "d83d",
        "d83dde00",
        "00",
        "efbbbf61",
    ):
        for charset in ("utf-8", "utf-16", "utf-16be", "utf-16le", "utf-32", "iso-8859-1"):
            made.append(("decode", [["BINARY", digits.upper()], ["STRING", charset]], None))
    for text in ("C3A9", "c3a", "xy", " 61", "61 ", "YWJj", "YWJ", "YW", "Y", "YW==", "YW=", "YW =", "YWI==", "YWJj=",
                 "=", "====", "YW==Jj", "YW==  ", "YW===", "YWI=x", "YW-_", "Y!WJ", "YW Jj", "YWJj YWI",
                 "é"):  # fmt: skip
        made += [(name, [["STRING", text]], None) for name in ("unhex", "unbase64")]
        for name in ("to_binary", "try_to_binary"):
            made.append((name, [["STRING", text]], None))
            made += [(name, [["STRING", text], literal("STRING", form)], None)
                     for form in ("hex", "Base64", "utf-8", "utf8", "x")]  # fmt: skip
    return made


TEXTS = columns(
    *(("STRING", t) for t in ("", "hello wörld", "a.b.c", "aaaa", " x ", "ß ŉa ǆx İ ΑΣ", "a😀b", "Robert Tymczak",
                              "ab,cd,,é", "O'neil-smith\tA_b", None))
)  # fmt: skip


def text_cases() -> list[tuple[str, list[Argument], str | None]]:
    """Text functions beyond the oldest ones, each over literals and over columns."""
    made: list[tuple[str, list[Argument], str | None]] = []

    def case(name: str, *args: Argument) -> None:
        made.append((name, list(args), None))

    def both(name: str, *args: str | int | None, first: Argument) -> None:
        """The other arguments as literals, and as columns."""
        kinds = ["INT" if isinstance(a, int) else "STRING" for a in args]
        texts = [None if a is None else str(a) for a in args]
        case(name, first, *([k, t] for k, t in zip(kinds, texts, strict=True)))
        if None not in args:
            case(name, first, *(literal(k, str(t)) for k, t in zip(kinds, texts, strict=True)))

    for text in ("0", "8112189876", "79927398713", "79927398714", "7992739871-3", " 18", "١٨", "𝟏𝟖", None):
        case("luhn_check", ["STRING", text])
    for a in (["INT", "18"], ["BIGINT", "-18"], ["DECIMAL(5,2)", "18.00"], ["BINARY", "3138"], ["BOOLEAN", "true"]):
        case("luhn_check", list(a))
    for s in TEXTS:
        for name in ("initcap", "reverse", "ascii", "octet_length", "bit_length", "soundex", "btrim", "md5", "sha1",
                     "sha", "crc32", "hex", "base64", "upper", "lower"):  # fmt: skip
            case(name, s)
        case("luhn_check", s)
        for part in ("", "a", "aa", "😀", ".", None):
            both("instr", part, first=s)
            case("locate", ["STRING", part], s)
            for start in ("-1", "0", "2", "3", "2147483647", None):
                case("locate", ["STRING", part], s, ["INT", start])
            for count in ("-2", "-1", "0", "1", "2", "9"):
                case("split_part", s, ["STRING", part], ["INT", count])
                case("substring_index", s, ["STRING", part], ["INT", count])
            case("find_in_set", ["STRING", part], s)
            case("levenshtein", s, ["STRING", part])
            for most in ("1", "-1"):
                case("levenshtein", s, ["STRING", part], ["INT", most])
            both("btrim", part, first=s)
        for part, position, length in (("xyz", 1, 2), ("", 3, 0), ("😀", -2, 1), ("xy", 0, -1), ("x", 2**31 - 1, 5),
                                       ("x", -(2**31), 3), ("x", 2, 2**31 - 1), (None, 1, 1)):  # fmt: skip
            both("overlay", part, position, length, first=s)
            both("overlay", part, position, first=s)
        case("position", ["STRING", "b"], s)
        both("split_part", ".", -1, first=s)
        both("substring_index", ".", 2, first=s)
        for times in (-1, 0, 1, 3):
            both("repeat", times, first=s)
        for old, new in (("abc", "12"), ("aa", "12"), ("", "x"), ("😀ö", "ö😀"), ("l.", ""), ("ab", None)):
            both("translate", old, new, first=s)
        for bits in (0, 1, 224, 256, 384, 512):
            both("sha2", bits, first=s)
        case("sha2", s, ["INT", None])
        for n in ("0", "1", "2", "3", None):
            case("elt", ["INT", n], s, ["STRING", "two"])
        case("concat_ws", literal("STRING", "-"), s, ["STRING", None], ["STRING", "x"])
        case("concat_ws", s, ["STRING", "x"], ["INT", "5"], ["DATE", "2024-01-02"])
        case("concat_ws", ["STRING", None], s)
        case("concat_ws", s)
        for pattern in ("HE%", "%WÖR%", "A_B", "%ΣΣ%", "%i̇%", "\\%", "A\\_"):
            both("ilike", pattern, first=s)
    made += regexp_cases()
    made += zone_cases()
    for x in [*NUMBERS, *ODD, *columns(("STRING", "-17"))]:
        for name in ("hex", "chr", "char", "space", "reverse", "ascii", "md5", "octet_length"):
            if name != "space" or str(x[1]) in ("3", "-4", "-7", "-2.5", "12"):
                case(name, x)
        for digits in ("-1", "0", "1", "3", "25", "400"):
            case("format_number", x, literal("INT", digits))
            case("format_number", x, ["INT", digits])
        case("format_number", x, ["TINYINT", "2"])
        case("format_number", x, ["INT", None])
        case("elt", x, ["INT", "5"], ["DATE", "2024-01-02"])
        case("instr", x, ["STRING", "2"])
    for n in ("0", "65", "128", "233", "255", "256", "321", "-1", "9223372036854775807"):
        case("chr", ["BIGINT", n])
    for value in ("0.125", "0.375", "2.675", "1.005", "-0.5", "0.5", "1.5", "2.5", "-0.0", "1e20", "1e-7",
                  "123456789.5", "9.995", "NaN", "Infinity", "-Infinity", "0.30000000000000004", "1e300"):  # fmt: skip
        for digits in ("0", "2", "3", "20"):
            case("format_number", ["DOUBLE", value], literal("INT", digits))
    return made


#: Patterns with replacements for their matches; the last ones are invalid for a text that has an a and a b.
PATTERNS = (
    ("a", "<$0>"), ("(a|ab)(c|bcd)?", "$2-$1"), ("^[a-z]+$", "x"), ("$", "!"), (r"\w+", r"\$"), (r"[^\s.]+", "$0$0"),
    ("a*", "-"), ("(?i)HE(L+)O", "[$1]"), ("(?s)a.b", "x"), ("a.b", "x"), (r"(\d+)-(\d+)", "$2-$1"), ("x??", "."),
    ("é|ö", "e"), ("()[ab]??", "x"), ("(a)?(b)?", "$12"), (r"^\r$", "x"), (r"[\u00e9-\x{fc}]{1,2}", "x"), ("", "x"),
    (r"(?<=\d)(?=\d)", ","), (r"\w+(?=\s|$)", "<$0>"), (r"(?<![a-z]|\d{1,2})\w", "x"), (r"(?!ab|.l)(\w)", "$1$1"),
    (r"(?=(?:.*b)(?!.*c))a", "x"), (r"(?<=a|ab|^)[^a]", "x"), (r"(?:(?<=^)|(?<=\s))(?:(?=(?![ab])\w)\w)+?", "<$0>"),
)  # fmt: skip
WRONG = (
    ("(a", "x"), ("a)", "x"), ("a{2,1}", "x"), ("[b-a]", "x"), ("*a", "x"), ("a", "\\"), ("(b)", "$2"), ("b", "$"),
    ("b", "$1"), ("[ab", "x"), ("(?=a", "x"), ("(?<a", "x"),
)  # fmt: skip


def regexp_cases() -> list[Case]:
    made: list[Case] = []
    texts = ("", "hello wörld", "abcd ab\n", "12-345", "a\rb", "\r\n", "é\u2028", "HELLO.aab", None)
    for text, (pattern, replacement) in [*itertools.product(texts, PATTERNS), *itertools.product(("ab",), WRONG)]:
        s: Argument = ["STRING", text]
        given = literal("STRING", pattern)
        made.append(("regexp_replace", [s, given, literal("STRING", replacement)], None))
        if (pattern, replacement) in PATTERNS or replacement == "x":
            made += [(name, [s, given], None) for name in ("rlike", "regexp_count", "regexp_instr", "regexp_substr")]
            made.append(("regexp_extract", [s, given, literal("INT", "0")], None))
        if "(a" in pattern:
            made.append(("regexp_extract", [s, given], None))
    for text, pattern in itertools.product(
        ("a😀b", "𝐀b", "😀b"), ("(?<=a.)b", "(?<=a.{1,2})b", r"(?<=\p{L})b", "(?!😀).b")
    ):
        made.append(("regexp_replace", [["STRING", text], literal("STRING", pattern), literal("STRING", "-")], None))
    return made + [(name, [["STRING", "ab"], literal("STRING", "b$")], None) for name in ("regexp", "regexp_like")]


def zone_cases() -> list[Case]:
    made: list[Case] = []
    zones = (
        "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "PST",
        "+05:30", "-3", "UTC+2", "Z", "+1:30", "UTC+1:5", "EST", "Nowhere", "utc", "+18:01", "Pacific/Apia",
    )  # fmt: skip
    times = (
        "2024-03-31 02:30:00", "2024-03-31 01:00:00", "2024-10-27 02:30:00.25", "2024-10-27 00:59:59.999999",
        "2024-03-10 02:15:00", "2024-11-03 01:30:00", "1900-01-01 00:00:00", "2024-04-07 01:45:00",
        "2011-12-30 12:00:00", "2500-07-01 12:00:00", "0001-01-02 00:00:00", None,
    )  # fmt: skip
    pairs = [*itertools.product(times[:-1], zones), (None, zones[0])]
    for name, (time, zone) in itertools.product(("from_utc_timestamp", "to_utc_timestamp"), pairs):
        made.append((name, [["TIMESTAMP", time], literal("STRING", zone)], None))
    for time in times[:6]:
        for source, target in (("Europe/Berlin", "America/New_York"), ("Asia/Tokyo", "Europe/Berlin"), ("+01", "-01")):
            zoned = [literal("STRING", source), literal("STRING", target)]
            made.append(("convert_timezone", [*zoned, ["TIMESTAMP", time]], None))
            made.append(("convert_timezone", [zoned[1], ["STRING", time]], None))
    given = (("DATE", "2024-07-01"), ("STRING", "2024-07-01 12:00:00+02:00"), ("STRING", "x"), ("INT", "1"))
    made += [("from_utc_timestamp", [list(column), ["STRING", "Europe/Berlin"]], None) for column in given]
    made.append(("from_utc_timestamp", [["TIMESTAMP", times[0]], ["STRING", None]], None))
    texts = (
        "2024-07-01 12:00:00", "2024-07-01 12:00:00+02:00", "2024-07-01T12:00:00.5Z", "2024-07-01",
        "2024-07-01 12:00:00 Europe/Berlin", "2024-07-01 12:00:00 Nowhere", "2024-07-01 12:00:00+19:00",
        " 2024-7-1 1:2:3 ", "2024-02-30 00:00:00", "x", "", None, "2024-03-31 02:30:00 Europe/Berlin",
        "2024-10-27 02:30:00 Europe/Berlin", "2024-07-01 12:00:00 PST", "2024-07-01 12:00:00 UTC+1",
    )  # fmt: skip
    for text in texts:
        made.append(("to_timestamp_ntz", [["STRING", text]], None))
        made += [(name, [["STRING", text]], "TIMESTAMP") for name in ("cast", "try_cast")]
    for kind, text in (("DATE", "2024-07-01"), ("TIMESTAMP", "2024-07-01 12:00:00"), ("INT", "1")):
        made.append(("to_timestamp_ntz", [[kind, text]], None))
    return made


def sql(name: str, args: list[Argument], to: str | None, prefix: str = "c") -> tuple[str, str]:
    """The expression, and the columns it reads as a select list; their names begin with the prefix."""
    written, fields = [], []
    for i, (kind, text, *is_literal) in enumerate(args):
        assert kind is not None
        quoted = (
            "NULL" if text is None else "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"
        )
        if kind == "BINARY" and text is not None:
            quoted = f"X'{text}'"
        if not is_literal:
            fields.append(f"CAST({quoted} AS {kind}) AS {prefix}{i}")
            written.append(f"{prefix}{i}")
        elif kind == "UNIT":
            written.append(str(text))
        elif kind in ("INT", "INTERVAL"):
            written.append(f"({text})")
        else:
            written.append(str(text) if kind.startswith("DECIMAL") else quoted)
    if to is not None:
        expression = f"{name.upper()}({written[0]} AS {to})"
    elif name in INFIX and len(args) == 2:
        expression = f"{written[0]} {INFIX[name]} {written[1]}"
    elif name == "in":
        expression = f"{written[0]} IN ({', '.join(written[1:])})"
    elif name == "not":
        expression = f"NOT {written[0]}"
    elif name == "is_null":
        expression = f"{written[0]} IS NULL"
    else:
        expression = f"{ {'negate': 'negative', 'bit_not': '~'}.get(name, name) }({', '.join(written)})"
    return expression, ", ".join(fields)


def ask(spark: Any, asked: list[Case]) -> list[dict[str, object]]:
    """The records of some cases: of all in one query, or of each half if Spark refuses one of them."""
    expressions, fields = [], []
    for number, (name, args, to) in enumerate(asked):
        expression, columns_read = sql(name, args, to, f"q{number}_")
        expressions.append(expression)
        fields += [columns_read] if columns_read else []
    try:
        given = spark.sql(f"SELECT {', '.join(fields)}")
        kinds = [f.dataType.typeName() for f in given.selectExpr(*expressions).schema]
        selected = []
        for i, (e, kind) in enumerate(zip(expressions, kinds, strict=True)):
            shown = f"HEX({e})" if kind == "binary" else f"CAST({e} AS STRING)"
            selected += [f"typeof({e}) AS t{i}", f"{shown} AS v{i}"]
        row = given.selectExpr(*selected).collect()[0]
    except Exception as e:
        if len(asked) > 1:
            half = len(asked) // 2
            return ask(spark, asked[:half]) + ask(spark, asked[half:])
        condition = getattr(e, "getCondition", getattr(e, "getErrorClass", lambda: None))()
        return [recorded(asked[0]) | {"error": condition or type(e).__name__}]
    return [recorded(c) | {"type": row[f"t{i}"].upper(), "value": row[f"v{i}"]} for i, c in enumerate(asked)]


def recorded(case: Case) -> dict[str, object]:
    name, args, to = case
    record: dict[str, object] = {"name": name, "args": args}
    return record if to is None else record | {"to": to}


def main() -> None:
    """Runs only the cases on Spark that are not in the file yet; `--again` runs all."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    path = Path(__file__).with_name("functions_spark.json")
    known: dict[str, dict[str, object]] = {}
    if "--again" not in sys.argv:
        for record in json.loads(path.read_text()):
            asked = {k: v for k, v in record.items() if k in ("name", "args", "to")}
            known[json.dumps(asked)] = record
    wanted = {json.dumps(recorded(c)): c for c in cases()}
    missing = [c for key, c in wanted.items() if key not in known]
    for first in range(0, len(missing), 16):
        part = missing[first : first + 16]
        known |= {json.dumps(recorded(c)): r for c, r in zip(part, ask(spark, part), strict=True)}
    lines = ",\n".join(json.dumps(known[key], ensure_ascii=False) for key in wanted)
    path.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
