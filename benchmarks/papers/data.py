"""The tables of the papers' experiments: real data if FRESHET_DATA names a folder with it, otherwise similar generated
data.

A `Timed` table has a moment for each row, at which it is inserted; initial rows have moment 0.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks.papers.queries import TEMPORAL
from benchmarks.streams import Integers, skewed_edges

DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True)
class Timed:
    rows: pa.Table
    moment: Integers


def real_folder() -> Path | None:
    named = os.environ.get("FRESHET_DATA")
    return Path(named) if named else None


def edges(count: int) -> Integers:
    """Edges of a graph with hubs, one per row: the first votes of wiki-Vote if available and sufficient, in random
    order, because the file is sorted by voter."""
    folder = real_folder()
    if folder is not None:
        pairs = real_edges(folder)
        if len(pairs) >= count:
            return np.random.default_rng(1).permutation(pairs[:count])
    return skewed_edges(max(count // 5, 10), count)


def real_edges(folder: Path) -> Integers:
    with gzip.open(folder / "graph" / "wiki-Vote.txt.gz", "rt") as lines:
        votes: Integers = np.loadtxt(lines, np.int64, comments="#")
    return votes


# The social network -----------------------------------------------------------------------------------------------


def social_network(people: int) -> dict[str, Timed]:
    """A network similar to SNB's: friends and messages skewed towards a few people, one or two tags per message, and
    each row later than the rows it refers to. Ten messages per person over a thousand days."""
    draw = np.random.default_rng(people)
    messages, tags = 10 * people, max(people // 2, 5)
    born = np.sort(draw.integers(1, 300 * DAY, people))
    friends = np.unique((people * draw.random((6 * people, 2)) ** 1.5).astype(np.int64), axis=0)
    friends = friends[friends[:, 0] != friends[:, 1]]
    met = born[friends].max(axis=1) + draw.integers(1, 300 * DAY, len(friends))
    author = (people * draw.random(messages) ** 1.5).astype(np.int64)
    said = born[author] + draw.integers(1, 600 * DAY, messages)
    order = np.argsort(said)
    author, said = author[order], said[order]
    reply = draw.random(messages) < 0.3
    parent = (np.arange(messages) * draw.random(messages)).astype(np.int64)
    on = np.stack([np.repeat(np.arange(messages), 2), (tags * draw.random(2 * messages) ** 2).astype(np.int64)], 1)
    tagged = np.unique(on, axis=0)
    names = pa.array([f"name {i}" for i in range(people)])
    return {
        "person": Timed(
            pa.table({"p_personid": np.arange(people), "p_firstname": names, "p_lastname": names}), born
        ),
        "knows": Timed(pa.table({"k_person1id": friends[:, 0], "k_person2id": friends[:, 1]}), met),
        "message": Timed(_messages(np.arange(messages), author, pa.array(parent, mask=~reply)), said),
        "message_tag": Timed(pa.table({"mt_messageid": tagged[:, 0], "mt_tagid": tagged[:, 1]}), said[tagged[:, 0]]),
        "tag": Timed(_tags(np.arange(tags), pa.array([f"tag {i}" for i in range(tags)])), np.zeros(tags, np.int64)),
    }  # fmt: skip


def real_social_network(folder: Path) -> dict[str, Timed]:
    """SNB's own tables. Friendship is symmetric; a message's tags are inserted with it."""
    person, posts, comments, knows = (
        _read(folder / "snb" / f"{name}_0_0.csv.gz") for name in ("person", "post", "comment", "person_knows_person")
    )
    tagged = [_read(folder / "snb" / f"{name}_hasTag_tag_0_0.csv.gz") for name in ("post", "comment")]
    tags = _read(folder / "snb" / "tag_0_0.csv.gz")
    met = _moments(knows["creationDate"])
    one, other = knows.column(0), knows.column(1)
    no_reply = pa.nulls(posts.num_rows, pa.int64())
    replied = pc.coalesce(comments["replyOfPost"], comments["replyOfComment"])
    ids = pa.chunked_array([*posts["id"].chunks, *comments["id"].chunks])
    authors = pa.chunked_array([*posts["creator"].chunks, *comments["creator"].chunks])
    said = np.concatenate([_moments(posts["creationDate"]), _moments(comments["creationDate"])])
    on = pa.concat_tables([t.rename_columns(["mt_messageid", "mt_tagid"]) for t in tagged])
    return {
        "person": Timed(
            person.select(["id", "firstName", "lastName"]).rename_columns(["p_personid", "p_firstname", "p_lastname"]),
            _moments(person["creationDate"]),
        ),
        "knows": Timed(
            pa.table({
                "k_person1id": pa.chunked_array([*one.chunks, *other.chunks]),
                "k_person2id": pa.chunked_array([*other.chunks, *one.chunks]),
            }),
            np.concatenate([met, met]),
        ),
        "message": Timed(_messages(ids, authors, pa.chunked_array([no_reply, *replied.chunks])), said),
        "message_tag": Timed(on, said[pc.index_in(on["mt_messageid"], ids).to_numpy()]),
        "tag": Timed(_tags(tags["id"], tags["name"]), np.zeros(tags.num_rows, np.int64)),
    }  # fmt: skip


def _messages(ids: object, authors: object, replied: object) -> pa.Table:
    return pa.table({"m_messageid": ids, "m_creatorid": authors, "m_c_replyof": replied})


def _tags(ids: object, names: object) -> pa.Table:
    return pa.table({"t_tagid": ids, "t_name": names})


def _read(path: Path) -> pa.Table:
    with gzip.open(path) as file:
        return pyarrow.csv.read_csv(
            file,
            parse_options=pyarrow.csv.ParseOptions(delimiter="|", quote_char=False),
            convert_options=pyarrow.csv.ConvertOptions(strings_can_be_null=False),
        )


def _moments(dates: pa.ChunkedArray) -> Integers:
    if pa.types.is_string(dates.type):
        dates = pc.strptime(pc.utf8_slice_codeunits(dates, 0, 23), "%Y-%m-%dT%H:%M:%S", "us", error_is_null=True)
    micros: Integers = dates.cast(pa.timestamp("us", dates.type.tz)).cast(pa.int64()).to_numpy()
    return micros


# Inequalities -----------------------------------------------------------------------------------------------------


def inequality_tables(rows: int, keys: int, seed: int = 1, spread: int = 1_000_000) -> dict[str, pa.Table]:
    """IEDyn's tables, `rows` in each: numbers below `spread`, `keys` values of k."""
    draw = np.random.default_rng(seed)
    tables = {}
    for name, columns in (("r", "abc"), ("s", "def"), ("t", "ghi")):
        values: dict[str, object] = {c: draw.integers(0, spread, rows) for c in columns}
        for text in set(columns) & {"c", "i"}:
            values[text] = pa.array([f"{text}{i}" for i in draw.integers(0, 100, rows)])
        values["k"] = draw.integers(0, keys, rows)
        tables[name] = pa.table(values)
    return tables


def in_time(tables: dict[str, pa.Table], order: Integers) -> dict[str, pa.Table]:
    """The same rows with compared values that increase along a stream: `order` is the step at which each row is
    inserted, table by table."""
    ordered, start = {}, 0
    for name, table in tables.items():
        steps = order[start : start + table.num_rows]
        start += table.num_rows
        for column in TEMPORAL[name]:
            table = table.set_column(table.column_names.index(column), column, pa.array(steps))
        ordered[name] = table
    return ordered
