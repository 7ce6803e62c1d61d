"""Messages of FIFO queues: send, receive, delete, change visibility.

The database does not wait for groups that another transaction has locked: it skips and reports
them. Only requests for those groups are retried, so that an open transaction of a SQL user delays
no others.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import accumulate
from time import monotonic
from typing import Any, TypeVar

from skipmq.broker.messages import statements
from skipmq.broker.messages.group_commit import GroupCommit, Key
from skipmq.broker.messages.message import OutgoingMessage, Reception, StoredMessage
from skipmq.broker.messages.operations import (
    ASYNC_COMMIT,
    HELD,
    MOVED,
    SYNC_COMMIT,
    Deletes,
    Durable,
    Messages,
    Outcome,
    Send,
    Share,
)
from skipmq.broker.messages.receipts import Receipt
from skipmq.broker.queues import Queue
from skipmq.database.partitions import QUEUE_BITS
from skipmq.database.statement import Rows, Statement
from skipmq.protocol import errors
from skipmq.protocol.call import Recipient

Item = TypeVar("Item")
# The longest wait for a group, and the first and longest pause between two tries, in seconds.
_LONGEST_WAIT, _FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 0.001, 0.1


class FifoMessages(Messages):
    """The SQL functions for messages of FIFO queues."""

    _suffix = "-fifo"
    _return_statement = statements.RETURN_FIFO
    _change_calls = statements.CHANGE_FIFO
    _waits = False

    # Each group's lock takes an entry in the server's lock table, which all sessions share.
    _most = 200

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._deletes = self._grouped("delete-fifo", self._delete)

    async def send(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str, deadline: float
    ) -> list[StoredMessage]:
        """Store messages durably, all or none; return the result of each, in order.

        A duplicate has the result of the first message with its deduplication id. Raises
        errors.Locked when another transaction has locked one of their groups.
        """
        for pause in _pauses(deadline):
            if pause:
                await asyncio.sleep(pause)
            stored = await super().send(queue, messages, sender, deadline)
            if stored is not None:
                return stored
        raise errors.Locked

    async def _send(
        self, key: Durable, requests: Sequence[Send], deadline: float
    ) -> list[list[StoredMessage] | errors.SqsError | None]:
        """Store the requests; return None for each with a group that is locked."""
        mode = key[1]
        messages = [message for request in requests for message in request[1]]
        queues: Any = requests[0][0]
        senders: Any = requests[0][2]
        statement: Statement = statements.SEND_FIFO
        if requests[-1][0] != queues or len({request[2] for request in requests}) > 1:
            statement = statements.SEND_TO_FIFO_QUEUES
            queues = [request[0] for request in requests for _ in request[1]]
            senders = [request[2] for request in requests for _ in request[1]]
        parameters = (
            queues,
            [m.message_id for m in messages],
            [m.body for m in messages],
            statements.array([m.attributes for m in messages]),
            [m.group_id for m in messages],
            [m.deduplication_id for m in messages],
            statements.array([m.trace_header for m in messages]),
            senders,
            SYNC_COMMIT[mode],
            [number for number, request in enumerate(requests) for _ in request[1]],
        )
        # Safe to run again: each message has the result of its first send.
        size = sum([request[3] for request in requests])
        tenant = self._tenant(requests)
        with await self._budget.room(len(messages), size, deadline):
            rows = await self._commit(tenant, mode, statement, parameters, deadline)
        stored = {
            place: None if id_ is None else StoredMessage(id_, number)
            for place, id_, number in rows
        }
        places = statements.split(range(1, len(messages) + 1), [request[1] for request in requests])
        return [_answer([stored.get(place, HELD) for place in share]) for share in places]

    async def _receive_within(
        self, shares: list[Share], most: int, deadline: float
    ) -> list[Outcome]:
        # Each request claims its own groups, since consumers must not share one.
        parameters: tuple[Any, ...]
        receivers = [
            receiver_text(each.recipient.caller, each.recipient.address)
            for share in shares
            for each in share.claims
        ]
        if len(shares) == 1:
            claims = statements.RECEIVE_FIFO
            (share,) = shares
            parameters = (share.queue_id, share.limits, share.timeout, ASYNC_COMMIT, receivers)
        else:
            claims = statements.RECEIVE_FROM_FIFO_QUEUES
            parameters = (
                [share.queue_id for share in shares],
                [limit for share in shares for limit in share.limits],
                list(accumulate([len(share.limits) for share in shares])),
                [share.timeout for share in shares],
                ASYNC_COMMIT,
                receivers,
            )
        receptions: list[Outcome] = []
        found = await self._claim(shares, claims[most > statements.FEW], parameters, deadline)
        for share, rows in zip(shares, found, strict=True):
            by_request: list[Rows] = [[] for _ in share.limits]
            for row in rows:
                by_request[row[-1] - 1].append(row)
            for each in by_request:
                if each and each[0][2] is None:
                    receptions.append(errors.QueueMoved())
                else:
                    receptions.append(
                        self._reception(share.queue_id, each) if each else Reception([])
                    )
        return receptions

    async def receive_attempt(  # noqa: PLR0913, PLR0917 - those of receive, and the attempt.
        self,
        queue: Queue,
        attempt: str,
        limit: int,
        visibility_timeout: int | None,
        deadline: float,
        recipient: Recipient,
    ) -> Reception:
        """Claim messages, or return those that an earlier call of the attempt has claimed.

        Source: SQS API Reference, ReceiveMessage, ReceiveRequestAttemptId.
        """
        receiver = receiver_text(recipient.caller, recipient.address)
        parameters = (queue.id, attempt, limit, visibility_timeout, ASYNC_COMMIT, receiver)
        expected = self._budget.expected(queue.id, limit)
        with await self._budget.room(limit, expected, deadline):
            rows = await self._database.rows(
                statements.RECEIVE_ATTEMPT, parameters, deadline=deadline, tenant=queue.id
            )
            return self._reception(queue.id, rows)

    async def delete(self, queue: Queue, receipts: Sequence[Receipt], deadline: float) -> list[str]:
        """Delete messages whose last receive is their receipt's; return outcomes in order."""
        key = queue.id >> QUEUE_BITS, queue.attributes.replication_mode
        return await _with_groups(self._deletes, key, queue.id, receipts, deadline)

    async def _delete(
        self, key: Durable, requests: Sequence[Deletes], deadline: float
    ) -> list[list[str] | errors.SqsError]:
        mode, receipts = key[1], [receipts for _, receipts in requests]
        queues: Any = requests[0][0]
        statement = statements.DELETE_FIFO
        if requests[-1][0] != queues:
            queues = [each for each, receipts in requests for _ in receipts]
            statement = statements.DELETE_FROM_FIFO_QUEUES
        parameters = (queues, *statements.receipts(receipts), SYNC_COMMIT[mode])
        tenant = self._tenant(requests)
        rows = await self._commit(tenant, mode, statement, parameters, deadline)
        return [
            errors.QueueMoved() if MOVED in each else each
            for each in statements.split([row[0] for row in rows], receipts)
        ]

    async def change_visibility(
        self, queue: Queue, receipts: Sequence[Receipt], timeouts: Sequence[int], deadline: float
    ) -> list[str]:
        """Set the visibility timeouts of messages in flight; return outcomes in order."""
        changes = list(zip(receipts, timeouts, strict=True))
        partition = queue.id >> QUEUE_BITS
        return await _with_groups(self._changes, partition, queue.id, changes, deadline)


def receiver_text(key_id: str | None, address: str) -> str:
    """Return who receives, as groups and failures keep it."""
    return f"http/{key_id or ''}/{address}"


def _answer(
    stored: list[StoredMessage | str | None],
) -> list[StoredMessage] | errors.SqsError | None:
    """Return the answer of a request; a result of None is that of a queue that is gone."""
    if HELD in stored:
        return None
    return errors.QueueMoved() if None in stored else stored  # type: ignore[return-value]


def _pauses(deadline: float) -> Iterator[float]:
    """Yield the pauses before tries, in seconds, while a request may wait for a group."""
    yield 0
    until = min(deadline, monotonic() + _LONGEST_WAIT)
    pause = _FIRST_PAUSE
    while monotonic() + pause < until:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _with_groups(
    group_commit: GroupCommit[Key, tuple[int, Sequence[Item]], list[str]],
    key: Key,
    queue_id: int,
    items: Sequence[Item],
    deadline: float,
) -> list[str]:
    """Return each item's outcome; retry those whose groups are locked."""
    outcomes = [HELD] * len(items)
    for pause in _pauses(deadline):
        if pause:
            await asyncio.sleep(pause)
        held = [place for place, outcome in enumerate(outcomes) if outcome == HELD]
        chosen = [items[place] for place in held]
        request = queue_id, chosen
        found = await group_commit.submit(key, request, len(chosen), deadline, queue_id)
        for place, outcome in zip(held, found, strict=True):
            outcomes[place] = outcome
        if HELD not in outcomes:
            break
    return outcomes
