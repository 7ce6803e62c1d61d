"""The parts that standard and FIFO queues share: group commit, durable commit, returns."""

from abc import ABC, abstractmethod
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from itertools import groupby
from operator import itemgetter
from time import monotonic
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from skipmq.broker.messages import budget, statements
from skipmq.broker.messages.budget import Budget
from skipmq.broker.messages.group_commit import GroupCommit, Key, Load, Request, Result, Run
from skipmq.broker.messages.message import (
    OutgoingMessage,
    ReceivedMessage,
    Reception,
    StoredMessage,
)
from skipmq.broker.messages.receipts import Receipt
from skipmq.broker.queues import Queue
from skipmq.database.partitions import QUEUE_BITS, Database
from skipmq.database.replication import Replication
from skipmq.database.statement import EPOCH, Rows, Statement
from skipmq.protocol import errors
from skipmq.protocol.call import Recipient
from skipmq.protocol.limits import MESSAGE_BYTES

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing


# The synchronous_commit of transactions whose loss only causes redeliveries.
ASYNC_COMMIT = "off"
# The synchronous_commit of transactions that must not be lost, by the queue's ReplicationMode.
SYNC_COMMIT = {"none": "local", "any": "on", "majority": "on", "all": "on"}
# What the requests of a durable transaction share: a partition and a ReplicationMode.
Durable: TypeAlias = tuple[int, str]
# Requests: a queue's id, and messages with their sender and size, receives, or these with timeouts.
Send: TypeAlias = tuple[int, Sequence[OutgoingMessage], str, int]
Deletes: TypeAlias = tuple[int, Sequence[Receipt]]
Change: TypeAlias = tuple[Receipt, int]
Changes: TypeAlias = tuple[int, Sequence[Change]]
# The most messages of a transaction. The server's processor takes 127 µs for a message of 256 bytes
# that is sent alone, 22 in ten, 9 in a hundred and in 500, 8 in 4,000: more save nothing, and where
# one of them fails they are all tried again.
TRANSACTION_MESSAGES = 500
# The outcome for a message, or a group, that another transaction has locked.
HELD = "held"
# The outcome for a message whose queue was purged or deleted.
MOVED = "moved"
Outcome: TypeAlias = Reception | errors.SqsError
# Seconds that queues wait for a transaction of another one that waits for no disk, and a claim that
# takes as long is served apart.
OVERTAKEN_AFTER = 0.05


class Claim(NamedTuple):
    """A receive of up to `limit` messages; a timeout of None is the queue's."""

    queue_id: int
    timeout: int | None
    limit: int
    recipient: Recipient


class Share(NamedTuple):
    """Claims of a transaction that one call of a function serves: limits by request."""

    queue_id: int
    timeout: int | None
    limits: list[int]
    claims: list[Claim]


class Messages(ABC):
    """The SQL functions for messages of one type of queue; for one loop.

    `deadline` is the time of time.monotonic until which a call may wait for the database. Each
    raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
    """

    # The suffix of operations in metrics and traces.
    _suffix: ClassVar[str]
    _return_statement: ClassVar[Statement]
    _change_calls: ClassVar[statements.Calls]
    # Whether changes of one queue wait for messages that another transaction has locked.
    _waits: ClassVar[bool]
    # The most messages whose locks a transaction takes.
    _most: ClassVar[int] = TRANSACTION_MESSAGES

    def __init__(
        self,
        database: Database,
        replication: Replication,
        tracing: "Tracing | None" = None,
        bytes_: Budget | None = None,
    ) -> None:
        self._budget = bytes_ or Budget()
        self._database = database
        self._replication = replication
        self._tracing = tracing
        self._load = Load()
        self._sends: GroupCommit[Durable, Send, Any] = self._grouped(
            f"send{self._suffix}", self._send
        )
        # Those to queues that are not FIFO, and deduplicate: by queue, ReplicationMode and sender.
        self._unique_sends: GroupCommit[tuple[int, str, str], Send, Any] | None = None
        self._returns = self._grouped("return", self._return)
        self._changes = self._grouped(
            f"change{self._suffix}", self._change, overtaken_after=OVERTAKEN_AFTER
        )
        self._receives: GroupCommit[int, Claim, Reception] = self._grouped(
            f"receive{self._suffix}",
            self._receive,
            self._discard,
            TRANSACTION_MESSAGES,
            OVERTAKEN_AFTER,
        )

    def _grouped(
        self,
        operation: str,
        run: Run[Key, Request, Result],
        discard: Callable[[int, Result], None] = lambda _queue_id, _result: None,
        max_messages: int | None = None,
        overtaken_after: float | None = None,
    ) -> GroupCommit[Key, Request, Result]:
        return GroupCommit(
            run,
            max_messages or self._most,
            lambda requests: self._database.pool.observer.observe("group", requests, (operation,)),
            None if self._tracing is None else self._tracing.transactions(operation),
            self._database.pool.longest_try,
            discard,
            overtaken_after,
            self._load,
        )

    def _tenant(self, requests: Sequence[tuple[Any, ...]]) -> int:
        """Return the queue of requests; that of several is none, in the same partition."""
        first: int = requests[0][0]
        last: int = requests[-1][0]
        if first == last:
            return first
        return (first >> QUEUE_BITS) << QUEUE_BITS

    async def _commit(  # noqa: PLR0913, PLR0917 - private.
        self,
        tenant: int,
        mode: str,
        statement: Statement,
        parameters: Sequence[Any],
        deadline: float,
        again: Sequence[Any] | None = None,
    ) -> Rows:
        """Run a statement; return its rows once the servers that the mode requires have it.

        When it may have run, it is run again, with the parameters `again` if given.
        """
        durable, may_be_done = mode != "none", False
        while True:
            rows = await self._database.rows(
                statement,
                parameters,
                deadline=deadline,
                tenant=tenant,
                again=again,
                durable=durable,
                may_be_done=may_be_done,
            )
            if await self._replication.confirm(mode, deadline, tenant):
                return rows
            parameters, may_be_done = again or parameters, True

    def send(
        self, queue: Queue, messages: Sequence[OutgoingMessage], sender: str, deadline: float
    ) -> Awaitable[list[StoredMessage]]:
        """Store messages durably, all or none; return the result of each, in order.

        A duplicate, where the queue deduplicates, has the result of the first message.
        """
        id_, count = queue.id, len(messages)
        size = sum([message.size for message in messages])
        weight = budget.weight(count, size)
        if weight > count:  # One of large messages delays no other queue.
            self._sends.set_apart(id_)
        mode, request = queue.attributes.replication_mode, (id_, messages, sender, size)
        if queue.attributes.deduplication_seconds and self._unique_sends is not None:
            key = id_, mode, sender
            return self._unique_sends.submit(key, request, weight, deadline, id_)
        return self._sends.submit((id_ >> QUEUE_BITS, mode), request, weight, deadline, id_)

    @abstractmethod
    async def _send(self, key: Durable, requests: Sequence[Send], deadline: float) -> Sequence[Any]:
        """Store the messages of a group; return for each request what `send` does, or an error."""

    def receive(
        self,
        queue: Queue,
        limit: int,
        visibility_timeout: int | None,
        deadline: float,
        recipient: Recipient,
    ) -> Future[Reception]:
        """Claim up to `limit` visible messages; None is the queue's visibility timeout.

        Claims nothing for a recipient that has disconnected. The caller returns messages that were
        claimed for one that disconnects meanwhile.
        """
        id_ = queue.id
        # Of a queue that is new here one request at a time is claimed for.
        expected = self._budget.expected(id_, limit, unknown=MESSAGE_BYTES)
        weight = budget.weight(limit, expected)
        if weight > limit and self._budget.knows(id_):
            self._receives.set_apart(id_)
        claim = Claim(id_, visibility_timeout, limit, recipient)
        return self._receives.submit(id_ >> QUEUE_BITS, claim, weight, deadline, id_)

    async def _receive(
        self, _partition: int, claims: Sequence[Claim], deadline: float
    ) -> Sequence[Outcome]:
        shares = []
        most = size = 0
        for (queue_id, timeout), group in groupby(claims, itemgetter(0, 1)):
            shared = [*group]
            limits = [0 if each.recipient.is_disconnected else each.limit for each in shared]
            wanted = sum(limits)
            most += wanted
            size += self._budget.expected(queue_id, wanted)
            shares.append(Share(queue_id, timeout, limits, shared))
        if not most:
            return [Reception([])] * len(claims)
        # A claim reads no more than that, whatever the last messages were like.
        with await self._budget.room(most, min(size, budget.GROUP_BYTES), deadline):
            return await self._receive_within(shares, most, deadline)

    @abstractmethod
    async def _receive_within(
        self, shares: list[Share], most: int, deadline: float
    ) -> Sequence[Outcome]:
        """Claim for the requests of a group, up to `most` messages, in the room that they have."""

    async def _claim(
        self,
        shares: Sequence[Share],
        statement: Statement,
        parameters: Sequence[Any],
        deadline: float,
    ) -> list[Rows]:
        """Return the rows of each share; those of several shares end with its number from 1.

        Messages that exceed the bytes of a statement are given back, and left out.
        """
        began = monotonic()
        tenant = self._tenant(shares)
        rows = await self._database.rows(statement, parameters, deadline=deadline, tenant=tenant)
        found: list[Rows] = [rows]
        if len(shares) > 1:
            found = [[] for _ in shares]
            turns: dict[int, int] = {}
            for row in rows:
                if (share := row[-1]) > 0:
                    found[share - 1].append(row[:-1])
                else:  # It has messages, and took long after those.
                    turns[-share - 1] = row[2]
            if (took := monotonic() - began) > OVERTAKEN_AFTER:
                self._set_long_apart(shares, found, turns, took)
        if rows[-1][statements.BODY] is None:
            return [self._given(*each) for each in zip(shares, found, strict=True)]
        return found

    def _given(self, share: Share, rows: Rows) -> Rows:
        """Return rows of a claim; give back those whose bodies were left out."""
        rows, left = statements.parted(rows)
        receipts = [Receipt(row[0], row[1], row[2] + EPOCH, row[3]) for row in left]
        self._give_back(share.queue_id, receipts)
        return rows

    def _set_long_apart(
        self, shares: Sequence[Share], found: list[Rows], turns: dict[int, int], took: float
    ) -> None:
        """Serve queues apart whose claims took long, by the times at which their turns came.

        Those that are claimed for together have one time, and none of them is served apart.
        """
        began: dict[float, list[int]] = {}
        for place, (share, rows) in enumerate(zip(shares, found, strict=True)):
            if rows and rows[-1][2] is not None:
                at = (turns.get(place) or rows[-1][2]) / 1_000_000
                began.setdefault(at, []).append(share.queue_id)
        starts = sorted(began)
        ends = [*starts[1:], starts[0] + took] if starts else []
        for start, end in zip(starts, ends, strict=True):
            if end - start > OVERTAKEN_AFTER and len(began[start]) == 1:
                self._receives.set_apart(began[start][0], end - start)

    def _reception(self, queue_id: int, rows: Rows) -> Reception:
        """Return the reception in the rows of a claim; hold its bytes, and remember their size."""
        held = self._budget.claimed(queue_id, len(rows), statements.size(rows))
        return statements.reception(rows, held)

    async def return_messages(
        self, queue: Queue, messages: Sequence[ReceivedMessage], deadline: float
    ) -> None:
        """Make claimed messages visible again, without counting the receive."""
        receipts = statements.receipts_for(messages)
        await self._returns.submit(queue.id, receipts, len(receipts), deadline, queue.id)

    def _discard(self, queue_id: int, reception: Reception) -> None:
        """Return messages that were claimed for a request that has timed out or was cancelled."""
        self._give_back(queue_id, statements.receipts_for(reception.messages))

    def _give_back(self, queue_id: int, receipts: Sequence[Receipt]) -> None:
        if not receipts:
            return
        returned = self._returns.submit(queue_id, receipts, len(receipts), 0.0, queue_id)
        # If that fails, they are visible again after their visibility timeout.
        returned.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _return(
        self, queue_id: int, requests: Sequence[Sequence[Receipt]], deadline: float
    ) -> list[None]:
        parameters = (queue_id, *statements.receipts(requests), ASYNC_COMMIT)
        await self._database.rows(
            self._return_statement, parameters, deadline=deadline, tenant=queue_id
        )
        return [None] * len(requests)

    async def _change(
        self, _partition: int, requests: Sequence[Changes], deadline: float
    ) -> list[list[str] | errors.SqsError]:
        receipts = [[receipt for receipt, _ in changes] for _, changes in requests]
        queues = statements.sizes(requests)
        statement, parameters = self._change_calls.statement(
            queues,
            *statements.receipts(receipts),
            statements.received_at(receipts),
            [timeout for _, changes in requests for _, timeout in changes],
            ASYNC_COMMIT,
            self._waits and len(queues) == 1,
        )
        rows = await self._database.rows(
            statement, parameters, deadline=deadline, tenant=self._tenant(requests)
        )
        outcomes = statements.split([row[0] for row in rows], receipts)
        if not self._waits:
            return [*outcomes]
        return [errors.Locked() if HELD in each else each for each in outcomes]
