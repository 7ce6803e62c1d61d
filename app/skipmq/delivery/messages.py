"""The parts that standard and FIFO queues share: group commit, durable commit, returns."""

from abc import ABC, abstractmethod
from asyncio import Future
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from skipmq.database import Database, Replication, Rows, Statement
from skipmq.database.statement import EPOCH
from skipmq.delivery import budget, statements
from skipmq.delivery.budget import Budget
from skipmq.delivery.group_commit import GroupCommit, Key, Request, Result, Run
from skipmq.delivery.receipts import Receipt
from skipmq.limits import MESSAGE_BYTES
from skipmq.model import Queue, ReceivedMessage, Reception, Recipient

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing

# The synchronous_commit of transactions whose loss only causes redeliveries.
ASYNC_COMMIT = "off"
# The synchronous_commit of transactions that must not be lost, by the queue's ReplicationMode.
SYNC_COMMIT = {"none": "local", "any": "on", "majority": "on", "all": "on"}
# A queue's id, the sender and the queue's ReplicationMode.
SendKey: TypeAlias = tuple[int, str, str]
# A queue's id, and the visibility timeout of a receive in seconds (None: the queue's).
ReceiveKey: TypeAlias = tuple[int, int | None]
Change: TypeAlias = tuple[Receipt, int]


class Messages(ABC):
    """The SQL functions for messages of one type of queue; for one loop.

    `deadline` is the time of time.monotonic until which a call may wait for the database. Each
    raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
    """

    # The suffix of operations in metrics and traces.
    _suffix: ClassVar[str]
    _return_statement: ClassVar[Statement]
    _change_statement: ClassVar[Statement]
    _receives: GroupCommit[ReceiveKey, statements.Claim, Reception]

    def __init__(
        self,
        database: Database,
        replication: Replication,
        max_messages: int = 500,
        tracing: "Tracing | None" = None,
        bytes_: Budget | None = None,
    ) -> None:
        self._budget = bytes_ or Budget()
        self._database = database
        self._replication = replication
        self._max_messages = max_messages
        self._tracing = tracing
        self._returns = self._grouped("return", self._return)
        self._changes = self._grouped(f"change{self._suffix}", self._change)

    def _grouped(
        self,
        operation: str,
        run: Run[Key, Request, Result],
        discard: Callable[[Key, Result], None] = lambda _key, _result: None,
        max_messages: int | None = None,
    ) -> GroupCommit[Key, Request, Result]:
        return GroupCommit(
            run,
            max_messages or self._max_messages,
            lambda requests: self._database.observer.observe("group", requests, (operation,)),
            None if self._tracing is None else self._tracing.transactions(operation),
            self._database.longest_try,
            discard,
        )

    async def _commit(  # noqa: PLR0913, PLR0917 - private.
        self,
        queue_id: int,
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
                tenant=queue_id,
                again=again,
                durable=durable,
                may_be_done=may_be_done,
            )
            if await self._replication.confirm(mode, deadline, queue_id):
                return rows
            parameters, may_be_done = again or parameters, True

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
        key = (queue.id, visibility_timeout)
        # Of a queue that is new here one request at a time is claimed for.
        expected = self._budget.expected(queue.id, limit, unknown=MESSAGE_BYTES)
        weight = budget.weight(limit, expected)
        return self._receives.submit(key, (limit, recipient), weight, deadline)

    async def _receive(
        self, key: ReceiveKey, claims: Sequence[statements.Claim], deadline: float
    ) -> list[Reception]:
        most = sum([limit for limit, _ in claims])
        # A claim reads no more than that, whatever the last messages were like.
        size = min(self._budget.expected(key[0], most), budget.GROUP_BYTES)
        async with self._budget.room(most, size, deadline):
            return await self._receive_within(key, claims, deadline)

    @abstractmethod
    async def _receive_within(
        self, key: ReceiveKey, claims: Sequence[statements.Claim], deadline: float
    ) -> list[Reception]:
        """Claim for the requests of one group, in the room that they have."""

    async def _claim(
        self,
        queue_id: int,
        texts: tuple[Statement, Statement],
        limit: int,
        parameters: Sequence[Any],
        deadline: float,
    ) -> Rows:
        """Return the rows of a claim of up to `limit` messages, by the first statement if few.

        Messages that exceed the bytes of a statement are given back, and left out.
        """
        statement = texts[limit > statements.FEW]
        rows = await self._database.rows(statement, parameters, deadline=deadline, tenant=queue_id)
        if rows[-1][statements.BODY] is None and rows[0][0] is not None:
            rows, left = statements.parted(rows)
            self._give_back(
                queue_id, [Receipt(row[0], row[1], row[2] + EPOCH, row[3]) for row in left]
            )
        return rows

    def _reception(self, queue_id: int, rows: Rows) -> Reception:
        """Return the reception in the rows of a claim; hold its bytes, and remember their size."""
        held = self._budget.claimed(queue_id, len(rows), statements.size(rows))
        return statements.reception(rows, held)

    async def return_messages(
        self, queue: Queue, messages: Sequence[ReceivedMessage], deadline: float
    ) -> None:
        """Make claimed messages visible again, without counting the receive."""
        receipts = statements.receipts_for(messages)
        await self._returns.submit(queue.id, receipts, len(receipts), deadline)

    def _discard(self, key: ReceiveKey, reception: Reception) -> None:
        """Return messages that were claimed for a request that has timed out or was cancelled."""
        self._give_back(key[0], statements.receipts_for(reception.messages))

    def _give_back(self, queue_id: int, receipts: Sequence[Receipt]) -> None:
        if not receipts:
            return
        returned = self._returns.submit(queue_id, receipts, len(receipts), 0.0)
        # If that fails, they are visible again after their visibility timeout.
        returned.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _return(
        self, queue_id: int, requests: Sequence[Sequence[Receipt]], deadline: float
    ) -> list[None]:
        parameters = (*statements.receipts(queue_id, requests), ASYNC_COMMIT)
        await self._database.rows(
            self._return_statement, parameters, deadline=deadline, tenant=queue_id
        )
        return [None] * len(requests)

    async def _change(
        self, queue_id: int, requests: Sequence[Sequence[Change]], deadline: float
    ) -> list[list[str]]:
        receipts = [[receipt for receipt, _ in request] for request in requests]
        parameters = (
            *statements.receipts(queue_id, receipts),
            statements.received_at(receipts),
            [timeout for request in requests for _, timeout in request],
            ASYNC_COMMIT,
        )
        rows = await self._database.rows(
            self._change_statement, parameters, deadline=deadline, tenant=queue_id
        )
        return statements.split([outcome for (outcome,) in rows], requests)
