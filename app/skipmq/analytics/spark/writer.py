"""Spark's sink `skipmq`: the rows of a DataFrame, or of a stream's batches, become messages.

With the option `url` (libpq) tasks stage messages in the database, each attempt as a part of its
own. When all have succeeded, the driver sends the parts that they name, and records the number of
the batch in the same transaction. So a task that is repeated, and a batch that Spark repeats after
its driver died, send nothing twice.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from skipmq.analytics.errors import SendError
from skipmq.analytics.postgres.staging import GROUPS, Batch
from skipmq.analytics.spark import outgoing
from skipmq.analytics.spark.outgoing import Outgoing, Part, Task, Way
from skipmq.analytics.spark.wire import Endpoint
from skipmq.database import session
from skipmq.database.session import Session
from skipmq.protocol import limits
from skipmq.protocol.identity import QueueName

# Spark's properties of the tasks of a stream.
_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
# Refused rows of a partition, and of a batch, that the error names.
_NAMED = 20


@dataclass(frozen=True, slots=True)
class Staged:
    """The way by SQL: exactly once."""

    url: str = field(repr=False)
    queue: QueueName
    depth: int | None
    others: str = "nothing was sent"

    def write(
        self, task: Task, part: UUID, messages: Iterator[Outgoing]
    ) -> Iterator[tuple[int, str]]:
        """Stage messages."""
        batch = Batch(self.queue, task.stream, None)
        with self._connect() as connection:
            yield from batch.stage(connection, part, messages)

    def commit(self, stream: str, batch: int | None, parts: Sequence[Part]) -> None:
        """Send the parts."""
        count, groups = sum(p.rows for p in parts), sum(p.groups for p in parts)
        to_send, ids = Batch(self.queue, stream, batch), [part.id for part in parts]
        with self._connect() as connection:
            deque(to_send.deliver(connection, ids, count, groups, depth=self.depth), maxlen=0)

    def discard(self, stream: str, parts: Sequence[Part]) -> None:
        """Delete what the parts have staged."""
        with self._connect() as connection:
            Batch(self.queue, stream, None).discard(connection, [part.id for part in parts])

    def _connect(self) -> Session:
        return session.connect(self.url, "skipmq spark", writing=True)


def way(options: Any) -> Way:
    """Return the way that the options choose; raise ValueError for invalid ones."""
    url, endpoint, name = (options.get(key) for key in ("url", "endpoint", "queue"))
    if bool(url) == bool(endpoint):
        raise ValueError(
            'where to send is required: .option("url", "postgresql://application@host/db"), or'
            ' .option("endpoint", "https://host:9324")'
        )
    if not name:
        raise ValueError('the queue is required: .option("queue", "orders")')
    depth = options.get("maxDepth")
    if depth is not None and (not depth.isdecimal() or int(depth) < 1):
        raise ValueError(f"maxDepth must be a number of messages from 1 on, not {depth}")
    account, region = options.get("account"), options.get("region")
    most = None if depth is None else int(depth)
    if endpoint and "@" in endpoint:
        # Spark shows options in plans and logs.
        raise ValueError(
            "the endpoint must have no user and no password: give an access key by"
            ' .option("accessKey", …) and .option("secretKey", …)'
        )
    if endpoint:
        key = tuple(options.get(each) for each in ("accessKey", "secretKey", "sessionToken"))
        return Endpoint(endpoint, name, account, region, most, key)
    queue = QueueName(account or limits.DEFAULT_ACCOUNT, region or limits.DEFAULT_REGION, name)
    return Staged(url, queue, most)


class _Writer:
    """The part that both writers share."""

    def __init__(self, options: Any, schema: StructType, *, overwrite: bool) -> None:
        outgoing.check(schema)
        if overwrite:
            raise ValueError('messages are added to a queue: use .mode("append")')
        self._way = way(options)

    def _write(self, task: Task, rows: Iterator[Any]) -> Part:
        part = uuid4()
        count = 0
        groups: set[str] = set()

        def counted() -> Iterator[Outgoing]:
            nonlocal count
            for message in outgoing.messages(task.partition, rows):
                count += 1
                if message.group_id is not None and len(groups) <= GROUPS:
                    groups.add(message.group_id)
                yield message

        refused_rows, refused = 0, []
        for place, reason in self._way.write(task, part, counted()):
            refused_rows += 1
            if refused_rows <= _NAMED:
                refused.append((outgoing.row_of(place), reason))
        return Part(
            task.stream, task.partition, part, count - refused_rows, len(groups), refused_rows,
            tuple(refused),
        )  # fmt: skip

    def _commit(self, batch: int | None, messages: Sequence[WriterCommitMessage | None]) -> None:
        parts = [message for message in messages if isinstance(message, Part)]
        if not parts:
            return
        stream = parts[0].stream
        if refused := sum(part.refused_rows for part in parts):
            self._way.discard(stream, parts)
            named = [
                f"partition {part.partition}, row {row}: {reason}"
                for part in parts
                for row, reason in part.refused
            ][:_NAMED]
            total = refused + sum(part.rows for part in parts)
            raise SendError(
                f"{refused} of {total} rows are refused, and {self._way.others}:"
                f" {'; '.join(named)}{'; …' if refused > len(named) else ''}"
            )
        self._way.commit(stream, batch, parts)

    def _abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        if parts := [message for message in messages if isinstance(message, Part)]:
            self._way.discard(parts[0].stream, parts)


class BatchWriter(_Writer, DataSourceWriter):
    """Sends a DataFrame, once for each `id` of the options; without one, each time."""

    def __init__(self, options: Any, schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._id = options.get("id")
        self._stream = f"job/{self._id or uuid4()}"

    def write(self, iterator: Iterator[Any]) -> Part:
        """Write a partition."""
        context = TaskContext.get()
        assert context is not None
        return self._write(Task(self._stream, self._stream, context.partitionId()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Send what the tasks have staged; raise SendError for refused rows."""
        self._commit(0 if self._id else None, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Delete what the tasks have staged."""
        self._abort(messages)


class StreamWriter(_Writer, DataSourceStreamWriter):
    """Sends the batches of a query, each once; a query is known by its checkpoint."""

    def write(self, iterator: Iterator[Any]) -> Part:
        """Write a partition of a batch."""
        context = TaskContext.get()
        assert context is not None
        stream = f"query/{context.getLocalProperty(_QUERY)}"
        key = f"{stream}/{context.getLocalProperty(_BATCH)}"
        return self._write(Task(stream, key, context.partitionId()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Send what the tasks have staged; raise SendError for refused rows."""
        self._commit(batchId, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803
        """Delete what the tasks have staged."""
        self._abort(messages)
