"""The Structured Streaming source `skipmq`, which reads settled messages, each row once.

    spark.readStream.format("skipmq").option("url", URL).load()

Options: `url` (libpq; a router's reads all its partitions), `maxRowsPerTrigger`, `startingPosition`
(earliest, the default, or latest), `bodies` (true, the default; with false, attributes and body are
null), `filter` (a condition in PostgreSQL's SQL on the rows to read). The columns are those of
`columns.HISTORY`. spark.read.format("skipmq") reads the whole history.

It has no pushFilters: PySpark 4.3 keeps the filters of one query of a frame for the next one, which
then lacks rows.

The executors connect to the database with psycopg, and need SkipMQ installed.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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

from skipmq.analytics import partitions
from skipmq.analytics.columns import CONTENT, HISTORY, VIEW
from skipmq.analytics.lake import windows
from skipmq.analytics.postgres import history
from skipmq.analytics.postgres.history import Server
from skipmq.database import session
from skipmq.database.session import Session
from skipmq.telemetry.logs import log

_UNLIMITED = sys.maxsize
# A failover undoes at most the transactions of this time before the last read.
FAILOVER_MARGIN = timedelta(hours=1)


@dataclass(frozen=True)
class Settled(InputPartition):
    """A query on the history of a database, and its fetch size in rows."""

    url: str = field(repr=False)
    condition: str
    fetch: int


@dataclass(frozen=True, slots=True)
class Access:
    """What to read, and how: the options."""

    url: str = field(repr=False)
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

    @staticmethod
    def connect(url: str) -> Session:
        """Connect to a database for short queries; raise session.Unavailable."""
        return session.connect(url, "skipmq stream")

    def queries(self, url: str, first: int, until: int) -> list[Settled]:
        """Return the queries on a database's transactions from `first` to before `until`."""
        with self.connect(url) as connection:
            parts = windows.divide(connection, first, until, windows.CHUNK)
        if not parts:
            return []
        plan = windows.plan(first, until, parts, windows.CHUNK)
        # The line break ends a comment in the filter.
        also = f" and ({self.filter}\n)" if self.filter else ""
        return [Settled(url, f"{condition}{also}", plan.fetch) for condition in plan.conditions]

    def read(self, query: Settled) -> Iterator[pa.RecordBatch]:
        """Read through a server-side cursor, an Arrow batch at a time."""
        schema = to_arrow_schema(HISTORY, timezone="UTC")
        unread = () if self.bodies else CONTENT
        for rows in history.rows(query.url, VIEW, query.condition, query.fetch, null=unread):
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
        queries: list[Settled] = []
        for url in partitions.urls(self._access.url):
            with self._access.connect(url) as connection:
                horizon = history.server(connection).horizon
            queries += self._access.queries(url, 0, horizon)
        return queries


class StreamReader(_PartitionReader, DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads by transactions; an offset has those of its batch, [first, until).

    Behind a router an offset has that of each partition. One that is unavailable has no part in a
    batch; one that was added is read from its beginning.

    After a failover to a server that lacks rows of the last batch, the next one begins an hour
    before it, because their transaction IDs may have been assigned again. Drop duplicates by id,
    outcome and settled_at if they matter.
    """

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._targets: dict[int, int] | None = None
        # The URLs of the partitions, or of the only database, by number.
        self._urls: dict[int, str] = {}
        self._is_router = False

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - PySpark's name, as below.
        """Return the offset at which a new query begins.

        A partition that is unavailable is read later from its beginning, like one that is added.
        Raises session.Unavailable for the position `latest`, and for a single database.
        """
        self._find_databases()
        offsets = {}
        for number, server in self._available_servers(all_=self._access.from_latest).items():
            begin = server.horizon if self._access.from_latest else 0
            offsets[number] = _offset(begin, begin, server)
        return self._joined(offsets) | {"new": True}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit in the options."""
        row_limit = self._access.row_limit
        return ReadMaxRows(row_limit) if row_limit else ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Record the present horizons as the end of the query."""
        self._find_databases()
        self._targets = {
            number: server.horizon for number, server in self._available_servers().items()
        }

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Return the end of the next batch, at the limit and between two transactions.

        Raises ValueError if the offset is of another database, session.Unavailable if a single
        database does not respond.
        """
        self._find_databases()
        before = self._separate(start)
        row_limit = _UNLIMITED
        if isinstance(limit, ReadMaxRows):
            row_limit = max(limit.max_rows // len(self._urls), 1)
        offsets = dict(before)
        for number, url in self._urls.items():
            try:
                with self._access.connect(url) as connection:
                    end = self._end(connection, number, before.get(number), row_limit)
            except session.Unavailable as error:
                if not self._is_router:
                    raise
                log.warning("a partition is not read", partition=number, reason=str(error))
                continue
            if end is not None:
                offsets[number] = end
        # The first batch may be empty, so that its offset is recorded in the checkpoint.
        return self._joined(offsets) if offsets != before or "new" in start else start

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the end of the available rows, for the query's progress."""
        servers = self._available_servers()
        if not servers:
            return None
        return self._joined({n: _offset(0, each.horizon, each) for n, each in servers.items()})

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the queries of a batch."""
        if not self._urls:
            self._find_databases()
        before = self._separate(start)
        return [
            query
            for number, offset in self._separate(end).items()
            if offset != before.get(number)
            for query in self._access.queries(self._urls[number], offset["first"], offset["until"])
        ]

    def _end(
        self, connection: Session, number: int, start: dict[str, Any] | None, row_limit: int
    ) -> dict[str, Any] | None:
        """Return a database's end of the next batch, None if it has nothing new.

        Raises ValueError if the offset is of another database.
        """
        server = history.server(connection)
        if start is None:
            start = _offset(0, 0, server)
        if start["database"] != server.database:
            raise ValueError(
                f"the checkpoint is of the database {start['database']}, and this is"
                f" {server.database}: use another checkpoint"
            )
        first = start["until"]
        if start["timeline"] != server.timeline and not _has_survived(connection, start, server):
            first = min(first, _failover_start(connection, start, server), server.horizon)
        horizon = server.horizon
        if self._targets is not None:
            horizon = min(horizon, self._targets.get(number, 0))
        if horizon <= first:
            return None
        until, rows = windows.reach(connection, first, horizon, row_limit)
        if not rows:
            return None
        return _offset(first, until, server) | {
            "rows": history.fingerprint(connection, first, until)
        }

    def _find_databases(self) -> None:
        """Find the databases of the URL; those that were known if no router responds."""
        try:
            found = partitions.routed(self._access.url)
        except session.Unavailable:
            if not self._is_router:
                raise
            return
        self._is_router = found is not None
        self._urls = dict(enumerate([self._access.url] if found is None else found))

    def _available_servers(self, *, all_: bool = False) -> dict[int, Server]:
        """Return the states of the databases that respond.

        Raises session.Unavailable for a single one, and with `all_` if a partition does not.
        """
        servers = {}
        for number, url in self._urls.items():
            try:
                with self._access.connect(url) as connection:
                    servers[number] = history.server(connection)
            except session.Unavailable:
                if all_ or not self._is_router:
                    raise
        return servers

    def _joined(self, offsets: Mapping[int, dict[str, Any]]) -> dict[str, Any]:
        """Return the offset of these of each database; the keys of JSON are strings."""
        if not self._is_router:
            return offsets[0]
        return {"partitions": {str(number): offset for number, offset in offsets.items()}}

    def _separate(self, offset: dict[str, Any]) -> dict[int, dict[str, Any]]:
        """Return the offset of each database; raise ValueError for another kind of URL.

        A single database may have become the first partition.
        """
        if "partitions" not in offset:
            return {0: {name: value for name, value in offset.items() if name != "new"}}
        if not self._is_router:
            raise ValueError("the checkpoint is of partitions: use the URL of their router")
        return {int(number): each for number, each in offset["partitions"].items()}


def _offset(first: int, until: int, server: Server) -> dict[str, Any]:
    return {
        "first": first,
        "until": until,
        "timeline": server.timeline,
        "database": server.database,
        "at": server.now.isoformat(),
    }


def _has_survived(connection: Session, start: dict[str, Any], server: Server) -> bool:
    """Return whether a failover has undone nothing of the last batch, and so nothing read before.

    Each batch has rows. A server that has those of the last one gives their transaction IDs and
    earlier ones to no others.
    """
    first, until = start["first"], start["until"]
    return (
        "rows" in start
        and until <= server.horizon
        and history.fingerprint(connection, first, until) == start["rows"]
    )


def _failover_start(connection: Session, start: dict[str, Any], server: Server) -> int:
    """Return the first transaction that a failover may have changed since the last read."""
    last_read = datetime.fromisoformat(start["at"]) if "at" in start else server.now
    return history.first_transaction(connection, last_read - FAILOVER_MARGIN) or server.horizon
