"""A watch over Spark's reads of databases, which would wait for a frozen server.

The executors' connections only have a limit that is longer than any statement may take, because a
long statement is as silent as a frozen server. That one opens no session is found out here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from skipmq.analytics.jdbc import Source
from skipmq.database import session

# Seconds between two cancellations: of a job, and of one that begins after it.
_PAUSE = 1.0


@contextmanager
def watched(spark: SparkSession, source: Source) -> Iterator[None]:
    """Cancel the Spark jobs of the block if a database of the source freezes.

    The block must be run by one thread. Raises session.Unavailable then.
    """
    context, tag, ended = spark.sparkContext, f"skipmq-{uuid4()}", Event()
    reasons: list[str] = []
    Thread(target=_watch, args=(context, tag, source, ended, reasons), daemon=True).start()
    context.addJobTag(tag)
    context.setInterruptOnCancel(interruptOnCancel=True)
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if reasons:
            raise session.Unavailable(reasons[0]) from error
        raise
    finally:
        ended.set()
        context.removeJobTag(tag)
        context.setInterruptOnCancel(interruptOnCancel=False)


def _watch(
    context: SparkContext, tag: str, source: Source, ended: Event, reasons: list[str]
) -> None:
    urls = [each.url for each in source.databases]
    while not ended.wait(min(map(session.silence_limit, urls))):
        reasons += [reason for url in urls if (reason := session.frozen(url)) is not None]
        while reasons and not ended.wait(_PAUSE):
            context.cancelJobsWithTag(tag)
