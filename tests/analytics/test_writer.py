"""The sink `skipmq`: each row a message, once, whatever dies."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from support.applications import Applications, applications_of
from support.http import eventually
from support.postgres import Connection
from support.sql import Queue, number
from support.staging import staged

# Of a query, on a machine with other work.
SECONDS = 240


@pytest.fixture
def applications(database: str) -> Iterator[Applications]:
    with applications_of(database) as made:
        yield made


def send(frame: DataFrame, url: str, **options: Any) -> None:
    """Send a frame to the queue `orders` or another."""
    frame.write.format("skipmq").options(url=url, **{"queue": "orders"} | options).mode(
        "append"
    ).save()


def stream(spark: SparkSession, url: str, place: Path) -> None:
    """Send all lines of the files in a folder, a batch for each, from its checkpoint on."""
    lines = spark.readStream.option("maxFilesPerTrigger", 1).text(str(place / "in"))
    query = (
        lines.toDF("body")
        .writeStream.format("skipmq")
        .options(url=url, queue="orders")
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(SECONDS)
    assert not query.isActive


def put(place: Path, name: str, *lines: str) -> None:
    (place / "in").mkdir(exist_ok=True)
    (place / "in" / name).write_text("\n".join(lines))


def bodies(owner: Connection, queue: Queue) -> list[str]:
    rows = owner.execute(
        "select body from skipmq.message where queue_id = %s order by id", (queue.id,)
    )
    return [body for (body,) in rows]


def test_rows_become_messages_with_all_columns_by_the_rights_of_an_application(
    spark: SparkSession, owner: Connection, applications: Applications
) -> None:
    orders = Queue(owner)
    applications.create("shop").grant("shop", send=["orders"])
    frame = spark.range(1200, numPartitions=3).select(
        fn.concat(fn.lit("é "), "id").alias("body"),
        fn.create_map(fn.lit("n"), fn.col("id").cast("string")).alias("attributes"),
        fn.lit("tenant").alias("group_id"),
        fn.when(fn.col("id") == 1199, 60).alias("delay"),
        fn.lit("trace").alias("trace_header"),
    )

    send(frame, applications.url("shop"))

    assert bodies(owner, orders) == [f"é {n}" for n in range(1200)]
    rows = owner.execute(
        "select body, attributes::jsonb #>> '{n,StringValue}', group_id, trace_header, sender,"
        " visible_at > sent_at from skipmq.message where queue_id = %s order by id desc limit 2",
        (orders.id,),
    ).fetchall()
    assert rows == [
        ("é 1199", "1199", "tenant", "trace", "shop", True),
        ("é 1198", "1198", "tenant", "trace", "shop", False),
    ]
    assert staged(owner) == 0
    assert number(owner, "select count(*) from skipmq.staged_batch") == 0


def test_what_was_read_from_the_history_can_be_sent_again(
    spark: SparkSession, database: str, owner: Connection
) -> None:
    orders = Queue(owner, HistoryMode="full")
    owner.execute("select skipmq.send_message('orders', 'tea', %s)", (RED,))
    orders.delete(*orders.receive())
    again = Queue(owner, "again")

    history = spark.read.format("skipmq").option("url", database).load()
    send(history.select("body", "attributes", "trace_header"), database, queue="again")

    assert bodies(owner, again) == ["tea"]
    assert number(owner, "select attributes::jsonb from skipmq.message where body = 'tea'") == {
        "colour": {"DataType": "String", "StringValue": "red"}
    }


RED = '{"colour": {"DataType": "String", "StringValue": "red"}}'


def test_job_with_an_id_is_sent_once_and_one_without_each_time(
    spark: SparkSession, database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    frame = spark.createDataFrame([("a",), ("b",)], "body string").coalesce(1)

    for _ in range(2):
        send(frame, database, id="2026-11")
    once = bodies(owner, orders)
    for _ in range(2):
        send(frame, database)

    assert once == ["a", "b"]
    assert bodies(owner, orders) == ["a", "b"] * 3
    assert staged(owner) == 0


def test_refused_rows_are_named_and_nothing_is_sent(
    spark: SparkSession, database: str, owner: Connection
) -> None:
    orders = Queue(owner)
    frame = spark.range(100, numPartitions=2).select(
        fn.when(fn.col("id") != 63, fn.col("id").cast("string")).alias("body"),
        fn.when(fn.col("id") == 7, 901).alias("delay"),
    )

    with pytest.raises(PySparkException) as caught:
        send(frame, database)

    assert (
        "2 of 100 rows are refused, and nothing was sent: partition 0, row 8: Value 901 for"
        " parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.;"
        " partition 1, row 14: The request must contain the parameter MessageBody."
    ) in str(caught.value)
    assert (bodies(owner, orders), staged(owner)) == ([], 0)


def test_task_that_dies_with_half_of_its_rows_staged_is_repeated_and_sent_once(
    spark: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    orders = Queue(owner)
    died = tmp_path / "died"

    def dying(batches: Iterator[Any]) -> Iterator[Any]:
        for number_, batch in enumerate(batches):
            yield batch
            if number_ == 5 and not died.exists():
                died.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "500")
    try:
        frame = spark.range(5000, numPartitions=1).selectExpr("cast(id as string) as body")
        send(frame.mapInArrow(dying, "body string"), database)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")

    assert died.exists()
    assert bodies(owner, orders) == [str(n) for n in range(5000)]
    # What the attempt that died had staged goes in a day.
    assert number(owner, "select count(distinct part) from skipmq.staged_message") <= 1


def test_stream_sends_each_batch_once_and_goes_on_where_it_stopped(
    spark: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    orders = Queue(owner)
    put(tmp_path, "1", "a", "b")
    stream(spark, database, tmp_path)
    put(tmp_path, "2", "c")
    put(tmp_path, "3", "d")

    stream(spark, database, tmp_path)

    assert sorted(bodies(owner, orders)) == ["a", "b", "c", "d"]
    assert staged(owner) == 0


def test_batch_that_spark_does_not_know_to_be_sent_is_not_sent_again(
    spark: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    orders = Queue(owner)
    put(tmp_path, "1", "a", "b")
    stream(spark, database, tmp_path)
    # As if the driver had died between the commit in the database and Spark's own.
    for file in (tmp_path / "checkpoint" / "commits").iterdir():
        file.unlink()
    put(tmp_path, "2", "c")

    stream(spark, database, tmp_path)

    assert sorted(bodies(owner, orders)) == ["a", "b", "c"]
    assert staged(owner) == 0


def test_stream_waits_while_the_queue_is_full(
    spark: SparkSession, database: str, owner: Connection, tmp_path: Path
) -> None:
    orders = Queue(owner)
    put(tmp_path, "1", *(f"{n:02}" for n in range(25)))
    lines = spark.readStream.text(str(tmp_path / "in")).toDF("body")
    query = (
        lines.writeStream.format("skipmq")
        .options(url=database, queue="orders", maxDepth="10")
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    received: list[str] = []
    largest = 0

    def drained() -> bool:
        nonlocal largest
        largest = max(largest, len(bodies(owner, orders)))
        if largest == 10:
            found = orders.receive()
            received.extend(each["body"] for each in found)
            orders.delete(*found)
        return len(received) == 25

    eventually(drained, SECONDS)
    query.awaitTermination(SECONDS)

    assert not query.isActive
    assert (largest, sorted(received)) == (10, [f"{n:02}" for n in range(25)])


def test_fifo_queue_gets_groups_in_order_also_of_more_than_fit_a_transaction(
    spark: SparkSession, database: str, owner: Connection
) -> None:
    Queue(owner, "orders.fifo", FifoQueue="true")
    frame = spark.range(900, numPartitions=2).selectExpr(
        "cast(id as string) as body", "concat('g', id % 300) as group_id"
    )

    send(frame, database, queue="orders.fifo", id="many")
    send(frame, database, queue="orders.fifo", id="many")

    order = owner.execute(
        "select group_id, array_agg(body::int order by sequence_number)"
        " from skipmq.message where group_id is not null group by 1"
    ).fetchall()
    assert len(order) == 300
    assert all(numbers == sorted(numbers) and len(numbers) == 3 for _, numbers in order)


@pytest.mark.parametrize(
    ("options", "columns", "message"),
    [
        ({}, "body string", "the url is required"),
        ({"url": "postgresql://a:Pl4nted@x"}, "body string", "the queue is required"),
        ({"url": "postgresql://x", "queue": "q", "maxDepth": "0"}, "body string", "maxDepth must"),
        ({"url": "postgresql://x", "queue": "q"}, "text string", "a message has no column text"),
        ({"url": "postgresql://x", "queue": "q"}, "delay int", "a message needs the column body"),
        ({"url": "postgresql://x", "queue": "q"}, "body int", "body is a string, and not int"),
        (
            {"url": "postgresql://x", "queue": "q"},
            "body string, attributes map<string,int>",
            "attributes is a map<string,string> or a string of JSON",
        ),
    ],
)
def test_wrong_options_and_columns_are_refused_with_the_reason(
    spark: SparkSession, options: dict[str, str], columns: str, message: str
) -> None:
    frame = spark.createDataFrame([], columns)

    with pytest.raises(PySparkException, match=message) as caught:
        frame.write.format("skipmq").options(**options).mode("append").save()

    assert "Pl4nted" not in str(caught.value)


def test_a_queue_cannot_be_overwritten(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a",)], "body string")

    with pytest.raises(PySparkException, match="messages are added to a queue"):
        frame.write.format("skipmq").options(url="x", queue="q").mode("overwrite").save()
