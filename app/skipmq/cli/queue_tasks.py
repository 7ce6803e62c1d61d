"""The commands that move, copy and delete many messages of a queue, and follow how far that is."""

from time import sleep
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from skipmq import limits
from skipmq.actions import moves
from skipmq.cli import local
from skipmq.cli.completion import queue_argument, queue_names
from skipmq.cli.environment import configuration
from skipmq.cli.local import LocalNode
from skipmq.cli.node import open_node
from skipmq.cli.output import cell, printing_json, shown_time
from skipmq.store.upkeep import MOVES

# How often progress is looked at, in seconds.
_GLANCE = 0.2
_ACTIVE = ("RUNNING", "CANCELLING")
_DONE = {"move": "moved", "copy": "copied", "delete": "deleted", "redrive": "moved"}


def _rated(command: Any) -> Any:
    most = limits.MOVES_PER_SECOND
    return click.option(
        "--rate", type=click.IntRange(1, most), help="At most so many messages a second."
    )(command)


def _filtering(command: Any) -> Any:
    """Give a command the options that say which messages."""
    for option in (
        click.option("--value", metavar="TEXT", help="With --attribute: of this value."),
        click.option("--attribute", metavar="NAME", help="Those with this message attribute."),
        click.option("--body", metavar="TEXT", help="Those with this text in their body."),
    ):
        command = option(command)
    return command


@click.command("redrive")
@queue_argument
@click.option(
    "--to",
    "target",
    shell_complete=queue_names,
    help="Queue to move to (default: where each message came from).",
)
@_rated
@printing_json
def queue_redrive(name: str, target: str | None, rate: int | None) -> tuple[Any, Any]:
    """Move the messages of the dead-letter queue NAME back, and wait until all are moved."""
    settings = configuration().settings
    source = local.queue_name(name, settings).arn
    destination = local.queue_name(target, settings).arn if target else None
    with open_node(settings) as node:
        handle = node.act(
            "StartMessageMoveTask",
            SourceArn=source,
            DestinationArn=destination,
            MaxNumberOfMessagesPerSecond=rate,
        )["TaskHandle"]
        return _followed(node, name, handle)


@click.command("move")
@queue_argument
@click.argument("target", shell_complete=queue_names)
@_filtering
@_rated
@printing_json
def queue_move(name: str, target: str, **given: Any) -> tuple[Any, Any]:
    """Move the messages of the queue NAME that match to the queue TARGET.

    \b
    Examples:
      skipmq queue move orders orders-held --body '"shop": 7'
      skipmq queue move failed orders --attribute reason --value timeout --rate 50

    Those that are visible now; what is in flight stays. Nodes go on with it when this is ended.
    """  # noqa: D301 - click reads the character \b.
    return _started("move", name, target, **given)


@click.command("copy")
@queue_argument
@click.argument("target", shell_complete=queue_names)
@_filtering
@_rated
@printing_json
def queue_copy(name: str, target: str, **given: Any) -> tuple[Any, Any]:
    """Send copies of the messages of the queue NAME that match to the queue TARGET."""
    return _started("copy", name, target, **given)


@click.command("delete-matching")
@queue_argument
@_filtering
@_rated
@click.confirmation_option("--yes", prompt="Delete the messages that match for good?")
@printing_json
def queue_delete_matching(name: str, **given: Any) -> tuple[Any, Any]:
    """Delete the messages of the queue NAME that match; `queue purge` deletes all."""
    if given["body"] is None and given["attribute"] is None:
        raise click.UsageError("Say which: --body or --attribute. `skipmq queue purge` takes all.")
    return _started("delete", name, None, **given)


@click.command("tasks")
@queue_argument
@click.option("--cancel", is_flag=True, help="Cancel the active one; what is done stays done.")
@printing_json
def queue_tasks(*, name: str, cancel: bool) -> tuple[Any, Any]:
    """Show the newest tasks of the queue NAME, redrives too, and how far each is."""
    with open_node(configuration().settings) as node:
        tasks = _tasks(node, name)
        handle = next((task["TaskHandle"] for task in tasks if "TaskHandle" in task), None)
        if cancel and handle is None:
            raise click.ClickException(f"queue {name} has no active task")
        if cancel:
            node.act("CancelMessageMoveTask", TaskHandle=handle)
            node.run(node.upkeep.run(MOVES))
            tasks = _tasks(node, name)
    if not tasks:
        return tasks, f"queue {name} has had no tasks"
    headings = ("began (UTC)", "kind", "status", "done", "of", "to", "matching", "failure")
    table = Table(*headings, box=None, pad_edge=False)
    for task in tasks:
        table.add_row(
            shown_time(task["StartedTimestamp"] / 1000),
            task["Kind"],
            task["Status"].lower(),
            f"{task['ApproximateNumberOfMessagesMoved']:,}",
            f"{task['ApproximateNumberOfMessagesToMove']:,}",
            escape(task.get("DestinationArn", "").rpartition(":")[2]),
            escape(_filter(task)),
            escape(cell(task.get("FailureReason"))),
        )
    return tasks, table


def _filter(task: dict[str, Any]) -> str:
    parts = [f"body has {task['BodyContains']!r}"] if "BodyContains" in task else []
    if "AttributeName" in task:
        value = f" = {task['AttributeValue']!r}" if "AttributeValue" in task else ""
        parts.append(f"{task['AttributeName']}{value}")
    return ", ".join(parts)


def _tasks(node: LocalNode, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = node.act("ListMessageTasks", QueueUrl=local.queue_url(name))[
        "Tasks"
    ]
    return found


def _started(
    kind: str,
    name: str,
    target: str | None,
    *,
    body: str | None,
    attribute: str | None,
    value: str | None,
    rate: int | None,
) -> tuple[Any, Any]:
    """Begin a task and follow it to its end."""
    if value is not None and attribute is None:
        raise click.UsageError("--value is that of an --attribute.")
    with open_node(configuration().settings) as node:
        handle = node.act(
            "StartMessageTask",
            QueueUrl=local.queue_url(name),
            Kind=kind,
            DestinationQueueUrl=None if target is None else local.queue_url(target),
            BodyContains=body,
            AttributeName=attribute,
            AttributeValue=value,
            MaxNumberOfMessagesPerSecond=rate,
        )["TaskHandle"]
        return _followed(node, name, handle)


def _followed(node: LocalNode, name: str, handle: str) -> tuple[Any, Any]:
    """Work on a task until it ends; this process is no node, so that it does it itself."""
    tasks = _tasks(node, name)
    # One that a node has ended already has no handle, and is the newest.
    task = next((each for each in tasks if each.get("TaskHandle") == handle), tasks[0])
    began = task["StartedTimestamp"]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"{task['Kind']}: {escape(name)}", total=None)
        while task["Status"] in _ACTIVE:
            node.run(node.upkeep.run(MOVES))
            task = next(each for each in _tasks(node, name) if each["StartedTimestamp"] == began)
            moved = task["ApproximateNumberOfMessagesMoved"]
            progress.update(
                bar,
                completed=task.get("ApproximateNumberOfMessagesPassed", moved),
                total=task["ApproximateNumberOfMessagesToMove"],
            )
            if task["Status"] in _ACTIVE:
                sleep(_GLANCE)
    moved, status = task["ApproximateNumberOfMessagesMoved"], task["Status"]
    told = f"{moved} messages {_DONE[task['Kind']]} from {name}: {status.lower()}"
    if reason := task.get("FailureReason"):
        told += f", {reason}"
        if reason == moves.NO_SOURCE:
            told += ". The messages were sent to it directly: choose a target with --to"
        raise click.ClickException(told)
    return {"moved": moved, "status": status}, told
