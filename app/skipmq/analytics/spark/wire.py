"""The way of Spark's sink by SQS's wire, for a broker whose database cannot be reached.

SQS has no transactions: what a task has sent stays sent when it is repeated. A FIFO queue drops a
message that comes again within five minutes, by its deduplication ID; a standard queue has it
twice.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from time import sleep
from typing import Any
from uuid import UUID, uuid5

from skipmq.analytics.errors import SendError
from skipmq.analytics.spark import outgoing
from skipmq.analytics.spark.outgoing import Outgoing, Part, Task
from skipmq.client.errors import ClientError
from skipmq.client.http import Caller, RefusedError, UnavailableError
from skipmq.client.outcomes import CALLS
from skipmq.client.signing import Key

_ENTRIES = 10
_TRIES = 6
_PAUSE = 0.5
# Requests between two looks at the depth of a queue.
_UNWATCHED = 10
_COUNTS = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
# Errors of a request that one of its messages may have caused.
_OF_A_MESSAGE = {
    "BatchRequestTooLong", "InvalidMessageContents", "InvalidParameterValueException",
    "MissingRequiredParameterException", "SerializationException", "UnsupportedOperation",
}  # fmt: skip
_IDS = UUID("0d3e94dc-2d34-4d58-b7d8-1d4a6d1b3f5e")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A queue behind an endpoint of SQS; `depth` is the number of messages at which tasks wait."""

    url: str
    queue: str
    account: str | None
    region: str | None
    depth: int | None
    key: tuple[str | None, ...] = field(repr=False)
    others: str = "the others were sent"

    def write(
        self,
        task: Task,
        part: UUID,  # noqa: ARG002 - nothing is staged.
        messages: Iterator[Outgoing],
    ) -> Iterator[tuple[int, str]]:
        """Send messages, ten in a request; raise SendError when the broker does not answer."""
        caller = Caller(self.url, key=Key(*self.key) if any(self.key) else None)
        sent = 0
        try:
            queue = caller.queue_url(self.queue, self.account, self.region)
            for number, chunk in enumerate(outgoing.chunks(messages, _ENTRIES)):
                if self.depth is not None and number % _UNWATCHED == 0:
                    while self._count(caller, queue) >= self.depth:
                        sleep(_PAUSE)
                refused = [*self._send(caller, queue, task, chunk)]
                sent += len(chunk) - len(refused)
                yield from refused
        except (ClientError, UnavailableError) as error:
            raise SendError(
                f"{error}; {sent} messages of partition {task.partition} were sent before"
            ) from error
        finally:
            caller.close()

    def commit(self, stream: str, batch: int | None, parts: Sequence[Part]) -> None:
        """Do nothing: all is sent."""

    def discard(self, stream: str, parts: Sequence[Part]) -> None:
        """Do nothing: nothing is staged."""

    def _send(
        self, caller: Caller, queue: str, task: Task, messages: Sequence[Outgoing]
    ) -> Iterator[tuple[int, str]]:
        """Send messages in one request, or each in one where that is refused; yield the refused."""
        request = {"QueueUrl": queue, "Entries": [self._entry(task, each) for each in messages]}
        try:
            answer = self._call(caller, "SendMessageBatch", request)
        except RefusedError as error:
            if error.code not in _OF_A_MESSAGE:
                raise
            if len(messages) == 1:
                yield messages[0].place, f"{error.code}: {error.message}"
                return
            for message in messages:
                yield from self._send(caller, queue, task, [message])
            return
        for failed in answer.get("Failed") or []:
            yield int(failed["Id"]), f"{failed['Code']}: {failed.get('Message', '')}"

    def _entry(self, task: Task, message: Outgoing) -> dict[str, Any]:
        own_id = message.deduplication_id
        if own_id is None and self.queue.endswith(".fifo"):
            own_id = str(uuid5(_IDS, f"{task.key}/{message.place}"))
        header = {"DataType": "String", "StringValue": message.trace_header}
        entry: dict[str, Any] = {
            "Id": str(message.place),
            "MessageBody": message.body,
            "MessageAttributes": message.attributes and _parsed(message.attributes),
            "MessageGroupId": message.group_id,
            "MessageDeduplicationId": own_id,
            "DelaySeconds": message.delay,
            "MessageSystemAttributes": message.trace_header and {"AWSTraceHeader": header},
        }
        return {name: value for name, value in entry.items() if value is not None}

    def _count(self, caller: Caller, queue: str) -> int:
        request = {"QueueUrl": queue, "AttributeNames": _COUNTS}
        answer = self._call(caller, "GetQueueAttributes", request)
        return sum(int(count) for count in answer["Attributes"].values())

    def _call(self, caller: Caller, action: str, request: dict[str, Any]) -> Any:
        for attempt in range(1, _TRIES):
            try:
                return caller.call(action, request, self.region)
            except UnavailableError:
                sleep(CALLS.delay(attempt))
        return caller.call(action, request, self.region)


def _parsed(attributes: str) -> Any:
    """Parse JSON; return any other text as it is, which the broker refuses."""
    try:
        return json.loads(attributes)
    except ValueError:
        return attributes
