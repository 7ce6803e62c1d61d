"""The `queue tail` command."""

from collections.abc import Iterator
from datetime import UTC, datetime
from time import sleep
from typing import Any

import click
from rich.text import Text

from skipmq.cli.output import iso, note, out, print_json
from skipmq.cli.source import Source, open_source, queue_argument
from skipmq.protocol import errors
from skipmq.protocol.limits import PEEKED

_POLL_INTERVAL = 0.5
# The longest time in microseconds from the send of a message to its commit.
_OVERLAP = 5_000_000


@click.command("tail")
@queue_argument
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
def queue_tail(*, name: str, as_json: bool) -> None:
    """Print messages as they arrive in the queue NAME until Ctrl-C, without receiving them.

    It polls twice a second and misses messages that are received and deleted within that time, and
    all but the newest 100 of those that arrive in it.
    """
    with open_source() as node:
        arrivals = _Arrivals(node, name)
        note(f"following {name}; Ctrl-C stops")
        while True:
            try:
                for message in arrivals.new():
                    _print(message, as_json=as_json)
            except errors.ServiceUnavailable as error:
                note(f"{error.message} Trying again.")
            sleep(_POLL_INTERVAL)


class _Arrivals:
    """The messages that arrive in a queue, as PeekNewestMessages returns them."""

    def __init__(self, node: Source, name: str) -> None:
        self._node, self._name = node, name
        # The database's time in microseconds since 1970.
        self._clock, messages = self._newest(None)
        self._seen = {message["MessageId"] for message in messages}

    def new(self) -> Iterator[dict[str, Any]]:
        """Yield the messages that arrived since the last call, in the order of arrival.

        Of more than an answer has, it says that there are others.
        """
        self._clock, messages = self._newest(max(self._clock - _OVERLAP, 0))
        new = [each for each in messages if each["MessageId"] not in self._seen]
        if len(new) == PEEKED:
            note(f"more than {PEEKED} messages at once: these are the newest")
        self._seen.update(each["MessageId"] for each in new)
        return map(self._whole, reversed(new))

    def _newest(self, since: int | None) -> tuple[int, list[dict[str, Any]]]:
        found = self._node.act(
            "PeekNewestMessages", QueueUrl=self._name, Since=since, MaxResults=PEEKED
        )
        return found["Clock"], found["Messages"]

    def _whole(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return a message with its whole body, unless it was settled meanwhile."""
        if len(message["Body"]) < message["Characters"]:
            references = [message["MessageReference"]]
            found = self._node.act(
                "PeekMessages", QueueUrl=self._name, MessageReferences=references
            )["Messages"]
            if found:
                message["Body"] = found[0]["Body"]
        return message


def _print(message: dict[str, Any], *, as_json: bool) -> None:
    sent, body = datetime.fromtimestamp(message["CameAt"] / 1e6, UTC), message["Body"]
    group, cut = message.get("MessageGroupId"), message["Characters"] - len(body)
    if as_json:
        shown: dict[str, Any] = {
            "sent": iso(sent, "milliseconds"),
            "message_id": message["MessageId"],
            "state": message["State"],
            "group": group,
            "body": body,
        }
        if cut > 0:
            shown["characters_cut"] = cut
        print_json(shown, indent=None)
        return
    line = Text(f"{sent:%H:%M:%S}  {message['MessageId']}  ", no_wrap=True)
    if group:
        line.append(f"{group}  ", "cyan")
    line.append(" ".join(body.split()) + ("…" if cut > 0 else ""))
    out.print(line, overflow="ellipsis", no_wrap=True)
