"""Deletes what handlers are done with: all that waits in one statement, and one commit."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from skipmq.client.message import Message
from skipmq.client.queue import Queue
from skipmq.client.source import Source


class Deletions:
    """Deletes messages of a queue; while a statement runs, others wait for the next one."""

    def __init__(
        self, queue: Queue[Any], source: Source, release: Callable[[Sequence[Message]], None]
    ) -> None:
        self._queue, self._source, self._release = queue, source, release
        self._waiting: list[tuple[Sequence[Message], asyncio.Future[bool]]] = []
        self._task: asyncio.Task[None] | None = None

    async def delete(self, messages: Sequence[Message]) -> bool:
        """Delete messages; return whether all were still this worker's."""
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((messages, done))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await done

    def cancel(self) -> None:
        """Leave what is not deleted yet, of which no one waits for the answer any more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        try:
            while self._waiting:
                await self._delete_waiting()
        finally:
            self._task = None

    async def _delete_waiting(self) -> None:
        """Delete what waits, in one statement at most; each gets its own answer or the error."""
        taken: list[tuple[Sequence[Message], asyncio.Future[bool]]] = []

        def take() -> list[Message]:
            # When it is their turn, again where that is tried again: until then they stay hidden.
            # Those that were cut off meanwhile have been returned.
            taken[:] = [each for each in taken if not each[1].done()]
            found = [message for messages, _ in taken for message in messages]
            while self._waiting:
                messages, done = self._waiting[0]
                if taken and len(found) + len(messages) > self._source.max_deletes:
                    break
                del self._waiting[0]
                if not done.done():
                    taken.append((messages, done))
                    found.extend(messages)
            self._release(found)
            return found

        try:
            answers = await self._source.delete(self._queue, take)
        except Exception as error:  # noqa: BLE001 - each that waits has it.
            for _, done in taken:
                if not done.done():
                    done.set_exception(error)
            return
        for messages, done in taken:
            if not done.done():  # Not cut off meanwhile.
                done.set_result(all(answers[: len(messages)]))
            del answers[: len(messages)]
