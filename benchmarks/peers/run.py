"""`make bench-peers`: Freshet and other engines keep the same queries fresh over the same streams.

make bench-peers ARGS="--quick --only q3 --peers freshet duckdb --out somewhere"

Each peer runs in a process of its own, for each query and size of transaction; in each repetition, all peers run one
after the other, so that other work of the machine affects them alike. Final answers are compared with DuckDB's. Tables
and plots go to benchmarks/results; progress to standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from benchmarks.papers.data import real_folder
from benchmarks.papers.written import table as written_table
from benchmarks.papers.written import write
from benchmarks.peers.figures import Outcome, figure, summary
from benchmarks.peers.programs import CRATES, built
from benchmarks.peers.queries import QUERIES, PeerQuery
from benchmarks.peers.stream import Schedule, Stream, checksum
from benchmarks.peers.streams import StreamSize, stream_folder

RESULTS = Path(__file__).resolve().parent.parent / "results"
SIZES = (1, 100, 1_000, 10_000)
#: The most changes measured for each size of transaction; enough for p99.9 of the small ones.
MOST = {1: 20_000, 100: 200_000, 1_000: 600_000, 10_000: 2_000_000}
IN_PYTHON = ("freshet", "duckdb", "polars")
PEERS = (*IN_PYTHON, *CRATES)


@dataclass(frozen=True)
class PeersSize:
    name: str
    streams: StreamSize
    sizes: tuple[int, ...]
    seconds: float
    limit: float
    repeats: int


FULL = PeersSize("full", StreamSize(0.1, None), SIZES, 10, 300, 3)
QUICK = PeersSize("quick", StreamSize(0.01, 20_000), (1, 100, 1_000), 0.5, 60, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    size = QUICK if options.quick else FULL
    streams = replace(size.streams, all_columns=options.full_width, scale=options.scale or size.streams.scale)
    size = replace(
        size, streams=streams, repeats=options.repeats or size.repeats, seconds=options.seconds or size.seconds,
        sizes=tuple(options.sizes or size.sizes), limit=options.limit or size.limit,
    )  # fmt: skip
    started = {name: starter for name in options.peers if (starter := _starter(name)) is not None}
    outcomes: dict[tuple[str, int], list[dict[str, Outcome]]] = {}
    try:
        for repeat in range(size.repeats):
            for name in options.only:
                for changes in size.sizes:
                    cell = _cell(name, QUERIES[name], changes, size, started, repeat)
                    outcomes.setdefault((name, changes), []).append(cell)
    finally:
        if outcomes:
            _show(outcomes, size, options.out)  # also of a run that was interrupted
    return 0


def _show(outcomes: dict[tuple[str, int], list[dict[str, Outcome]]], size: PeersSize, out: Path) -> None:
    results = [
        figure(name, QUERIES[name].title, {n: runs for (q, n), runs in outcomes.items() if q == name})
        for name in dict.fromkeys(name for name, _ in outcomes)
    ]
    for result in results:
        print(f"{result.title}\n\n{written_table(result)}\n", flush=True)
    experiment = "peers-full-width" if size.streams.all_columns else "peers"
    write(experiment, [summary(experiment, results), *results], out, _conditions(size, outcomes))


Starter = Callable[[list[str]], "list[str]"]


def _starter(peer: str) -> Starter | None:
    """How a peer's process is started, or None if it cannot be."""
    if peer in IN_PYTHON:
        return lambda words: [sys.executable, "-m", "benchmarks.peers.child", "--peer", peer, *words]
    program = built(peer)
    return None if program is None else lambda words: [str(program), *words]


def _cell(
    name: str, query: PeerQuery, changes: int, size: PeersSize, started: dict[str, Starter], repeat: int
) -> dict[str, Outcome]:
    """One query and size of transaction, by all peers, each time in another order."""
    folder, fill, total = stream_folder(name, query, size.streams)
    rounds = max(1, min(20, (total - fill) // (3 * changes)))
    schedule = Schedule(
        changes, min(10_000, fill), fill, total, rounds, MOST.get(changes, total), size.seconds, size.limit
    )
    peers = list(started)
    turn = repeat % len(peers)
    outcomes = {}
    for peer in peers[turn:] + peers[:turn]:
        print(f"{name}, {changes:,} a transaction: {peer}", file=sys.stderr, flush=True)
        outcomes[peer] = _run(started[peer], name, folder, schedule)
    _check(query, folder, total, outcomes)
    return {peer: outcomes[peer] for peer in peers}


def _run(starter: Starter, name: str, folder: Path, schedule: Schedule) -> Outcome:
    with tempfile.TemporaryDirectory() as out:
        result = Path(out) / "result.json"
        words = ["--query", name, "--folder", str(folder), "--out", str(result), *schedule.words()]
        try:
            done = subprocess.run(
                starter(words), timeout=schedule.limit, capture_output=True, text=True, check=False,
                env={**os.environ, "POLARS_MAX_THREADS": "1"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return Outcome("did not finish")
        if done.returncode == 3:
            return Outcome("cannot express")
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            print(f"failed: {' '.join(last)}", file=sys.stderr)
            return Outcome("failed")
        given: dict[str, Any] = json.loads(result.read_text())
    return Outcome("" if given["position"] == schedule.total else "did not finish", given)


def _check(query: PeerQuery, folder: Path, total: int, outcomes: dict[str, Outcome]) -> None:
    """Every final answer is DuckDB's over the rows that are left."""
    expected = expected_answer(query, folder, total)
    for peer, outcome in outcomes.items():
        if not outcome.problem and (outcome.given["rows"], outcome.given["check"]) != expected:
            raise AssertionError(f"{peer}: the answer to {query.title} is not DuckDB's")


_expected: dict[tuple[str, Path], tuple[int, int]] = {}


def expected_answer(query: PeerQuery, folder: Path, total: int) -> tuple[int, int]:
    key = (query.sql, folder)
    if key not in _expected:
        with duckdb.connect() as connection:
            for name, rows in Stream(folder, query.tables).surviving(total).items():
                connection.register(name, rows)
            answer: pa.Table = connection.execute(query.sql).to_arrow_table()
        _expected[key] = (answer.num_rows, checksum(answer, query.scales))
    return _expected[key]


def _conditions(size: PeersSize, outcomes: dict[tuple[str, int], list[dict[str, Outcome]]]) -> str:
    versions = {
        outcome.given["version"]
        for runs in outcomes.values()
        for run in runs
        for outcome in run.values()
        if outcome.given
    }
    streams = size.streams
    columns = "all columns" if streams.all_columns else "columns that the query reads, and keys"
    graph = "votes of wiki-Vote" if real_folder() else "a generated graph with hubs"
    machine = f"Python {platform.python_version()}, {os.cpu_count()} cores of {platform.machine()}"
    return (
        f"`make bench-peers`: TPC-H at scale factor {streams.scale:g}, {columns}; {graph}. A sliding window of a "
        f"fifth, first in, first out. {'; '.join(sorted(versions))}. {machine}, one thread for each peer. Each was "
        f"measured for at most {size.seconds:g} seconds, in parts spread over the stream, {size.repeats} times; the "
        "table has the median, and the least and greatest value. Latencies are processor time, so a busy machine "
        f"matters less. Final answers equal DuckDB's. `did not finish`: more than {size.limit:g} seconds. `MB`: "
        "resident memory at the end, without the stream; programs in Rust may hold state in memory that reading the "
        "stream has freed, and then need more than this says."
    )


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench-peers", description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", choices=QUERIES, default=list(QUERIES), help="these queries (default: all)"
    )
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS), help="these peers (default: all)")
    parser.add_argument("--sizes", nargs="+", type=int, help="changes a transaction (default: 1, 100, 1,000, 10,000)")
    parser.add_argument("--quick", action="store_true", help="smaller data and one repetition: some minutes")
    parser.add_argument("--scale", type=float, help="TPC-H's scale factor")
    parser.add_argument("--full-width", action="store_true", help="TPC-H's tables with all columns")
    parser.add_argument("--repeats", type=int, help="runs of each peer, of which the median counts")
    parser.add_argument("--seconds", type=float, help="how long each peer is measured, at most")
    parser.add_argument("--limit", type=float, help="seconds after which a peer has not finished")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the results")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
