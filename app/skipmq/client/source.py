"""Sources of messages for a worker: the database of the broker, or a node over HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Protocol

from skipmq.client.message import Message
from skipmq.client.outcomes import CALLS
from skipmq.client.queue import Queue, Scheduled

Settled = Callable[[], Sequence[Message]] | Sequence[Message]


class Wakened(Protocol):
    """Woken when something is sent to its queue."""

    queue: Queue[Any]

    def wake(self) -> None:
        """Poll now."""


class Source(Protocol):
    """Claims and settles messages; all waits until it can, and raises ClientError for mistakes.

    Settling returns the number of messages that were still this worker's. A function that returns
    messages is called when it is their turn.
    """

    @property
    def is_open(self) -> bool:
        """Return whether it is connected."""

    @property
    def max_deletes(self) -> int:
        """Return the limit of messages of one delete, which all have its error."""

    @property
    def failure(self) -> type[Exception]:
        """Return what it raises for other failures that are not transient."""

    async def open(self) -> None:
        """Connect; raise ClientError where that fails."""

    async def close(self) -> None:
        """Disconnect."""

    async def declare(self, schedule: Scheduled) -> None:
        """Create a schedule, or change the one of its name."""

    async def listen(self, runners: Sequence[Wakened]) -> None:
        """Wake runners for what is sent to their queues, where it is notified."""

    async def claim(self, queue: Queue[Any], limit: int, seconds: int) -> list[Message]:
        """Receive up to `limit` messages, and hide them for `seconds`."""

    async def delete(self, queue: Queue[Any], messages: Settled) -> list[bool]:
        """Delete messages; return for each whether it was."""

    async def hide(
        self, queue: Queue[Any], messages: Settled, seconds: int, reason: str | None = None
    ) -> int:
        """Hide messages from now on."""

    async def give_back(self, queue: Queue[Any], messages: Sequence[Message]) -> int:
        """Make messages visible, and their receive uncounted where that can be."""

    async def dead_letter(self, queue: Queue[Any], messages: Sequence[Message], reason: str) -> int:
        """Move messages to the queue's dead-letter queue; raise ClientError where it has none."""

    def transaction(self, end: Callable[[Any], None]) -> AbstractContextManager[Any]:
        """Yield a connection in a transaction, the last of which is `end`; for threads."""

    def atransaction(
        self, end: Callable[[Any], Awaitable[None]]
    ) -> AbstractAsyncContextManager[Any]:
        """Do what `transaction` does, for coroutines."""

    def deletion(self, queue: Queue[Any], messages: Sequence[Message]) -> tuple[str, list[Any]]:
        """Return the statement that deletes messages, with its parameters."""


async def pause(tries: int) -> None:
    """Wait before another try, after `tries` and one."""
    await asyncio.sleep(CALLS.delay(tries + 1))
