"""Settles the messages that a consumer has claimed, or retries them, and counts outcomes."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from skipmq.client import tracing
from skipmq.client.consumer import Consumer
from skipmq.client.context import Context
from skipmq.client.errors import ClientError
from skipmq.client.message import Message
from skipmq.client.outcomes import DeadLetter, Discard, Retry, reason_of
from skipmq.client.queue import Queue
from skipmq.client.source import Source

log = logging.getLogger(__package__)

# For a message without a dead-letter queue, and the limit for any message.
_HOPELESS_SECONDS, _MAXIMUM_SECONDS = 3_600, 43_200


# Between the worker's loop and a handler, in a traceback.
_CALLERS = {"asyncio", "concurrent", "contextlib"}


class Settling:
    """Settles what a consumer has claimed, and counts outcomes."""

    def __init__(self, consumer: Consumer, source: Source) -> None:
        self.consumer, self.queue, self.options = consumer, consumer.queue, consumer.options
        self.outcomes: Counter[str] = Counter()
        self.error: BaseException | None = None
        self._source = source
        self._deletions = Deletions(self.queue, source, self.release)
        # What is claimed and not settled yet, by number.
        self._held: dict[int | str, Message] = {}

    async def fail(self, messages: list[Message], context: Context, error: BaseException) -> bool:
        """Do what the error of a handler asks for; return whether the messages are settled."""
        name = self.consumer.name
        if context.is_deleted:
            log.error("%s failed after its commit of %s", name, _ids(messages), exc_info=error)
            self.count("done", len(messages))
            return True
        if isinstance(error, Discard):
            log.info("%s discarded %s: %s", name, _ids(messages), error)
            is_settled = await self.delete(messages)
            self.count("discarded", len(messages))
            return is_settled
        if isinstance(error, DeadLetter):
            return await self.dead_letter(messages, reason_of(error))
        if not isinstance(error, Retry):
            self.error = self.error or error
        is_settled = True
        for message in messages:
            limit = self.options.attempts
            if limit is not None and message.deliveries >= limit:
                self._log(message, error, "for the last time")
                is_settled &= await self.dead_letter([message], reason_of(error))
                continue
            after = error.after if isinstance(error, Retry) else None
            if after is None:
                after = self.options.retry.seconds(message.deliveries)
            seconds = min(max(round(after), 0), _MAXIMUM_SECONDS)
            self._log(message, error, f"again in {seconds} s")
            self.release([message])
            await self._source.hide(self.queue, [message], seconds, reason_of(error))
            self.count("retried", 1)
            is_settled = False
        return is_settled

    def _log(self, message: Message, error: BaseException, what: str) -> None:
        """Log an error once with the handler's frames, and that a handler asked for a retry."""
        limit = self.options.attempts
        attempt = f"attempt {message.deliveries}" + (f" of {limit}" if limit is not None else "")
        is_asked = isinstance(error, Retry)
        log.log(
            logging.INFO if is_asked else logging.ERROR,
            "%s %s: queue %s, message %s, %s, %s: %s",
            *(self.consumer.name, "asks for a retry" if is_asked else "failed", self.queue.name),
            *(message.id, attempt, what, reason_of(error)),
            exc_info=None if is_asked else (type(error), error, _own_frames(error)),
        )

    def count(self, outcome: str, number: int) -> None:
        """Count messages by their outcome, also in the span that handled them."""
        self.outcomes[outcome] += number
        tracing.note(outcome)

    async def dead_letter(self, messages: Sequence[Message], reason: str) -> bool:
        """Move messages to the dead-letter queue; return False where there is none."""
        self.release(messages)
        try:
            moved = await self._source.dead_letter(self.queue, messages, reason)
        except ClientError as error:
            log.error(  # noqa: TRY400 - the text suffices.
                "%s stays in %s (%s), and is hidden for an hour: give the queue a RedrivePolicy."
                " Reason: %s",
                *(_ids(messages), self.queue.name, error, reason),
            )
            await self._source.hide(self.queue, messages, _HOPELESS_SECONDS, reason)
            self.count("retried", len(messages))
            return False
        if moved < len(messages):
            return self._note_lost(messages)
        log.warning("%s of %s is dead-lettered: %s", _ids(messages), self.queue.name, reason)
        self.count("dead-lettered", len(messages))
        return True

    async def delete(self, messages: Sequence[Message]) -> bool:
        """Delete messages; return whether all were still this worker's."""
        return await self._deletions.delete(messages) or self._note_lost(messages)

    def _note_lost(self, messages: Sequence[Message]) -> bool:
        log.warning("%s took too long: another received %s", self.consumer.name, _ids(messages))
        return False

    async def give_back(self, messages: Sequence[Message]) -> None:
        """Return messages as if they had not been received."""
        if messages:
            self.release(messages)
            await self._source.give_back(self.queue, messages)
            self.outcomes["returned"] += len(messages)

    def release(self, messages: Sequence[Message]) -> None:
        """Stop extending the timeouts of messages: they are about to be settled."""
        for message in messages:
            if self._held.get(message.number) is message:  # Not a later receive of it.
                del self._held[message.number]

    def hold(self, messages: Sequence[Message]) -> None:
        """Note that messages are claimed, to be hidden until they are settled."""
        self._held.update((message.number, message) for message in messages)

    def held(self) -> list[Message]:
        """Return what is claimed and is not being settled."""
        return list(self._held.values())

    def cancel(self) -> None:
        """Leave what is not deleted yet."""
        self._deletions.cancel()


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


def _own_frames(error: BaseException) -> TracebackType | None:
    """Return the traceback of an error without the worker's frames, which call the handler."""
    found = error.__traceback__
    while found is not None and _is_ours(found):
        found = found.tb_next
    return found or error.__traceback__


def _is_ours(found: TracebackType) -> bool:
    module = str(found.tb_frame.f_globals.get("__name__"))
    return module.partition(".")[0] in _CALLERS or module.startswith(__package__)


def _ids(messages: Sequence[Message]) -> str:
    return ", ".join(message.id for message in messages)
