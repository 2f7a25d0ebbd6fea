"""An archive of the Java classes that a stream loads, so that Spark starts with them instead of reading its jars.

Law: the archive changes when classes are read, not what they are. Java compares it with its own version and with the
size and time of every jar, and reads the jars if anything differs; then the archive is as good as none. It is made on
request alone, because it is large, by a stream in a process of its own (`archived_stream.py`), at whose end Java
writes it.

Its name is a digest of Java and of Spark's jars, so that an archive which Java would refuse is not offered to it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from freshet.errors import StateError

_OPTION, _QUIET = "-XX:SharedArchiveFile=", "-Xlog:cds*=off"  # Java says on every start why it does not take it


def java() -> Path | None:
    """The program that Spark would run."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.join(home, "bin", "java") if home else shutil.which("java")
    return Path(os.path.realpath(found)) if found and os.path.exists(found) else None


def archive() -> Path | None:
    """Where the archive of this Java and this Spark is, or would be; None without Java, or where Spark's settings put
    folders on the class path, of which Java makes no archive."""
    program = java()
    if program is None:
        return None
    import pyspark

    spark = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    settings = Path(os.environ.get("SPARK_CONF_DIR") or spark / "conf")
    if (settings.is_dir() and any(settings.iterdir())) or not (spark / "jars").is_dir():
        return None
    digest = hashlib.sha256()
    for path in (program, *sorted((spark / "jars").iterdir())):
        about = path.stat()
        digest.update(repr((str(path), about.st_size, about.st_mtime_ns)).encode())
    home = os.environ.get("FRESHET_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "freshet"
    )
    return Path(home) / f"classes-{digest.hexdigest()[:16]}.jsa"


def archive_flags(own: str) -> str:
    """The flags with which Java takes the archive, if there is one and the user's flags name none."""
    place = None if "ArchiveFile" in own or "Xshare" in own or "ArchiveClassesAtExit" in own else archive()
    if place is None or not place.exists() or " " in str(place):
        return ""
    return f"{_OPTION}{place} {_QUIET}"


def make_archive() -> Path:
    """Runs a stream and archives the classes it has loaded. StateError if there can be no archive."""
    place = archive()
    if place is None:
        raise StateError("there is no Java, or Spark's own settings put a folder on its class path")
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="classes-", dir=place.parent) as folder:
        draft = Path(folder) / "draft.jsa"
        here = str(Path(__file__).resolve().parents[2])
        paths = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
        command = [sys.executable, "-m", "freshet.spark.archived_stream", folder, str(draft)]
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, check=False)
        if done.returncode or not draft.exists():
            said = [line for line in done.stderr.decode(errors="replace").splitlines() if "[cds]" not in line]
            raise StateError(f"Spark did not run to its end: {said[-1] if said else 'it said nothing'}")
        old = [path for path in place.parent.glob("classes-*.jsa") if path != place]
        os.replace(draft, place)
    for path in old:  # of a Java or a Spark from before
        path.unlink(missing_ok=True)
    return place
