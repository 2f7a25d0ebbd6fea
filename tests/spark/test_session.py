"""`freshet.spark.session`: settings that suit `maintain`, and workers that have the engine when they start."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from freshet.cli import main
from freshet.spark import advice, session
from freshet.spark.session import NEEDED, chosen_settings, unsuited
from tests.spark.conftest import ROOT

FLAGS = "spark.driver.extraJavaOptions"


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)


def test_what_is_needed_is_set_whatever_is_given() -> None:
    given = {"spark.sql.ansi.enabled": "false", "spark.sql.adaptive.enabled": "true", "spark.x": "y"}
    chosen = chosen_settings("local[2]", 3, given)
    assert NEEDED.items() <= chosen.items()
    assert chosen["spark.sql.adaptive.enabled"] == "true" and chosen["spark.x"] == "y"
    assert chosen["spark.sql.shuffle.partitions"] == "3"


@pytest.fixture
def no_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FRESHET_CACHE", str(tmp_path / "cache"))


@pytest.mark.usefixtures("no_archive")
@pytest.mark.parametrize(
    ("master", "cores", "given", "flags"),
    [
        ("local[*]", 2, "", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"),
        ("local", 4, "-Da=b", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Da=b"),
        ("local[2]", 2, "-XX:+UseG1GC", "-XX:+UseG1GC"),
        ("local[2]", 8, "", None),
        ("spark://host:7077", 2, "", None),
        ("local-cluster[2,1,1024]", 2, "-Da=b", "-Da=b"),
    ],
)
def test_small_machines_get_flags_for_small_machines(
    master: str, cores: int, given: str, flags: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert chosen_settings(master, 1, {FLAGS: given} if given else {}).get(FLAGS) == flags


def test_a_daemon_of_ours_only_where_it_finds_freshet() -> None:
    assert chosen_settings("local[2]", 1, {})["spark.python.daemon.module"] == "freshet.spark.daemon"
    assert "spark.python.daemon.module" not in chosen_settings("spark://host:7077", 1, {})


def test_the_existing_session_is_returned(spark: SparkSession) -> None:
    again = session("local[2]", shards=2)
    assert again.sparkContext is spark.sparkContext
    assert again.conf.get("spark.sql.shuffle.partitions") == "2"


def _loaded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import sys

    for _ in batches:
        pass
    before = "freshet.spark.level" in sys.modules
    from freshet.state.kernel_cache import KERNELS

    yield pa.RecordBatch.from_pydict({"engine": [before], "kernels": [KERNELS.attached()]})


def test_workers_begin_with_the_engine(spark: SparkSession) -> None:
    (row,) = spark.range(1).repartition(1).mapInArrow(_loaded, "engine boolean, kernels bigint").collect()
    assert row.engine and row.kernels > 10


STARTED = """
import time
from contextlib import suppress
import psutil
from freshet.spark import session

def started():
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if "freshet.spark.daemon" in process.cmdline():
                return True
    return False

spark = session("local[1]", shards=1)
while not started():
    time.sleep(0.1)
spark.stop()
print("there it is")
"""


@pytest.mark.long
def test_workers_start_with_the_session() -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", STARTED], env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.stdout == "there it is\n", done.stderr


def test_settings_that_do_not_suit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What a session of ours has suits; else each setting is named with what to set it to, what is needed first."""
    own = chosen_settings("local[2]", 2, {})
    assert list(unsuited(own, "local[2]")) == []
    assert list(unsuited({**own, "spark.sql.streaming.minBatchesToRetain": "2"}, "local[2]")) == []
    assert list(unsuited({k: v for k, v in own.items() if k != "spark.sql.ansi.enabled"}, "local[2]")) == []
    for name in ("spark.sql.session.timeZone", "spark.python.daemon.module", "spark.sql.streaming.minBatchesToRetain"):
        ((needed, sentence),) = unsuited({**own, name: "100"}, "local[2]")
        assert needed == (name in NEEDED)
        assert sentence.startswith(f"{name} is 100; set it to {own[name]}, so that ")
    assert not any("daemon" in sentence for _, sentence in unsuited({}, "spark://host:7077"))
    file = tmp_path / "spark-defaults.conf"
    file.write_text("# mine\n" + "".join(f"{k} {v}\n" for k, v in own.items() if "ansi" not in k))
    assert main(["doctor", "--settings", str(file), "--json"]) == 0
    assert f"{file} suits" in capsys.readouterr().out
    file.write_text("spark.sql.ansi.enabled=false\n")
    assert main(["doctor", "--settings", str(file)]) == 1
    assert "spark.sql.ansi.enabled is false" in capsys.readouterr().out
    assert main(["doctor", "--settings", str(tmp_path / "none")]) == 1


def test_advice_on_a_session(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.ansi.enabled")
    assert not any("ansi" in sentence or "providerClass" in sentence for sentence in advice(spark))
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert advice(spark)[0].startswith("spark.sql.ansi.enabled is false; set it to true")
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
