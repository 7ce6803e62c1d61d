"""The commands `queue receive`, `queue peek` and `queue timeline`."""

import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import click
from rich.table import Table

from skipmq.cli.output import Column, err, listed, note, out, plain, print_json, printing_json
from skipmq.cli.source import act, open_source, queue_argument
from skipmq.protocol import limits

# The meaning of a state's time; the time of other events is when they happened.
_TIME_PREFIXES = {"in-flight": "until ", "delayed": "until ", "visible": "since "}


def _attribute(name: str) -> Callable[[Mapping[str, Any]], str | None]:
    return lambda message: message["Attributes"].get(name)


def _line(body: str) -> str:
    return " ".join(body.split())


def _failure_reason(message: Mapping[str, Any]) -> str:
    attribute = message.get("MessageAttributes", {}).get("FailureReason", {})
    return str(attribute.get("StringValue", ""))


def _state(message: Mapping[str, Any]) -> str:
    seconds = message["VisibleInSeconds"]
    return f"{message['State']} for {seconds} s" if seconds else str(message["State"])


def _exact(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds / 1_000_000, UTC):%Y-%m-%d %H:%M:%S.%f}"


def _time(event: Mapping[str, Any]) -> str:
    at = _exact(event["At"]) if "At" in event else ""
    return _TIME_PREFIXES.get(event["Event"], "") + at


def _by(event: Mapping[str, Any]) -> str:
    """Return the program or the consumer of an event."""
    user = str(event.get("User") or event.get("AccessKeyId") or "").rpartition("/")[2]
    who = (event.get("Role") or user, event.get("ClientAddress"), event.get("Application"))
    return str(event.get("Program") or " ".join(each for each in who if each))


_RECEIVED = (
    Column("message", of="MessageId"),
    Column("received", 2, is_number=True, of=_attribute("ApproximateReceiveCount")),
    Column("group", 3, of=_attribute("MessageGroupId")),
    Column("body", 1, shrinks=True, of="Body", form=_line),
)
_FAILURE = Column("failure", 1, shrinks=True, of=_failure_reason)
_PEEKED = (
    *(_RECEIVED[0], Column("state", 2, of=_state), _RECEIVED[1]._replace(rank=3)),
    *(_RECEIVED[2], _FAILURE, _RECEIVED[3]),
)
_EVENTS = (
    Column("time (UTC)", of=_time),
    Column("event", of="Event"),
    Column("queue", 3, of="QueueName"),
    Column("to", 1, of="DestinationQueueName"),
    Column("received", 2, is_number=True, of="Receives"),
    Column("by", 4, of=_by),
    Column("reason", 1, shrinks=True, of="FailureReason", form=_line),
)


@click.command("receive")
@queue_argument
@click.option(
    "--max",
    "limit",
    type=click.IntRange(1, limits.RECEIVE_MESSAGES),
    default=1,
    show_default=True,
    help="Maximum number of messages.",
)
@click.option(
    "--wait",
    type=click.IntRange(0, limits.WAIT_SECONDS),
    help="Seconds to wait for the first message.  [default: the queue's setting]",
)
@click.option(
    "--visibility-timeout",
    type=click.IntRange(0, limits.VISIBILITY_TIMEOUT),
    help="Visibility timeout in seconds.  [default: the queue's setting]",
)
@click.option("--delete", is_flag=True, help="Delete the messages once they are printed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with receipt handles.")
def queue_receive(
    *,
    name: str,
    limit: int,
    wait: int | None,
    visibility_timeout: int | None,
    delete: bool,
    as_json: bool,
) -> None:
    """Receive messages from the queue NAME.

    Messages that are not deleted become visible again after the visibility timeout.
    """
    with open_source() as node:
        messages = node.act(
            "ReceiveMessage",
            QueueUrl=name,
            MaxNumberOfMessages=limit,
            WaitTimeSeconds=wait,
            VisibilityTimeout=visibility_timeout,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        if as_json:
            print_json({"messages": plain(messages)})
        else:
            out.print(listed(_RECEIVED, messages) if messages else "no messages")
        sys.stdout.flush()
        # Delete last, so that messages that could not be printed become visible again.
        if delete and messages:
            entries = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(messages)
            ]
            result = node.act("DeleteMessageBatch", QueueUrl=name, Entries=entries)
            for entry in result.get("Failed", ()):
                message_id = messages[int(entry["Id"])]["MessageId"]
                note(f"{message_id} was not deleted: {entry['Message']}")


@click.command("peek")
@queue_argument
@click.option(
    "--state", type=click.Choice(["visible", "in-flight", "delayed"]), help="Only these messages."
)
@click.option(
    "--order",
    type=click.Choice(["oldest", "receives", "size"]),
    help="The oldest, most often received or largest of the first 1,000 first.",
)
@click.option(
    "--limit", type=click.IntRange(1, 100), default=10, help="Maximum number of messages."
)
@printing_json
def queue_peek(name: str, state: str | None, order: str | None, limit: int) -> tuple[Any, Any]:
    """Show messages of the queue NAME without receiving them."""
    parameters: dict[str, Any] = {"QueueUrl": name, "State": state, "Order": order}
    page = act("PeekMessages", **parameters, MaxResults=limit)
    messages = page["Messages"]
    # A page of large messages has fewer than the limit.
    while "NextToken" in page and len(messages) < limit:
        rest = limit - len(messages)
        page = act("PeekMessages", **parameters, MaxResults=rest, NextToken=page["NextToken"])
        messages += page["Messages"]
    return {"messages": plain(messages)}, peeked(messages) if messages else "no matching messages"


def peeked(messages: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of messages as PeekMessages returns them."""
    have_failed = any(map(_failure_reason, messages))
    columns = [each for each in _PEEKED if have_failed or each is not _FAILURE]
    return listed(columns, messages)


@click.command("timeline")
@queue_argument
@click.argument("message_id")
@printing_json
def queue_timeline(name: str, message_id: str) -> tuple[Any, Any]:
    """Show the events of the message MESSAGE_ID of the queue NAME, and its present state.

    The whole history is searched, which may take a while, because it has no index on message IDs. A
    redrive gives a message another ID.
    """
    token = None
    with (
        open_source() as node,
        err.status("searching") as status,
    ):
        while True:
            timeline = node.act(
                "GetMessageTimeline", QueueUrl=name, MessageId=message_id, NextToken=token
            )
            token = timeline.get("NextToken")
            if timeline["Events"] or token is None:
                break
            since = _exact(timeline["HistorySearchedFrom"])
            status.update(f"no events since {since}, still searching")
    if not timeline["Events"]:
        raise click.ClickException(
            f"there is no message {message_id} in queue {name} or in its history: a redrive gives"
            " a message another ID"
        )
    has_failed = any("FailureReason" in event for event in timeline["Events"])
    columns = _EVENTS if has_failed else _EVENTS[:-1]
    return plain(timeline), listed(columns, timeline["Events"])
