"""Producers and consumers that never rest, and what became of each message."""

import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from typing import Any, Self

from botocore.exceptions import BotoCoreError, ClientError

from support.http import client, eventually

# Seconds between two requests of one thread: load, on a machine that has other things to do.
PAUSE = 0.005
GROUPS = 3


class Traffic:
    """Sends, receives and deletes on a standard and a FIFO queue, each request tried once.

    `errors` has what clients were told that is no answer; `sent` the bodies that were acknowledged;
    `standard` and `groups` what was received, in order. No message comes back by time alone.
    """

    def __init__(self, url: str, *, producers: int = 2, consumers: int = 2) -> None:
        self._sqs = client(url)
        hidden = {"VisibilityTimeout": "3600"}
        fifo = {**hidden, "FifoQueue": "true"}
        self.standard_url = self._queue("traffic", hidden)
        self.fifo_url = self._queue("traffic.fifo", fifo)
        self._roles: list[Callable[[], None]] = []
        for number in range(producers):
            self._roles += [self._sender(number), self._fifo_sender(number)]
        self._consumers: list[Callable[[], None]] = [self._receive, self._receive_fifo]
        self._consumers *= consumers
        self._lock = threading.Lock()
        self._sent_all, self._ended = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(2 * (producers + consumers))
        self._sending: list[Future[None]] = []
        self._receiving: list[Future[None]] = []
        self.errors: list[str] = []
        self.sent: list[str] = []
        self.standard: list[str] = []
        self.groups: dict[str, list[str]] = defaultdict(list)

    @property
    def received(self) -> list[str]:
        """Return every body that was received, as often as it was."""
        return [*self.standard, *(body for group in self.groups.values() for body in group)]

    def goes_on(self, more: int = 100) -> None:
        """Wait until so many more messages were sent, and received where somebody receives."""
        sent, received = len(self.sent) + more, len(self.received) + more
        eventually(
            lambda: (
                len(self.sent) >= sent and (not self._consumers or len(self.received) >= received)
            ),
            seconds=60,
            why=f"{more} more messages; errors so far: {self.errors[:3]}",
        )

    def stop_sending(self) -> None:
        """Send no more; return when what was sent is answered."""
        self._sent_all.set()
        for each in self._sending:
            each.result()

    def finish(self) -> None:
        """Send no more, receive what is left, and end."""
        self.stop_sending()
        eventually(lambda: set(self.received) >= set(self.sent), why="all are received")
        self._end()

    def _end(self) -> None:
        self._sent_all.set()
        self._ended.set()
        for each in (*self._sending, *self._receiving):
            each.result()
        self._pool.shutdown()

    def __enter__(self) -> Self:
        self._sending = [self._pool.submit(self._repeat, r, self._sent_all) for r in self._roles]
        self._receiving = [
            self._pool.submit(self._repeat, role, self._ended) for role in self._consumers
        ]
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._sqs.close()

    def _queue(self, name: str, attributes: dict[str, str]) -> str:
        url: str = self._sqs.create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
        return url

    def _repeat(self, role: Callable[[], None], end: threading.Event) -> None:
        while not end.wait(PAUSE):
            try:
                role()
            except (ClientError, BotoCoreError) as error:
                self.errors.append(f"{type(error).__name__}: {error}")

    def _sender(self, number: int) -> Callable[[], None]:
        """Return a role that sends one message, then ten at once."""
        numbers = count()

        def send() -> None:
            body = f"standard-{number}-{next(numbers)}"
            self._sqs.send_message(QueueUrl=self.standard_url, MessageBody=body)
            bodies = [f"{body}-{n}" for n in range(10)]
            self.sent.append(body)
            entries = [{"Id": str(n), "MessageBody": each} for n, each in enumerate(bodies)]
            answer = self._sqs.send_message_batch(QueueUrl=self.standard_url, Entries=entries)
            self.errors += [str(failed) for failed in answer.get("Failed", [])]
            self.sent += [bodies[int(told["Id"])] for told in answer.get("Successful", [])]

        return send

    def _fifo_sender(self, number: int) -> Callable[[], None]:
        """Return a role that sends the next message of one of its groups."""
        numbers = count()

        def send() -> None:
            n = next(numbers)
            group = f"{number}-{n % GROUPS}"
            body = f"fifo-{group}-{n:06}"
            self._sqs.send_message(
                QueueUrl=self.fifo_url,
                MessageBody=body,
                MessageGroupId=group,
                MessageDeduplicationId=body,
            )
            self.sent.append(body)

        return send

    def _receive(self) -> None:
        messages = self._receive_from(self.standard_url)
        self.standard += [message["Body"] for message in messages]
        self._delete(self.standard_url, messages)

    def _receive_fifo(self) -> None:
        messages = self._receive_from(self.fifo_url)
        for message in messages:
            self.groups[message["Attributes"]["MessageGroupId"]].append(message["Body"])
        self._delete(self.fifo_url, messages)

    def _receive_from(self, queue: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._sqs.receive_message(
            QueueUrl=queue,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=1,
            AttributeNames=["MessageGroupId"],
        ).get("Messages", [])
        return found

    def _delete(self, queue: str, messages: list[dict[str, Any]]) -> None:
        if not messages:
            return
        entries = [
            {"Id": str(n), "ReceiptHandle": message["ReceiptHandle"]}
            for n, message in enumerate(messages)
        ]
        answer = self._sqs.delete_message_batch(QueueUrl=queue, Entries=entries)
        self.errors += [str(failed) for failed in answer.get("Failed", [])]
