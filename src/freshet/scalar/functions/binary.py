"""Text read as bytes, and bytes as text: UNHEX, UNBASE64, ENCODE, DECODE, TO_BINARY."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

from sqlglot import exp

from freshet.errors import EvaluationError, SqlError, brief
from freshet.scalar.column import Column
from freshet.scalar.expression import Call, Expression, Literal
from freshet.scalar.functions.attempts import attempt
from freshet.scalar.functions.bounds import byte_sizes, check_sizes
from freshet.scalar.functions.casting import cast
from freshet.scalar.functions.compiled import fold
from freshet.scalar.functions.nulls import IF_ANY_OR_ELSE
from freshet.scalar.functions.registry import THIS, Function, Step, declare, refuse
from freshet.scalar.functions.rows import as_bytes, every, longest
from freshet.scalar.functions.text_calls import as_text, in_python, typed
from freshet.scalar.types import BINARY, STRING

_HEX = re.compile("[0-9A-Fa-f]*")
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_OTHERS = bytes(set(range(256)) - set(_ALPHABET))
#: Base 64 as TO_BINARY accepts it, without the white space that may precede the last padding.
_STRICT = re.compile("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?")
_SPACE = re.compile("[\t-\r\x1c-\x1f \u1680\u2000-\u2006\u2008-\u200a\u2028\u2029\u205f\u3000]")  # Java's name
#: Spark's character sets, and Python's names of them; its UTF-16 and UTF-32 are big-endian without a byte order mark.
_CHARSETS = {
    "US-ASCII": "ascii", "ISO-8859-1": "latin-1", "UTF-8": "utf-8", "UTF-16BE": "utf-16-be", "UTF-16LE": "utf-16-le",
    "UTF-16": "utf-16-be", "UTF-32": "utf-32-be",
}  # fmt: skip
_MARKS = {"UTF-16": (b"\xfe\xff", b"\xff\xfe"), "UTF-32": (b"\0\0\xfe\xff", b"\xff\xfe\0\0")}
_LITTLE = {"UTF-16": "utf-16-le", "UTF-32": "utf-32-le"}
_FORMATS = ("hex", "base64", "utf-8", "utf8")


def _resolve_binary(name: str, args: tuple[Expression, ...]) -> Expression:
    if len(args) != 1:
        raise refuse(name, args)
    return cast(args[0], BINARY)


def _resolve_to_binary(name: str, args: tuple[Expression, ...]) -> Expression:
    if not 1 <= len(args) <= 2:
        raise refuse(name, args)
    form = as_text(args[1]) if len(args) == 2 else Literal(STRING, "hex")
    if not isinstance(form, Literal):
        raise SqlError(f"the format of {name.upper()} is not a literal; write 'hex', 'base64' or 'utf-8'")
    known = str(form.value).lower()
    if form.value is None or (known not in _FORMATS and name == "try_to_binary"):
        return Literal(BINARY, None)
    if known not in _FORMATS:
        raise SqlError(f"{brief(form.value)} is not a format of {name.upper()}; write 'hex', 'base64' or 'utf-8'")
    text = as_text(args[0])
    if known.startswith("utf"):
        return cast(text, BINARY)
    made = Call(BINARY, "to_binary", (text, Literal(STRING, known)))
    return made if name == "to_binary" else attempt(made)


def written_as(name: str, data: Expression, form: Expression) -> Expression:
    """TO_CHAR of BINARY."""
    known = form.value if isinstance(form, Literal) and isinstance(form.value, str) else ""
    if known.lower() in ("hex", "base64"):
        return fold(Call(STRING, known.lower(), (data,)))
    if known.lower() != "utf-8":
        raise SqlError(f"{name.upper()} of BINARY takes a literal 'hex', 'base64' or 'utf-8'; write one of them")
    return fold(Call(STRING, "decode", (data, Literal(STRING, "utf-8"))))


# Computing ------------------------------------------------------------------------------------------------------


def unhex(text: str) -> bytes | None:
    """If the number of digits is odd, the first digit is a byte by itself."""
    return bytes.fromhex("0" * (len(text) % 2) + text) if _HEX.fullmatch(text) else None


def unbase64(text: str) -> bytes:
    """Decoded as in MIME: other characters are skipped; no character of the alphabet may follow the padding."""
    head, padding, rest = text.encode().partition(b"=")
    digits = head.translate(None, _OTHERS)
    over = len(digits) % 4
    if padding and over == 2:  # of two padding characters, the second must follow directly
        padding, rest = (rest[:1] if rest[:1] == b"=" else b""), rest[1:]
        over = over if padding else 1
    if over == 1 or (padding and over == 0) or rest.translate(None, _OTHERS):
        raise EvaluationError(f"{brief(text)} is not base 64; correct the text")
    return base64.b64decode(digits + b"=" * (-len(digits) % 4))


def to_binary(text: str, form: str) -> bytes:
    if form == "hex":
        data = unhex(text)
    else:
        digits = _SPACE.sub("", text.partition("=")[0]) + "=" * bool("=" in text) + text.partition("=")[2]
        data = base64.b64decode(digits + "=" * (-len(digits) % 4)) if _STRICT.fullmatch(digits) else None
    if data is None:
        remedy = "correct the text, or use TRY_TO_BINARY"
        raise EvaluationError(f"{brief(text)} is not {'hexadecimal' if form == 'hex' else 'base 64'}; {remedy}")
    return data


def _charset(name: str) -> str:
    if name.upper() not in _CHARSETS:
        known = ", ".join(_CHARSETS).lower()
        raise EvaluationError(f"{brief(name)} is not a character set; the known ones are: {known}")
    return name.upper()


def encode(text: str, name: str) -> bytes:
    charset = _charset(name)
    try:
        data = text.encode(_CHARSETS[charset])
    except UnicodeEncodeError:
        raise EvaluationError(f"{brief(text)} has characters that {charset} lacks; choose utf-8") from None
    return _MARKS[charset][0] + data if charset == "UTF-16" and data else data


def decode(data: bytes, name: str) -> str:
    charset = _charset(name)
    codec = _CHARSETS[charset]
    big, little = _MARKS.get(charset, (b"", b""))
    if little and data.startswith(little):
        codec, data = _LITTLE[charset], data[len(little) :]
    elif big and data.startswith(big):
        data = data[len(big) :]
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        raise EvaluationError(f"{brief(data)} is not text in {charset}; choose the right character set") from None


def _unhex(call: Call) -> Step:
    return in_python(BINARY, unhex)


def _unbase64(call: Call) -> Step:
    return in_python(BINARY, unbase64)


def _to_binary(call: Call) -> Step:
    return in_python(BINARY, to_binary)


def _encode(call: Call) -> Step:
    return _sized("encode", 4, in_python(BINARY, encode))


def decode_bytes(call: Call) -> Step:
    step = _sized("decode", 2, in_python(STRING, decode))
    return lambda data, charset: step(as_bytes(data), charset)


def _sized(name: str, times: int, step: Callable[[Column, Column], Column]) -> Step:
    """The step, with a check that its result, up to `times` bytes per byte and a mark, is not too long."""

    def sized(a: Column, charset: Column) -> Column:
        check_sizes(name, times * byte_sizes(a) + 2, every((a, charset)), longest(a, charset))
        return step(a, charset)

    return sized


declare(
    Function(
        "unhex",
        "hexadecimal digits",
        typed(BINARY, "s"),
        _unhex,
        parsed={exp.Unhex: THIS},
        nulls=IF_ANY_OR_ELSE,
        total=True,
    ),
    Function("unbase64", "text in base 64", typed(BINARY, "s"), _unbase64, parsed={exp.FromBase64: THIS}),
    Function(
        "encode",
        "text and a character set",
        typed(BINARY, "s", "s"),
        _encode,
        parsed={exp.Encode: ("this", "charset")},
    ),
    Function("binary", "text", _resolve_binary),
    Function(
        "to_binary", "text, and optionally 'hex', 'base64' or 'utf-8' as a literal", _resolve_to_binary, _to_binary
    ),
    Function("try_to_binary", "text, and optionally 'hex', 'base64' or 'utf-8' as a literal", _resolve_to_binary),
)
