"""What to do with an arm for which the join tree has no place: store what it reads, or what it finds, and plan
again."""

from __future__ import annotations

from freshet.errors import UnsupportedError
from freshet.sql.bound import Arm, Block, Query
from freshet.sql.rewrite.number_relations import numbered
from freshet.sql.rewrite.settle_nullability import settled
from freshet.sql.rewrite.store import store_block, store_matches


class UnfitError(UnsupportedError):
    """An arm without a place. `scattered`: what it reads is spread over several relations of the block it hangs on."""

    def __init__(self, message: str, block: Block, arm: Arm, scattered: bool = False) -> None:
        super().__init__(message)
        self.block, self.arm, self.scattered = block, arm, scattered


def made_fit(query: Query, unfit: UnfitError) -> Query:
    if unfit.scattered and len(unfit.block.relations) > 1:
        changed = store_block(query, unfit.block, (), finished)
    elif unfit.scattered:
        raise unfit
    else:
        changed = store_matches(query, unfit.block, unfit.arm, finished)
    return finished(changed)


def finished(query: Query) -> Query:
    return numbered(settled(query))
