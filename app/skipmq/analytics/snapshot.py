"""One snapshot for many readers: all partitions and all tables as they were at one instant.

Only for reads that must agree with each other, such as history and live messages together: while a
snapshot is held nothing on its server can be cleared up. A node ends one on the primary after
SKIPMQ_SNAPSHOT_LIMIT seconds.
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
    """A snapshot of one server, as long as the block of `taken` runs."""

    source: Source
    name: str
    # As PostgreSQL writes it: the oldest transaction open then, the next, and those open.
    text: str

    def settled(self) -> str:
        """Return the condition on rows of history that were there then, also when it is over.

        They are found by their transactions. What is beyond all numbers that were given out is
        of a database that this one was restored from.
        """
        _, end, open_ = self.text.split(":")
        return (
            f"xid < {end} and xid <> all ('{{{open_}}}'::bigint[])"
            " or xid >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
        )

    def read(
        self, spark: SparkSession, view: str, predicates: Sequence[str] = (), *, fetch: int = 1000
    ) -> DataFrame:
        """Read a view in the snapshot: a task for each predicate, repeated as often as need be.

        The frame is read whenever Spark needs it: use it within the block. A task fails when the
        snapshot is over. Raises ValueError for a fetch of 0, which would silently read without the
        snapshot.
        """
        return self.source.read(spark, view, predicates, fetch=fetch, snapshot=self.name)


@contextlib.contextmanager
def taken(source: Source) -> Iterator[Snapshot]:
    """Take a snapshot of the server that answers and hold it during the block.

    Raises session.Unavailable when none answers.
    """
    one = jdbc.pinned(source)
    with one.connect() as session, history.exported_snapshot(session) as found:
        yield Snapshot(one, *found)


def everything(
    spark: SparkSession, snapshot: Snapshot, *, bodies: bool = False, live_parts: int = 4
) -> DataFrame:
    """Read every message there is and was: the history and the live messages at one instant.

    The columns are those that both views have, and `live`, which tells them apart; outcome is null
    of a live one. A message that was dead-lettered is there twice: as it left a queue, and live in
    the other or as it left that. Live messages are read in `live_parts` tasks.
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
