"""The commands that manage queues."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq.cli import place
from skipmq.cli.output import Column, ask, listed, note, plain, printing_json, yes_option
from skipmq.cli.queue.stats import count, duration, statistics
from skipmq.cli.source import Source, act, everything, open_source, queue_argument
from skipmq.protocol import limits, names
from skipmq.protocol.queue_attributes import ATTRIBUTES, DOCUMENTS, OURS, PAUSED

_FIFO_QUEUE = "FifoQueue"
_CHECKED_BY_NODE = DOCUMENTS | {"KmsMasterKeyId"}
_COUNTS = (
    *("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"),
    "ApproximateNumberOfMessagesDelayed",
)
_NO_QUEUES = "no queues yet: `skipmq queue create NAME`"
_LISTED = ("queue", "visible", "in_flight", "delayed", "oldest")
_COLUMNS = (
    Column("queue"),
    Column("visible", 1, is_number=True, form=count),
    Column("in flight", 2, is_number=True, form=count),
    Column("delayed", 4, is_number=True, form=count),
    Column("oldest", 3, is_number=True, form=duration),
)


def pairs(_: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """Parse NAME=VALUE arguments into a mapping."""
    parsed = {}
    for pair in given:
        key, equals, value = pair.partition("=")
        if not (key and equals):
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE", param=parameter)
        parsed[key] = value
    return parsed


def attributes_option(about: str) -> Callable[..., Any]:
    """Return the option `--attribute`, a mapping of texts."""
    names = ("-a", "--attribute", "attributes")
    return click.option(*names, multiple=True, metavar="NAME=VALUE", callback=pairs, help=about)


@click.command("list")
@click.argument("prefix", default="")
@click.option("--names", is_flag=True, help="Print the names alone, one a line.")
@place.reached
@printing_json
def queue_list(prefix: str, *, names: bool) -> tuple[Any, Any]:
    """List queues, or those whose names begin with PREFIX, with their counts of messages."""
    with open_source() as node:
        if names:
            urls = node.act("ListQueues", QueueNamePrefix=prefix).get("QueueUrls", [])
            found = [url.rsplit("/", 1)[1] for url in urls]
            return {"names": found}, "\n".join(found) or _none(prefix)
        queues, others = statistics(node, limits.LIST_RESULTS, Search=prefix or None)
    if others.queues:
        note(f"these are the first {len(queues):,}: name a longer PREFIX")
    shown = [each for each in queues if str(each.queue).startswith(prefix)]
    result = [{name: getattr(each, name) for name in _LISTED} for each in shown]
    return {"queues": result}, listed(_COLUMNS, shown) if shown else _none(prefix)


def _none(prefix: str) -> str:
    return f"no queues begin with {prefix}" if prefix else _NO_QUEUES


@click.command("create")
@click.argument("name", callback=place.name_of)
@place.reached
@attributes_option("Such as DelaySeconds=5; may be repeated.")
@printing_json
def queue_create(name: str, attributes: dict[str, str]) -> tuple[Any, Any]:
    """Create the queue NAME; one that ends in .fifo is a FIFO queue."""
    is_fifo = name.endswith(".fifo")
    if is_fifo:
        attributes.setdefault("FifoQueue", "true")
    _check(attributes, is_fifo=is_fifo)
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
        AttributeNames=["All", *OURS, *PAUSED],
    )["Attributes"]
    shown = Table("attribute", "value", box=None, pad_edge=False)
    for key, value in attributes.items():
        shown.add_row(key, escape(value))
    return plain(attributes), shown


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

    An empty value removes a policy, a schema or a limit.
    """  # noqa: D301 - click reads the character \b.
    _check(attributes, is_fifo=name.endswith(".fifo"))
    act("SetQueueAttributes", QueueUrl=name, Attributes=attributes)
    return {"queue": name, "set": attributes}, f"changed {', '.join(attributes)} of queue {name}"


@click.command("pause")
@queue_argument
@click.option("--group", help="Pause the messages of this group alone.")
@click.option("--list", "lists", is_flag=True, help="List the paused groups, and change nothing.")
@click.option(
    "--until", type=click.DateTime(), help="Pause the group until then, in UTC (default: resumed)."
)
@printing_json
def queue_pause(
    name: str, group: str | None, until: datetime | None, *, lists: bool
) -> tuple[Any, Any]:
    """Pause receives of the queue NAME: they return no messages; sends go on."""
    if lists:
        with open_source() as node:
            groups = everything(node, "ListPausedMessageGroups", "Groups", QueueUrl=name)
        shown = Table("group", "by", "until", box=None, pad_edge=False)
        for each in groups:
            ends = each.get("PausedUntil")
            until_text = "" if ends is None else datetime.fromtimestamp(ends, UTC).isoformat()
            shown.add_row(escape(each["MessageGroupId"]), escape(each["PausedBy"]), until_text)
        return plain({"groups": groups}), shown if groups else f"queue {name} has no paused groups"
    if group is None:
        if until is not None:
            raise click.ClickException("--until is for a group: name it by --group")
        act("PauseQueue", QueueUrl=name)
        return {"queue": name, "paused": True}, f"paused receives of queue {name}"
    ends = None if until is None else int(until.replace(tzinfo=UTC).timestamp())
    act("PauseMessageGroup", QueueUrl=name, MessageGroupId=group, PausedUntil=ends)
    result = {"queue": name, "group": group, "paused": True}
    return result, f"paused receives of group {group} of queue {name}"


@click.command("resume")
@queue_argument
@click.option("--group", help="Resume this group.")
@printing_json
def queue_resume(name: str, group: str | None) -> tuple[Any, Any]:
    """Resume receives of the queue NAME after a pause."""
    if group is not None:
        resumed = act("ResumeMessageGroup", QueueUrl=name, MessageGroupId=group)["Resumed"]
        if not resumed:
            raise click.ClickException(f"group {group} of queue {name} is not paused")
        result = {"queue": name, "group": group, "paused": False}
        return result, f"resumed receives of group {group} of queue {name}"
    act("PauseQueue", QueueUrl=name, Paused=False)
    return {"queue": name, "paused": False}, f"resumed receives of queue {name}"


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
    with open_source() as node:
        if tags:
            node.act("TagQueue", QueueUrl=name, Tags=tags)
        if remove:
            node.act("UntagQueue", QueueUrl=name, TagKeys=list(remove))
        present = node.act("ListQueueTags", QueueUrl=name).get("Tags", {})
    result = {"queue": name, "tags": present}
    if not present:
        return result, f"queue {name} has no tags"
    shown = Table("tag", "value", box=None, pad_edge=False)
    for key, value in present.items():
        shown.add_row(escape(key), escape(value))
    return result, shown


@click.command("purge")
@queue_argument
@yes_option
@printing_json
def queue_purge(name: str, *, yes: bool) -> tuple[Any, Any]:
    """Delete all messages of the queue NAME."""
    return _removed("PurgeQueue", "purged", name, None if yes else "Delete all messages of {}?")


@click.command("delete")
@queue_argument
@yes_option
@printing_json
def queue_delete(name: str, *, yes: bool) -> tuple[Any, Any]:
    """Delete the queue NAME and all its messages."""
    question = None if yes else "Delete the queue {} and all its messages?"
    return _removed("DeleteQueue", "deleted", name, question)


def _removed(action: str, done: str, name: str, question: str | None) -> tuple[Any, Any]:
    with open_source() as node:
        if question:
            ask(question.format(described(node, name)))
        number = node.act(action, QueueUrl=name).get("Removed")
    # SQS's answer does not have how many messages went.
    went = "" if number is None else f": {number:,} message{'' if number == 1 else 's'}"
    return {done: name, "messages": number}, f"{done} queue {name}{went}"


def _check(attributes: Mapping[str, str], *, is_fifo: bool) -> None:
    """Raise click.ClickException for an unknown attribute, or a value out of its range."""
    for name, value in attributes.items():
        if name == _FIFO_QUEUE:
            continue
        attribute = ATTRIBUTES.get(name)
        if attribute is None:
            raise click.ClickException(_unknown(name))
        if attribute.allowed.fifo and not is_fifo:
            raise click.ClickException(f"{name} is for FIFO queues, whose names end in .fifo")
        if attribute.allowed.standard and is_fifo:
            raise click.ClickException(f"{name} is for standard queues")
        if name not in _CHECKED_BY_NODE and attribute.stored(value) is None:
            raise click.ClickException(f"{name} is {attribute.range}, not {value!r}")


def _unknown(name: str) -> str:
    by_lower = {each.lower(): each for each in (*ATTRIBUTES, _FIFO_QUEUE)}
    if close := get_close_matches(name.lower(), by_lower, n=1):
        return f"no attribute is named {name}: did you mean {by_lower[close[0]]}?"
    return f"no attribute is named {name}: {', '.join(sorted(by_lower.values()))}"


def described(node: Source, queue: str) -> str:
    """Return the name of a queue with its region and number of messages.

    Raises as `node.act` does.
    """
    shown = node.act("GetQueueAttributes", QueueUrl=queue, AttributeNames=["QueueArn", *_COUNTS])
    attributes = shown["Attributes"]
    number = sum(int(attributes[each]) for each in _COUNTS)
    named = names.parse(attributes["QueueArn"])
    messages = "1 message" if number == 1 else f"{number:,} messages"
    return f"{named.name} ({named.region}, {messages})"
