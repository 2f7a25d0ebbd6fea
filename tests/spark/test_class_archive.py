"""The archive of Java classes: Spark loads its classes from it, and from its jars where there is none that fits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from freshet.cli import main
from freshet.spark.class_archive import archive, archive_flags, java
from freshet.spark.session import chosen_settings
from freshet.state.kernel_cache import cache_folder, compile_kernels
from tests.spark.conftest import ROOT

FLAGS = "spark.driver.extraJavaOptions"
CONTEXT = "org.apache.spark.SparkContext source:"
STARTED = """
import sys
from pathlib import Path
from freshet.job.session import start_spark
spark = start_spark("local[1]", 1, Path(sys.argv[1]), {"spark.driver.extraJavaOptions": "-Xlog:class+load:file=" + sys.argv[2]})
assert spark.range(3).count() == 3
spark.stop()
"""  # noqa: E501


@pytest.fixture(autouse=True)
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("FRESHET_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    compile_kernels()
    (tmp_path / "cache" / cache_folder().name).symlink_to(cache_folder())
    if java() is None:
        pytest.skip("no Java on the path")
    return tmp_path / "cache"


def test_its_flags_only_where_it_can_be_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    place = archive()
    assert place is not None and place.parent == tmp_path / "cache"
    assert archive_flags("") == ""  # there is none yet
    place.touch()
    assert archive_flags("").startswith(f"-XX:SharedArchiveFile={place} ")
    assert archive_flags("-Da=b") == archive_flags("")
    assert archive_flags("-Xshare:off") == archive_flags("-XX:SharedArchiveFile=mine") == ""
    assert str(place) in chosen_settings("local[2]", 1, {FLAGS: "-Da=b"})[FLAGS]
    assert str(place) not in chosen_settings("spark://host:7077", 1, {FLAGS: "-Da=b"})[FLAGS]
    (tmp_path / "conf").mkdir()
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    assert archive() == place
    (tmp_path / "conf" / "log4j2.properties").touch()
    assert archive() is None and archive_flags("") == ""


def test_without_java_there_is_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert archive() is None
    assert main(["doctor", "--prepare"]) == 1
    assert "there is no Java" in capsys.readouterr().out


def _source(tmp_path: Path, name: str) -> str:
    """Where Java took the class of Spark's context from."""
    log, environment = tmp_path / f"{name}.classes", {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", STARTED, str(tmp_path / f"{name}.log"), str(log)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    (line,) = (line for line in log.read_text().splitlines() if CONTEXT in line)
    return line.partition(CONTEXT)[2].strip()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_spark_takes_its_classes_from_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _source(tmp_path, "before").startswith(("file:", "jar:"))
    stale = tmp_path / "cache" / "classes-0.jsa"
    stale.touch()
    main(["doctor", "--prepare"])
    place = archive()
    assert place is not None and str(place) in capsys.readouterr().out
    assert sorted(tmp_path.glob("cache/classes-*")) == [place]
    assert _source(tmp_path, "after").startswith("shared objects file")
    place.chmod(0o600)
    place.write_bytes(b"not an archive")  # Java reads the jars then
    assert _source(tmp_path, "damaged").startswith(("file:", "jar:"))
