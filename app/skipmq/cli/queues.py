"""The commands on queues."""

from collections.abc import Mapping
from time import sleep
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from skipmq.cli.environment import configuration, open_node, printing_json
from skipmq.server import local
from skipmq.server.janitor import MOVE_CHUNK

# How often the progress of a redrive is looked at, in seconds.
_GLANCE = 0.2
_BODY_SHOWN = 60


@click.group()
def queue() -> None:
    """List, create, show, look into, redrive, purge and delete queues."""


def _act(action: str, *, create: bool = False, **parameters: Any) -> dict[str, Any]:
    with open_node(configuration().settings, create=create) as node:
        return node.act(action, **parameters)


@queue.command("list")
@click.argument("prefix", default="")
@printing_json
def queue_list(prefix: str) -> tuple[Any, Any]:
    """List the names of queues that begin with PREFIX."""
    urls = _act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
    names = [url.rsplit("/", 1)[1] for url in urls]
    return names, "\n".join(names) or "no queues yet: `skipmq queue create NAME`"


@queue.command("create")
@click.argument("name")
@click.option(
    "-a",
    "--attribute",
    "pairs",
    multiple=True,
    metavar="NAME=VALUE",
    help="Such as DelaySeconds=5.",
)
@printing_json
def queue_create(name: str, pairs: tuple[str, ...]) -> tuple[Any, Any]:
    """Create the queue NAME; one that ends in .fifo is a FIFO queue."""
    attributes = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE", param_hint="-a")
        attributes[key] = value
    if name.endswith(".fifo"):
        attributes.setdefault("FifoQueue", "true")
    _act("CreateQueue", create=True, QueueName=name, Attributes=attributes)
    return {"queue": name}, f"queue {name} is there"


@queue.command("show")
@click.argument("name")
@printing_json
def queue_show(name: str) -> tuple[Any, Any]:
    """Show the attributes and the counts of the queue NAME."""
    attributes = _act(
        "GetQueueAttributes",
        QueueUrl=local.queue_url(name),
        AttributeNames=["All", "HistoryMode", "ReplicationMode"],
    )["Attributes"]
    table = Table("attribute", "value", box=None, pad_edge=False)
    for key, value in attributes.items():
        table.add_row(key, escape(value))
    return attributes, table


@queue.command("peek")
@click.argument("name")
@click.option(
    "--state", type=click.Choice(["visible", "in-flight", "delayed"]), help="Only these messages."
)
@click.option("--limit", type=click.IntRange(1, 100), default=10, help="At most so many.")
@printing_json
def queue_peek(name: str, state: str | None, limit: int) -> tuple[Any, Any]:
    """Show messages of the queue NAME without receiving them."""
    url = local.queue_url(name)
    messages = _act("PeekMessages", QueueUrl=url, State=state, MaxResults=limit)["Messages"]
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


@queue.command("redrive")
@click.argument("name")
@click.option("--to", "target", help="Queue to move to (default: where each message came from).")
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


@queue.command("purge")
@click.argument("name")
@click.confirmation_option("--yes", prompt="Delete all messages of the queue?")
@printing_json
def queue_purge(name: str) -> tuple[Any, Any]:
    """Delete all messages of the queue NAME."""
    _act("PurgeQueue", QueueUrl=local.queue_url(name))
    return {"purged": name}, f"queue {name} is empty"


@queue.command("delete")
@click.argument("name")
@click.confirmation_option("--yes", prompt="Delete the queue and all its messages?")
@printing_json
def queue_delete(name: str) -> tuple[Any, Any]:
    """Delete the queue NAME and all its messages."""
    _act("DeleteQueue", QueueUrl=local.queue_url(name))
    return {"deleted": name}, f"queue {name} is gone"
