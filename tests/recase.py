"""The same SQL in other letters: keywords, functions and unquoted names change case, literals and comments do not."""

from __future__ import annotations

import random
import re

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from freshet.sql.source import Reader

CASES = ("lower", "upper", "mixed")
_WORD = re.compile(r"[A-Za-z_]\w*(\s+[A-Za-z_]\w*)*")
_KEPT = {
    TokenType.STRING,
    TokenType.RAW_STRING,
    TokenType.NUMBER,
    TokenType.IDENTIFIER,
}


def recased(text: str, how: str, seed: int = 0) -> str:
    """`how`: lower, upper, or mixed, in which the seed determines every letter."""
    rng, parts, at = random.Random(seed), list[str](), 0
    try:
        tokens = Reader().tokenize(text)
    except TokenError:  # a text that is meant to be wrong
        return text
    for token in tokens:
        written = text[token.start : token.end + 1]
        if token.token_type in _KEPT or not _WORD.fullmatch(written):
            continue
        parts += [text[at : token.start], _letters(written, how, rng)]
        at = token.end + 1
    return "".join([*parts, text[at:]])


def _letters(word: str, how: str, rng: random.Random) -> str:
    if how == "mixed":
        return "".join(rng.choice((letter.lower(), letter.upper())) for letter in word)
    return word.lower() if how == "lower" else word.upper()
