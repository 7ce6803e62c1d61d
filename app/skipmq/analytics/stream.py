"""The source `skipmq` of Structured Streaming: what is settled, as it is settled, each row once.

    spark.readStream.format("skipmq").option("url", URL).load()

The options: `url` (libpq), `maxRowsPerTrigger`, `startingPosition` (earliest, the default, or
latest), `bodies` (true, the default, or false: attributes and body are then null). The columns are
those of `columns.HISTORY`. spark.read.format("skipmq") reads all there is of them.

The executors connect by themselves, with psycopg, and need SkipMQ installed.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
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
from pyspark.sql.types import StructType

from skipmq.analytics import windows
from skipmq.analytics.columns import CONTENT, HISTORY, VIEW
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import Server
from skipmq.database import session
from skipmq.database.session import Session

ALL = sys.maxsize
# How long before it last asked a query may have seen transactions that a failover undid.
DOUBTED = timedelta(hours=1)


@dataclass(frozen=True)
class Settled(InputPartition):
    """A query: which rows, and how many to fetch at once."""

    condition: str
    fetch: int


class SettledMessages(DataSource):
    """The history of a database of SkipMQ."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "skipmq"

    def schema(self) -> StructType:
        """Return the columns of the history."""
        return HISTORY

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - there is one only.
        """Return the reader of all that is settled."""
        return _Reader(_Access.of(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return the reader of what is settled from now on."""
        return _Follower(_Access.of(self.options))


@dataclass(frozen=True, slots=True)
class _Access:
    url: str
    bodies: bool
    most: int
    latest: bool

    @classmethod
    def of(cls, options: Any) -> "_Access":
        """Return what the options say; raise ValueError for what they cannot."""
        url = options.get("url")
        if not url:
            raise ValueError(
                'name the database: .option("url", "postgresql://skipmq_reader@host/db")'
            )
        begin = options.get("startingPosition", "earliest")
        if begin not in {"earliest", "latest"}:
            raise ValueError(f"startingPosition is earliest or latest, not {begin}")
        most = int(options.get("maxRowsPerTrigger", "0"))
        if most < 0:
            raise ValueError("maxRowsPerTrigger is a number of rows")
        return cls(url, options.get("bodies", "true").lower() == "true", most, begin == "latest")

    def connect(self) -> Session:
        return session.connect(self.url, "skipmq stream")

    def partitions(self, first: int, until: int) -> list[Settled]:
        with self.connect() as connection:
            parts = windows.divide(connection, first, until, windows.CHUNK)
        if not parts:
            return []
        plan = windows.plan(first, until, parts, windows.CHUNK)
        return [Settled(condition, plan.fetch) for condition in plan.conditions]

    def read(self, partition: Settled) -> Iterator[pa.RecordBatch]:
        """Read through a cursor of the server, a batch of Arrow's at a time."""
        schema = to_arrow_schema(HISTORY, timezone="UTC")
        unread = () if self.bodies else CONTENT
        for rows in history.rows(self.url, VIEW, partition.condition, partition.fetch, null=unread):
            arrays = [
                pa.array(column, field.type)
                for column, field in zip(zip(*rows, strict=True), schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Partitions:
    """How a partition is read, by a batch and by a stream."""

    def __init__(self, access: _Access) -> None:
        self._access = access

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one of the partitions."""
        assert isinstance(partition, Settled)
        return self._access.read(partition)


class _Reader(_Partitions, DataSourceReader):
    """Reads what is below the horizon: in one piece, without a snapshot held."""

    def partitions(self) -> Sequence[InputPartition]:
        """Return the queries."""
        with self._access.connect() as connection:
            horizon = history.server(connection).horizon
        return self._access.partitions(0, horizon)


class _Follower(_Partitions, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows by transactions: an offset names those that its batch has, [first, until).

    After a failover a batch begins an hour before the last one, since rows may have been read that
    were undone, and their numbers given to others: drop duplicates by id, outcome and settled_at
    where that matters.
    """

    def __init__(self, access: _Access) -> None:
        super().__init__(access)
        self._target: int | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name, as below.
        """Return where a new query begins."""
        server = self._server()
        begin = server.horizon if self._access.latest else 0
        return _offset(begin, begin, server) | {"new": True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit of the options."""
        return ReadMaxRows(self._access.most) if self._access.most else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Note up to where a query reads that is to stop."""
        self._target = self._server().horizon

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch: within the limit, and never within a transaction.

        Raises ValueError when the offsets are another database's.
        """
        with self._access.connect() as connection:
            server = history.server(connection)
            if start["database"] != server.database:
                raise ValueError(
                    f"the query has followed the database {start['database']}, and this is"
                    f" {server.database}: begin again with another checkpoint"
                )
            first = start["until"]
            if start["timeline"] != server.timeline:
                first = min(first, _doubted(connection, start, server), server.horizon)
            horizon = server.horizon if self._target is None else min(server.horizon, self._target)
            if horizon <= first:
                return start
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else ALL
            until, rows = windows.reach(connection, first, horizon, most)
            # An empty batch only to have its offset noted, where the query began.
            return _offset(first, until, server) if rows or "new" in start else start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return what the query's progress shows as the end of all there is."""
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


def _doubted(connection: Session, start: dict[str, Any], server: Server) -> int:
    """Return the first transaction that may have been seen otherwise before a failover.

    Counted back from when the query last asked: it may have been stopped for long.
    """
    asked = datetime.fromisoformat(start["at"]) if "at" in start else server.now
    return history.first_transaction(connection, asked - DOUBTED) or server.horizon
