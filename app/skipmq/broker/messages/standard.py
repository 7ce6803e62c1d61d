"""Messages of standard queues: send, receive, delete, change visibility."""

import asyncio
from asyncio import Future
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from skipmq.broker.messages import statements
from skipmq.broker.messages.budget import Budget
from skipmq.broker.messages.message import OutgoingMessage, Reception, StoredMessage
from skipmq.broker.messages.operations import (
    ASYNC_COMMIT,
    HELD,
    MOVED,
    OVERTAKEN_AFTER,
    SYNC_COMMIT,
    Deletes,
    Durable,
    Messages,
    Outcome,
    Send,
    Share,
)
from skipmq.broker.messages.receipts import Receipt
from skipmq.broker.messages.watermark import Bounds, PendingProbe, Probe, Scan, Scans
from skipmq.broker.queues import Queue
from skipmq.database.partitions import QUEUE_BITS, Database
from skipmq.database.replication import Replication
from skipmq.database.retry import DatabaseError
from skipmq.database.statement import EPOCH, Rows, Statement
from skipmq.protocol import errors
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


def _columns(messages: Sequence[OutgoingMessage]) -> tuple[list[Any] | None, ...]:
    return (
        [m.message_id for m in messages],
        [m.body for m in messages],
        statements.array([m.attributes for m in messages]),
        statements.array([m.delay_seconds for m in messages]),
        statements.array([m.group_id for m in messages]),
        statements.array([m.trace_header for m in messages]),
    )


class StandardMessages(Messages):
    """The SQL functions for messages of standard queues."""

    _suffix = ""
    _return_statement = statements.RETURN
    _change_calls = statements.CHANGE
    _waits = True

    def __init__(
        self,
        database: Database,
        replication: Replication,
        tracing: "Tracing | None" = None,
        bytes_: Budget | None = None,
        scans: Scans | None = None,
    ) -> None:
        super().__init__(database, replication, tracing, bytes_)
        self._scans = scans or Scans()
        self._unique_sends = self._grouped("send-unique", self._send_unique)
        self._deletes = self._grouped("delete", self._delete, overtaken_after=OVERTAKEN_AFTER)
        # Probes that no claim waits for.
        self._probes: set[asyncio.Task[None]] = set()

    def forget_scans(self) -> None:
        """Claim from the heads of all queues again."""
        self._scans.forget()

    async def _send_unique(
        self,
        key: tuple[int, str, str],
        requests: Sequence[Send],
        deadline: float,
    ) -> list[list[StoredMessage]]:
        queue_id, mode, sender = key
        messages = [message for request in requests for message in request[1]]
        parameters = (
            queue_id,
            *_columns(messages),
            sender,
            [m.deduplication_id for m in messages],
            SYNC_COMMIT[mode],
        )
        # Safe to run again: each message has the result of its first send.
        size = sum([request[3] for request in requests])
        with await self._budget.room(len(messages), size, deadline):
            rows = await self._commit(queue_id, mode, statements.SEND_UNIQUE, parameters, deadline)
        stored = [StoredMessage(id_) for (id_,) in rows]
        return statements.split(stored, [request[1] for request in requests])

    async def _send(
        self, key: Durable, requests: Sequence[Send], deadline: float
    ) -> list[list[StoredMessage] | errors.SqsError]:
        mode = key[1]
        messages = [message for request in requests for message in request[1]]
        items = _columns(messages)
        queues: Any = requests[0][0]
        senders: Any = requests[0][2]
        statement: Statement = statements.SEND
        if requests[-1][0] != queues or len({request[2] for request in requests}) > 1:
            statement = statements.SEND_TO_QUEUES
            queues = [request[0] for request in requests for _ in request[1]]
            senders = [request[2] for request in requests for _ in request[1]]
        parameters = (queues, *items, senders, SYNC_COMMIT[mode])
        first, again = (*parameters, 0), (*parameters, _SENT_WITHIN)
        tenant = self._tenant(requests)
        size = sum([request[3] for request in requests])
        with await self._budget.room(len(messages), size, deadline):
            ((moved,),) = await self._commit(tenant, mode, statement, first, deadline, again)
        stored = [[StoredMessage(m.message_id) for m in request[1]] for request in requests]
        if not moved:
            return [*stored]
        return [
            errors.QueueMoved() if request[0] in moved else answer
            for request, answer in zip(requests, stored, strict=True)
        ]

    async def _receive_within(
        self, shares: list[Share], most: int, deadline: float
    ) -> list[Outcome]:
        if len(shares) == 1:
            return await self._receive_from_queue(shares[0], most, deadline)
        scans = [self._scans.scan(share.queue_id) for share in shares]
        for share, scan in zip(shares, scans, strict=True):
            self._begin_probe(share.queue_id, scan)
        bounds = [scan.bounds() for scan in scans]
        # Each queue's messages can be claimed quickly once in a statement.
        known: set[int] = set()
        quick: list[int | None] = []
        for share, scan, bound in zip(shares, scans, bounds, strict=True):
            is_quick = scan.is_full and share.queue_id not in known and not bound.held[0]
            quick.append(bound.quick if is_quick else None)
            known.add(share.queue_id)
        held = [each.held for each in bounds]
        is_held = any(xids for xids, _ in held)
        parameters = (
            [share.queue_id for share in shares],
            [sum(share.limits) for share in shares],
            [share.timeout for share in shares],
            ASYNC_COMMIT,
            [each.low for each in bounds],
            [each.start for each in bounds],
            quick,
            _LOOKAHEAD,
            [xid for xids, _ in held for xid in xids or ()] if is_held else None,
            [low for _, lows in held for low in lows or ()] if is_held else None,
            list(accumulate(len(xids or ()) for xids, _ in held)) if is_held else None,
            [each.received_low for each in bounds],
        )
        statement = statements.RECEIVE_FROM_QUEUES[most > statements.FEW]
        found = await self._claim(shares, statement, parameters, deadline)
        receptions: list[Outcome] = []
        for share, scan, bound, rows in zip(shares, scans, bounds, found, strict=True):
            if rows and rows[0][2] is None:
                receptions += [errors.QueueMoved()] * len(share.limits)
            else:
                receptions += self._shared(share, scan, bound, rows)
        return receptions

    async def _receive_from_queue(self, share: Share, most: int, deadline: float) -> list[Outcome]:
        queue_id, timeout = share.queue_id, share.timeout
        scan = self._scans.scan(queue_id)
        await self._probe(queue_id, scan)
        bounds = scan.bounds()
        parameters = (
            *(queue_id, most, timeout, ASYNC_COMMIT, bounds.low, bounds.start, _LOOKAHEAD),
            *(*bounds.held, bounds.received_low),
        )
        statement = statements.RECEIVE[most > statements.FEW]
        try:
            (rows,) = await self._claim([share], statement, parameters, deadline)
        except errors.DatabaseDamaged:
            rows = await self._receive_readable(parameters, scan, deadline)
        return self._shared(share, scan, bounds, rows)

    def _shared(self, share: Share, scan: Scan, bounds: Bounds, rows: Rows) -> list[Outcome]:
        """Return the reception of each request of a share in the rows of its claim."""
        limits = share.limits
        if not rows:
            return [Reception([], 0.0)] * len(limits)
        wanted, received_at = sum(limits), rows[0][2] + EPOCH
        if rows[0][0] is None:
            scan.claimed(bounds, 0, received_at, None, wanted)
            self._budget.claimed(share.queue_id, 0, 0)
            return [statements.reception(rows)] * len(limits)
        reached = None if rows[-1][-1] is None else rows[-1][-1] + EPOCH
        scan.claimed(bounds, len(rows), received_at, reached, wanted)
        receptions: list[Outcome] = []
        given = 0
        for limit in limits:
            part = rows[given : given + limit]
            given += limit
            # A claim that gets no share polls again at once to read next_visible_in.
            receptions.append(self._reception(share.queue_id, part) if part else Reception([], 0.0))
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
        """Probe the low watermark if that is due."""
        pending = scan.begin_probe(self._database.partition(queue_id).generation)
        if pending is not None:
            await self._end_probe(queue_id, scan, pending)

    def _begin_probe(self, queue_id: int, scan: Scan) -> None:
        """Probe the low watermark if that is due, and do not wait: it may take long."""
        pending = scan.begin_probe(self._database.partition(queue_id).generation)
        if pending is not None:
            probing = asyncio.create_task(self._end_probe(queue_id, scan, pending))
            self._probes.add(probing)
            probing.add_done_callback(self._probes.discard)

    async def _end_probe(self, queue_id: int, scan: Scan, pending: PendingProbe) -> None:
        """Probe the low watermark; log an error and keep the watermark."""
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
        id_ = queue.id
        partition = id_ >> QUEUE_BITS
        return self._deletes.submit(partition, (id_, receipts), len(receipts), deadline, id_)

    async def _delete(
        self, _partition: int, requests: Sequence[Deletes], deadline: float
    ) -> list[list[str] | errors.SqsError]:
        receipts = [receipts for _, receipts in requests]
        tenant, queue_id = self._tenant(requests), requests[0][0]
        queues: Any = queue_id
        statement = statements.DELETE
        if requests[-1][0] != queue_id:
            queues = [each for each, receipts in requests for _ in receipts]
            statement = statements.DELETE_FROM_QUEUES
        parameters = (queues, *statements.receipts(receipts), ASYNC_COMMIT)
        ((left,),) = await self._database.rows(
            statement, parameters, deadline=deadline, tenant=tenant
        )
        if statement is statements.DELETE or not left:
            return [["deleted"] * len(each) for each in receipts]
        outcomes = ["deleted"] * len(queues)
        for place in left:
            outcomes[abs(place) - 1] = HELD if place > 0 else MOVED
        return [
            errors.QueueMoved() if MOVED in each else errors.Locked() if HELD in each else each
            for each in statements.split(outcomes, receipts)
        ]

    def change_visibility(
        self, queue: Queue, receipts: Sequence[Receipt], timeouts: Sequence[int], deadline: float
    ) -> Future[list[str]]:
        """Set the visibility timeouts of messages in flight; return outcomes in order."""
        id_, changes = queue.id, list(zip(receipts, timeouts, strict=True))
        partition = id_ >> QUEUE_BITS
        return self._changes.submit(partition, (id_, changes), len(changes), deadline, id_)
