"""What FIFO queues do by the rules of SQS, in memory.

Sources: SQS Developer Guide, FIFO queues; SQS API Reference, ReceiveMessage.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from support.model import (
    ALWAYS,
    BEYOND_LIMIT,
    DONE,
    HANDLE_EXPIRED,
    LONGEST_TIMEOUT,
    NOT_AVAILABLE,
    NOT_IN_FLIGHT,
    Departed,
    Message,
    Queue,
    Receipt,
    Shown,
)

DEDUPLICATION = ATTEMPT = 300.0
SEQUENCE_DIGITS = 20


class Answer(NamedTuple):
    """What a send is answered with, and when."""

    id: str
    number: str
    sent: float


@dataclass(frozen=True, eq=False, slots=True)
class Attempt:
    """What a receive under a ReceiveRequestAttemptId gave."""

    receipts: list[Receipt]
    received: float
    hidden_until: float


class FifoQueue(Queue):
    """A queue that keeps the order within groups and takes no message twice within five minutes."""

    def __init__(self, url: str, arn: str, *, by_group: bool) -> None:
        super().__init__(url, arn)
        self.by_group = by_group
        self.sent: dict[tuple[str | None, str], Answer] = {}
        self.attempts: dict[str, Attempt] = {}

    def hidden_until(self, message: Message) -> float:
        # A change of the queue's delay is one for what waits already.
        if message.receives:
            return message.visible
        return message.enqueued + self.delay if self.delay else ALWAYS

    def moments(self) -> Iterator[float]:
        yield from super().moments()
        yield from (answer.sent + DEDUPLICATION for answer in self.sent.values())
        yield from (attempt.received + ATTEMPT for attempt in self.attempts.values())

    def group(self, name: str | None) -> list[Message]:
        """Return the messages of a group in order."""
        return [message for message in self.messages if message.group == name]

    def send(self, message: Message, identifier: str | None) -> None:
        """Take note of a send and check its answer, which the message holds."""
        given = identifier or hashlib.sha256(message.body.encode()).hexdigest()
        key = (message.group if self.by_group else None, given)
        first = self.sent.get(key)
        if first is not None and message.sent < first.sent + DEDUPLICATION:
            assert (message.id, message.number) == (first.id, first.number), "sent twice"
            return
        message.deduplication = given
        assert message.number is not None
        assert len(message.number) == SEQUENCE_DIGITS
        assert all(message.number > (m.number or "") for m in self.group(message.group))
        assert all(message.id != other.id for other in self.sent.values())
        self.sent[key] = Answer(message.id, message.number, message.sent)
        self.add(message)

    def adopt(self, message: Message, now: float) -> None:
        # It begins again to count towards retention, at the end of its group.
        message.enqueued, message.number, message.deduplication = now, None, message.id
        super().adopt(message, now)

    def candidates(self, now: float) -> tuple[dict[str | None, list[Message]], list[Message]]:
        given: dict[str | None, list[Message]] = {}
        due = []
        for group in dict.fromkeys(message.group for message in self.messages):
            for message in self.group(group):
                if self.is_old(message, now) and self.state(message, now) != "in flight":
                    continue
                if self.state(message, now) != "visible":
                    break
                if not self.is_due(message):
                    given.setdefault(group, []).append(message)
                elif group in given:
                    break
                else:
                    due.append(message)
        return given, due

    def check_choice(self, chosen: Sequence[Message], now: float) -> None:
        allowed, _ = self.candidates(now)
        runs = [(group, list(run)) for group, run in groupby(chosen, lambda m: m.group)]
        for place, (group, messages) in enumerate(runs, 1):
            first = allowed.get(group, [])
            # As many as possible of one group come before those of another.
            count = len(messages) if place == len(runs) else None
            assert messages == first[:count], f"of {group} not {first} in order: {messages}"
        assert len({group for group, _ in runs}) == len(runs)
        assert chosen or not allowed, f"nothing given though there is: {allowed}"

    def check_stayed(self, stayed: set[Message], chosen: Sequence[Message]) -> None:
        assert not {m.group for m in stayed} & {m.group for m in chosen}, "passed over"

    def receive(
        self,
        shown: Sequence[Shown],
        limit: int,
        timeout: int | None,
        now: float,
        departed: Departed,
        attempt: str | None = None,
    ) -> list[Receipt]:
        if attempt is not None and (repeated := self.repeated(attempt, now)):
            return self._repeat(repeated, shown, timeout, now, attempt)
        receipts = super().receive(shown, limit, timeout, now, departed)
        if attempt is not None and receipts:
            self.attempts[attempt] = Attempt(receipts, now, receipts[0].message.visible)
        for receipt in receipts:
            numbers = [m.number for m in self.group(receipt.message.group) if m.number]
            assert numbers == sorted(set(numbers))
        return receipts

    def repeated(self, attempt: str, now: float) -> Attempt | None:
        """Return the attempt whose messages are to be given again, if nobody has changed them."""
        found = self.attempts.get(attempt)
        if found is None or not now < min(found.received + ATTEMPT, found.hidden_until):
            return None
        same = all(r.is_last and r.message.visible == found.hidden_until for r in found.receipts)
        return found if same else None

    def _repeat(
        self, found: Attempt, shown: Sequence[Shown], timeout: int | None, now: float, name: str
    ) -> list[Receipt]:
        assert [s["ReceiptHandle"] for s in shown] == [r.handle for r in found.receipts]
        timeout = self.timeout if timeout is None else timeout
        until = now + timeout if timeout else ALWAYS
        for receipt, as_shown in zip(found.receipts, shown, strict=True):
            receipt.message.check_shown(as_shown)
            receipt.message.visible = until
        self.attempts[name] = Attempt(found.receipts, found.received, until)
        return found.receipts

    def _outcomes_of_delete(self, receipt: Receipt, now: float) -> set[str]:
        message = receipt.message
        if message.deleted or message.purged:
            return {DONE}
        if receipt.is_last and self.state(message, now) == "in flight":
            return {DONE}
        if message.home not in {self, self.dead_letters}:
            # A dead letter is looked for only where the redrive policy leads now.
            return {DONE}
        # Upkeep may have settled it, maybe as a dead letter elsewhere.
        old = message.home is not None and message.home.is_old(message, now)
        return {HANDLE_EXPIRED, DONE} if old else {HANDLE_EXPIRED}

    def _outcomes_of_change(self, receipt: Receipt, timeout: int, now: float) -> set[str]:
        message = receipt.message
        if not receipt.is_last:
            return {NOT_AVAILABLE}
        if self.state(message, now) != "in flight":
            return {NOT_IN_FLIGHT} | ({NOT_AVAILABLE} if self.is_old(message, now) else set())
        # It counts from the receive, which was before.
        return {BEYOND_LIMIT} if timeout == LONGEST_TIMEOUT else {DONE}

    def purge(self) -> None:
        super().purge()
        self.sent.clear()
        self.attempts.clear()
