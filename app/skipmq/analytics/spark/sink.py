"""A streaming query that writes settled messages to a folder of Parquet files."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skipmq.analytics.lake import storage
from skipmq.analytics.spark.spark_format import SkipMQ

CHECKPOINT = "_checkpoint"


def start(
    spark: SparkSession,
    options: dict[str, str],
    output: str,
    *,
    every: float | None,
) -> StreamingQuery:
    """Start writing settled messages to `output`, from its checkpoint on.

    `options` are those of the source. Batches start every `every` seconds; with None, the query
    ends when it has written everything that was settled at its start. Read the folder with
    spark.read.parquet(output), which ignores files of unfinished batches. Raises LakeError if the
    executors cannot access the folder.
    """
    place = storage.qualified(spark, output)
    storage.make(spark, place)
    storage.check_shared(spark, place)
    spark.dataSource.register(SkipMQ)
    writer = (
        spark.readStream.format("skipmq")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{output}/{CHECKPOINT}")
        .option("compression", "zstd")
    )
    if every is None:
        return writer.trigger(availableNow=True).start(output)
    return writer.trigger(processingTime=f"{every} seconds").start(output)


def watch(query: StreamingQuery, callback: Callable[[int, int], None]) -> None:
    """Wait until a query ends; call `callback` with the ID and row count of each non-empty batch.

    Raises pyspark.errors.StreamingQueryException if the query fails.
    """
    last = -1
    while True:
        ended = query.awaitTermination(1)
        for progress in query.recentProgress:
            batch: dict[str, Any] = dict(progress)
            if batch["batchId"] > last and batch["numInputRows"]:
                last = batch["batchId"]
                callback(last, batch["numInputRows"])
        if ended:
            return
