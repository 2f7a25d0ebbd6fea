"""The Spark session of a job: the settings that Freshet needs, with Spark's output kept off the terminal."""

from __future__ import annotations

import os
import shlex
import signal
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from freshet.errors import StateError
from freshet.job.secrets import Filled, is_secret
from freshet.spark.session import chosen_settings, start_workers, workers_find_freshet

#: Spark output that a job does not need.
_QUIET = {"spark.ui.enabled": "false", "spark.log.level": "ERROR"}
_SUBMIT = "PYSPARK_SUBMIT_ARGS"


def start_spark(master: str, shards: int, log: Path, settings: Mapping[str, str], packages: str = "") -> SparkSession:
    """`log` receives the output of Spark's process. StateError with that output if Spark does not start."""
    workers_find_freshet()
    builder = SparkSession.builder.master(master).appName("freshet")
    chosen = chosen_settings(master, shards, {**_QUIET, **settings})
    if packages:
        chosen["spark.jars.packages"] = packages
    hidden = {name: value for name, value in chosen.items() if isinstance(value, Filled) or is_secret(name)}
    for name, value in chosen.items():
        if name not in hidden:
            builder = builder.config(name, value)
    try:
        with _unseen(hidden, log.with_suffix(".conf")):
            spark = in_order(builder.getOrCreate, log)
    except Exception as e:
        said = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
        telling = ("rror", "No such file", "not found", "not set")
        why = next((line for line in said if any(t in line for t in telling)), said[-1] if said else str(e))
        raise StateError(f"Spark does not start: {why}; `freshet doctor` says what is missing") from e
    start_workers(spark)
    return spark


@contextmanager
def _unseen(settings: Mapping[str, str], path: Path) -> Iterator[None]:
    """Passes settings to Spark's process in a private file, because its command line is public."""
    if not settings:
        yield
        return
    before = os.environ.get(_SUBMIT)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as file:
        file.writelines(f"{_property(name)}={_property(value)}\n" for name, value in settings.items())
    options = f"--properties-file {shlex.quote(str(path))} --load-spark-defaults"
    os.environ[_SUBMIT] = f"{options} {before or 'pyspark-shell'}"
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        del os.environ[_SUBMIT]
        if before is not None:
            os.environ[_SUBMIT] = before


def _property(text: str) -> str:
    """Escapes a text for a Java properties file."""
    codes = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    return "".join(chr(c) if chr(c).isascii() and chr(c).isalnum() else f"\\u{c:04x}" for c in codes)


def in_order(start: Callable[[], SparkSession], log: Path) -> SparkSession:
    """Starts Spark's process so that this process controls it: its output goes to `log`, and it ignores SIGTERM, as
    PySpark makes it ignore SIGINT. A signal to the whole process group ends this process, which then stops Spark; and
    SIGINT keeps its handler in this process, where PySpark would cancel all jobs."""
    first = log.with_suffix(".sh")  # read by the shell that becomes Spark's process
    before = os.environ.get("BASH_ENV")
    first.write_text("trap '' TERM\n" + (f". {shlex.quote(before)}\n" if before else ""))
    os.environ["BASH_ENV"] = str(first)
    interrupted = signal.getsignal(signal.SIGINT)
    own = {number: os.dup(number) for number in (1, 2)}  # it inherits the file descriptors open when it starts
    with open(log, "ab") as target:
        for number in own:
            os.dup2(target.fileno(), number)
        try:
            return start()
        finally:
            for number, kept in own.items():
                os.dup2(kept, number)
                os.close(kept)
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, interrupted)
            del os.environ["BASH_ENV"]
            if before:
                os.environ["BASH_ENV"] = before
