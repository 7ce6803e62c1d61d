"""The Structured Streaming source `skipmq`, which reads settled messages, each row once.

    spark.readStream.format("skipmq").option("url", URL).load()

Options: `url` (libpq), `maxRowsPerTrigger`, `startingPosition` (earliest, the default, or latest),
`bodies` (true, the default; with false, attributes and body are null), `filter` (a condition in
PostgreSQL's SQL on the rows to read). The columns are those of `columns.HISTORY`.
spark.read.format("skipmq") reads the whole history.

It has no pushFilters: PySpark 4.3 keeps the filters of one query of a frame for the next one, which
then lacks rows.

The executors connect to the database with psycopg, and need SkipMQ installed.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from skipmq.analytics import windows
from skipmq.analytics.columns import CONTENT, HISTORY, VIEW
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import Server
from skipmq.database import session
from skipmq.database.session import Session

_UNLIMITED = sys.maxsize
# A failover undoes at most the transactions of this time before the last read.
FAILOVER_MARGIN = timedelta(hours=1)


@dataclass(frozen=True)
class Settled(InputPartition):
    """A query on the history and its fetch size in rows."""

    condition: str
    fetch: int


@dataclass(frozen=True, slots=True)
class Access:
    """What to read, and how: the options."""

    url: str
    bodies: bool
    row_limit: int
    from_latest: bool
    filter: str

    @classmethod
    def from_options(cls, options: Any) -> "Access":
        """Parse the options; raise ValueError for invalid ones."""
        url = options.get("url")
        if not url:
            raise ValueError(
                'the url is required: .option("url", "postgresql://skipmq_reader@host/db")'
            )
        begin = options.get("startingPosition", "earliest")
        if begin not in {"earliest", "latest"}:
            raise ValueError(f"startingPosition must be earliest or latest, not {begin}")
        row_limit = int(options.get("maxRowsPerTrigger", "0"))
        if row_limit < 0:
            raise ValueError("maxRowsPerTrigger must not be negative")
        bodies = options.get("bodies", "true").lower() == "true"
        return cls(url, bodies, row_limit, begin == "latest", options.get("filter", ""))

    def connect(self) -> Session:
        """Connect for short queries; raise session.Unavailable."""
        return session.connect(self.url, "skipmq stream")

    def partitions(self, first: int, until: int) -> list[Settled]:
        """Return the queries on the transactions from `first` to before `until`."""
        with self.connect() as connection:
            parts = windows.divide(connection, first, until, windows.CHUNK)
        if not parts:
            return []
        plan = windows.plan(first, until, parts, windows.CHUNK)
        # The line break ends a comment in the filter.
        also = f" and ({self.filter}\n)" if self.filter else ""
        return [Settled(f"{condition}{also}", plan.fetch) for condition in plan.conditions]

    def read(self, partition: Settled) -> Iterator[pa.RecordBatch]:
        """Read through a server-side cursor, an Arrow batch at a time."""
        schema = to_arrow_schema(HISTORY, timezone="UTC")
        unread = () if self.bodies else CONTENT
        for rows in history.rows(self.url, VIEW, partition.condition, partition.fetch, null=unread):
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class _PartitionReader:
    """The part that both readers share."""

    def __init__(self, access: Access) -> None:
        self._access = access

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition."""
        assert isinstance(partition, Settled)
        return self._access.read(partition)


class BatchReader(_PartitionReader, DataSourceReader):
    """Reads the history below the horizon, without holding a snapshot."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the queries."""
        with self._access.connect() as connection:
            horizon = history.server(connection).horizon
        return self._access.partitions(0, horizon)


class StreamReader(_PartitionReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads by transactions; an offset has those of its batch, [first, until).

    After a failover a batch begins an hour before the last one, because rows that were read may
    have been undone and their transaction IDs assigned again. Drop duplicates by id, outcome and
    settled_at if they matter.
    """

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name, as below.
        """Return the offset at which a new query begins."""
        server = self._server()
        begin = server.horizon if self._access.from_latest else 0
        return _offset(begin, begin, server) | {"new": True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit in the options."""
        row_limit = self._access.row_limit
        return ReadMaxRows(row_limit) if row_limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the present horizon as the end of the query."""
        self._target = self._server().horizon

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch, at the limit and between two transactions.

        Raises ValueError if the offset is of another database.
        """
        with self._access.connect() as connection:
            server = history.server(connection)
            if start["database"] != server.database:
                raise ValueError(
                    f"the checkpoint is of the database {start['database']}, and this is"
                    f" {server.database}: use another checkpoint"
                )
            first = start["until"]
            if start["timeline"] != server.timeline:
                first = min(first, _failover_start(connection, start, server), server.horizon)
            horizon = server.horizon if self._target is None else min(server.horizon, self._target)
            if horizon <= first:
                return start
            row_limit = limit.max_rows if isinstance(limit, ReadMaxRows) else _UNLIMITED
            until, rows = windows.reach(connection, first, horizon, row_limit)
            # The first batch may be empty, so that its offset is recorded in the checkpoint.
            return _offset(first, until, server) if rows or "new" in start else start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of the available rows, for the query's progress."""
        server = self._server()
        return _offset(0, server.horizon, server)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the queries of a batch."""
        return [] if start == end else self._access.partitions(end["first"], end["until"])

    def _server(self) -> Server:
        with self._access.connect() as connection:
            return history.server(connection)


def _offset(first: int, until: int, server: Server) -> dict[str, Any]:
    return {
        "first": first,
        "until": until,
        "timeline": server.timeline,
        "database": server.database,
        "at": server.now.isoformat(),
    }


def _failover_start(connection: Session, start: dict[str, Any], server: Server) -> int:
    """Return the first transaction that a failover may have changed since the last read."""
    last_read = datetime.fromisoformat(start["at"]) if "at" in start else server.now
    return history.first_transaction(connection, last_read - FAILOVER_MARGIN) or server.horizon
