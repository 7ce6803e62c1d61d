"""What arrives in a queue, by a node in this process and by one that is called over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any

import click

from skipmq import errors
from skipmq.cli import place
from skipmq.cli.source import Arrival
from skipmq.limits import PEEKED
from skipmq.model import PeekedMessage, Queue
from skipmq.terminal import visible

if TYPE_CHECKING:
    from skipmq.cli.local import LocalNode
    from skipmq.cli.source import Source

# The longest time in seconds from the send of a message to its commit.
_OVERLAP = 5.0
# Maximum number of pages read in a poll.
_PAGES = 20
# The place prefixes of the parts in which messages are ordered.
_STANDARD, _FIFO = ("0/", "1/"), ("",)


class LocalArrivals:
    """Returns each message that arrives in a queue once, without receiving it."""

    def __init__(self, node: LocalNode, name: str) -> None:
        self._node, self._name = node, place.full_name(name, node.node.settings)
        self._started = node.run(node.node.inspection.clock(node.node.deadline()))
        self._stopwatch = monotonic()
        self._seen: set[str] = set()
        self._seen.update(message.message_id for message in self._recent())

    def new(self) -> list[Arrival]:
        """Return the messages that arrived since the last call, in the order of sending."""
        arrived = []
        for message in self._recent():
            if message.message_id in self._seen:
                continue
            self._seen.add(message.message_id)
            # A receive moves older messages to a recent place, too.
            if message.state != "in-flight" or message.sent_at / 1e6 >= self._started:
                arrived.append(message)
        arrived.sort(key=lambda message: message.sent_at)
        return [
            Arrival(each.sent_at, each.message_id, each.state, each.group_id, each.body, 0)
            for each in arrived
        ]

    def _recent(self) -> Iterator[PeekedMessage]:
        """Yield the messages at recent places of the queue, including those in flight."""
        since = self._started + monotonic() - self._stopwatch - _OVERLAP
        is_fifo = self._name.name.endswith(".fifo")
        for part in _FIFO if is_fifo else _STANDARD:
            place = f"{part}{since:.6f}/0"
            for _ in range(_PAGES):
                page = self._page(place)
                yield from (message for message in page if message.place.startswith(part))
                # A page of large messages has fewer than PEEKED.
                if not page or not page[-1].place.startswith(part):
                    break
                place = page[-1].place

    def _page(self, place: str) -> list[PeekedMessage]:
        node = self._node.node
        deadline = node.deadline()

        async def peek(queue: Queue) -> list[PeekedMessage]:
            return await node.inspection.peek(queue, None, PEEKED, place, deadline)

        try:
            return self._node.run(node.queues.on(self._name, deadline, peek))
        except errors.QueueDoesNotExist as error:
            raise self._node.missing(self._name) from error


class RemoteArrivals:
    """Returns each message that arrives in a queue once, by the action PeekNewestMessages."""

    def __init__(self, node: Source, name: str) -> None:
        self._node, self._name = node, name
        self._clock, messages = self._newest(None)
        self._seen = {message["MessageId"] for message in messages}

    def new(self) -> list[Arrival]:
        """Return the messages that arrived since the last call, in the order of arrival.

        Of more than an answer has, it says that there are others.
        """
        since = max(self._clock - int(_OVERLAP * 1e6), 0)
        self._clock, messages = self._newest(since)
        new = [each for each in messages if each["MessageId"] not in self._seen]
        if len(new) == PEEKED:
            click.echo(
                visible(f"more than {PEEKED} messages at once: these are the newest"), err=True
            )
        self._seen.update(each["MessageId"] for each in new)
        return [
            Arrival(
                each["CameAt"],
                each["MessageId"],
                each["State"],
                each.get("MessageGroupId"),
                each["Body"],
                max(each["Characters"] - len(each["Body"]), 0),
            )
            for each in reversed(new)
        ]

    def _newest(self, since: int | None) -> tuple[int, list[dict[str, Any]]]:
        found = self._node.act(
            "PeekNewestMessages", QueueUrl=self._name, Since=since, MaxResults=PEEKED
        )
        return found["Clock"], found["Messages"]
