"""A node as a source of messages: the actions of SQS over HTTP."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from contextvars import copy_context
from datetime import UTC, datetime
from functools import partial
from typing import Any

from skipmq.client.errors import ClientError
from skipmq.client.http import Caller, RefusedError, UnavailableError
from skipmq.client.message import Message, plain_attributes
from skipmq.client.queue import Queue, Scheduled
from skipmq.client.source import Settled, Wakened, pause

log = logging.getLogger(__package__)

# The wait of a receive for a message; a worker that stops waits for it.
_WAIT_SECONDS = 1
_MAX_ENTRIES, _MAX_REASON = 10, 1_000
# The errors for a message that was settled or received again.
_GONE = {"InvalidParameterValue", "ReceiptHandleIsInvalid"}
# Concurrent calls: a receive that waits for each consumer, and the deletes meanwhile.
_THREADS = 64


class Service:
    """Claims and settles by actions; each is safe to repeat, and is until it is answered."""

    failure, max_deletes = UnavailableError, _MAX_ENTRIES

    def __init__(self, url: str) -> None:
        self._caller = Caller(url)
        self._threads = ThreadPoolExecutor(_THREADS, "skipmq-http")
        self.is_open = False

    async def open(self) -> None:
        """Call the broker once; raise ClientError where that fails."""
        try:
            await asyncio.to_thread(self._caller.call, "ListQueues", {"MaxResults": 1})
        except RefusedError:
            pass  # It answers; what is allowed shows at the queues.
        except UnavailableError as error:
            raise ClientError(f"the broker cannot be reached: {error}") from error
        self.is_open = True

    async def close(self) -> None:
        """Close the connections that are not in use."""
        self.is_open = False
        self._caller.close()
        self._threads.shutdown(wait=False)

    async def listen(self, runners: Sequence[Wakened]) -> None:
        """Do nothing: receives wait for messages."""

    async def claim(self, queue: Queue[Any], limit: int, seconds: int) -> list[Message]:
        """Receive messages, waiting up to a second for the first."""
        request = {
            "MaxNumberOfMessages": limit,
            "VisibilityTimeout": seconds,
            "WaitTimeSeconds": _WAIT_SECONDS,
            "MessageSystemAttributeNames": ["All"],
            "MessageAttributeNames": ["All"],
        }
        answer = await self._at(queue, "ReceiveMessage", request)
        return [_message(each) for each in answer.get("Messages") or []]

    async def declare(self, schedule: Scheduled) -> None:
        """Create a schedule, or change the one of its name."""
        name, queue, expression, body, zone, group, attributes = schedule
        request: dict[str, Any] = {
            "Name": name,
            "Expression": expression,
            "MessageBody": body,
            "Zone": zone,
        }
        if group is not None:
            request["MessageGroupId"] = group
        if attributes:
            request["MessageAttributes"] = attributes
        await self._at(queue, "SkipMQ.CreateSchedule", request)

    async def delete(self, queue: Queue[Any], messages: Settled) -> list[bool]:
        """Delete messages; return for each whether it was."""
        found = messages() if callable(messages) else messages
        return await self._batches(queue, "DeleteMessageBatch", found)

    async def hide(
        self, queue: Queue[Any], messages: Settled, seconds: int, reason: str | None = None
    ) -> int:
        """Hide messages from now on; HTTP has no place for a reason, which the log has."""
        del reason
        found = messages() if callable(messages) else messages
        extra = {"VisibilityTimeout": seconds}
        return sum(await self._batches(queue, "ChangeMessageVisibilityBatch", found, extra))

    async def give_back(self, queue: Queue[Any], messages: Sequence[Message]) -> int:
        """Make messages visible; their receive stays counted."""
        # The last first, so that those of a group become visible behind the one before.
        return await self.hide(queue, messages[::-1], 0)

    async def dead_letter(self, queue: Queue[Any], messages: Sequence[Message], reason: str) -> int:
        """Move messages to the dead-letter queue; raise ClientError if there is none."""
        moved = 0
        for message in messages:
            request = {"ReceiptHandle": message.receipt, "FailureReason": reason[:_MAX_REASON]}
            try:
                await self._at(queue, "SkipMQ.DeadLetterMessage", request)
            except RefusedError as error:
                if error.code not in _GONE:
                    raise
            else:
                moved += 1
        return moved

    def transaction(self, end: Any) -> AbstractContextManager[Any]:
        """Raise ClientError: there is none."""
        del end
        raise ClientError(
            f"context.transaction() needs the database, and this app uses {self._caller.url}:"
            " return, which deletes the message, or pass the App a postgresql:// URL"
        )

    def atransaction(self, end: Any) -> AbstractAsyncContextManager[Any]:
        """Raise ClientError: there is none."""
        self.transaction(end)
        raise AssertionError

    def deletion(self, queue: Queue[Any], messages: Sequence[Message]) -> tuple[str, list[Any]]:
        """Raise ClientError: a message is deleted by its receipt handle."""
        del messages
        raise ClientError(
            f"a message of {queue.name!r} came from {self._caller.url} and cannot be deleted by"
            " SQL: return, which deletes it, or pass the App a postgresql:// URL"
        )

    async def _batches(
        self,
        queue: Queue[Any],
        action: str,
        messages: Sequence[Message],
        extra: dict[str, Any] | None = None,
    ) -> list[bool]:
        done = []
        for begin in range(0, len(messages), _MAX_ENTRIES):
            some = messages[begin : begin + _MAX_ENTRIES]
            entries = [
                {"Id": str(n), "ReceiptHandle": m.receipt, **(extra or {})}
                for n, m in enumerate(some)
            ]
            answer = await self._at(queue, action, {"Entries": entries})
            named = {each["Id"] for each in answer.get("Successful") or []}
            done += [entry["Id"] in named for entry in entries]
        return done

    async def _at(self, queue: Queue[Any], action: str, request: dict[str, Any]) -> Any:
        place = (queue.name, queue.account, queue.region)
        asked = {"QueueUrl": await self._done(self._caller.queue_url, *place), **request}
        return await self._done(self._caller.call, action, asked, queue.region)

    async def _done(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function in a thread until the broker answers."""
        loop, tries = asyncio.get_running_loop(), 0
        while True:
            run = partial(copy_context().run, function, *arguments)
            try:
                answer = await loop.run_in_executor(self._threads, run)
            except UnavailableError as error:
                self.is_open = False
                log.warning("the broker is unavailable, trying again: %s", error)
                await pause(tries)
                tries += 1
            else:
                self.is_open = True
                return answer


def _message(given: dict[str, Any]) -> Message:
    """Return the message of an answer to ReceiveMessage, which has one count for all queues."""
    known = given.get("Attributes") or {}
    count = int(known["ApproximateReceiveCount"])
    return Message(
        given["MessageId"],
        given["Body"],
        plain_attributes(given.get("MessageAttributes")),
        count,
        datetime.fromtimestamp(int(known["SentTimestamp"]) / 1000, UTC),
        known.get("MessageGroupId"),
        known.get("DeadLetterQueueSourceArn"),
        given["MessageId"],
        given["ReceiptHandle"],
        known.get("AWSTraceHeader"),
        count,
    )
