"""The commands `queue search`, `queue consumers` and `queue tail`, which only read."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from time import sleep
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from skipmq.cli.output import (
    Column,
    err,
    iso,
    limit_option,
    listed,
    note,
    out,
    plain,
    print_json,
    printing_json,
)
from skipmq.cli.queue.messages import peeked
from skipmq.cli.queue.stats import duration
from skipmq.cli.source import Source, act, open_source, queue_argument
from skipmq.protocol import errors, limits
from skipmq.protocol.limits import PEEKED

_POLL_INTERVAL = 0.5
# The longest time in microseconds from the send of a message to its commit.
_OVERLAP = 5_000_000


def _consumer(each: Mapping[str, Any]) -> str:
    """Return the name of a consumer: its key's user or key, or its role and program."""
    if each["Interface"] == "SQL":
        return f"{each.get('Role') or ''} {each.get('Application') or ''}".strip()
    return str(each.get("User") or each.get("AccessKeyId") or "unsigned")


_CONSUMERS = (
    Column("consumer", of=_consumer),
    Column("address", 3, of="ClientAddress"),
    Column("since", 4, is_number=True, of="SinceSeconds", form=duration),
    Column("last receive", 1, is_number=True, of="LastReceiveSeconds", form=duration),
    Column("waiting", 2, is_number=True, of="WaitingReceivers"),
    Column("received", 2, is_number=True, of="Received"),
    Column("deleted", 2, is_number=True, of="Deleted"),
)


@click.command("search")
@queue_argument
@click.option("--body", metavar="TEXT", help="Messages whose body contains the text.")
@click.option(
    "--path", metavar="PATH", help="Those whose body matches a JSON path, such as '$.order == 7'."
)
@click.option("--attribute", metavar="NAME", help="Those with this attribute.")
@click.option("--value", metavar="TEXT", help="The value of the --attribute.")
@click.option(
    "--receives", type=click.IntRange(1), metavar="N", help="Those received N times or more."
)
@click.option(
    "--failure", metavar="KIND", help="Those that failed so, as the console counts; '' for none."
)
@limit_option(50, limits.PEEKED, "Maximum number of messages to print.")
@printing_json
def queue_search(*, name: str, limit: int, **texts: Any) -> tuple[Any, Any]:
    """Search the queue NAME, in flight or not, and count the matching messages.

    \b
    Examples:
      skipmq queue search orders --path '$.order == 7'
      skipmq queue search failed --failure 'KeyError: #' --receives 3

    Nothing is received or changed. `move`, `copy` and `delete-matching` act on what matches.
    """  # noqa: D301 - click reads the character \b.
    parameters = {
        "BodyContains": texts["body"],
        "BodyPath": texts["path"],
        "AttributeName": texts["attribute"],
        "AttributeValue": texts["value"],
        "MinimumReceiveCount": texts["receives"],
        "FailureKind": texts["failure"],
    }
    messages: list[dict[str, Any]] = []
    found = searched = 0
    token = None
    with open_source() as node, err.status("searching") as status:
        while True:
            step = node.act(
                "SearchMessages", QueueUrl=name, **parameters, MaxResults=limit, NextToken=token
            )
            messages += step["Messages"][: limit - len(messages)]
            found, searched = found + step["Found"], searched + step["Searched"]
            token = step.get("NextToken")
            if token is None:
                break
            status.update(f"found {found:,}, searched {searched:,}")
    result = {"found": found, "searched": searched, "messages": plain(messages)}
    said = f"{found:,} of {searched:,} messages match"
    return result, Group(peeked(messages), said) if messages else said


@click.command("consumers")
@queue_argument
@printing_json
def queue_consumers(name: str) -> tuple[Any, Any]:
    """Show who received from the queue NAME in the last ten minutes, or waits for messages."""
    answer = act("ListConsumers", QueueUrl=name)
    found, none = answer["Consumers"], f"queue {name} had no consumer in the last ten minutes"
    return plain(answer), listed(_CONSUMERS, found) if found else none


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
