"""A Kafka broker of the test's own, and the jars with which Spark speaks to it."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.spark.jars import jar, jars

BROKER, TOOLS = "org.apache.kafka:kafka_2.13:4.1.1", "org.apache.kafka:kafka-tools:4.1.1"
#: The newest that are published together; Spark 4.3 runs with them.
CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)


def connector_jars() -> list[Path] | None:
    jars = [f for f in map(jar, CONNECTOR) if f is not None]
    return jars if len(jars) == len(CONNECTOR) else None


def console(address: str, program: str, *arguments: str, given: str = "") -> str:
    """The output of one of Kafka's own programs."""
    java = [*_java(), "-cp", f"{jars(BROKER)}/*:{jar(TOOLS)}", f"org.apache.kafka.tools.{program}"]
    done = subprocess.run(
        [*java, "--bootstrap-server", address, *arguments], input=given, capture_output=True, text=True, timeout=120,
        check=True,
    )  # fmt: skip
    return done.stdout


def _java() -> list[str]:
    home = os.environ.get("JAVA_HOME")
    return [str(Path(home) / "bin" / "java") if home else "java", "-Xmx256m"]


def _port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def broker() -> Iterator[str | None]:
    """A broker on loopback with its data in a new folder; yields its address, or None if its jars are not available."""
    programs = jars(BROKER)
    if programs is None or jar(TOOLS) is None:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="freshet-kafka-"))
    address, controller = f"127.0.0.1:{_port()}", f"127.0.0.1:{_port()}"
    settings = {
        "process.roles": "broker,controller", "node.id": 1, "controller.quorum.voters": f"1@{controller}",
        "listeners": f"PLAINTEXT://{address},CONTROLLER://{controller}", "advertised.listeners": f"PLAINTEXT://{address}",
        "controller.listener.names": "CONTROLLER", "log.dirs": folder / "data", "num.partitions": 2,
        "offsets.topic.replication.factor": 1, "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }  # fmt: skip
    given = folder / "server.properties"
    given.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    java = [*_java(), "-cp", f"{programs}/*"]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", f"x{cluster[1:]}", "-c", str(given)]
    try:
        subprocess.run(formatting, capture_output=True, timeout=60, check=True)
        with (folder / "log").open("w") as log:
            process = subprocess.Popen([*java, "kafka.Kafka", str(given)], stdout=log, stderr=log)
        try:
            _answers(address, process, folder / "log")
            yield address
        finally:
            process.terminate()
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _answers(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, port = address.split(":")
    for _ in range(600):
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                return
        assert process.poll() is None, log.read_text()[-2000:]
        time.sleep(0.1)
    raise AssertionError("the broker does not come up")
