"""What standard and FIFO queues share: group commits, durable commits, returned messages."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from skipmq.database import Database, Replication, Rows, Statement
from skipmq.delivery import statements
from skipmq.delivery.group_commit import GroupCommit, Key, Request, Result, Run
from skipmq.delivery.receipts import Receipt
from skipmq.model import Queue, ReceivedMessage, Reception

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import Tracing

# The synchronous_commit of a transaction whose loss only delivers messages again.
ASYNC_COMMIT = "off"
# The synchronous_commit of one that must not be lost, by the queue's ReplicationMode.
SYNC_COMMIT = {"none": "local", "any": "on", "majority": "on", "all": "on"}
# A queue's id, the sender and the queue's ReplicationMode.
SendKey: TypeAlias = tuple[int, str, str]
# A queue's id, and for how many seconds received messages are hidden (None: the queue's timeout).
ReceiveKey: TypeAlias = tuple[int, int | None]
Change: TypeAlias = tuple[Receipt, int]


class Messages:
    """The functions of the database on the messages of one kind of queue; for one loop.

    `deadline` is until when a call may wait for a database, as a time of time.monotonic. Each
    raises errors.QueueMoved when the queue was purged or deleted since it was looked up.
    """

    # Ends the operations that metrics and traces name.
    _suffix: ClassVar[str]
    _return_statement: ClassVar[Statement]
    _change_statement: ClassVar[Statement]

    def __init__(
        self,
        database: Database,
        replication: Replication,
        most: int = 500,
        tracing: "Tracing | None" = None,
    ) -> None:
        self._database = database
        self._replication = replication
        self._most = most
        self._tracing = tracing
        self._returns = self._grouped("return", self._return)
        self._changes = self._grouped(f"change{self._suffix}", self._change)

    def _grouped(
        self,
        operation: str,
        run: Run[Key, Request, Result],
        discard: Callable[[Key, Result], None] = lambda _key, _result: None,
        most: int | None = None,
    ) -> GroupCommit[Key, Request, Result]:
        return GroupCommit(
            run,
            most or self._most,
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
        """Run a statement; return its rows when as many servers have it as the mode asks for.

        Where it may have been done it is run again with the parameters `again`, if there are any.
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
            if await self._replication.confirm(mode, deadline):
                return rows
            parameters, may_be_done = again or parameters, True

    async def give_back(
        self, queue: Queue, messages: Sequence[ReceivedMessage], deadline: float
    ) -> None:
        """Make messages that were claimed for no client visible, without counting the receive."""
        receipts = statements.receipts_for(messages)
        await self._returns.submit(queue.id, receipts, len(receipts), deadline)

    def _discard(self, key: ReceiveKey, reception: Reception) -> None:
        """Return what was claimed for a request that has been answered already."""
        if receipts := statements.receipts_for(reception.messages):
            returned = self._returns.submit(key[0], receipts, len(receipts), 0.0)
            # Where that fails, they are visible again after their visibility timeout.
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
        return statements.dealt([outcome for (outcome,) in rows], requests)
