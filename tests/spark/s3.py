"""A stand-in for S3 on loopback, and the jars with which Spark reads and writes s3a://."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.spark.jars import JARS, jar, jars

#: What Spark 4.3's Hadoop is published with.
FILES = "org.apache.hadoop:hadoop-aws:3.5.0"
CLIENT = "software.amazon.awssdk:s3-transfer-manager:2.35.4"
STREAMS = "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1"

#: Its own server answers requests that expect "100 Continue" twice, which the client takes for the answer.
SERVER = ("moto[server]==5.2.5", "gunicorn==27.0.1")
APP = """
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
app = DomainDispatcherApplication(create_backend_app)
"""
BUCKET = "box"


def client_jars() -> list[Path] | None:
    single, folder = [jar(FILES), jar(STREAMS)], jars(CLIENT)
    if folder is None or None in single:
        return None
    return [*(path for path in single if path is not None), *folder.glob("*.jar")]


def settings_of(address: str) -> dict[str, str]:
    """Spark's settings for the server."""
    given = {
        "endpoint": address, "access.key": "freshet", "secret.key": "freshet", "path.style.access": "true",
        "connection.ssl.enabled": "false", "endpoint.region": "us-east-1",
    }  # fmt: skip
    return {f"spark.hadoop.fs.s3a.{name}": value for name, value in given.items()}


def _installed() -> Path | None:
    """The server's programs, fetched once; None if they cannot be."""
    folder = JARS.parent / "s3"
    if not folder.exists():
        draft = folder.with_name("s3.new")
        shutil.rmtree(draft, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(draft)], capture_output=True, check=False, timeout=120)
        install = [str(draft / "bin" / "python"), "-m", "pip", "install", "-q", *SERVER]
        if subprocess.run(install, capture_output=True, check=False, timeout=300).returncode:
            return None
        draft.rename(folder)  # a folder that is there is whole
    return folder / "bin" / "python"


@contextmanager
def server() -> Iterator[str | None]:
    """An empty bucket; yields the server's address, or None if it cannot be had."""
    python = _installed()
    if python is None:
        yield None
        return
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = Path(tempfile.mkdtemp(prefix="freshet-s3-"))
    (folder / "app.py").write_text(APP)
    command = [str(python), "-m", "gunicorn", "--threads", "8", "-b", f"127.0.0.1:{port}", "app:app"]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, "HOME": str(folder)}, stdout=log, stderr=log)
    try:
        address = f"http://127.0.0.1:{port}"
        _answers(f"{address}/{BUCKET}", process, folder / "log")
        yield address
    finally:
        process.terminate()
        process.wait(60)
        shutil.rmtree(folder, ignore_errors=True)


def _answers(bucket: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(300):
        assert process.poll() is None, log.read_text()[-2000:]
        try:
            urllib.request.urlopen(urllib.request.Request(bucket, method="PUT"), timeout=10).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("the server does not come up")
