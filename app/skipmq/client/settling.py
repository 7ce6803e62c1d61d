"""What becomes of what a consumer has claimed: it is settled or tried again, and counted."""

import logging
from collections import Counter
from collections.abc import Sequence

from skipmq.client import tracing
from skipmq.client.consumer import Consumer
from skipmq.client.context import Context
from skipmq.client.deletions import Deletions
from skipmq.client.errors import ClientError
from skipmq.client.message import Message
from skipmq.client.outcomes import DeadLetter, Discard, Retry, reason_of
from skipmq.client.source import Source

log = logging.getLogger(__package__)

# The longest that one without a dead-letter queue is hidden, and that any message can be.
_HOPELESS_SECONDS, _MAXIMUM_SECONDS = 3_600, 43_200


class Settling:
    """Settles what a consumer has claimed, and counts what became of it."""

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
            log.error("%s failed on %s", name, _ids(messages), exc_info=error)
        is_settled = True
        for message in messages:
            most = self.options.attempts
            if most is not None and message.deliveries >= most:
                is_settled &= await self.dead_letter([message], reason_of(error))
                continue
            after = error.after if isinstance(error, Retry) else None
            if after is None:
                after = self.options.retry.seconds(message.deliveries)
            seconds = min(max(round(after), 0), _MAXIMUM_SECONDS)
            self.release([message])
            await self._source.hide(self.queue, [message], seconds, reason_of(error))
            self.count("retried", 1)
            is_settled = False
        return is_settled

    def count(self, outcome: str, number: int) -> None:
        """Count what became of messages, in the span that handled them too."""
        self.outcomes[outcome] += number
        tracing.note(outcome)

    async def dead_letter(self, messages: Sequence[Message], reason: str) -> bool:
        """Move messages to the dead-letter queue; return False where there is none."""
        self.release(messages)
        try:
            moved = await self._source.dead_letter(self.queue, messages, reason)
        except ClientError as error:
            log.error(  # noqa: TRY400 - the text says all.
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
        """Give messages back as if they had not been received."""
        if messages:
            self.release(messages)
            await self._source.give_back(self.queue, messages)
            self.outcomes["returned"] += len(messages)

    def release(self, messages: Sequence[Message]) -> None:
        """Hide messages for longer no more: they are about to be settled."""
        for message in messages:
            if self._held.get(message.number) is message:  # Not a later receive of it.
                del self._held[message.number]

    def hold(self, messages: Sequence[Message]) -> None:
        """Note that messages are claimed, to be hidden for as long as they are not settled."""
        self._held.update((message.number, message) for message in messages)

    def held(self) -> list[Message]:
        """Return what is claimed and is not being settled."""
        return list(self._held.values())

    def cancel(self) -> None:
        """Leave what is not deleted yet."""
        self._deletions.cancel()


def _ids(messages: Sequence[Message]) -> str:
    return ", ".join(message.id for message in messages)
