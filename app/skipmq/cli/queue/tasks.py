"""The commands that move, copy and delete messages of a queue by message tasks."""

from collections.abc import Mapping
from time import sleep
from typing import Any

import click
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from skipmq.actions.sqs import redrive
from skipmq.cli import place
from skipmq.cli.output import (
    Column,
    ask,
    err,
    limit_option,
    listed,
    note,
    plain,
    printing_json,
    shown_milliseconds,
    table,
    yes_option,
)
from skipmq.cli.queue.queues import described
from skipmq.cli.source import Source, act, open_source, queue_argument, queue_names
from skipmq.protocol import limits

# Seconds between two polls of a task's progress.
_POLL_INTERVAL = 0.2
_ACTIVE = ("RUNNING", "CANCELLING")


def _filter(task: Mapping[str, Any]) -> str:
    parts = [f"body contains {task['BodyContains']!r}"] if "BodyContains" in task else []
    if "AttributeName" in task:
        value = f" = {task['AttributeValue']!r}" if "AttributeValue" in task else ""
        parts.append(f"{task['AttributeName']}{value}")
    return ", ".join(parts)


def _name(arn: str) -> str:
    return arn.rpartition(":")[2]


_COLUMNS = (
    Column("queue", of="SourceArn", form=_name),
    Column("started (UTC)", of="StartedTimestamp", form=shown_milliseconds),
    Column("type", of="Kind"),
    Column("status", of="Status", form=str.lower),
    Column("done", 1, is_number=True, of="ApproximateNumberOfMessagesMoved", form="{:,}".format),
    Column("of", 2, is_number=True, of="ApproximateNumberOfMessagesToMove", form="{:,}".format),
    Column("to", 4, shrinks=True, of="DestinationArn", form=_name),
    Column("filter", 5, shrinks=True, of=_filter),
    Column("failure", 3, shrinks=True, of="FailureReason"),
    Column("by", 6, of="StartedBy"),
)
_KINDS = (Column("messages", is_number=True), Column("failure", shrinks=True))
_DONE = {"move": "moved", "copy": "copied", "delete": "deleted", "redrive": "moved"}


_rate = click.option(
    "--rate",
    type=click.IntRange(1, limits.MOVES_PER_SECOND),
    help="Maximum number of messages per second.",
)


def _filters(command: Any) -> Any:
    body = click.option(
        "--body", metavar="TEXT", help="Match messages whose body contains the text."
    )
    name = click.option("--attribute", metavar="NAME", help="Match messages with this attribute.")
    value = click.option("--value", metavar="TEXT", help="The value of the --attribute.")
    return body(name(value(command)))


@click.command("redrive")
@queue_argument
@click.option(
    "--to",
    "target",
    shell_complete=queue_names,
    help="Queue to move to (default: the source queue of each message).",
)
@click.option(
    "--rate",
    type=click.IntRange(0, limits.MOVES_PER_SECOND),
    default=limits.REDRIVES_PER_SECOND,
    show_default=True,
    help="Maximum number of messages per second; 0 is no limit.",
)
@yes_option
@printing_json
def queue_redrive(*, name: str, target: str | None, rate: int, yes: bool) -> tuple[Any, Any]:
    """Redrive the messages of the dead-letter queue NAME, and wait until the task ends.

    It counts them by their kind of failure, and asks first. After Ctrl-C nodes continue the task;
    `skipmq queue tasks NAME --cancel` ends it.
    """
    with open_source() as node:
        destination = None if target is None else node.queue_url(target)
        source = _arn(node, name)
        destination = None if destination is None else _arn(node, destination)
        if not yes:
            err.print(_kinds(node.act("ListMessageFailures", QueueUrl=name)))
            speed = f"at most {rate} a second" if rate else "without a limit of the rate"
            to = target or "the queues that they came from"
            ask(f"Move {described(node, name)} to {to}, {speed}?", "nothing was moved")
        result, text = _complete(
            node,
            name,
            "StartMessageMoveTask",
            SourceArn=source,
            DestinationArn=destination,
            MaxNumberOfMessagesPerSecond=rate or None,
        )
        stayed = _stayed(node, name)
        why = ", ".join(
            f"{number:,} {reason.replace('_', ' ')}" for reason, number in stayed.items() if number
        )
        return result | {"stayed": stayed}, f"{text}; still in {name}: {why}" if why else text


def _kinds(found: dict[str, Any]) -> Table:
    rows = [
        (f"{each['Messages']:,}", each.get("FailureKind") or "no reason was left by a consumer")
        for each in found["Kinds"]
    ]
    gone = sum(each["Messages"] for each in found["Sources"] if not each.get("Exists"))
    if gone:
        rows.append((f"{gone:,}", "of these have no source queue any more: they need --to"))
    if not found["IsWhole"]:
        rows.append(("", f"of the first {found['Counted']:,} messages"))
    return table(_KINDS, rows)


def _stayed(node: Source, name: str) -> dict[str, int]:
    """Return how many messages a queue has after a redrive, by why they were not moved."""
    reasons = {
        "in_flight": "ApproximateNumberOfMessagesNotVisible",
        "delayed": "ApproximateNumberOfMessagesDelayed",
        "visible": "ApproximateNumberOfMessages",
    }
    shown = node.act("GetQueueAttributes", QueueUrl=name, AttributeNames=[*reasons.values()])
    return {reason: int(shown["Attributes"][each]) for reason, each in reasons.items()}


@click.command("move")
@queue_argument
@click.argument("target", shell_complete=queue_names)
@_filters
@_rate
@printing_json
def queue_move(name: str, target: str, **options: Any) -> tuple[Any, Any]:
    """Move matching messages of the queue NAME to the queue TARGET.

    \b
    Examples:
      skipmq queue move orders orders-held --body '"shop": 7'
      skipmq queue move failed orders --attribute reason --value timeout --rate 50

    Only messages that are visible when it starts are moved. After Ctrl-C nodes continue the task.
    """  # noqa: D301 - click reads the character \b.
    return _run("move", name, target, **options)


@click.command("copy")
@queue_argument
@click.argument("target", shell_complete=queue_names)
@_filters
@_rate
@printing_json
def queue_copy(name: str, target: str, **options: Any) -> tuple[Any, Any]:
    """Copy matching messages of the queue NAME to the queue TARGET."""
    return _run("copy", name, target, **options)


@click.command("delete-matching")
@queue_argument
@_filters
@_rate
@yes_option
@printing_json
def queue_delete_matching(name: str, *, yes: bool, **options: Any) -> tuple[Any, Any]:
    """Delete matching messages of the queue NAME; `queue purge` deletes all."""
    if options["body"] is None and options["attribute"] is None:
        raise click.UsageError(
            "specify --body or --attribute; `skipmq queue purge` deletes all messages"
        )
    return _run("delete", name, None, asks=not yes, **options)


@click.command("tasks")
@queue_argument
@click.option("--cancel", is_flag=True, help="Cancel the active task; its progress is kept.")
@printing_json
def queue_tasks(*, name: str, cancel: bool) -> tuple[Any, Any]:
    """Show the newest tasks of the queue NAME, including redrives, and their progress."""
    with open_source() as node:
        tasks = _tasks(node, name)
        handle = next((task["TaskHandle"] for task in tasks if "TaskHandle" in task), None)
        if cancel and handle is None:
            raise click.ClickException(f"queue {name} has no active task")
        if cancel:
            node.act("CancelMessageMoveTask", TaskHandle=handle)
            node.advance_tasks()
            tasks = _tasks(node, name)
    result = {"tasks": plain(tasks)}
    return result, listed(_COLUMNS[1:-1], tasks) if tasks else f"queue {name} has no tasks"


@click.command("tasks")
@place.reached
@limit_option(50, 100, "Maximum number of tasks.")
@printing_json
def tasks_command(limit: int) -> tuple[Any, Any]:
    """Show the tasks of all queues of an account and region, those that run first."""
    found = act("ListTasks", MaxResults=limit)["Tasks"]
    return {"tasks": plain(found)}, listed(_COLUMNS, found) if found else "there are no tasks"


def _tasks(node: Source, name: str) -> list[dict[str, Any]]:
    tasks: list[dict[str, Any]]
    tasks = node.act("ListMessageTasks", QueueUrl=name)["Tasks"]
    return tasks


def _arn(node: Source, queue: str) -> str:
    """Return the ARN of a queue by its name or URL; raise errors.QueueDoesNotExist."""
    found = node.act("GetQueueAttributes", QueueUrl=queue, AttributeNames=["QueueArn"])
    return str(found["Attributes"]["QueueArn"])


def _run(
    kind: str,
    name: str,
    target: str | None,
    *,
    asks: bool = False,
    body: str | None,
    attribute: str | None,
    value: str | None,
    rate: int | None,
) -> tuple[Any, Any]:
    """Start a task and wait until it ends."""
    if value is not None and attribute is None:
        raise click.UsageError("--value requires --attribute")
    with open_source() as node:
        destination = None if target is None else node.queue_url(target)
        for queue in (name, destination):
            if queue is not None:
                _arn(node, queue)
        if asks:
            filters = {"BodyContains": body, "AttributeName": attribute, "AttributeValue": value}
            matching = _filter({key: text for key, text in filters.items() if text is not None})
            ask(f"Permanently delete messages of {described(node, name)} that match {matching}?")
        return _complete(
            node,
            name,
            "StartMessageTask",
            QueueUrl=name,
            Kind=kind,
            DestinationQueueUrl=destination,
            BodyContains=body,
            AttributeName=attribute,
            AttributeValue=value,
            MaxNumberOfMessagesPerSecond=rate,
        )


def _complete(node: Source, name: str, action: str, **parameters: Any) -> tuple[Any, Any]:
    """Start a task, advance it until it ends, since no node may be running, and show progress."""
    try:
        return _ended(node, name, node.act(action, **parameters)["TaskHandle"])
    except KeyboardInterrupt:
        # Which may come when it has started and the answer is not here yet.
        note(
            "a task that has started continues on the nodes:"
            f" `skipmq queue tasks {name}` shows it, with --cancel ends it"
        )
        raise


def _ended(node: Source, name: str, handle: str) -> tuple[Any, Any]:
    tasks = _tasks(node, name)
    # A task that a node has completed already has no handle and is the newest.
    task = next((each for each in tasks if each.get("TaskHandle") == handle), tasks[0])
    started = task["StartedTimestamp"]
    with Progress(console=err, transient=True) as progress:
        bar = progress.add_task(f"{task['Kind']}: {escape(name)}", total=None)
        while task["Status"] in _ACTIVE:
            node.advance_tasks()
            task = next(each for each in _tasks(node, name) if each["StartedTimestamp"] == started)
            moved = task["ApproximateNumberOfMessagesMoved"]
            progress.update(
                bar,
                completed=task.get("ApproximateNumberOfMessagesPassed", moved),
                total=task["ApproximateNumberOfMessagesToMove"],
            )
            if task["Status"] in _ACTIVE:
                sleep(_POLL_INTERVAL)
    moved, status = task["ApproximateNumberOfMessagesMoved"], task["Status"]
    summary = f"{moved} messages {_DONE[task['Kind']]} from {name}: {status.lower()}"
    if reason := task.get("FailureReason"):
        summary += f", {reason}"
        if reason == redrive.NO_SOURCE:
            summary += ". The messages have no source queue: specify a target with --to"
        raise click.ClickException(summary)
    return {"moved": moved, "status": status}, summary
