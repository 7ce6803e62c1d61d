"""Spark's sink `skipmq`: the rows of a DataFrame, or of a stream's batches, become messages.

Tasks stage messages in the database at the `url` (libpq), each attempt as a part of its own. When
all have succeeded, the driver sends the parts that they name, and records the number of the batch
in the same transaction. So a task that is repeated, and a batch that Spark repeats after its driver
died, send nothing twice.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from skipmq.analytics.errors import SendError
from skipmq.analytics.postgres.staging import GROUPS, Batch
from skipmq.analytics.spark import outgoing
from skipmq.analytics.spark.outgoing import Outgoing, Part
from skipmq.database import session
from skipmq.database.session import Session
from skipmq.protocol import limits
from skipmq.protocol.identity import QueueName

# Spark's property of the tasks of a stream.
_QUERY = "sql.streaming.queryId"
# Refused rows of a partition, and of a batch, that the error names.
_NAMED = 20


@dataclass(frozen=True, slots=True)
class _Target:
    """A queue of the database at a URL; `depth` is the number of messages at which batches wait."""

    url: str = field(repr=False)
    queue: QueueName
    depth: int | None

    @classmethod
    def from_options(cls, options: Any) -> "_Target":
        """Parse the options; raise ValueError for invalid ones."""
        url, name, depth = (options.get(key) for key in ("url", "queue", "maxDepth"))
        if not url:
            raise ValueError(
                'the url is required: .option("url", "postgresql://application@host/db")'
            )
        if not name:
            raise ValueError('the queue is required: .option("queue", "orders")')
        if depth is not None and (not depth.isdecimal() or int(depth) < 1):
            raise ValueError(f"maxDepth must be a number of messages from 1 on, not {depth}")
        account = options.get("account") or limits.DEFAULT_ACCOUNT
        region = options.get("region") or limits.DEFAULT_REGION
        return cls(url, QueueName(account, region, name), None if depth is None else int(depth))

    def connect(self) -> Session:
        return session.connect(self.url, "skipmq spark", writing=True)


class _Writer:
    """The part that both writers share."""

    def __init__(self, options: Any, schema: StructType, *, overwrite: bool) -> None:
        outgoing.check(schema)
        if overwrite:
            raise ValueError('messages are added to a queue: use .mode("append")')
        self._target = _Target.from_options(options)

    def _write(self, stream: str, partition: int, rows: Iterator[Any]) -> Part:
        part = uuid4()
        count = 0
        groups: set[str] = set()

        def counted() -> Iterator[Outgoing]:
            nonlocal count
            for message in outgoing.messages(partition, rows):
                count += 1
                if message.group_id is not None and len(groups) <= GROUPS:
                    groups.add(message.group_id)
                yield message

        refused_rows, refused = 0, []
        with self._target.connect() as connection:
            for place, reason in self._batch(stream).stage(connection, part, counted()):
                refused_rows += 1
                if refused_rows <= _NAMED:
                    refused.append((outgoing.row_of(place), reason))
        return Part(
            stream, partition, part, count - refused_rows, len(groups), refused_rows, tuple(refused)
        )

    def _commit(self, batch: int | None, messages: Sequence[WriterCommitMessage | None]) -> None:
        parts = [message for message in messages if isinstance(message, Part)]
        if not parts:
            return
        stream = parts[0].stream
        if refused := sum(part.refused_rows for part in parts):
            self.abort(parts)
            named = [
                f"partition {part.partition}, row {row}: {reason}"
                for part in parts
                for row, reason in part.refused
            ][:_NAMED]
            total = refused + sum(part.rows for part in parts)
            raise SendError(
                f"{refused} of {total} rows are refused, and nothing was sent:"
                f" {'; '.join(named)}{'; …' if refused > len(named) else ''}"
            )
        count, groups = sum(part.rows for part in parts), sum(part.groups for part in parts)
        ids, depth = [part.id for part in parts], self._target.depth
        with self._target.connect() as connection:
            sent = self._batch(stream, batch).deliver(connection, ids, count, groups, depth=depth)
            deque(sent, maxlen=0)

    def abort(self, messages: Sequence[WriterCommitMessage | None], *_: Any) -> None:
        """Delete what the tasks have staged; of a batch of a stream its number follows."""
        if parts := [message for message in messages if isinstance(message, Part)]:
            with self._target.connect() as connection:
                self._batch(parts[0].stream).discard(connection, [part.id for part in parts])

    def _batch(self, stream: str, number: int | None = None) -> Batch:
        return Batch(self._target.queue, stream, number)


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
        return self._write(self._stream, context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Send what the tasks have staged; raise SendError for refused rows."""
        self._commit(0 if self._id else None, messages)


class StreamWriter(_Writer, DataSourceStreamWriter):
    """Sends the batches of a query, each once; a query is known by its checkpoint."""

    def write(self, iterator: Iterator[Any]) -> Part:
        """Write a partition of a batch."""
        context = TaskContext.get()
        assert context is not None
        stream = f"query/{context.getLocalProperty(_QUERY)}"
        return self._write(stream, context.partitionId(), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Send what the tasks have staged; raise SendError for refused rows."""
        self._commit(batchId, messages)
