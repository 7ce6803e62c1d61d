"""The commands that manage queues."""

from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq.cli import place
from skipmq.cli.completion import queue_argument
from skipmq.cli.output import printing_json
from skipmq.cli.source import act, open_source


def pairs(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE arguments into a mapping."""
    parsed = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE", param=parameter)
        parsed[key] = value
    return parsed


@click.command("list")
@click.argument("prefix", default="")
@place.reached
@printing_json
def queue_list(prefix: str) -> tuple[Any, Any]:
    """List the names of queues that begin with PREFIX."""
    urls = act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
    names = [url.rsplit("/", 1)[1] for url in urls]
    return names, "\n".join(names) or "no queues yet: `skipmq queue create NAME`"


@click.command("create")
@click.argument("name", callback=place.name_of)
@place.reached
@click.option(
    "-a",
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=VALUE",
    callback=pairs,
    help="Such as DelaySeconds=5; may be repeated.",
)
@printing_json
def queue_create(name: str, attributes: dict[str, str]) -> tuple[Any, Any]:
    """Create the queue NAME; one that ends in .fifo is a FIFO queue."""
    if name.endswith(".fifo"):
        attributes.setdefault("FifoQueue", "true")
    act("CreateQueue", create=True, QueueName=name, Attributes=attributes)
    return {"queue": name}, f"created queue {name}"


@click.command("show")
@queue_argument
@printing_json
def queue_show(name: str) -> tuple[Any, Any]:
    """Show the attributes and the counts of the queue NAME."""
    attributes = act(
        "GetQueueAttributes",
        QueueUrl=name,
        AttributeNames=["All", "HistoryMode", "ReplicationMode"],
    )["Attributes"]
    table = Table("attribute", "value", box=None, pad_edge=False)
    for key, value in attributes.items():
        table.add_row(key, escape(value))
    return attributes, table


@click.command("set")
@queue_argument
@click.argument("attributes", nargs=-1, required=True, metavar="ATTRIBUTE=VALUE...", callback=pairs)
@printing_json
def queue_set(name: str, attributes: dict[str, str]) -> tuple[Any, Any]:
    """Change attributes of the queue NAME.

    \b
    Examples:
      skipmq queue set orders VisibilityTimeout=60 DelaySeconds=5
      skipmq queue set orders 'RedrivePolicy={"deadLetterTargetArn": "…", "maxReceiveCount": 5}'

    An empty value removes a policy.
    """  # noqa: D301 - click reads the character \b.
    act("SetQueueAttributes", QueueUrl=name, Attributes=attributes)
    return {"queue": name, "set": attributes}, f"changed {', '.join(attributes)} of queue {name}"


@click.command("tag")
@queue_argument
@click.argument("tags", nargs=-1, metavar="[KEY=VALUE]...", callback=pairs)
@click.option("--remove", multiple=True, metavar="KEY", help="Remove a tag; may be repeated.")
@printing_json
def queue_tag(name: str, tags: dict[str, str], remove: tuple[str, ...]) -> tuple[Any, Any]:
    """Add tags to the queue NAME, remove tags, and list the resulting tags.

    \b
    Examples:
      skipmq queue tag orders
      skipmq queue tag orders team=shop stage=test --remove owner
    """  # noqa: D301 - click reads the character \b.
    url = name
    with open_source() as node:
        if tags:
            node.act("TagQueue", QueueUrl=url, Tags=tags)
        if remove:
            node.act("UntagQueue", QueueUrl=url, TagKeys=list(remove))
        present = node.act("ListQueueTags", QueueUrl=url).get("Tags", {})
    if not present:
        return present, f"queue {name} has no tags"
    table = Table("tag", "value", box=None, pad_edge=False)
    for key, value in present.items():
        table.add_row(escape(key), escape(value))
    return present, table


@click.command("purge")
@queue_argument
@click.confirmation_option("--yes", prompt="Delete all messages of the queue?")
@printing_json
def queue_purge(name: str) -> tuple[Any, Any]:
    """Delete all messages of the queue NAME."""
    act("PurgeQueue", QueueUrl=name)
    return {"purged": name}, f"purged queue {name}"


@click.command("delete")
@queue_argument
@click.confirmation_option("--yes", prompt="Delete the queue and all its messages?")
@printing_json
def queue_delete(name: str) -> tuple[Any, Any]:
    """Delete the queue NAME and all its messages."""
    act("DeleteQueue", QueueUrl=name)
    return {"deleted": name}, f"deleted queue {name}"
