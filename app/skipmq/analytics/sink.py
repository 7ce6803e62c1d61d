"""Writing what is settled to a folder of Parquet as it is settled, without writing a job."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from skipmq.analytics import storage
from skipmq.analytics.stream import SettledMessages

CHECKPOINT = "_checkpoint"


def start(
    spark: SparkSession,
    options: dict[str, str],
    output: str,
    *,
    every: float | None,
) -> StreamingQuery:
    """Begin to write what is settled to `output`; go on where its checkpoint is.

    `options` are those of the source. With `every` a batch begins so many seconds after the last
    one; without, the query ends when it has all there was at its start. Read the folder with
    spark.read.parquet(output): what a killed query left half done is then passed over. Raises
    LakeError when that is a folder that only this machine has.
    """
    place = storage.qualified(spark, output)
    storage.make(spark, place)
    storage.check_shared(spark, place)
    spark.dataSource.register(SettledMessages)
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
    """Wait until a query ends; call `callback` with each batch that had rows, its number and rows.

    Raises pyspark.errors.StreamingQueryException when it fails.
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
