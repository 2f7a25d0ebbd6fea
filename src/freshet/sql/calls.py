"""Which function of ours each parsed operator or function call is, and where its arguments stand in the parsed node."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.IntDiv: "div",
    exp.Mod: "modulo",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeEQ: "not_distinct",
    exp.NullSafeNEQ: "distinct_from",
    exp.And: "and",
    exp.Or: "or",
    exp.Like: "like",
    exp.ILike: "ilike",
    exp.DPipe: "concat",
    exp.BitwiseAnd: "bit_and",
    exp.BitwiseOr: "bit_or",
    exp.BitwiseXor: "bit_xor",
}
ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod)


@dataclass(frozen=True, slots=True)
class Shape:
    """A function's name here, and the parsed node's slots that hold its arguments in order; a list is spread out."""

    name: str
    slots: tuple[str, ...] = ("this",)

    def arguments(self, node: exp.Expr) -> list[exp.Expr]:
        arguments: list[exp.Expr] = []
        for slot in self.slots:
            value = node.args.get(slot)
            if isinstance(value, list):
                arguments += value
            elif value is not None:
                arguments.append(value)
        return arguments


CALLS: dict[type[exp.Expr], Shape] = {
    exp.Abs: Shape("abs"),
    exp.Round: Shape("round", ("this", "decimals")),
    exp.Floor: Shape("floor", ("this", "decimals")),
    exp.Ceil: Shape("ceil", ("this", "decimals")),
    exp.Sqrt: Shape("sqrt"),
    exp.Pow: Shape("power", ("this", "expression")),
    exp.Coalesce: Shape("coalesce", ("this", "expressions")),
    exp.Nullif: Shape("nullif", ("this", "expression")),
    exp.Greatest: Shape("greatest", ("this", "expressions")),
    exp.Least: Shape("least", ("this", "expressions")),
    exp.Upper: Shape("upper"),
    exp.Lower: Shape("lower"),
    exp.Length: Shape("length"),
    exp.Concat: Shape("concat", ("expressions",)),
    exp.Substring: Shape("substring", ("this", "start", "length")),
    exp.Left: Shape("left", ("this", "expression")),
    exp.Right: Shape("right", ("this", "expression")),
    exp.Replace: Shape("replace", ("this", "expression", "replacement")),
    exp.StartsWith: Shape("startswith", ("this", "expression")),
    exp.EndsWith: Shape("endswith", ("this", "expression")),
    exp.Contains: Shape("contains", ("this", "expression")),
    exp.StrPosition: Shape("locate", ("substr", "this", "position")),
    exp.ConcatWs: Shape("concat_ws", ("expressions",)),
    exp.Reverse: Shape("reverse"),
    exp.Repeat: Shape("repeat", ("this", "times")),
    exp.Space: Shape("space"),
    exp.Translate: Shape("translate", ("this", "from_", "to")),
    exp.SplitPart: Shape("split_part", ("this", "delimiter", "part_index")),
    exp.SubstringIndex: Shape("substring_index", ("this", "delimiter", "count")),
    exp.Ascii: Shape("ascii"),
    exp.Chr: Shape("chr", ("expressions",)),
    exp.BitLength: Shape("bit_length"),
    exp.Overlay: Shape("overlay", ("this", "expression", "from_", "for_")),
    exp.Levenshtein: Shape("levenshtein", ("this", "expression", "ins_cost")),  # Spark's third is the threshold
    exp.Soundex: Shape("soundex"),
    exp.Elt: Shape("elt", ("this", "expressions")),
    exp.MD5: Shape("md5"),
    exp.SHA: Shape("sha1"),
    exp.SHA2: Shape("sha2", ("this", "length")),
    exp.Hex: Shape("hex"),
    exp.ToBase64: Shape("base64"),
    exp.FromBase64: Shape("unbase64"),
    exp.Unhex: Shape("unhex"),
    exp.Encode: Shape("encode", ("this", "charset")),
    exp.Decode: Shape("decode", ("this", "charset")),
    exp.RegexpLike: Shape("rlike", ("this", "expression")),
    exp.RegexpReplace: Shape("regexp_replace", ("this", "expression", "replacement", "position")),
    exp.RegexpExtract: Shape("regexp_extract", ("this", "expression", "group")),
    exp.RegexpSubstr: Shape("regexp_substr", ("this", "expression")),
    exp.RegexpCount: Shape("regexp_count", ("this", "expression")),
    exp.RegexpInstr: Shape("regexp_instr", ("this", "expression")),
    exp.Year: Shape("year"),
    exp.Quarter: Shape("quarter"),
    exp.Month: Shape("month"),
    exp.Day: Shape("day"),
    exp.DayOfMonth: Shape("day"),
    exp.DayOfWeek: Shape("dayofweek"),
    exp.DayOfYear: Shape("dayofyear"),
    exp.LastDay: Shape("last_day"),
    exp.Hour: Shape("hour"),
    exp.Minute: Shape("minute"),
    exp.Second: Shape("second"),
    exp.AddMonths: Shape("add_months", ("this", "expression")),
    exp.DecodeCase: Shape("decode", ("expressions",)),
    exp.BitwiseNot: Shape("bit_not"),
    exp.BitwiseLeftShift: Shape("shiftleft", ("this", "expression")),
    exp.BitwiseRightShift: Shape("shiftright", ("this", "expression")),
}

#: Functions that are read by name and argument list alone, not as what the parser makes of them: it rewrites some, and
#: patterns of dates to those of other languages.
BY_NAME = {
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "bin", "bit_count", "bit_get", "cbrt", "conv",
    "cos", "cosh", "cot", "csc", "date_format", "date_from_unix_date", "date_part", "date_trunc", "datepart",
    "dayname", "degrees", "e", "equal_null", "exp", "expm1", "factorial", "format_string", "from_unixtime",
    "getbit", "hypot", "isnan", "ln", "log", "log10", "log1p", "log2", "make_date", "monthname", "months_between",
    "nanvl", "negative", "next_day", "nvl2", "pi", "pmod", "positive", "printf", "radians", "rint", "sec",
    "shiftrightunsigned", "sign", "signum", "sin", "sinh", "tan", "tanh", "to_binary", "to_char", "to_date",
    "to_timestamp", "to_unix_timestamp", "to_varchar", "trunc", "try_add", "try_divide", "try_mod", "try_multiply",
    "try_subtract", "typeof", "unix_date", "unix_micros", "unix_millis", "unix_seconds", "unix_timestamp", "weekofyear",
    "width_bucket",
}  # fmt: skip

#: Functions that are parsed by name only and called otherwise here.
ANONYMOUS = {"isnull": "is_null", "isnotnull": "is_not_null"}

#: Functions whose value is not decided by their arguments; no view over them could be kept right.
NEVER_THE_SAME = frozenset(
    {"now", "random", "rand", "randn", "uuid", "current_timezone", "current_database", "monotonically_increasing_id"}
    | {"localtimestamp", "curdate", "spark_partition_id", "input_file_name", "shuffle"}
)
