"""Where Spark writes: a folder of this machine, or any file system that Hadoop knows."""

from secrets import token_hex
from typing import Any

from pyspark.sql import SparkSession

from skipmq.analytics.errors import LakeError

# Of Hadoop's methods: with all that is below.
_ALL = True


def qualified(spark: SparkSession, path: str) -> str:
    """Return a path as Spark understands it, as a URL that also others understand."""
    found = _path(spark, path)
    url = str(found.getFileSystem(_configuration(spark)).makeQualified(found).toString())
    return url.replace("file:/", "file:///", 1) if not url.startswith("file://") else url


def is_folder(url: str) -> bool:
    """Tell whether a URL is a folder of this machine."""
    return url.startswith("file:")


def check_shared(spark: SparkSession, url: str) -> None:
    """Raise LakeError when an executor does not find what the driver writes: a folder of its own.

    On a cluster each machine has another folder of that name, unless one is mounted on all.
    """
    if not is_folder(url) or str(spark.sparkContext.master).startswith("local"):
        return
    mark = f"{url}/seen-{token_hex(8)}"
    files = _path(spark, mark).getFileSystem(_configuration(spark))
    stream = files.create(_path(spark, mark))
    # Spark passes over a file without content.
    stream.write(bytearray(b"seen"))
    stream.close()
    try:
        seen = spark.read.option("ignoreMissingFiles", "true").text(mark).count()
    finally:
        files.delete(_path(spark, mark), _ALL)
    if not seen:
        raise LakeError(
            f"the executors of Spark do not find {url} of this machine: name a place that all"
            " machines of the cluster have, such as hdfs://host/path"
        )


def remove_unfinished(spark: SparkSession, url: str, prefix: str, hours: int) -> None:
    """Remove the folders in a Delta table that begin so, are so old, and whose job did not end.

    Of those that did it knows nothing: they may have files that a reader of an older version wants.
    The age is by the file system's clock, which the last commit tells.
    """
    files = _path(spark, url).getFileSystem(_configuration(spark))
    log = files.listStatus(_path(spark, f"{url}/_delta_log"))
    oldest = max(status.getModificationTime() for status in log) - hours * 3_600_000
    for folder in files.globStatus(_path(spark, f"{url}/{prefix}*")):
        if not files.exists(_path(spark, f"{folder.getPath()}/_temporary")):
            continue
        times, each = [], files.listFiles(folder.getPath(), _ALL)
        while each.hasNext():
            times.append(each.next().getModificationTime())
        # A folder of an object store has no time of its own.
        if not hours or max(times, default=folder.getModificationTime()) < oldest:
            files.delete(folder.getPath(), _ALL)


def make(spark: SparkSession, url: str) -> None:
    """Make a folder, and those it is in."""
    _path(spark, url).getFileSystem(_configuration(spark)).mkdirs(_path(spark, url))


def remove(spark: SparkSession, url: str) -> None:
    """Remove a folder with all in it, if it is there."""
    _path(spark, url).getFileSystem(_configuration(spark)).delete(_path(spark, url), _ALL)


def _path(spark: SparkSession, path: str) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001 - PySpark's one way to Hadoop's file systems.
    return jvm.org.apache.hadoop.fs.Path(path)


def _configuration(spark: SparkSession) -> Any:
    session: Any = spark._jsparkSession  # noqa: SLF001 - as above.
    return session.sessionState().newHadoopConf()
