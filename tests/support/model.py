"""What queues do by the rules of SQS, in memory: what a broker is held against.

Times are seconds of the broker's clock. They are known to within clock.PATIENCE: a model is asked
and told only at times that are clear of its moments.

Sources: SQS API Reference, SQS Developer Guide.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from support.clock import PATIENCE

ALWAYS = 0.0  # Before all times there are.
LONGEST_TIMEOUT = 43_200

# What a refused request says; nothing when it succeeds.
DONE = ""
HANDLE_EXPIRED = "The receipt handle has expired."
NOT_AVAILABLE = "Message does not exist or is not available for visibility timeout change"
BEYOND_LIMIT = "Total VisibilityTimeout for the message is beyond the limit"
NOT_IN_FLIGHT = "MessageNotInflight"

Shown = Mapping[str, Any]
# Tells which of these messages a queue has given to its dead-letter queue.
Departed = Callable[[Sequence["Message"]], set["Message"]]


@dataclass(eq=False, slots=True)
class Message:
    """A message, and all that can be told of it."""

    id: str
    body: str
    attributes: Mapping[str, Mapping[str, Any]]
    sent: float
    enqueued: float
    # Hidden until then, by a delay of its own or a visibility timeout.
    visible: float = ALWAYS
    group: str | None = None
    deduplication: str | None = None
    number: str | None = None
    receives: int = 0
    first_received: float = ALWAYS
    # Where it is, or was last.
    home: "Queue | None" = None
    # The ARN of the queue whose policy moved it.
    origin: str | None = None
    deleted: bool = False
    purged: bool = False
    # The times as they were shown first.
    times: dict[str, str] = field(default_factory=dict)

    def check_shown(self, shown: Shown) -> None:
        """Check how a received message is shown."""
        assert shown["MessageId"] == self.id
        assert shown["Body"] == self.body
        assert shown["MD5OfBody"] == hashlib.md5(self.body.encode()).hexdigest()  # noqa: S324
        assert shown.get("MessageAttributes", {}) == self.attributes
        assert shown.get("MD5OfMessageAttributes") == digest(self.attributes)
        system = dict(shown["Attributes"])
        for name, moment in (
            ("SentTimestamp", self.sent),
            ("ApproximateFirstReceiveTimestamp", self.first_received),
        ):
            value = self.times.setdefault(name, system[name])
            assert system.pop(name) == value
            assert moment - 2 * PATIENCE <= int(value) / 1000 <= moment + 0.1, (name, value, moment)
        assert system.pop("SenderId")
        number = system.pop("SequenceNumber", None)
        if self.number is None:
            self.number = number
        assert number == self.number
        expected = {
            "ApproximateReceiveCount": str(self.receives),
            "MessageGroupId": self.group,
            "MessageDeduplicationId": self.deduplication,
            "DeadLetterQueueSourceArn": self.origin,
        }
        assert system == {name: value for name, value in expected.items() if value is not None}


@dataclass(frozen=True, eq=False, slots=True)
class Receipt:
    """One receive of one message from one queue."""

    queue: "Queue"
    message: Message
    receive: int
    handle: str

    @property
    def is_last(self) -> bool:
        """Tell whether the message has not been received, moved or settled since."""
        return self.message in self.queue.messages and self.message.receives == self.receive


class Queue:
    """A queue; its kinds differ in what they may give and what they hide."""

    def __init__(self, url: str, arn: str) -> None:
        self.url, self.arn = url, arn
        self.timeout, self.delay, self.retention = 30, 0, 345_600
        self.dead_letters: Queue | None = None
        self.most_receives = 0
        self.messages: list[Message] = []
        self._handles: set[str] = set()

    def hidden_until(self, message: Message) -> float:
        """Return when a message can be received, its retention aside."""
        return message.visible

    def state(self, message: Message, now: float) -> str:
        """Return visible, in flight or delayed, its retention aside."""
        if now >= self.hidden_until(message):
            return "visible"
        return "in flight" if message.receives else "delayed"

    def is_old(self, message: Message, now: float) -> bool:
        """Tell whether it is past its retention: it may vanish unless it is in flight."""
        return message.enqueued + self.retention <= now

    def is_due(self, message: Message) -> bool:
        """Tell whether a message goes to the dead-letter queue in place of being received."""
        return self.dead_letters is not None and message.receives >= self.most_receives

    def candidates(self, now: float) -> tuple[dict[str | None, list[Message]], list[Message]]:
        """Return what may be received now, by group, and what goes to the dead-letter queue."""
        raise NotImplementedError

    def check_choice(self, chosen: Sequence[Message], now: float) -> None:
        """Check that a receive may give these messages in this order."""
        raise NotImplementedError

    def moments(self) -> Iterator[float]:
        """Give the times at which something changes by itself."""
        for message in self.messages:
            yield self.hidden_until(message)
            yield message.enqueued + self.retention

    def last_hidden(self) -> float:
        """Return when the last message that is hidden now can be received."""
        return max(map(self.hidden_until, self.messages), default=ALWAYS)

    def counts(self, now: float) -> dict[str, tuple[int, int]]:
        """Return the least and the most that there may be in each state."""
        found = {state: [0, 0] for state in ("visible", "in flight", "delayed")}
        for message in self.messages:
            count = found[self.state(message, now)]
            count[0] += not self.is_old(message, now)
            count[1] += 1
        return {state: (least, most) for state, (least, most) in found.items()}

    def may_be_busy(self, now: float) -> bool:
        """Tell whether upkeep has something to do here, which may pass for nothing to give."""
        return any(self.is_old(message, now) for message in self.messages)

    def receive(
        self,
        shown: Sequence[Shown],
        limit: int,
        timeout: int | None,
        now: float,
        departed: Departed,
        attempt: str | None = None,  # noqa: ARG002 - for FIFO queues.
    ) -> list[Receipt]:
        """Check what a receive gave, take note of it and return the receipts."""
        by_id = {message.id: message for message in self.messages}
        strange = [s for s in shown if s["MessageId"] not in by_id]
        assert not strange, f"given though it is not here: {strange}"
        chosen = [by_id[s["MessageId"]] for s in shown]
        assert len(set(chosen)) == len(chosen) <= limit
        self.check_choice(chosen, now)
        _, due = self.candidates(now)
        timeout = self.timeout if timeout is None else timeout
        receipts = []
        for message, as_shown in zip(chosen, shown, strict=True):
            message.visible = now + timeout if timeout else ALWAYS
            message.receives += 1
            message.first_received = message.first_received or now
            message.check_shown(as_shown)
            handle = as_shown["ReceiptHandle"]
            assert handle not in self._handles
            self._handles.add(handle)
            receipts.append(Receipt(self, message, message.receives, handle))
        if due:
            stayed = set(due) - departed(due)
            self.check_stayed(stayed, chosen)
            if len(chosen) < limit and not self.may_be_busy(now):
                assert not stayed, "messages received too often stay"
            self._bury([message for message in due if message not in stayed], now)
        return receipts

    def check_stayed(self, stayed: set[Message], chosen: Sequence[Message]) -> None:
        """Check that what was received too often need not have moved yet."""

    def _bury(self, due: Sequence[Message], now: float) -> None:
        for message in due:
            assert self.dead_letters is not None
            self.messages.remove(message)
            message.origin, message.visible = self.arn, ALWAYS
            self.dead_letters.adopt(message, now)

    def adopt(self, message: Message, now: float) -> None:  # noqa: ARG002 - for FIFO queues.
        """Take a dead letter in."""
        self.add(message)

    def add(self, message: Message) -> None:
        """Take a message in."""
        message.home = self
        self.messages.append(message)

    def delete(self, receipt: Receipt, outcome: str, now: float) -> None:
        """Check what became of a delete, and take note of it."""
        check(outcome, self._outcomes_of_delete(receipt, now))
        if receipt.is_last and outcome == DONE:
            self.messages.remove(receipt.message)
            receipt.message.deleted = True

    def _outcomes_of_delete(self, receipt: Receipt, now: float) -> set[str]:  # noqa: ARG002
        return {DONE}

    def change(self, receipt: Receipt, timeout: int, outcome: str, now: float) -> None:
        """Check what became of a change of visibility, and take note of it."""
        check(outcome, self._outcomes_of_change(receipt, timeout, now))
        if outcome == DONE:
            receipt.message.visible = now + timeout if timeout else ALWAYS

    def _outcomes_of_change(self, receipt: Receipt, timeout: int, now: float) -> set[str]:
        raise NotImplementedError

    def purge(self) -> None:
        """Take note of a purge."""
        for message in self.messages:
            message.purged = True
        self.messages.clear()


class StandardQueue(Queue):
    """A queue that may give any message that is visible."""

    def send(self, message: Message, delay: int | None) -> None:
        """Take note of a send."""
        delay = self.delay if delay is None else delay
        message.visible = message.sent + delay if delay else ALWAYS
        self.add(message)

    def _outcomes_of_change(self, receipt: Receipt, timeout: int, now: float) -> set[str]:
        message = receipt.message
        if message not in self.messages:
            return {NOT_AVAILABLE}
        # Upkeep may have settled it.
        gone = self.is_old(message, now) and self.state(message, now) != "in flight"
        if timeout == LONGEST_TIMEOUT:  # It counts from the receive, which was before.
            expected = {BEYOND_LIMIT}
        elif now + timeout > message.first_received + LONGEST_TIMEOUT:
            expected = {BEYOND_LIMIT, DONE}
        else:
            expected = {DONE}
        return expected | ({NOT_AVAILABLE} if gone else set())

    def candidates(self, now: float) -> tuple[dict[str | None, list[Message]], list[Message]]:
        visible = [
            m for m in self.messages if self.state(m, now) == "visible" and not self.is_old(m, now)
        ]
        given = [message for message in visible if not self.is_due(message)]
        return {None: given} if given else {}, [m for m in visible if self.is_due(m)]

    def check_choice(self, chosen: Sequence[Message], now: float) -> None:
        allowed = self.candidates(now)[0].get(None, [])
        for message in chosen:
            assert message in allowed, f"given though {self.state(message, now)}: {message}"
        assert chosen or not allowed, f"nothing given though visible: {allowed}"


def check(outcome: str, expected: set[str]) -> None:
    """Check that an outcome is one of those expected, which are empty or a part of a text."""
    assert any(text in outcome if text else not outcome for text in expected), (
        f"{outcome or 'done'} in place of {expected}"
    )


def digest(attributes: Mapping[str, Mapping[str, Any]]) -> str | None:
    """Return the MD5 of message attributes as the Developer Guide says to calculate it."""
    if not attributes:
        return None
    parts = []
    for name, value in sorted(attributes.items()):
        binary = "BinaryValue" in value
        content = value["BinaryValue"] if binary else value["StringValue"].encode()
        for part in (name.encode(), value["DataType"].encode()):
            parts += [len(part).to_bytes(4, "big"), part]
        parts += [b"\2" if binary else b"\1", len(content).to_bytes(4, "big"), content]
    return hashlib.md5(b"".join(parts)).hexdigest()  # noqa: S324
