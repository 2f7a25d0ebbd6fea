"""Files of a copy: whole or not there at all, on the local disk and wherever Hadoop's FileSystem reaches.

Law: `create` makes a file appear with all of its text, once: of two writers of one name, one learns that it lost.
"""

from __future__ import annotations

import io
import os
import shutil
import uuid
from typing import Any, Protocol

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from freshet.spark.connect import is_remote, shared_path


class Folder(Protocol):
    uri: str  # as Spark reads and writes below it

    def names(self, inside: str = "") -> list[str]:
        """The names of what is in the folder; none if there is no such folder."""

    def read(self, path: str) -> str:
        """The text of a file; FileNotFoundError where there is none."""

    def create(self, path: str, text: str, private: bool = False) -> bool:
        """Writes a file that does not exist; False, and nothing written, if it does. `private`: for its owner only."""

    def write(self, path: str, content: pa.Buffer) -> None:
        """Writes a file of a new name, which nothing refers to yet."""

    def open(self, path: str) -> pa.NativeFile:
        """A file to read parts of; FileNotFoundError where there is none."""

    def remove(self, path: str) -> None:
        """Removes a file or a folder with all it holds, if it is there."""


def open_folder(spark: SparkSession, target: str) -> Folder:
    """The folder a path means to Spark: without a scheme, that is a path on Spark's default file system."""
    if is_remote(spark):
        return LocalFolder(shared_path(target))
    jvm: Any = spark._jvm
    session: Any = spark._jsparkSession
    path = jvm.org.apache.hadoop.fs.Path(target)
    files = path.getFileSystem(session.sessionState().newHadoopConf())
    uri = files.makeQualified(path).toUri()
    if uri.getScheme() == "file":
        return LocalFolder(uri.getPath())
    return HadoopFolder(spark, files, uri.toString())


class LocalFolder:
    def __init__(self, path: str) -> None:
        self.path, self.uri = path, "file://" + path

    def names(self, inside: str = "") -> list[str]:
        try:
            return os.listdir(os.path.join(self.path, inside))
        except FileNotFoundError:
            return []

    def read(self, path: str) -> str:
        with open(os.path.join(self.path, path), encoding="utf-8") as file:
            return file.read()

    def create(self, path: str, text: str, private: bool = False) -> bool:
        final = os.path.join(self.path, path)
        os.makedirs(os.path.dirname(final), exist_ok=True)
        draft = _draft(final)
        made = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if private else 0o666)
        with open(made, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, final)  # unlike a rename, a link does not replace an existing file
        except FileExistsError:
            os.remove(draft)
            return False
        except OSError:  # a disk without links
            os.rename(draft, final)
        else:
            os.remove(draft)
        return True

    def write(self, path: str, content: pa.Buffer) -> None:
        final = os.path.join(self.path, path)
        os.makedirs(os.path.dirname(final), exist_ok=True)
        with open(final, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def open(self, path: str) -> pa.NativeFile:
        return pa.OSFile(os.path.join(self.path, path), "rb")

    def remove(self, path: str) -> None:
        full = os.path.join(self.path, path)
        if os.path.isdir(full):
            shutil.rmtree(full)
        elif os.path.exists(full):
            os.remove(full)


class HadoopFolder:
    def __init__(self, spark: SparkSession, files: Any, uri: str) -> None:
        self.jvm: Any = spark._jvm
        self.files, self.uri = files, uri

    def _path(self, inside: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(f"{self.uri}/{inside}" if inside else self.uri)

    def names(self, inside: str = "") -> list[str]:
        path = self._path(inside)
        if not self.files.exists(path):
            return []
        return [status.getPath().getName() for status in self.files.listStatus(path)]

    def read(self, path: str) -> str:
        stream = self._stream(path)
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def _stream(self, path: str) -> Any:
        try:
            return self.files.open(self._path(path))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.io.FileNotFoundException":
                raise FileNotFoundError(path) from error
            raise

    def write(self, path: str, content: pa.Buffer) -> None:
        stream = self.files.create(self._path(path), False)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()

    def open(self, path: str) -> pa.NativeFile:
        size = self.files.getFileStatus(self._path(path)).getLen()
        return pa.PythonFile(_Stream(self._stream(path), size), "r")

    def create(self, path: str, text: str, private: bool = False) -> bool:
        final, draft = self._path(path), self._path(_draft(path))
        if self.files.exists(final):
            return False
        stream = self.files.create(draft, False)
        try:
            if private:  # before anything is in it
                self.files.setPermission(draft, self.jvm.org.apache.hadoop.fs.permission.FsPermission("600"))
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        # HDFS refuses to rename onto a file that exists; object stores copy instead, and there the check above counts.
        if self.files.rename(draft, final):
            return True
        self.files.delete(draft, False)
        return False

    def remove(self, path: str) -> None:
        self.files.delete(self._path(path), True)


class _Stream(io.RawIOBase):
    """A stream of Hadoop as a file of Python."""

    def __init__(self, stream: Any, size: int) -> None:
        self.stream, self.size, self.at = stream, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self.at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self.at, os.SEEK_END: self.size}[whence]
        return self.at

    def tell(self) -> int:
        return self.at

    def read(self, size: int = -1) -> bytes:
        self.stream.seek(self.at)
        found = bytes(self.stream.readNBytes(self.size - self.at if size < 0 else size))
        self.at += len(found)
        return found

    def close(self) -> None:
        if not self.closed:
            self.stream.close()
        super().close()


def _draft(path: str) -> str:
    head, name = os.path.split(path)
    return os.path.join(head, f".{name}.{uuid.uuid4().hex}")
