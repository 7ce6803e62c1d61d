"""The audit log: buffered in memory, written to the database once a second, read in pages.

A record never delays or fails its request. Records of the last second are lost when the process is
killed, and those that do not fit the buffer while the database is unavailable; the node's log has
all of them.
"""

from collections import deque
from time import monotonic
from typing import Annotated, Any

import msgspec

from skipmq.database.partitions import Database
from skipmq.database.statement import (
    BIGINT,
    BOOLEAN,
    INTEGER,
    JSONB,
    TEXT,
    TIME,
    Search,
    Statement,
    columns,
)
from skipmq.database.wakeup import Flushed
from skipmq.protocol import errors
from skipmq.telemetry.logs import log

_MOMENT = "round(recorded_at * 1000)::bigint"


class AuditRecord(msgspec.Struct, rename="pascal"):
    """A request in the audit log, or `count` equal ones, of which this is the last.

    Times are in milliseconds since 1970, `parameters` JSON. With `claimed` the signature was not
    verified. `outcome` is `done` or an error code, `door` is `api`, `console` or `command`; the
    `user` of a command is the operating system's.
    """

    id: Annotated[str, "id::text"]
    recorded_at: Annotated[int, _MOMENT] = msgspec.field(name="RecordedTimestamp")
    account: str | None
    access_key: str | None = msgspec.field(name="AccessKeyId")
    claimed: bool
    user: Annotated[str | None, "user_arn"]
    action: str | None
    queue: str | None = msgspec.field(name="QueueArn")
    client: str | None = msgspec.field(name="ClientAddress")
    door: str
    request_id: str
    outcome: str
    parameters: Annotated[str | None, "parameters::text"]
    key_name: str | None
    count: Annotated[int, "1"]
    first_at: Annotated[int, _MOMENT] = msgspec.field(name="FirstTimestamp")

    @property
    def likeness(self) -> tuple[Any, ...]:
        """What equal refusals have in common."""
        return (
            *(self.account, self.access_key, self.claimed, self.user, self.action),
            *(self.queue, self.client, self.door, self.outcome),
        )


_RECORD = Statement("select skipmq.record_audit($1)", JSONB, repeatable=False)
_RECORDS = Search(
    f"select {columns(AuditRecord)}"
    " from skipmq.audit_records($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    TEXT, BIGINT, INTEGER, TEXT, TEXT, TEXT, TEXT, TEXT, BOOLEAN, TIME, TIME,
)  # fmt: skip
_INTERVAL = 1.0
# The records that the buffer holds, and that one statement writes.
BUFFERED, _BATCH = 500, 100


class Audit(Flushed):
    """The audit log of a database; without `writes` records are discarded. For one loop."""

    def __init__(self, database: Database, *, writes: bool) -> None:
        super().__init__(_INTERVAL)
        self._database, self._writes = database, writes
        # Each with the time of time.monotonic of its request.
        self._buffer: deque[tuple[float, dict[str, Any]]] = deque()
        self._left_out = 0

    def note(self, record: dict[str, Any]) -> None:
        """Append a record to the buffer, if it has room."""
        if not self._writes:
            return
        if len(self._buffer) < BUFFERED:
            self._buffer.append((monotonic(), record))
        else:
            self._left_out += 1

    async def _write(self) -> None:
        """Write the buffered records, unless the database, or each partition, is unavailable."""
        while self._buffer and self._database.is_anywhere_available:
            batch = [self._buffer.popleft() for _ in range(min(len(self._buffer), _BATCH))]
            now = monotonic()
            records = [_clean(record) | {"age": now - at} for at, record in batch]
            text = msgspec.json.encode(records).decode()
            try:
                await self._database.rows_anywhere(_RECORD, (text,))
            except errors.SqsError:
                self._left_out += len(batch)
            except Exception:
                log.exception("audit records not written", number=len(batch))
        if self._left_out:
            log.warning("audit records left out", number=self._left_out)
            self._left_out = 0


def _clean(value: Any) -> Any:
    """Return a value with NUL, which PostgreSQL cannot store, replaced in its texts."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {_clean(name): _clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return value


async def records(  # noqa: PLR0913 - the last have defaults.
    database: Database,
    account: str | None,
    limit: int,
    *,
    before: int | None = None,
    queue: str | None = None,
    access_key: str | None = None,
    action: str | None = None,
    outcome: str | None = None,
    by: str | None = None,
    changes: bool = False,
    since: int | None = None,
    until: int | None = None,
    deadline: float = 0.0,
) -> list[AuditRecord]:
    """Return up to `limit` records of an account, or of all, newest first.

    `by` is a user's name, its ARN or an access key; `changes` leaves refusals and sign-ins out.
    `since` and `until` are in microseconds since 1970.
    """
    parameters = (
        *(account, before, limit, queue, access_key, action, outcome, by, changes, since, until),
    )
    rows = await database.rows(_RECORDS, parameters, deadline=deadline)
    return [AuditRecord(*row) for row in rows]
