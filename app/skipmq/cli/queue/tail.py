"""The `queue tail` command."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from time import monotonic, sleep
from typing import Any

import click
from rich.text import Text

from skipmq import errors
from skipmq.cli import place
from skipmq.cli.completion import queue_argument
from skipmq.cli.environment import configuration
from skipmq.cli.local import LocalNode
from skipmq.cli.node import open_node
from skipmq.cli.output import out
from skipmq.limits import PEEKED
from skipmq.model import PeekedMessage, Queue

_POLL_INTERVAL = 0.5
# The longest time in seconds from the send of a message to its commit.
_OVERLAP = 5.0
# Maximum number of pages read in a poll.
_PAGES = 20
# The place prefixes of the parts in which messages are ordered.
_STANDARD, _FIFO = ("0/", "1/"), ("",)


class Tail:
    """Returns each message that arrives in a queue once, without receiving it."""

    def __init__(self, node: LocalNode, name: str) -> None:
        self._node, self._name = node, place.full_name(name, node.node.settings)
        self._started = node.run(node.node.inspection.clock(node.node.deadline()))
        self._stopwatch = monotonic()
        self._seen: set[str] = set()
        self._seen.update(message.message_id for message in self._recent())

    def new(self) -> list[PeekedMessage]:
        """Return the messages that arrived since the last call, in the order of sending."""
        arrived = []
        for message in self._recent():
            if message.message_id in self._seen:
                continue
            self._seen.add(message.message_id)
            # A receive moves older messages to a recent place, too.
            if message.state != "in-flight" or message.sent_at / 1e6 >= self._started:
                arrived.append(message)
        return sorted(arrived, key=lambda message: message.sent_at)

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


@click.command("tail")
@queue_argument
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
def queue_tail(*, name: str, as_json: bool) -> None:
    """Print messages as they arrive in the queue NAME until Ctrl-C, without receiving them.

    It polls twice a second and misses messages that are received and deleted within that time.
    """
    with open_node(configuration().settings) as node:
        tail = Tail(node, name)
        click.echo(f"following {name}; Ctrl-C stops", err=True)
        try:
            while True:
                for message in tail.new():
                    _print(message, as_json=as_json)
                sleep(_POLL_INTERVAL)
        except KeyboardInterrupt:
            return


def _print(message: PeekedMessage, *, as_json: bool) -> None:
    sent = datetime.fromtimestamp(message.sent_at / 1e6, UTC)
    if as_json:
        shown: dict[str, Any] = {
            "sent": sent.isoformat(timespec="milliseconds"),
            "message_id": message.message_id,
            "state": message.state,
            "group": message.group_id,
            "body": message.body,
        }
        click.echo(json.dumps(shown))
        return
    line = Text(f"{sent:%H:%M:%S}  {message.message_id}  ", no_wrap=True)
    if message.group_id:
        line.append(f"{message.group_id}  ", "cyan")
    line.append(" ".join(message.body.split()))
    out.print(line, overflow="ellipsis", no_wrap=True)
