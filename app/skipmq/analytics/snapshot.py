"""A snapshot that several readers share, so that all tables and partitions are consistent.

Use it only for reads that must be consistent, such as the history together with live messages:
while a snapshot is held, vacuum cannot remove dead rows on its server. On the primary a node
terminates it after SKIPMQ_SNAPSHOT_LIMIT seconds.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from time import sleep

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from skipmq.analytics import jdbc
from skipmq.analytics.columns import CONTENT
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.jdbc import Source
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import NOT_MOVED
from skipmq.database.session import Session
from skipmq.protocol.identity import QueueName

# Attempts to find no queue on its way, and the seconds between them.
_ATTEMPTS, _PAUSE = 30, 1.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An exported snapshot of one server, valid during the block of `taken`."""

    source: Source
    name: str
    # A pg_snapshot: xmin, xmax and the transactions in progress.
    text: str
    # The session that has the snapshot.
    session: Session = field(repr=False)

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
        yield Snapshot(server, *exported, session)


@contextlib.contextmanager
def taken_of_all(source: Source) -> Iterator[Sequence[Snapshot]]:
    """Take a snapshot of each database of a source and hold them during the block.

    Each partition has an instant of its own; no queue is moved from one to another between these.
    Raises AnalyticsError if a queue stays on its way, session.Unavailable.
    """
    for _ in range(_ATTEMPTS):
        with contextlib.ExitStack() as stack:
            snapshots = [stack.enter_context(taken(each)) for each in source.databases]
            moving = _moving(snapshots) if source.partitions else []
            if not moving:
                yield snapshots
                return
        sleep(_PAUSE)
    raise AnalyticsError(
        f"the queue {moving[0].name} is on its way to another partition: run `skipmq partitions"
        " rebalance`, which continues, and this again"
    )


def _moving(snapshots: Sequence[Snapshot]) -> list[QueueName]:
    """Return the queues that are in two of the snapshots, or that are in none and will be."""
    places = Counter[QueueName]()
    last: dict[QueueName, tuple[datetime, bool]] = {}
    for taken in snapshots:
        for each in history.generations(taken.session):
            places[each.queue] += each.retired_at is None
            event = (each.retired_at or each.created_at, each.retired_as == "moved")
            last[each.queue] = max(last.get(each.queue, event), event)
    return [
        queue for queue, number in places.items() if number > 1 or (number == 0 and last[queue][1])
    ]


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
        [f"id % {live_parts} = {part} and {NOT_MOVED}" for part in range(live_parts)],
    )
    ends = {"settled_at": fn.lit(None).cast("timestamp"), "outcome": fn.lit(None).cast("string")}
    return settled.select(*common, *ends, fn.lit(False).alias("live")).unionByName(  # noqa: FBT003
        live.withColumns(ends).select(*common, *ends, fn.lit(True).alias("live"))  # noqa: FBT003
    )
