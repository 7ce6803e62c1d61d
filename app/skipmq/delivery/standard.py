"""Messages of standard queues: send, receive, delete, change visibility."""

from asyncio import Future
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

from skipmq import errors
from skipmq.database import Database, DatabaseError, Replication, Rows
from skipmq.database.statement import EPOCH
from skipmq.delivery import budget, statements
from skipmq.delivery.budget import Budget
from skipmq.delivery.messages import ASYNC_COMMIT, SYNC_COMMIT, Messages, ReceiveKey, SendKey
from skipmq.delivery.receipts import Receipt
from skipmq.delivery.watermark import Probe, Scan, Scans
from skipmq.model import OutgoingMessage, Queue, Reception, StoredMessage
from skipmq.telemetry.logs import log

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing


# A retried send looks for its messages among those of these last seconds: the longest
# SKIPMQ_FAILOVER_WAIT, and the difference between the clocks of two servers.
_SENT_WITHIN = 90
# A claim reports the next message that becomes visible within these seconds; a waiting receiver
# polls once a second anyway.
_LOOKAHEAD = 1
# The longest claim next to a damaged page, which takes a subtransaction for each message.
_READABLE = 100


class StandardMessages(Messages):
    """The SQL functions for messages of standard queues."""

    _suffix = ""
    _return_statement = statements.RETURN
    _change_statement = statements.CHANGE

    def __init__(  # noqa: PLR0913, PLR0917 - all but the first two have defaults.
        self,
        database: Database,
        replication: Replication,
        max_messages: int = 500,
        tracing: "Tracing | None" = None,
        bytes_: Budget | None = None,
        scans: Scans | None = None,
    ) -> None:
        super().__init__(database, replication, max_messages, tracing, bytes_)
        self._scans = scans or Scans()
        self._sends = self._grouped("send", self._send)
        self._receives = self._grouped("receive", self._receive, self._discard)
        self._deletes = self._grouped("delete", self._delete)

    def forget_scans(self) -> None:
        """Claim from the heads of all queues again."""
        self._scans.forget()

    def send(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str, deadline: float
    ) -> Future[list[StoredMessage]]:
        """Store messages durably, all or none; return the result of each, in order."""
        key = (queue.id, sender, queue.attributes.replication_mode)
        weight = budget.weight(len(messages), statements.outgoing_size(messages))
        return self._sends.submit(key, messages, weight, deadline)

    async def _send(
        self, key: SendKey, requests: Sequence[Sequence[OutgoingMessage]], deadline: float
    ) -> list[list[StoredMessage]]:
        queue_id, sender, mode = key
        messages = list(chain.from_iterable(requests))
        parameters = (
            queue_id,
            [m.message_id for m in messages],
            [m.body for m in messages],
            statements.array([m.attributes for m in messages]),
            statements.array([m.delay_seconds for m in messages]),
            statements.array([m.group_id for m in messages]),
            statements.array([m.trace_header for m in messages]),
            sender,
            SYNC_COMMIT[mode],
        )
        first, again = (*parameters, 0), (*parameters, _SENT_WITHIN)
        size = statements.outgoing_size(messages)
        async with self._budget.room(len(messages), size, deadline):
            await self._commit(queue_id, mode, statements.SEND, first, deadline, again)
        return [[StoredMessage(m.message_id) for m in request] for request in requests]

    async def _receive_within(
        self, key: ReceiveKey, claims: Sequence[statements.Claim], deadline: float
    ) -> list[Reception]:
        limits = statements.limits(claims)
        if not any(limits):
            return [Reception([])] * len(limits)
        queue_id, timeout = key
        scan = self._scans.scan(queue_id)
        await self._probe(queue_id, scan)
        bounds = scan.bounds()
        parameters = (
            *(queue_id, sum(limits), timeout, ASYNC_COMMIT, bounds.low, bounds.start, _LOOKAHEAD),
            *(*bounds.held, bounds.received_low),
        )
        texts = statements.RECEIVE, statements.RECEIVE_MANY
        try:
            rows = await self._claim(queue_id, texts, sum(limits), parameters, deadline)
        except errors.DatabaseDamaged:
            rows = await self._receive_readable(parameters, scan, deadline)
        first, received_at, reached = rows[0][0], rows[0][2] + EPOCH, rows[-1][-1]
        if first is None:
            scan.claimed(bounds, 0, received_at, None)
            return [statements.reception(rows)] * len(limits)
        reached = None if reached is None else reached + EPOCH
        scan.claimed(bounds, len(rows), received_at, reached)
        receptions, given = [], 0
        for limit in limits:
            share = rows[given : given + limit]
            given += limit
            # A claim that gets no share polls again at once to read next_visible_in.
            receptions.append(self._reception(queue_id, share) if share else Reception([], 0.0))
        return receptions

    async def _receive_readable(
        self, parameters: tuple[Any, ...], scan: Scan, deadline: float
    ) -> Rows:
        """Receive as a claim with these parameters, but not what a damaged page holds."""
        queue_id, limit, timeout, commit, low, *_, received_low = parameters
        claim = (queue_id, min(limit, _READABLE), timeout, commit, low, received_low)
        rows = await self._database.rows(
            statements.RECEIVE_READABLE, claim, deadline=deadline, tenant=queue_id
        )
        scan.pass_over(*(None if each is None else each + EPOCH for each in rows[-1][-2:]))
        return [(*row[:-2], None) for row in rows]

    async def _probe(self, queue_id: int, scan: Scan) -> None:
        """Probe the low watermark if that is due; log an error and keep the watermark."""
        pending = scan.begin_probe(self._database.partition(queue_id).generation)
        if pending is None:
            return
        probe: Probe | None = None
        try:
            (row,) = await self._database.rows(
                statements.PROBE,
                (queue_id, pending.start, *pending.held, pending.received_start),
                tenant=queue_id,
            )
            probe = Probe(*row)
        except (errors.SqsError, DatabaseError) as error:
            log.warning("cannot probe the low watermark", error=" ".join(str(error).split()))
        finally:
            scan.end_probe(pending, probe)

    def delete(
        self, queue: Queue, receipts: Sequence[Receipt], deadline: float
    ) -> Future[list[str]]:
        """Delete messages whose last receive is their receipt's; return outcomes in order."""
        return self._deletes.submit(queue.id, receipts, len(receipts), deadline)

    async def _delete(
        self, queue_id: int, requests: Sequence[Sequence[Receipt]], deadline: float
    ) -> list[list[str]]:
        parameters = (*statements.receipts(queue_id, requests), ASYNC_COMMIT)
        await self._database.rows(statements.DELETE, parameters, deadline=deadline, tenant=queue_id)
        return [["deleted"] * len(request) for request in requests]

    def change_visibility(
        self, queue: Queue, receipts: Sequence[Receipt], timeouts: Sequence[int], deadline: float
    ) -> Future[list[str]]:
        """Set the visibility timeouts of messages in flight; return outcomes in order."""
        request = list(zip(receipts, timeouts, strict=True))
        return self._changes.submit(queue.id, request, len(request), deadline)
