"""One snapshot for many readers: all partitions and all tables as they were at one instant.

Only for reads that must agree with each other, such as history and live messages together: while a
snapshot is held nothing on its server can be cleared up. A node ends one on the primary after
SKIPMQ_SNAPSHOT_LIMIT seconds.
"""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import psycopg
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics import jdbc
from skipmq.analytics.columns import CONTENT
from skipmq.analytics.jdbc import Connection, Source

# Less than the idle_in_transaction_session_timeout of the role skipmq_reader.
_SIGN_OF_LIFE = 10.0


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
        self, spark: SparkSession, query: str, predicates: Sequence[str] = (), *, fetch: int = 1000
    ) -> DataFrame:
        """Read a query in the snapshot: a task for each predicate, tried again as often as need be.

        The frame is read when Spark needs it, and each time anew: use it within the block. A task
        fails when the snapshot is over. Raises ValueError for a fetch of 0, which would read
        without the snapshot and not say so.
        """
        name = jdbc.literal(self.name)
        return self.source.read(
            spark,
            query,
            predicates,
            fetch=fetch,
            session=(
                "set transaction isolation level repeatable read, read only;"
                f" set transaction snapshot {name}"
            ),
        )


@contextlib.contextmanager
def taken(source: Source) -> Iterator[Snapshot]:
    """Take a snapshot of the server that answers and hold it during the block.

    Raises psycopg.OperationalError when none answers.
    """
    one = jdbc.pinned(source)
    with one.connect() as connection:
        connection.execute("begin isolation level repeatable read, read only")
        row = connection.execute(
            "select pg_export_snapshot(), pg_current_snapshot()::text"
        ).fetchone()
        assert row is not None
        over = threading.Event()
        alive = threading.Thread(target=_keep, args=(connection, over), daemon=True)
        alive.start()
        try:
            yield Snapshot(one, *row)
        finally:
            over.set()
            alive.join()
            with contextlib.suppress(psycopg.Error):
                connection.execute("rollback")


def _keep(connection: Connection, over: threading.Event) -> None:
    """Show that somebody is there."""
    with contextlib.suppress(psycopg.Error):
        while not over.wait(_SIGN_OF_LIFE):
            connection.execute("select 1")


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
    kind, names = "" if bodies else "_metadata", ", ".join(common)
    days = jdbc.by_day(jdbc.days(snapshot.source))
    settled = snapshot.read(
        spark,
        f"select {names}, settled_at, outcome, false as live from skipmq_views.history{kind}",  # noqa: S608
        days,
    )
    live = snapshot.read(
        spark,
        f"select {names}, null::timestamptz as settled_at, null::text as outcome, true as live"  # noqa: S608
        f" from skipmq_views.message{kind}",
        [f"id % {live_parts} = {part}" for part in range(live_parts)],
    )
    return settled.unionByName(live)
