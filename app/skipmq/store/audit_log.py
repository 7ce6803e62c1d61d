"""The audit log: noted in memory, written to the database once a second, read in pages.

A record never delays or fails the request that it is of. What was noted in the last second is lost
with the process, and what finds no room while the database is unavailable; the log has it.
"""

import asyncio
from collections import deque
from time import monotonic
from typing import Any, NamedTuple

import msgspec
import structlog

from skipmq import errors
from skipmq.database import Database, Search, Statement
from skipmq.database.statement import BIGINT, INTEGER, JSONB, TEXT

log = structlog.get_logger()

_RECORD = Statement("select skipmq.record_audit($1)", JSONB, repeatable=False)
_RECORDS = Search(
    "select id, recorded_at, account, access_key, claimed, user_arn, action, queue, client, door,"
    " request_id, outcome, parameters from skipmq.audit_records($1, $2, $3, $4, $5, $6, $7)",
    TEXT, BIGINT, INTEGER, TEXT, TEXT, TEXT, TEXT,
)  # fmt: skip
_INTERVAL = 1.0
# How many may wait, and how many a statement writes.
MOST, _BATCH = 500, 100


class AuditRecord(NamedTuple):
    """What the audit log has of a request; `recorded_at` in seconds since 1970.

    An access key that is only `claimed` has proved nothing. `outcome` is `done` or the code of an
    error, `door` is `api`, `console` or `command`, where `user` is who ran it on that machine.
    """

    id: int
    recorded_at: float
    account: str | None
    access_key: str | None
    claimed: bool
    user: str | None
    action: str | None
    queue: str | None
    client: str | None
    door: str
    request_id: str
    outcome: str
    parameters: Any


class Audit:
    """The audit log of a database, to which a node `writes` or does not; for one loop."""

    def __init__(self, database: Database, *, writes: bool) -> None:
        self._database, self._writes = database, writes
        # Each with the time of time.monotonic when it was noted.
        self._waiting: deque[tuple[float, dict[str, Any]]] = deque()
        self._left_out = 0

    def note(self, record: dict[str, Any]) -> None:
        """Keep a record to be written soon, if there is room."""
        if not self._writes:
            return
        if len(self._waiting) < MOST:
            self._waiting.append((monotonic(), record))
        else:
            self._left_out += 1

    async def run(self) -> None:
        """Write what has been noted until it is cancelled."""
        while True:
            await asyncio.sleep(_INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Write what has been noted; keep it while the database is unavailable."""
        while self._waiting and not self._database.availability.is_unavailable:
            batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), _BATCH))]
            now = monotonic()
            records = [_clean(record) | {"age": now - at} for at, record in batch]
            text = msgspec.json.encode(records).decode()
            try:
                await self._database.rows(_RECORD, (text,))
            except errors.SqsError:
                self._left_out += len(batch)
            except Exception:
                log.exception("audit records not written", number=len(batch))
        if self._left_out:
            log.warning("audit records left out", number=self._left_out)
            self._left_out = 0

    async def records(  # noqa: PLR0913 - the last have defaults.
        self,
        account: str | None,
        limit: int,
        *,
        before: int | None = None,
        queue: str | None = None,
        access_key: str | None = None,
        action: str | None = None,
        outcome: str | None = None,
        deadline: float = 0.0,
    ) -> list[AuditRecord]:
        """Return up to `limit` records, newest first, that concern an account, or any."""
        parameters = (account, before, limit, queue, access_key, action, outcome)
        rows = await self._database.rows(_RECORDS, parameters, deadline=deadline)
        return [AuditRecord(*row) for row in rows]


def _clean(value: Any) -> Any:
    """Return a value without the one character that PostgreSQL cannot hold."""
    if isinstance(value, str):
        return value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if isinstance(value, dict):
        return {_clean(name): _clean(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_clean(each) for each in value]
    return value
