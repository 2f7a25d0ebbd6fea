"""The blocks that a result of `maintain` is decoded from, for sinks that take these instead.

Law: rows made of the blocks by the decoder are the rows of the result. A DataFrame that was made of the result, by a
filter for example, is another one, and has no blocks here.
"""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from pyspark.sql import DataFrame

from freshet.spark.decode import Decoder


@dataclass(frozen=True, slots=True)
class Undecoded:
    blocks: DataFrame
    decoder: Decoder


_known: WeakKeyDictionary[DataFrame, Undecoded] = WeakKeyDictionary()


def remember_blocks(changes: DataFrame, blocks: DataFrame, decoder: Decoder) -> None:
    _known[changes] = Undecoded(blocks, decoder)


def undecoded(changes: DataFrame) -> Undecoded | None:
    return _known.get(changes)
