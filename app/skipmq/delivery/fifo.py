"""Messages of FIFO queues: send, receive, delete, change visibility.

The database does not wait for groups that another transaction has locked: it skips and reports
them. Only requests for those groups are retried, so that an open transaction of a SQL user delays
no others.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from skipmq import errors
from skipmq.database import Database, Replication, Rows
from skipmq.delivery import budget, statements
from skipmq.delivery.budget import Budget
from skipmq.delivery.group_commit import GroupCommit, Key
from skipmq.delivery.messages import ASYNC_COMMIT, SYNC_COMMIT, Messages, ReceiveKey, SendKey
from skipmq.delivery.receipts import Receipt
from skipmq.model import OutgoingMessage, Queue, Reception, StoredMessage

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing

Item = TypeVar("Item")
# A queue's id and its ReplicationMode.
_DeleteKey: TypeAlias = tuple[int, str]
# Each group's lock takes an entry in the server's lock table, which all sessions share.
_MAX_MESSAGES = 200
# The outcome of a message whose group another transaction has locked.
_HELD = "held"
# The longest wait for a group, and the first and longest pause between two tries, in seconds.
_LONGEST_WAIT, _FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 0.001, 0.1


class FifoMessages(Messages):
    """The SQL functions for messages of FIFO queues."""

    _suffix = "-fifo"
    _return_statement = statements.RETURN_FIFO
    _change_statement = statements.CHANGE_FIFO

    def __init__(
        self,
        database: Database,
        replication: Replication,
        max_messages: int = 500,
        tracing: "Tracing | None" = None,
        bytes_: Budget | None = None,
    ) -> None:
        limit = min(max_messages, _MAX_MESSAGES)
        super().__init__(database, replication, limit, tracing, bytes_)
        self._sends = self._grouped("send-fifo", self._send)
        self._receives = self._grouped("receive-fifo", self._receive, self._discard, max_messages)
        self._deletes = self._grouped("delete-fifo", self._delete)

    async def send(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str, deadline: float
    ) -> list[StoredMessage]:
        """Store messages durably, all or none; return the result of each, in order.

        A duplicate has the result of the first message with its deduplication id. Raises
        errors.Locked when another transaction has locked one of their groups.
        """
        key = (queue.id, sender, queue.attributes.replication_mode)
        weight = budget.weight(len(messages), statements.outgoing_size(messages))
        for pause in _pauses(deadline):
            if pause:
                await asyncio.sleep(pause)
            stored = await self._sends.submit(key, messages, weight, deadline)
            if stored is not None:
                return stored
        raise errors.Locked

    async def _send(
        self, key: SendKey, requests: Sequence[Sequence[OutgoingMessage]], deadline: float
    ) -> list[list[StoredMessage] | None]:
        """Store the requests; return None for each with a group that is locked."""
        queue_id, sender, mode = key
        messages = list(chain.from_iterable(requests))
        parameters = (
            queue_id,
            [m.message_id for m in messages],
            [m.body for m in messages],
            statements.array([m.attributes for m in messages]),
            [m.group_id for m in messages],
            [m.deduplication_id for m in messages],
            statements.array([m.trace_header for m in messages]),
            sender,
            SYNC_COMMIT[mode],
            [number for number, request in enumerate(requests) for _ in request],
        )
        # Safe to run again: each message has the result of its first send.
        size = statements.outgoing_size(messages)
        async with self._budget.room(len(messages), size, deadline):
            rows = await self._commit(queue_id, mode, statements.SEND_FIFO, parameters, deadline)
        stored = {place: StoredMessage(*answer) for place, *answer in rows}
        places = iter(range(1, len(messages) + 1))
        shares = [[stored.get(place) for place in islice(places, len(r))] for r in requests]
        return [None if None in share else share for share in shares]  # type: ignore[misc]

    async def _receive_within(
        self, key: ReceiveKey, claims: Sequence[statements.Claim], deadline: float
    ) -> list[Reception]:
        limits = statements.limits(claims)
        if not any(limits):
            return [Reception([])] * len(limits)
        queue_id, timeout = key
        # Each request claims its own groups, since consumers must not share one.
        parameters = queue_id, limits, timeout, ASYNC_COMMIT
        texts = statements.RECEIVE_FIFO, statements.RECEIVE_FIFO_MANY
        rows = await self._claim(queue_id, texts, sum(limits), parameters, deadline)
        shares: list[Rows] = [[] for _ in limits]
        for row in rows:
            shares[row[-1] - 1].append(row)
        return [self._reception(queue_id, share) if share else Reception([]) for share in shares]

    async def receive_attempt(
        self,
        queue: Queue,
        attempt: str,
        limit: int,
        visibility_timeout: int | None,
        deadline: float,
    ) -> Reception:
        """Claim messages, or return those that an earlier call of the attempt has claimed.

        Source: SQS API Reference, ReceiveMessage, ReceiveRequestAttemptId.
        """
        parameters = (queue.id, attempt, limit, visibility_timeout, ASYNC_COMMIT)
        expected = self._budget.expected(queue.id, limit)
        async with self._budget.room(limit, expected, deadline):
            rows = await self._database.rows(
                statements.RECEIVE_ATTEMPT, parameters, deadline=deadline, tenant=queue.id
            )
            return self._reception(queue.id, rows)

    async def delete(self, queue: Queue, receipts: Sequence[Receipt], deadline: float) -> list[str]:
        """Delete messages whose last receive is their receipt's; return outcomes in order."""
        key = (queue.id, queue.attributes.replication_mode)
        return await _with_groups(self._deletes, key, receipts, deadline)

    async def _delete(
        self, key: _DeleteKey, requests: Sequence[Sequence[Receipt]], deadline: float
    ) -> list[list[str]]:
        queue_id, mode = key
        parameters = (*statements.receipts(queue_id, requests), SYNC_COMMIT[mode])
        rows = await self._commit(queue_id, mode, statements.DELETE_FIFO, parameters, deadline)
        return statements.split([outcome for (outcome,) in rows], requests)

    async def change_visibility(
        self, queue: Queue, receipts: Sequence[Receipt], timeouts: Sequence[int], deadline: float
    ) -> list[str]:
        """Set the visibility timeouts of messages in flight; return outcomes in order."""
        request = list(zip(receipts, timeouts, strict=True))
        return await _with_groups(self._changes, queue.id, request, deadline)


def _pauses(deadline: float) -> Iterator[float]:
    """Yield the pauses before tries, in seconds, while a request may wait for a group."""
    yield 0
    until = min(deadline, monotonic() + _LONGEST_WAIT)
    pause = _FIRST_PAUSE
    while monotonic() + pause < until:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


async def _with_groups(
    group_commit: GroupCommit[Key, Sequence[Item], list[str]],
    key: Key,
    items: Sequence[Item],
    deadline: float,
) -> list[str]:
    """Return each item's outcome; retry those whose groups are locked."""
    outcomes = [_HELD] * len(items)
    for pause in _pauses(deadline):
        if pause:
            await asyncio.sleep(pause)
        held = [place for place, outcome in enumerate(outcomes) if outcome == _HELD]
        chosen = [items[place] for place in held]
        found = await group_commit.submit(key, chosen, len(chosen), deadline)
        for place, outcome in zip(held, found, strict=True):
            outcomes[place] = outcome
        if _HELD not in outcomes:
            break
    return outcomes
