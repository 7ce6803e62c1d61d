"""The context of a handler: its message, and the transaction in which it is deleted."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from psycopg import AsyncCursor, Cursor
from psycopg.rows import tuple_row

from skipmq.client import transactions
from skipmq.client.connections import AsyncConnection, Connection
from skipmq.client.errors import ClientError
from skipmq.client.message import Message
from skipmq.client.outcomes import LostMessageError
from skipmq.client.queue import Queue
from skipmq.client.source import Source


class Context:
    """The message of a handler, or those of its batch, and ways to delete them.

    A handler of batches finds all in `messages`, in the order of the bodies.
    """

    def __init__(
        self,
        queue: Queue[Any],
        messages: Sequence[Message],
        source: Source,
        release: Callable[[], None],
        *,
        is_async: bool,
    ) -> None:
        self.queue, self.messages = queue, messages
        # Whether a transaction of this context has deleted them, or the handler's own will.
        self.is_deleted = self.is_delegated = self._is_open = False
        self._source, self._release, self._is_async = source, release, is_async

    @property
    def message(self) -> Message:
        """Return the message; of a batch the first."""
        return self.messages[0]

    def transaction(self) -> "Transaction":
        """Begin a transaction whose end deletes the message: both commit, or neither.

        `with`, in a coroutine `async with`, yields a psycopg connection. Leaving the block raises
        LostMessageError, and rolls back, where another has received the message meanwhile.
        """
        return Transaction(self)

    def delete(self, *, using: Any) -> None:
        """Delete the message in the caller's own transaction, which `using` names as in Queue.send.

        Do it last there: the row is locked until that transaction ends. Raises LostMessageError
        where another has received the message meanwhile: roll back.
        """
        self._begin()
        self._release()
        with self.queue.explaining():
            self._check(transactions.run(using, *self._deletion()))
        self.is_delegated = True

    async def adelete(self, *, using: Any) -> None:
        """Do what `delete` does in an asynchronous transaction."""
        self._begin()
        self._release()
        with self.queue.explaining():
            self._check(await transactions.arun(using, *self._deletion()))
        self.is_delegated = True

    def _deletion(self) -> tuple[str, list[Any]]:
        return self._source.deletion(self.queue, self.messages)

    @contextmanager
    def block(self) -> Iterator[Connection]:
        """Yield the transaction of a thread."""
        if self._is_async:
            raise ClientError("this handler is a coroutine: `async with context.transaction()`")
        with self._opening(), self._source.transaction(self._end) as connection:
            yield connection
        self.is_deleted = True

    @asynccontextmanager
    async def ablock(self) -> AsyncIterator[AsyncConnection]:
        """Yield the transaction of a coroutine."""
        with self._opening():
            async with self._source.atransaction(self._aend) as connection:
                yield connection
        self.is_deleted = True

    def _end(self, connection: Connection) -> None:
        self._release()
        cursor = Cursor(connection, row_factory=tuple_row)
        self._check(cursor.execute(*self._deletion()).fetchall())

    async def _aend(self, connection: AsyncConnection) -> None:
        self._release()
        cursor = AsyncCursor(connection, row_factory=tuple_row)
        self._check(await (await cursor.execute(*self._deletion())).fetchall())

    @contextmanager
    def _opening(self) -> Iterator[None]:
        self._begin()
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False

    def _begin(self) -> None:
        if self._is_open:
            raise ClientError(
                "a transaction that deletes the message has begun: do all of its work there"
            )
        if self.is_deleted or self.is_delegated:
            raise ClientError(
                "the message is deleted already: do all of its work in one transaction"
            )

    def _check(self, deleted: transactions.Rows) -> None:
        if not all(each for (each,) in deleted):
            raise LostMessageError(
                f"the message was received from {self.queue.name} by another consumer meanwhile"
            )


class Transaction:
    """A transaction of a handler, for `with` and for `async with`."""

    def __init__(self, context: Context) -> None:
        self._block, self._ablock = context.block, context.ablock

    def __enter__(self) -> Connection:
        self._entered = self._block()
        return self._entered.__enter__()

    def __exit__(self, *details: object) -> None:
        self._entered.__exit__(*details)  # type: ignore[arg-type]

    async def __aenter__(self) -> AsyncConnection:
        self._aentered = self._ablock()
        return await self._aentered.__aenter__()

    async def __aexit__(self, *details: object) -> None:
        await self._aentered.__aexit__(*details)  # type: ignore[arg-type]
