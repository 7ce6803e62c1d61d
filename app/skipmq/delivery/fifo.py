"""Messages of FIFO queues: send, receive, delete, change visibility.

The database waits for no group that another transaction holds: it reports which it could not have
and does the rest. What is for those groups is tried again by itself, so that a SQL user's open
transaction delays only requests for its group.
"""

import asyncio
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from skipmq import errors
from skipmq.database import Database, Replication, Rows
from skipmq.delivery import statements
from skipmq.delivery.group_commit import GroupCommit, Key
from skipmq.delivery.messages import ASYNC_COMMIT, SYNC_COMMIT, Messages, ReceiveKey, SendKey
from skipmq.delivery.receipts import Receipt
from skipmq.model import OutgoingMessage, Queue, Reception, Recipient, StoredMessage

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing

Item = TypeVar("Item")
# A queue's id and its ReplicationMode.
_DeleteKey: TypeAlias = tuple[int, str]
# Each group's lock takes room in a table of the server that all its sessions share.
_MOST = 200
# The outcome of a message whose group another transaction holds.
_HELD = "held"
# How long a request waits for a group, and the pauses between its tries, in seconds.
_LONGEST_WAIT, _FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 0.001, 0.1


class FifoMessages(Messages):
    """The functions of the database on the messages of FIFO queues."""

    _suffix = "-fifo"
    _return_statement = statements.RETURN_FIFO
    _change_statement = statements.CHANGE_FIFO

    def __init__(
        self,
        database: Database,
        replication: Replication,
        most: int = 500,
        tracing: "Tracing | None" = None,
    ) -> None:
        super().__init__(database, replication, min(most, _MOST), tracing)
        self._sends = self._grouped("send-fifo", self._send)
        self._receives = self._grouped("receive-fifo", self._receive, self._discard, most)
        self._deletes = self._grouped("delete-fifo", self._delete)

    async def send(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str, deadline: float
    ) -> list[StoredMessage]:
        """Store messages durably, all or none; return the answer to each, in order.

        That is the answer to the first sending where the deduplication id is known. Raises
        errors.Locked when another transaction holds one of their groups.
        """
        key = (queue.id, sender, queue.attributes.replication_mode)
        for pause in _pauses(deadline):
            if pause:
                await asyncio.sleep(pause)
            stored = await self._sends.submit(key, messages, len(messages), deadline)
            if stored is not None:
                return stored
        raise errors.Locked

    async def _send(
        self, key: SendKey, requests: Sequence[Sequence[OutgoingMessage]], deadline: float
    ) -> list[list[StoredMessage] | None]:
        """Store those requests whose groups no other transaction holds; return None for others."""
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
        # Run again, each deduplication id gives the answer to its first sending.
        rows = await self._commit(queue_id, mode, statements.SEND_FIFO, parameters, deadline)
        stored = {place: StoredMessage(*answer) for place, *answer in rows}
        places = iter(range(1, len(messages) + 1))
        shares = [[stored.get(place) for place in islice(places, len(r))] for r in requests]
        return [None if None in share else share for share in shares]  # type: ignore[misc]

    def receive(
        self,
        queue: Queue,
        limit: int,
        visibility_timeout: int | None,
        deadline: float,
        recipient: Recipient,
    ) -> asyncio.Future[Reception]:
        """Claim up to `limit` visible messages, as StandardMessages.receive does."""
        key = (queue.id, visibility_timeout)
        return self._receives.submit(key, (limit, recipient), limit, deadline)

    async def _receive(
        self, key: ReceiveKey, claims: Sequence[statements.Claim], deadline: float
    ) -> list[Reception]:
        limits = statements.limits(claims)
        if not any(limits):
            return [Reception([])] * len(limits)
        queue_id, timeout = key
        # Each request claims groups of its own: two consumers never share one.
        rows = await self._database.rows(
            statements.RECEIVE_FIFO,
            (queue_id, limits, timeout, ASYNC_COMMIT),
            deadline=deadline,
            tenant=queue_id,
        )
        shares: list[Rows] = [[] for _ in limits]
        for row in rows:
            shares[row[-1] - 1].append(row)
        return [statements.reception(share) if share else Reception([]) for share in shares]

    async def receive_attempt(
        self,
        queue: Queue,
        attempt: str,
        limit: int,
        visibility_timeout: int | None,
        deadline: float,
    ) -> Reception:
        """Claim messages, or return those that the attempt was given before and still has.

        Source: SQS API Reference, ReceiveMessage, ReceiveRequestAttemptId.
        """
        parameters = (queue.id, attempt, limit, visibility_timeout, ASYNC_COMMIT)
        rows = await self._database.rows(
            statements.RECEIVE_ATTEMPT, parameters, deadline=deadline, tenant=queue.id
        )
        return statements.reception(rows)

    async def delete(self, queue: Queue, receipts: Sequence[Receipt], deadline: float) -> list[str]:
        """Delete the messages that are still at the receive of their receipt.

        Return each one's outcome in order.
        """
        key = (queue.id, queue.attributes.replication_mode)
        return await _with_groups(self._deletes, key, receipts, deadline)

    async def _delete(
        self, key: _DeleteKey, requests: Sequence[Sequence[Receipt]], deadline: float
    ) -> list[list[str]]:
        queue_id, mode = key
        parameters = (
            *statements.receipts(queue_id, requests),
            SYNC_COMMIT[mode],
            statements.received_at(requests),
        )
        rows = await self._commit(queue_id, mode, statements.DELETE_FIFO, parameters, deadline)
        return statements.dealt([outcome for (outcome,) in rows], requests)

    async def change_visibility(
        self, queue: Queue, receipts: Sequence[Receipt], timeouts: Sequence[int], deadline: float
    ) -> list[str]:
        """Hide messages in flight for so many seconds; return each one's outcome in order."""
        request = list(zip(receipts, timeouts, strict=True))
        return await _with_groups(self._changes, queue.id, request, deadline)


def _pauses(deadline: float) -> Iterator[float]:
    """Give the pauses before tries, in seconds, while a request may wait for a group."""
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
    """Return each item's outcome; try those again whose groups other transactions hold."""
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
