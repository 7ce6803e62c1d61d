"""Rows of history made by hand."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SCHEMA = """
    settled_at timestamp, sent_at timestamp, first_received_at timestamp, xid bigint, id bigint,
    queue_id int, account string, region string, queue string, fifo boolean, receive_count int,
    body_bytes int, attribute_bytes int, message_id string, outcome string, group_id string,
    deduplication_id string, sender string, trace_header string, node string, attributes string,
    body string
"""
_TEXTS = ("group_id", "deduplication_id", "sender", "trace_header", "attributes")
_QUEUE_IDS = {"orders": 1, "dead": 2, "mails": 3, "payments.fifo": 4}


def row(
    number: int,
    *,
    sent: float = 0,
    received: float | None = 1,
    settled: float | None = 2,
    queue: str = "orders",
    outcome: str = "deleted",
    body: str | None = None,
    **others: Any,
) -> dict[str, Any]:
    """Return a row of history; its moments are seconds after noon, None where it has none."""
    moments = {"sent_at": sent, "first_received_at": received, "settled_at": settled}
    return {
        **dict.fromkeys(_TEXTS),
        "xid": number,
        "id": number,
        "queue_id": _QUEUE_IDS.get(queue, 9),
        "account": "000000000000",
        "region": "us-east-1",
        "queue": queue,
        "fifo": queue.endswith(".fifo"),
        "receive_count": 0 if received is None else 1,
        "body_bytes": 10 if body is None else len(body),
        "attribute_bytes": 0,
        "message_id": str(UUID(int=number)),
        "outcome": None if settled is None else outcome,
        "node": "a",
        "body": body,
        **{name: None if at is None else at_noon(at) for name, at in moments.items()},
        **others,
    }


def at_noon(seconds: float) -> datetime:
    """Return the moment so many seconds after noon of the day of all tests."""
    return NOON + timedelta(seconds=seconds)


def frame(spark: "SparkSession", *rows: dict[str, Any]) -> "DataFrame":
    """Return rows as the history that reports read."""
    return local(spark, rows, SCHEMA)


def local(spark: "SparkSession", rows: Iterable[dict[str, Any]], schema: str) -> "DataFrame":
    """Return rows as a frame that needs no Python on the executors, as one of tuples would."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - an extra.
    from pyspark.sql.types import StructType  # noqa: PLC0415

    typed = StructType.fromDDL(schema)
    table = pa.Table.from_pylist(list(rows), to_arrow_schema(typed, timezone="UTC"))
    return spark.createDataFrame(table, typed)
