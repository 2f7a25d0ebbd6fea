"""Jars the tests need in addition to Spark's own: fetched once by Spark's resolver, kept in .cache."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from pathlib import Path

import pyspark

JARS = Path(__file__).resolve().parents[2] / ".cache" / "jars"


def jar(coordinates: str) -> Path | None:
    """One jar, without its dependencies; None if it is not available."""
    _, artifact, version = coordinates.split(":")
    path = JARS / f"{artifact}-{version}.jar"
    if not path.exists():
        _fetch(coordinates, JARS, "-notransitive", "-types", "jar")
    return path if path.exists() else None


def jars(coordinates: str) -> Path | None:
    """A folder with a jar and all that it needs to run; None if it cannot be had."""
    _, artifact, version = coordinates.split(":")
    folder = JARS / f"{artifact}-{version}"
    if not (folder / f"{artifact}-{version}.jar").exists():
        draft = JARS / f"{artifact}-{version}.new"
        shutil.rmtree(draft, ignore_errors=True)
        _fetch(coordinates, draft, "-confs", "runtime", "master", "-types", "jar", "bundle")
        if not (draft / f"{artifact}-{version}.jar").exists():
            return None
        draft.rename(folder)  # a folder that is there is whole
    return folder


def _fetch(coordinates: str, folder: Path, *how: str) -> None:
    ivy = glob.glob(os.path.join(os.path.dirname(pyspark.__file__), "jars", "ivy-*.jar"))
    java = os.path.join(os.environ["JAVA_HOME"], "bin", "java") if "JAVA_HOME" in os.environ else "java"
    if not ivy:
        return
    command = [java, "-jar", ivy[0], "-cache", str(JARS / "ivy"), "-dependency", *coordinates.split(":"), *how]
    pattern = str(folder / "[artifact]-[revision].[ext]")
    subprocess.run([*command, "-retrieve", pattern], capture_output=True, timeout=300, check=False)
