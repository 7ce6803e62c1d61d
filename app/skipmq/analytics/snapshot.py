"""A snapshot that several readers share, so that all tables and partitions are consistent.

Use it only for reads that must be consistent, such as the history together with live messages:
while a snapshot is held, vacuum cannot remove dead rows on its server. On the primary a node
terminates it after SKIPMQ_SNAPSHOT_LIMIT seconds.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from skipmq.analytics import jdbc
from skipmq.analytics.columns import CONTENT
from skipmq.analytics.jdbc import Source
from skipmq.analytics.postgres import history


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An exported snapshot of one server, valid during the block of `taken`."""

    source: Source
    name: str
    # A pg_snapshot: xmin, xmax and the transactions in progress.
    text: str

    def settled(self) -> str:
        """Return the condition on the history's rows in the snapshot, usable after it has ended.

        Rows are selected by their transactions. IDs that the server has not assigned yet come from
        a database that this one was restored from.
        """
        _, end, open_ = self.text.split(":")
        return (
            f"xid < {end} and xid <> all ('{{{open_}}}'::bigint[])"
            " or xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        )

    def read(
        self, spark: SparkSession, view: str, predicates: Sequence[str] = (), *, fetch: int = 1000
    ) -> DataFrame:
        """Read a view in the snapshot, with a task for each predicate.

        The frame is evaluated lazily, so use it within the block; tasks fail after it. Raises
        ValueError for a fetch size of 0, with which the snapshot would be ignored.
        """
        return self.source.read(spark, view, predicates, fetch=fetch, snapshot=self.name)


@contextlib.contextmanager
def taken(source: Source) -> Iterator[Snapshot]:
    """Take a snapshot of the server that responds and hold it during the block.

    Raises session.Unavailable.
    """
    server = jdbc.pinned(source)
    with server.connect() as session, history.exported_snapshot(session) as exported:
        yield Snapshot(server, *exported)


def erased(spark: SparkSession, snapshot: Snapshot) -> DataFrame:
    """Read the IDs and queues of erased messages, with `erased_at`."""
    return snapshot.read(spark, "skipmq_views.erased_message", ["true"])


def everything(
    spark: SparkSession, snapshot: Snapshot, *, bodies: bool = False, live_parts: int = 4
) -> DataFrame:
    """Read the history and the live messages, consistent with the snapshot.

    The columns are those that both views have, and `live`; settled_at and outcome of live messages
    are null. A dead-lettered message has two rows: one settled in the source queue, and one live or
    settled in the dead-letter queue. Live messages are read in `live_parts` tasks.
    """
    common = [
        *("id", "queue_id", "account", "region", "queue", "fifo", "sent_at", "first_received_at"),
        *("receive_count", "body_bytes", "attribute_bytes", "message_id", "group_id"),
        *("deduplication_id", "sender", "trace_header", *(CONTENT if bodies else ())),
    ]
    kind = "" if bodies else "_metadata"
    settled = snapshot.read(
        spark, f"skipmq_views.history{kind}", jdbc.by_day(jdbc.days(snapshot.source))
    )
    live = snapshot.read(
        spark,
        f"skipmq_views.message{kind}",
        [f"id % {live_parts} = {part}" for part in range(live_parts)],
    )
    ends = {"settled_at": fn.lit(None).cast("timestamp"), "outcome": fn.lit(None).cast("string")}
    return settled.select(*common, *ends, fn.lit(False).alias("live")).unionByName(  # noqa: FBT003
        live.withColumns(ends).select(*common, *ends, fn.lit(True).alias("live"))  # noqa: FBT003
    )
