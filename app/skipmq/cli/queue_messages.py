"""The commands that receive messages of a queue, look at them, and move them back."""

import json
import sys
from collections.abc import Mapping, Sequence
from time import sleep
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from skipmq import limits
from skipmq.cli.completion import queue_argument, queue_names
from skipmq.cli.environment import act, configuration, open_node, out, printing_json
from skipmq.server import local
from skipmq.server.janitor import MOVE_CHUNK

# How often the progress of a redrive is looked at, in seconds.
_GLANCE = 0.2
_BODY_SHOWN = 60


@click.command("receive")
@queue_argument
@click.option(
    "--max",
    "most",
    type=click.IntRange(1, limits.RECEIVE_MESSAGES),
    default=1,
    show_default=True,
    help="At most so many messages.",
)
@click.option(
    "--wait",
    type=click.IntRange(0, limits.WAIT_SECONDS),
    help="Seconds to wait for the first.  [default: what the queue says]",
)
@click.option(
    "--visibility-timeout",
    type=click.IntRange(0, limits.VISIBILITY_TIMEOUT),
    help="Seconds that they are hidden from others.  [default: what the queue says]",
)
@click.option("--delete", is_flag=True, help="Delete them once they are printed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with receipt handles.")
def queue_receive(
    *,
    name: str,
    most: int,
    wait: int | None,
    visibility_timeout: int | None,
    delete: bool,
    as_json: bool,
) -> None:
    """Receive messages of the queue NAME.

    Those that are not deleted are visible again after the visibility timeout.
    """
    url = local.queue_url(name)
    with open_node(configuration().settings) as node:
        messages = node.act(
            "ReceiveMessage",
            QueueUrl=url,
            MaxNumberOfMessages=most,
            WaitTimeSeconds=wait,
            VisibilityTimeout=visibility_timeout,
            AttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", [])
        if as_json:
            click.echo(json.dumps(messages, indent=2))
        else:
            out.print(_table(messages) if messages else "no messages")
        sys.stdout.flush()
        # Only now: what could not be printed comes again.
        if delete and messages:
            entries = [
                {"Id": str(number), "ReceiptHandle": message["ReceiptHandle"]}
                for number, message in enumerate(messages)
            ]
            result = node.act("DeleteMessageBatch", QueueUrl=url, Entries=entries)
            for entry in result.get("Failed", ()):
                message_id = messages[int(entry["Id"])]["MessageId"]
                click.echo(f"{message_id} was not deleted: {entry['Message']}", err=True)


def _table(messages: Sequence[Mapping[str, Any]]) -> Table:
    table = Table("message", "received", "group", "body", box=None, pad_edge=False)
    for message in messages:
        attributes = message["Attributes"]
        table.add_row(
            message["MessageId"],
            attributes["ApproximateReceiveCount"],
            escape(attributes.get("MessageGroupId", "")),
            escape(message["Body"]),
        )
    return table


@click.command("peek")
@queue_argument
@click.option(
    "--state", type=click.Choice(["visible", "in-flight", "delayed"]), help="Only these messages."
)
@click.option("--limit", type=click.IntRange(1, 100), default=10, help="At most so many.")
@printing_json
def queue_peek(name: str, state: str | None, limit: int) -> tuple[Any, Any]:
    """Show messages of the queue NAME without receiving them."""
    url = local.queue_url(name)
    messages = act("PeekMessages", QueueUrl=url, State=state, MaxResults=limit)["Messages"]
    if not messages:
        return messages, "no such messages"
    table = Table("message", "state", "received", "group", "body", box=None, pad_edge=False)
    for message in messages:
        attributes = message["Attributes"]
        table.add_row(
            message["MessageId"],
            _state(message),
            attributes["ApproximateReceiveCount"],
            escape(attributes.get("MessageGroupId", "")),
            escape(message["Body"][:_BODY_SHOWN]),
        )
    return messages, table


def _state(message: Mapping[str, Any]) -> str:
    seconds = message["VisibleInSeconds"]
    return f"{message['State']} for {seconds} s" if seconds else str(message["State"])


@click.command("redrive")
@queue_argument
@click.option(
    "--to",
    "target",
    shell_complete=queue_names,
    help="Queue to move to (default: where each message came from).",
)
@click.option("--rate", type=click.IntRange(1, 500), help="At most so many a second.")
@printing_json
def queue_redrive(name: str, target: str | None, rate: int | None) -> tuple[Any, Any]:
    """Move the messages of the dead-letter queue NAME back, and wait until all are moved."""
    source = local.queue_name(name).arn
    destination = local.queue_name(target).arn if target else None
    with open_node(configuration().settings) as node:
        node.act(
            "StartMessageMoveTask",
            SourceArn=source,
            DestinationArn=destination,
            MaxNumberOfMessagesPerSecond=rate,
        )
        with Progress(console=Console(stderr=True), transient=True) as progress:
            bar = progress.add_task(f"moving from {escape(name)}", total=None)
            while True:
                node.run(node.upkeep.advance_move_tasks(MOVE_CHUNK))
                (task,) = node.act("ListMessageMoveTasks", SourceArn=source)["Results"]
                moved = task["ApproximateNumberOfMessagesMoved"]
                progress.update(
                    bar, completed=moved, total=task["ApproximateNumberOfMessagesToMove"]
                )
                if task["Status"] not in ("RUNNING", "CANCELLING"):
                    break
                sleep(_GLANCE)
    told = f"{moved} messages moved from {name}: {task['Status'].lower()}"
    return {"moved": moved, "status": task["Status"]}, told


COMMANDS = [queue_receive, queue_peek, queue_redrive]
