"""Where a lake lies: a folder of this machine, or any file system that Hadoop knows.

Paths are relative to the root of the lake, with slashes. What a method has done is there after a
crash, as far as the file system can promise it.
"""

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

LOCK = "_lock"
# Of Hadoop's methods: with all that is below; over what is there.
_ALL = _OVER = True
# How HDFS says that another has the lease of a file, or has only just lost it.
_LEASED = ("AlreadyBeingCreatedException", "RecoveryInProgressException", "FileAlreadyExists")


class Busy(Exception):  # noqa: N818 - it is no error of the lake.
    """Somebody else writes to the lake."""


class Storage(Protocol):
    """What a lake needs of a file system; `root` is how Spark names it."""

    root: str

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order; none when it is not there."""

    def files(self, folder: str) -> list[tuple[str, int]]:
        """Return the Parquet files below a folder: paths in it, and sizes in bytes."""

    def read(self, path: str) -> str:
        """Return the text of a file; raise FileNotFoundError when it is not there."""

    def create(self, path: str, text: str) -> None:
        """Make a file, whole or not at all; raise FileExistsError when there is one."""

    def move(self, source: str, target: str) -> None:
        """Move a file; does nothing when that has been done before."""

    def delete(self, path: str) -> None:
        """Remove a file or a folder with all in it, if it is there."""

    def sync(self, paths: Sequence[str]) -> None:
        """Have the files on disk, where they were moved to."""

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Be the only writer during the block, as far as can be known; raise Busy."""


def opened(spark: SparkSession, path: str) -> Storage:
    """Return the storage at a path as Spark understands it."""
    found = _hadoop_path(spark, path)
    qualified = found.getFileSystem(_configuration(spark)).makeQualified(found).toString()
    if urlsplit(qualified).scheme == "file":
        return FolderStorage(Path(unquote(urlsplit(qualified).path)))
    return HadoopStorage(spark, qualified)


class FolderStorage:
    """A folder of this machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.root = folder.as_uri()

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order."""
        with contextlib.suppress(FileNotFoundError):
            return sorted(entry.name for entry in (self._folder / folder).iterdir())
        return []

    def files(self, folder: str) -> list[tuple[str, int]]:
        """Return the Parquet files below a folder."""
        top = self._folder / folder
        return sorted(
            (str(file.relative_to(top)), file.stat().st_size)
            for file in top.rglob("*.parquet")
            if not file.name.startswith(("_", "."))
        )

    def read(self, path: str) -> str:
        """Return the text of a file."""
        return (self._folder / path).read_text(encoding="utf-8")

    def create(self, path: str, text: str) -> None:
        """Make a file under another name and link it: the link is there or not."""
        target = self._folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        half = target.with_name(f".{target.name}.{os.getpid()}")
        with half.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(half, target)
        finally:
            half.unlink()
        _sync(target.parent)

    def move(self, source: str, target: str) -> None:
        """Move a file."""
        before, after = self._folder / source, self._folder / target
        after.parent.mkdir(parents=True, exist_ok=True)
        try:
            before.replace(after)
        except FileNotFoundError:
            if not after.exists():
                raise

    def delete(self, path: str) -> None:
        """Remove a file or a folder."""
        target = self._folder / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def sync(self, paths: Sequence[str]) -> None:
        """Write files and their folders, up to the lake's, to disk."""
        folders = {parent for path in paths for parent in (self._folder / path).parents}
        for each in [*(self._folder / path for path in paths), *folders]:
            if each.is_relative_to(self._folder):
                _sync(each)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold a lock that the kernel lets go of with this process."""
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / LOCK).open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise Busy from error
            yield


class HadoopStorage:
    """A file system of Hadoop's, through the JVM of the driver.

    HDFS has leases and an atomic rename; an object store has neither: there only one may write.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.root = root
        self._spark = spark
        self._fs: Any = _hadoop_path(spark, root).getFileSystem(_configuration(spark))

    def _path(self, path: str) -> Any:
        return _hadoop_path(self._spark, f"{self.root}/{path}")

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, in order."""
        if not self._fs.exists(self._path(folder)):
            return []
        return sorted(str(s.getPath().getName()) for s in self._fs.listStatus(self._path(folder)))

    def files(self, folder: str) -> list[tuple[str, int]]:
        """Return the Parquet files below a folder."""
        if not self._fs.exists(self._path(folder)):
            return []
        top = self._fs.makeQualified(self._path(folder)).toUri()
        found, each = [], self._fs.listFiles(self._path(folder), _ALL)
        while each.hasNext():
            status = each.next()
            name = str(top.relativize(status.getPath().toUri()).getPath())
            if name.endswith(".parquet") and not name.rpartition("/")[2].startswith(("_", ".")):
                found.append((name, int(status.getLen())))
        return sorted(found)

    def read(self, path: str) -> str:
        """Return the text of a file."""
        if not self._fs.exists(self._path(path)):
            raise FileNotFoundError(path)
        stream = self._fs.open(self._path(path))
        try:
            return bytes(stream.readAllBytes()).decode()
        finally:
            stream.close()

    def create(self, path: str, text: str) -> None:
        """Make a file under another name and rename it."""
        # Drivers in containers all have the same number.
        half = self._path(f"{path}.{token_hex(8)}.half")
        stream = self._fs.create(half, _OVER)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()
        if self._fs.exists(self._path(path)) or not self._fs.rename(half, self._path(path)):
            self._fs.delete(half, _ALL)
            raise FileExistsError(path)

    def move(self, source: str, target: str) -> None:
        """Move a file."""
        # In this order: what another has moved between the two is no copy that was begun.
        begun = self._fs.exists(self._path(target))
        if self._fs.exists(self._path(source)):
            self._fs.mkdirs(self._path(target).getParent())
            if begun:
                self._fs.delete(self._path(target), _ALL)
            self._fs.rename(self._path(source), self._path(target))
        if not self._fs.exists(self._path(target)):
            raise FileNotFoundError(source)

    def delete(self, path: str) -> None:
        """Remove a file or a folder."""
        self._fs.delete(self._path(path), _ALL)

    def sync(self, paths: Sequence[str]) -> None:
        """Do nothing: such a file system has written what was closed."""

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lease of a file on HDFS, which ends a minute after a writer was killed.

        Elsewhere do nothing: `create` refuses the second writer.
        """
        if urlsplit(self.root).scheme != "hdfs":
            yield
            return
        try:
            self._fs.createNewFile(self._path(LOCK))
            held = self._fs.append(self._path(LOCK))
        except Py4JJavaError as error:
            if any(reason in str(error.java_exception) for reason in _LEASED):
                raise Busy from error
            raise
        with contextlib.closing(held):
            yield


def _hadoop_path(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's one way to Hadoop's file systems.
    return jvm.org.apache.hadoop.fs.Path(path)


def _configuration(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession  # noqa: SLF001 - as above.
    return session.sessionState().newHadoopConf()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
