"""Packages that the sources and sinks of a job need in addition to Spark: which are missing, and how to add them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from freshet.job.file import JobFile
from freshet.job.options import SINKS, SOURCES, Format

#: Settings that add jars whose names cannot be checked.
_JARS = ("spark.jars", "spark.driver.extraClassPath")


def formats(job: JobFile) -> dict[str, Format]:
    """The formats of the job's sources and sinks, by name."""
    used = [(s.place.format, SOURCES) for s in job.sources.values()]
    used += [(s.place.format, SINKS) for s in job.sinks]
    return {name: known[name] for name, known in used}


def settings_needed(job: JobFile) -> dict[str, str]:
    """What Spark must be configured with for the job's sources and sinks."""
    return {name: value for format_ in formats(job).values() for name, value in format_.settings.items()}


def missing(job: JobFile) -> Iterator[str]:
    """What to do about each package that is not there."""
    import pyspark

    version = pyspark.__version__
    for name, format_ in formats(job).items():
        if format_.package is None or any(setting in job.settings for setting in _JARS):
            continue
        wanted = format_.package.format(spark=version, line=".".join(version.split(".")[:2]))
        stem = wanted.split(":")[1].split("_")[0]
        named = (job.settings.get(setting, "") for setting in ("packages", "spark.jars.packages"))
        if not any(stem in text for text in named) and not _installed(stem):
            yield (
                f"{name} needs Spark's package {wanted}; add SET packages = '{wanted}' to the job, "
                "or SET spark.jars = '...' with its files"
            )


def _installed(stem: str) -> bool:
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    defaults = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf") / "spark-defaults.conf"
    return any((home / "jars").glob(f"{stem}*.jar")) or (defaults.is_file() and stem in defaults.read_text())
