"""The file systems that Spark writes to: a local folder, or any that Hadoop supports."""

from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from skipmq.analytics.errors import LakeError

_RECURSIVE = True
# Listings of a folder in which other writers are at work.
_LISTINGS = 10


def qualified(spark: SparkSession, path: str) -> str:
    """Return the fully qualified URL of a path that Spark accepts.

    A client of Spark Connect has no file systems: there a path without a scheme is a local one.
    """
    if not hasattr(spark, "_jvm"):
        return path if "://" in path else f"file://{Path(path).absolute()}"
    given = _path(spark, path)
    url = str(given.getFileSystem(_configuration(spark)).makeQualified(given).toString())
    return url.replace("file:/", "file:///", 1) if not url.startswith("file://") else url


def check_shared(spark: SparkSession, url: str) -> None:
    """Raise LakeError if an executor cannot access a local folder of the driver.

    A local folder works on a cluster only if it is mounted on all machines.
    """
    if not url.startswith("file:") or str(spark.sparkContext.master).startswith("local"):
        return
    mark = f"{url}/seen-{token_hex(8)}"
    files = _path(spark, mark).getFileSystem(_configuration(spark))
    stream = files.create(_path(spark, mark))
    # Spark ignores empty files.
    stream.write(bytearray(b"seen"))
    stream.close()
    try:
        seen = spark.read.option("ignoreMissingFiles", "true").text(mark).count()
    finally:
        files.delete(_path(spark, mark), _RECURSIVE)
    if not seen:
        raise LakeError(
            f"Spark's executors cannot access {url} of this machine: use a location that all"
            " machines of the cluster can access, such as hdfs://host/path"
        )


def remove_unfinished(spark: SparkSession, url: str, prefix: str, hours: int) -> None:
    """Remove a Delta table's folders with a prefix and this age whose job did not finish.

    Folders of finished jobs may have files that readers of older versions need. The age is relative
    to the last commit, because it must be by the clock of the file system.
    """
    files = _path(spark, url).getFileSystem(_configuration(spark))
    log = files.listStatus(_path(spark, f"{url}/_delta_log"))
    oldest = max(status.getModificationTime() for status in log) - hours * 3_600_000
    for folder in files.globStatus(_path(spark, f"{url}/{prefix}*")):
        if not files.exists(_path(spark, f"{folder.getPath()}/_temporary")):
            continue
        times = [each.getModificationTime() for each in _listed(files, folder.getPath())]
        # Folders in an object store have no modification time.
        if not hours or max(times, default=folder.getModificationTime()) < oldest:
            files.delete(folder.getPath(), _RECURSIVE)


def remove_uncommitted(
    spark: SparkSession, url: str, committed: Iterable[str], version: int
) -> None:
    """Remove the files of a Delta table older than a version, unless their paths are `committed`.

    Their age is by the clock of the file system.
    """
    files = _path(spark, url).getFileSystem(_configuration(spark))
    log = _path(spark, f"{url}/_delta_log").toString()
    commit = files.getFileStatus(_path(spark, f"{log}/{version:020d}.json"))
    kept = {_path(spark, f"{url}/{path}").toString() for path in committed}
    for status in _listed(files, _path(spark, url)):
        path = status.getPath().toString()
        is_old = status.getModificationTime() < commit.getModificationTime()
        if is_old and path not in kept and not path.startswith(f"{log}/"):
            files.delete(status.getPath(), _RECURSIVE)


def _listed(files: Any, path: Any) -> list[Any]:
    """Return the files below a folder; none if it is gone, as another writer may remove it."""
    for remaining in reversed(range(_LISTINGS)):
        found = []
        try:
            each = files.listFiles(path, _RECURSIVE)
            while each.hasNext():
                found.append(each.next())
        except Py4JJavaError:
            # Hadoop fails at a file that is removed or renamed meanwhile.
            if not files.exists(path):
                return []
            if not remaining:
                raise
        else:
            return found
    return []


def make(spark: SparkSession, url: str) -> None:
    """Create a folder and its parents."""
    _path(spark, url).getFileSystem(_configuration(spark)).mkdirs(_path(spark, url))


def remove(spark: SparkSession, url: str) -> None:
    """Remove a folder and its contents, if it exists."""
    _path(spark, url).getFileSystem(_configuration(spark)).delete(_path(spark, url), _RECURSIVE)


def _path(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's only access to Hadoop's file systems.
    return jvm.org.apache.hadoop.fs.Path(path)


def _configuration(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession  # noqa: SLF001 - as above.
    return session.sessionState().newHadoopConf()
