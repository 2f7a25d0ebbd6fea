"""The start-up cost of a new process, in seconds of processor time: with kernels to compile, with compiled kernels
(from the cache or a wheel), and as a worker of Spark.

Run as a module, it measures its own process and prints JSON; `measure` runs it twice over one cache folder.
"""

from __future__ import annotations

import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import partial
from typing import Any

#: The limit for each phase with compiled kernels.
WANTED = {
    "import freshet": 0.3,
    "freshet --help": 0.2,
    "the first answer, from the start of the process": 5.0,
    "attach the kernels that it calls": 0.2,
    "a Spark worker, until its first row": 0.2,
}

_TABLES = (
    "CREATE TABLE customer (id BIGINT PRIMARY KEY, name STRING)",
    "CREATE TABLE orders (id BIGINT PRIMARY KEY, customer BIGINT, total DECIMAL(10,2))",
)
_QUERY = (
    "SELECT name, COUNT(*) AS orders, SUM(total) AS total "
    "FROM customer JOIN orders ON orders.customer = customer.id GROUP BY name"
)


def measure(cached: bool = False) -> list[dict[str, float]]:
    """Seconds of each phase, for an empty cache and then for a filled one. `cached`: with the cache of this user, and
    nothing for an empty one."""
    if cached:
        _compile()
        return [{}, _phases(dict(os.environ), 3) | _of_spark()]
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FRESHET_CACHE": folder}
        empty, filled = _phases(environment, 1), _phases(environment, 3)  # compiling is done once
        return [empty, filled | _of_spark()]


def _phases(environment: dict[str, str], runs: int) -> dict[str, float]:
    here = {
        "import freshet": _spent([sys.executable, "-c", "import freshet"], environment),
        "freshet --help": _spent([sys.executable, "-m", "freshet.cli", "--help"], environment),
    }
    command = [sys.executable, "-m", "benchmarks.startup"]
    done = [subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE) for _ in range(runs)]
    measured = [json.loads(run.stdout) for run in done]
    return here | {phase: min(each[phase] for each in measured) for phase in measured[0]}


def _spent(command: list[str], environment: dict[str, str]) -> float:
    """The minimum of three runs: slower ones have waited for files."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(took)


def _this_process() -> dict[str, float]:
    import freshet

    spent: dict[str, float] = {}
    db = freshet.connect()
    _quickstart(db)
    helped = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent["the first answer, from the start of the process"] = time.process_time() + helped.ru_utime + helped.ru_stime

    from freshet.state.kernel_cache import KERNELS

    called = [kernel for kernel in KERNELS.all if kernel.dispatcher.overloads]
    for kernel in called:
        kernel.dispatcher.overloads.clear()
    start = time.process_time()
    for kernel in called:
        kernel.compile()
    spent["attach the kernels that it calls"] = time.process_time() - start

    from benchmarks import tpch

    db = freshet.connect()

    for statement in tpch.ddl():
        db.execute(statement)
    for name in ("q3", "q5"):
        start = time.process_time()
        db.create_view(name, tpch.QUERIES[name])
        spent[f"register {name}"] = time.process_time() - start
    return spent


def _compile() -> None:
    from freshet.state.kernel_cache import compile_kernels

    compile_kernels()


def _quickstart(db: Any) -> None:
    """The README's example, up to its first answer."""
    for table in _TABLES:
        db.execute(table)
    view = db.create_view("spending", _QUERY)
    db.apply({"customer": [(1, "Ada")], "orders": [(10, 1, "25.00")]})
    assert view.to_arrow().num_rows == 1


def _of_spark() -> dict[str, float]:
    if importlib.util.find_spec("pyspark") is None:
        return {}
    from freshet.spark import session

    _compile()  # as `maintain` does before there are workers
    spark = session("local[1]", shards=1)
    try:
        frame = spark.range(1).repartition(1).mapInArrow(partial(worker, job()), "seconds double, loaded string")
        (row,) = frame.collect()
        assert not row.loaded, f"workers begin without {row.loaded}"
        return {"a Spark worker, until its first row": float(row.seconds)}
    finally:
        spark.stop()


def job() -> Any:
    from freshet.spark.maintain import compile_job

    return compile_job(_QUERY, ";".join(_TABLES), 1, None)


def worker(job: Any, batches: Iterable[Any]) -> Iterator[Any]:
    """The seconds until the first row, and what of Freshet a micro-batch of a view loads after that. The processor
    clock of a forked process begins at zero."""
    import pyarrow as pa

    for _ in batches:
        pass
    seconds, before = time.process_time(), _loaded()

    from benchmarks.local_job import LocalJob

    customer = pa.table({"id": [1], "name": ["Ada"], "_weight": [1]})
    orders = pa.table({"id": [10], "customer": [1], "total": [Decimal("25.00")], "_weight": [1]})
    (answer,) = LocalJob(job).apply({"customer": customer, "orders": orders}).values()
    assert answer.num_rows == 1
    yield pa.RecordBatch.from_pydict({"seconds": [seconds], "loaded": [", ".join(sorted(_loaded() - before))]})


def _loaded() -> set[str]:
    """The modules of Freshet and the kernels that this process has."""
    from freshet.state.kernel_cache import KERNELS

    modules = {name for name in sys.modules if name.partition(".")[0] == "freshet"}
    return modules | {kernel.name for kernel in KERNELS.all if kernel.dispatcher.overloads}


if __name__ == "__main__":
    print(json.dumps(_this_process()))
