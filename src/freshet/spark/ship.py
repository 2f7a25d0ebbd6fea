"""Sends Freshet to workers whose Python lacks it, with its compiled kernels.

Law: Spark unpacks an archive into a folder of the name given for it, next to the files of the job, and that place is on
the path of every Python worker. So the archive `freshet` is the package `freshet`. What it needs besides is the folder
`freshet_dependencies` in the same place, which the package puts last on the path (`freshet/__init__.py`): a package
that a machine has itself comes first.

The kernels are those of this processor. A worker with another one finds none that fit, and compiles those it calls.
"""

from __future__ import annotations

import atexit
import importlib.metadata
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

import freshet
from freshet.errors import PlanError
from freshet.spark.connect import is_remote
from freshet.state.kernel_cache import cache_folder, compile_kernels

logger = logging.getLogger("freshet.spark")

#: Those that Spark's Python functions do not need themselves, as they need numpy, pandas, pyarrow and protobuf.
DEPENDENCIES = ("llvmlite", "numba", "sqlglot")
_sent: set[str] = set()  # the applications that have it


def ship(spark: SparkSession, *, dependencies: bool = True) -> list[str]:
    """Send Freshet to the workers of a session, whose Python then need not have it installed.

    Parameters
    ----------
    spark
        The session. Its workers must run the same version of Python as this process, with what Spark's own Python
        functions need: numpy, pandas, pyarrow and protobuf.
    dependencies
        Whether numba, llvmlite and sqlglot are sent too, for machines that lack them (about 70 MB). Otherwise they must
        be installed, in the versions that this process has, for the compiled kernels to fit.

    Returns
    -------
    list of str
        The archives that were sent; none with a ``local`` master, where workers find Freshet anyway, and none if they
        were sent before.

    Raises
    ------
    PlanError
        The session is one of Spark Connect, or a dependency is not installed here.

    Notes
    -----
    Call it once, before `maintain`. On machines with the processor of this one nothing is compiled.

    Examples
    --------
    >>> ship(spark)
    []
    """
    if is_remote(spark):
        raise PlanError("ship() needs a session of its own; install Freshet where the workers of this server run")
    context = spark.sparkContext
    local = (context.master or "").partition("[")[0] == "local"
    if local or context.applicationId in _sent:
        return []
    folder = Path(tempfile.mkdtemp(prefix="freshet-sent-"))  # Spark serves the archives from here
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    compile_kernels()
    sent = [_packed(folder / "freshet.zip", _package())]
    if dependencies:
        sent.append(_packed(folder / "freshet_dependencies.zip", _dependencies()))
    for path in sent:
        context.addArchive(f"{path}#{path.stem}")
        logger.info("freshet: sent to the workers: %s, %.1f MB", path.name, path.stat().st_size / 1e6)
    _sent.add(context.applicationId)
    return [str(path) for path in sent]


def _package() -> Iterator[tuple[Path, str]]:
    """The files of this package, and its kernels where it looks for those that came with it."""
    home = Path(freshet.__file__).parent
    for path in sorted(home.rglob("*")):
        place = path.relative_to(home)
        if path.is_file() and not {"__pycache__", "compiled"} & {*place.parts}:
            yield path, str(place)
    kernels = cache_folder()
    for path in sorted(kernels.glob("*.nb*")):
        yield path, f"compiled/{kernels.name}/{path.name}"


def _dependencies() -> Iterator[tuple[Path, str]]:
    for name in DEPENDENCIES:
        try:
            files = importlib.metadata.distribution(name).files or []
        except importlib.metadata.PackageNotFoundError:
            raise PlanError(f"{name} is not installed as a package here; give dependencies=False") from None
        for file in files:
            path = Path(str(file.locate()))
            if ".." not in file.parts and "tests" not in file.parts and path.suffix != ".pyc" and path.is_file():
                yield path, str(file)


def _packed(archive: Path, files: Iterator[tuple[Path, str]]) -> Path:
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out:
        for path, name in files:
            out.write(path, name)
    return archive
