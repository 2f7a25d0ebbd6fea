"""One peer over one stream, in a process of its own: started by the driver, with the options that Rust's programs take.

python -m benchmarks.peers.child --peer duckdb --query q3 --folder DIR --out FILE --size 100 ...
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers.in_process import PEERS
from benchmarks.peers.queries import QUERIES
from benchmarks.peers.stream import Schedule, Stream, measure, save


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--query", choices=QUERIES, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    Schedule.arguments(parser)
    options = parser.parse_args()
    query = QUERIES[options.query]
    peer = PEERS[options.peer](query, options.folder.name.endswith("-full"))
    save(measure(peer, lambda: Stream(options.folder, query.tables), Schedule.of(options), query.scales), options.out)


if __name__ == "__main__":
    main()
