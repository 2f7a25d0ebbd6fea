"""Mistakes that the parser does not report: keywords after which something is missing, and clauses out of order. The
parser accepts many dialects and skips what it does not need, so that an extra comma, for example, would go unnoticed.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

_ENDS = frozenset(
    {TokenType.COMMA, TokenType.R_PAREN, TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING}
    | {TokenType.ORDER_BY, TokenType.UNION, TokenType.QUALIFY}
)
#: Keywords that must be followed by something.
_OPEN = frozenset(
    {TokenType.COMMA, TokenType.ALIAS, TokenType.GROUP_BY, TokenType.ORDER_BY, TokenType.PARTITION_BY}
    | {TokenType.SELECT}
)
#: The clauses of a query in order. FROM is not listed, because it occurs in expressions too (IS DISTINCT FROM).
_ORDER = {
    TokenType.WHERE: 1,
    TokenType.GROUP_BY: 2,
    TokenType.HAVING: 3,
    TokenType.QUALIFY: 4,
    TokenType.ORDER_BY: 5,
    TokenType.LIMIT: 6,
}
_ANOTHER = (TokenType.SELECT, TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT, TokenType.PIPE_GT)


def misplaced(tokens: Sequence[Token]) -> tuple[Token, str] | None:
    """The first misplaced word, and what is wrong with it."""
    reached: list[Token | None] = [None]  # the clause begun last, at each depth of parentheses
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        kind = token.token_type
        if kind in _OPEN and (following is None or following.token_type in _ENDS):
            return token, f"something is missing after {token.text.upper()}; complete it"
        if kind == TokenType.L_PAREN:
            if following is not None and following.token_type == TokenType.COMMA:
                return following, "something is missing before ,; complete it"
            reached.append(None)
        elif kind == TokenType.R_PAREN and len(reached) > 1:
            reached.pop()
        elif kind in _ANOTHER:
            reached[-1] = None
        elif kind in _ORDER:
            before = reached[-1]
            if before is not None and _ORDER[kind] <= _ORDER[before.token_type]:
                word, other = token.text.upper(), before.text.upper()
                remedy = "write it once" if word == other else f"write it before {other}"
                return token, f"{word} does not fit here; {remedy}"
            reached[-1] = token
    return None
