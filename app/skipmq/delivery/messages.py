"""Messages: send, receive, delete, change visibility, on standard and on FIFO queues."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import structlog

from skipmq import errors
from skipmq.database import Database, DatabaseError, Replication, Rows, Statement
from skipmq.database.statement import EPOCH
from skipmq.delivery import held_groups
from skipmq.delivery import message_sql as sql
from skipmq.delivery.group_commit import GroupCommit
from skipmq.delivery.receipts import Receipt
from skipmq.delivery.watermark import Probe, Scan, Scans
from skipmq.model import (
    MessageCounts,
    OutgoingMessage,
    Queue,
    ReceivedMessage,
    Reception,
    Recipient,
    StoredMessage,
)

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing, Transactions

log = structlog.get_logger()

# What is lost with a crash of the database after such a commit is only ever delivered again.
_LAX = "off"
# What a send, and a delete from a FIFO queue, waits for, by the queue's ReplicationMode.
_DURABLE = {"none": "local", "any": "on", "majority": "on", "all": "on"}
# How far back a send that is tried again looks for itself, in seconds: the longest
# SKIPMQ_FAILOVER_WAIT, and what the clocks of two servers may differ by.
_SENT_WITHIN = 90
# A waiter polls again within a second anyway.
_AHEAD = 1
# Each group's lock takes room in a table of the server that all its sessions share.
_FIFO_MOST = 200
_Change: TypeAlias = tuple[Receipt, int]
# A recipient that never leaves.
SOMEBODY = Recipient()


class Messages:
    """The message functions of the database.

    `deadline` is until when a call may wait for a database, as a time of time.monotonic. Each
    raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
    """

    def __init__(
        self,
        database: Database,
        replication: Replication,
        most: int = 500,
        scans: Scans | None = None,
        tracing: "Tracing | None" = None,
    ) -> None:
        self._database = database
        self._replication = replication
        self._scans = scans or Scans()
        fifo_most = min(most, _FIFO_MOST)

        def seen(operation: str) -> tuple[Callable[[int], None], "Transactions | None", float]:
            return (
                lambda requests: database.observer.observe("group", requests, (operation,)),
                None if tracing is None else tracing.transactions(operation),
                database.longest_try,
            )

        self._sends = GroupCommit(self._send, most, *seen("send"))
        self._fifo_sends = GroupCommit(self._send_fifo, fifo_most, *seen("send-fifo"))
        receives: type[GroupCommit[tuple[int, int | None], sql.Claim, Reception]] = GroupCommit
        self._receives = receives(
            self._receive, most, *seen("receive"), discard=partial(self._discard, fifo=False)
        )
        self._fifo_receives = GroupCommit(
            self._receive_fifo,
            most,
            *seen("receive-fifo"),
            discard=partial(self._discard, fifo=True),
        )
        self._returns = GroupCommit(self._return, most, *seen("return"))
        self._deletes = GroupCommit(self._delete, most, *seen("delete"))
        self._fifo_deletes = GroupCommit(self._delete_fifo, fifo_most, *seen("delete-fifo"))
        self._changes = GroupCommit(self._change, most, *seen("change"))
        self._fifo_changes = GroupCommit(self._change_fifo, fifo_most, *seen("change-fifo"))

    def send(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str, deadline: float
    ) -> Awaitable[list[StoredMessage]]:
        """Store messages durably, all or none; return what to answer for each, in order.

        On a FIFO queue that is the answer to the first sending where the deduplication id is known.
        Raises errors.Locked when another transaction goes on sending to one of their groups.
        """
        key = (queue.id, sender, _mode(queue))
        if queue.fifo:
            return self._send_to_groups(key, messages, deadline)
        return self._sends.submit(key, messages, len(messages), deadline)

    async def _send_to_groups(
        self, key: tuple[int, str, str], messages: Sequence[OutgoingMessage], deadline: float
    ) -> list[StoredMessage]:
        for pause in held_groups.pauses(deadline):
            if pause:
                await asyncio.sleep(pause)
            stored = await self._fifo_sends.submit(key, messages, len(messages), deadline)
            if stored is not None:
                return stored
        raise errors.Locked

    async def _send(
        self,
        key: tuple[int, str, str],
        requests: Sequence[Sequence[OutgoingMessage]],
        deadline: float,
    ) -> list[list[StoredMessage]]:
        queue_id, sender, mode = key
        messages = list(chain.from_iterable(requests))
        parameters = (
            queue_id,
            [m.message_id for m in messages],
            [m.body for m in messages],
            sql.array([m.attributes for m in messages]),
            sql.array([m.delay_seconds for m in messages]),
            sql.array([m.group_id for m in messages]),
            sql.array([m.trace_header for m in messages]),
            sender,
            _DURABLE[mode],
        )
        await self._durably(
            queue_id, mode, sql.SEND, (*parameters, None), deadline, (*parameters, _SENT_WITHIN)
        )
        return [[StoredMessage(m.message_id) for m in request] for request in requests]

    async def _send_fifo(
        self,
        key: tuple[int, str, str],
        requests: Sequence[Sequence[OutgoingMessage]],
        deadline: float,
    ) -> list[list[StoredMessage] | None]:
        """Store those requests whose groups nobody else holds; return None for the others."""
        queue_id, sender, mode = key
        messages = list(chain.from_iterable(requests))
        # Again, each deduplication id gives the answer to its first sending.
        rows = await self._durably(
            queue_id,
            mode,
            sql.SEND_FIFO,
            (
                queue_id,
                [m.message_id for m in messages],
                [m.body for m in messages],
                sql.array([m.attributes for m in messages]),
                [m.group_id for m in messages],
                [m.deduplication_id for m in messages],
                sql.array([m.trace_header for m in messages]),
                sender,
                _DURABLE[mode],
                [number for number, request in enumerate(requests) for _ in request],
            ),
            deadline,
        )
        stored = {place: StoredMessage(*answer) for place, *answer in rows}
        places = iter(range(1, len(messages) + 1))
        shares = [[stored.get(place) for place in islice(places, len(r))] for r in requests]
        return [None if None in share else share for share in shares]  # type: ignore[misc]

    async def _durably(  # noqa: PLR0913, PLR0917 - private.
        self,
        queue_id: int,
        mode: str,
        statement: Statement,
        parameters: Sequence[Any],
        deadline: float,
        again: Sequence[Any] | None = None,
    ) -> Rows:
        """Run a statement; return its rows when as many servers have it as the mode asks for."""
        durable, may_be_done = mode != "none", False
        while True:
            rows = await self._database.rows(
                statement,
                parameters,
                deadline=deadline,
                tenant=queue_id,
                again=again,
                durable=durable,
                may_be_done=may_be_done,
            )
            if await self._replication.confirm(mode, deadline):
                return rows
            parameters, may_be_done = again or parameters, True

    async def receive(  # noqa: PLR0913 - two have defaults.
        self,
        queue: Queue,
        limit: int,
        visibility_timeout: int | None,
        deadline: float,
        *,
        attempt: str | None = None,
        recipient: Recipient = SOMEBODY,
    ) -> Reception:
        """Claim up to `limit` visible messages for so many seconds (None: the queue's timeout).

        With an `attempt`, on a FIFO queue, what it was given before if nobody has changed it. For a
        recipient that has left nothing is claimed; one that leaves while its claim runs has to
        `give_back` what comes of it.
        """
        if attempt is not None and not recipient.left:
            parameters = (queue.id, attempt, limit, visibility_timeout, _LAX)
            rows = await self._database.rows(
                sql.RECEIVE_ATTEMPT, parameters, deadline=deadline, tenant=queue.id
            )
            return sql.reception(rows)
        receives = self._fifo_receives if queue.fifo else self._receives
        return await receives.submit(
            (queue.id, visibility_timeout), (limit, recipient), limit, deadline
        )

    async def _receive(
        self, key: tuple[int, int | None], claims: Sequence[sql.Claim], deadline: float
    ) -> list[Reception]:
        limits = sql.limits(claims)
        if not any(limits):
            return [Reception([])] * len(limits)
        queue_id, timeout = key
        scan = self._scans.of(queue_id)
        await self._probe(queue_id, scan)
        bounds = scan.bounds()
        parameters = (queue_id, sum(limits), timeout, _LAX, bounds.low, bounds.start, _AHEAD)
        rows = await self._database.rows(
            sql.RECEIVE,
            (*parameters, *bounds.held, bounds.received_low),
            deadline=deadline,
            tenant=queue_id,
        )
        first, received_at, reached = rows[0][0], rows[0][2] + EPOCH, rows[-1][-1]
        if first is None:
            scan.claimed(bounds, 0, received_at, None)
            return [sql.reception(rows)] * len(limits)
        reached = None if reached is None else reached + EPOCH
        scan.claimed(bounds, len(rows), received_at, reached)
        receptions, given = [], 0
        for limit in limits:
            share = rows[given : given + limit]
            given += limit
            # Who comes away empty-handed polls again at once, to learn when the next comes.
            receptions.append(sql.reception(share) if share else Reception([], 0.0))
        return receptions

    async def _probe(self, queue_id: int, scan: Scan) -> None:
        """Ask the database, if that is due, whether the low watermark is higher by now.

        A probe that fails leaves it where it is: whether a receive fails, its claim decides.
        """
        pending = scan.begin_probe(self._database.generation)
        if pending is None:
            return
        probe: Probe | None = None
        try:
            (row,) = await self._database.rows(
                sql.PROBE,
                (queue_id, pending.start, *pending.held, pending.received_start),
                tenant=queue_id,
            )
            probe = Probe(*row)
        except (errors.SqsError, DatabaseError) as error:
            log.warning("cannot probe the low watermark", error=" ".join(str(error).split()))
        finally:
            scan.end_probe(pending, probe)

    async def _receive_fifo(
        self, key: tuple[int, int | None], claims: Sequence[sql.Claim], deadline: float
    ) -> list[Reception]:
        limits = sql.limits(claims)
        if not any(limits):
            return [Reception([])] * len(limits)
        # Each request claims groups of its own: two consumers never share one.
        rows = await self._database.rows(
            sql.RECEIVE_FIFO,
            (key[0], limits, key[1], _LAX),
            deadline=deadline,
            tenant=key[0],
        )
        shares: list[Rows] = [[] for _ in limits]
        for row in rows:
            shares[row[-1] - 1].append(row)
        return [sql.reception(share) if share else Reception([]) for share in shares]

    async def give_back(
        self, queue: Queue, messages: Sequence[ReceivedMessage], deadline: float
    ) -> None:
        """Make messages that were claimed for no one visible, and not count the receive."""
        receipts = sql.receipts_for(messages)
        await self._returns.submit((queue.id, queue.fifo), receipts, len(receipts), deadline)

    def _discard(self, key: tuple[int, int | None], reception: Reception, *, fifo: bool) -> None:
        """Return what was claimed for a request that has been answered already."""
        if receipts := sql.receipts_for(reception.messages):
            returned = self._returns.submit((key[0], fifo), receipts, len(receipts), 0.0)
            # Where that fails, they come back after their visibility timeout.
            returned.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _return(
        self, key: tuple[int, bool], requests: Sequence[Sequence[Receipt]], deadline: float
    ) -> list[None]:
        queue_id, fifo = key
        parameters = (*sql.receipts(queue_id, requests), _LAX)
        statement = sql.RETURN_FIFO if fifo else sql.RETURN
        await self._database.rows(statement, parameters, deadline=deadline, tenant=queue_id)
        return [None] * len(requests)

    def delete(
        self, queue: Queue, receipts: Sequence[Receipt], deadline: float
    ) -> Awaitable[list[str]]:
        """Delete the messages that are still at the receive their receipt stands for.

        Returns each one's outcome in order; on a standard queue that is always the same.
        """
        if queue.fifo:
            key = (queue.id, _mode(queue))
            return held_groups.passed(self._fifo_deletes, key, receipts, deadline)
        return self._deletes.submit(queue.id, receipts, len(receipts), deadline)

    async def _delete(
        self, queue_id: int, requests: Sequence[Sequence[Receipt]], deadline: float
    ) -> list[list[str]]:
        parameters = (*sql.receipts(queue_id, requests), _LAX, sql.received_at(requests))
        await self._database.rows(sql.DELETE, parameters, deadline=deadline, tenant=queue_id)
        return [["deleted"] * len(request) for request in requests]

    async def _delete_fifo(
        self, key: tuple[int, str], requests: Sequence[Sequence[Receipt]], deadline: float
    ) -> list[list[str]]:
        queue_id, mode = key
        parameters = (*sql.receipts(queue_id, requests), _DURABLE[mode], sql.received_at(requests))
        rows = await self._durably(queue_id, mode, sql.DELETE_FIFO, parameters, deadline)
        return sql.dealt([outcome for (outcome,) in rows], requests)

    def change_visibility(
        self, queue: Queue, receipts: Sequence[Receipt], timeouts: Sequence[int], deadline: float
    ) -> Awaitable[list[str]]:
        """Hide messages in flight for so many seconds; return each one's outcome in order."""
        request = list(zip(receipts, timeouts, strict=True))
        if queue.fifo:
            return held_groups.passed(self._fifo_changes, queue.id, request, deadline)
        return self._changes.submit(queue.id, request, len(request), deadline)

    async def _change(
        self, queue_id: int, requests: Sequence[Sequence[_Change]], deadline: float
    ) -> list[list[str]]:
        return await self._changed(sql.CHANGE, queue_id, requests, deadline)

    async def _change_fifo(
        self, queue_id: int, requests: Sequence[Sequence[_Change]], deadline: float
    ) -> list[list[str]]:
        return await self._changed(sql.CHANGE_FIFO, queue_id, requests, deadline)

    async def _changed(
        self,
        statement: Statement,
        queue_id: int,
        requests: Sequence[Sequence[_Change]],
        deadline: float,
    ) -> list[list[str]]:
        receipts = [[receipt for receipt, _ in request] for request in requests]
        timeouts = [timeout for request in requests for _, timeout in request]
        parameters = (*sql.receipts(queue_id, receipts), sql.received_at(receipts), timeouts, _LAX)
        rows = await self._database.rows(statement, parameters, deadline=deadline, tenant=queue_id)
        return sql.dealt([outcome for (outcome,) in rows], requests)

    async def count(self, queue_id: int, deadline: float) -> MessageCounts:
        """Count the messages of a queue."""
        (row,) = await self._database.rows(sql.COUNT, (queue_id,), deadline=deadline)
        return MessageCounts(*row)

    async def in_flight(self, queue_id: int, most: int, deadline: float) -> int:
        """Return a number that the messages of a queue in flight do not exceed; `most` is a limit.

        From half the limit on it is exact.
        """
        ((count,),) = await self._database.rows(
            sql.IN_FLIGHT, (queue_id, most), deadline=deadline, tenant=queue_id
        )
        return int(count)


def _mode(queue: Queue) -> str:
    """Return how many servers must have what must not be lost on a queue."""
    return queue.attributes["ReplicationMode"]
