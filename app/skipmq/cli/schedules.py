"""The commands `skipmq schedule …`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import click
from rich.console import Group, RenderableType

from skipmq.cli import place
from skipmq.cli.output import Column, listed, plain, printing_json, shown_milliseconds
from skipmq.cli.queue.send import attributes_option
from skipmq.cli.source import act, everything, open_source


def _state(each: Mapping[str, Any]) -> str:
    if each.get("NextTimestamp") is None:
        return "ended"
    return "paused" if each.get("Paused") else "active"


def _next(each: Mapping[str, Any]) -> str | None:
    return shown_milliseconds(each["NextTimestamp"]) if _state(each) == "active" else None


def _came_of(tick: Mapping[str, Any]) -> str:
    return str(tick.get("MessageId") or tick.get("Failure", ""))


_SCHEDULES = (
    Column("schedule", of="Name"),
    Column("queue", shrinks=True, of="QueueName"),
    Column("when", shrinks=True, of="Expression"),
    Column("zone", 3, of="Zone"),
    Column("next (UTC)", of=_next),
    Column("state", 1, of=_state),
    Column("failure", 4, shrinks=True, of="Failure"),
)
_TICKS = (
    Column("due (UTC)", of="DueTimestamp", form=shown_milliseconds),
    Column("sent (UTC)", of="RanTimestamp", form=shown_milliseconds),
    Column("message", shrinks=True, of=_came_of),
)


def _named(command: Any) -> Any:
    return click.argument("schedule", metavar="NAME")(place.reached(command))


@click.command("create")
@click.argument("schedule", metavar="NAME")
@click.argument("when", metavar="WHEN")
@click.option("--queue", "name", required=True, callback=place.name_of, help="Queue to send to.")
@click.option("--body", required=True, help="Body of the messages.")
@click.option("--zone", default="UTC", show_default=True, help="Time zone, as Europe/Berlin.")
@attributes_option
@click.option("--group", metavar="ID", help="Group ID of a FIFO queue, or tenant of a fair queue.")
@click.option(
    "--jitter",
    type=click.IntRange(0, 900),
    default=0,
    metavar="SECONDS",
    help="Delay each message by up to this.",
)
@click.option(
    "--catch-up",
    type=click.Choice(("latest", "all")),
    default="latest",
    show_default=True,
    help="Ticks that are sent late after a time without a node: the last one, or the last 100.",
)
@click.option("--until", type=click.DateTime(), help="Time of UTC after which there is no tick.")
@click.option(
    "--failures",
    type=click.IntRange(1, 1_000),
    default=10,
    show_default=True,
    help="Failures in a row that end it.",
)
@place.reached
@printing_json
def schedule_create(
    *,
    schedule: str,
    when: str,
    name: str,
    body: str,
    zone: str,
    attributes: Mapping[str, Any],
    group: str | None,
    jitter: int,
    catch_up: str,
    until: datetime | None,
    failures: int,
) -> tuple[Any, Any]:
    """Create the schedule NAME, which sends a message WHEN its time has come, or change it.

    \b
    Examples:
      skipmq schedule create nightly '30 2 * * *' --zone Europe/Berlin --queue reports --body '{}'
      skipmq schedule create poll 'every 5 minutes' --queue polls --body go --jitter 30
      skipmq schedule create party 'at 2027-12-31T23:59' --queue mails --body '{"happy": 2028}'
    """  # noqa: D301 - click reads the character \b.
    answer = act(
        "CreateSchedule",
        Name=schedule,
        QueueUrl=name,
        Expression=when,
        Zone=zone,
        MessageBody=body,
        MessageAttributes=attributes or None,
        MessageGroupId=group,
        JitterSeconds=jitter,
        CatchUp=catch_up,
        EndTimestamp=None if until is None else round(until.replace(tzinfo=UTC).timestamp() * 1000),
        MaximumFailures=failures,
    )
    done = "created" if answer["IsNew"] else "changed"
    first = shown_milliseconds(answer["NextTimestamps"][0])
    return plain(answer), f"{done} {schedule}; next at {first}"


@click.command("list")
@place.reached
@printing_json
def schedule_list() -> tuple[Any, Any]:
    """List schedules by name."""
    with open_source() as node:
        found = everything(node, "ListSchedules", "Schedules")
    return {"schedules": plain(found)}, listed(_SCHEDULES, found) if found else "no schedules"


@click.command("show")
@_named
@printing_json
def schedule_show(schedule: str) -> tuple[Any, Any]:
    """Show the schedule NAME, its next ten ticks, and its last ones."""
    answer = act("DescribeSchedule", Name=schedule)
    ahead = map(shown_milliseconds, answer["NextTimestamps"])
    shown: list[RenderableType] = [
        listed(_SCHEDULES, [answer["Schedule"]]),
        f"body: {answer['Schedule']['MessageBody']}",
        f"next: {', '.join(ahead) or 'none'}",
    ]
    if answer["Ticks"]:
        shown.append(listed(_TICKS, answer["Ticks"]))
    return plain(answer), Group(*shown)


@click.command("pause")
@_named
@printing_json
def schedule_pause(schedule: str) -> tuple[Any, Any]:
    """Pause the schedule NAME: its ticks send nothing."""
    return _changed("PauseSchedule", schedule, "paused")


@click.command("resume")
@_named
@printing_json
def schedule_resume(schedule: str) -> tuple[Any, Any]:
    """Resume the schedule NAME, paused or ended, from its next tick on."""
    return _changed("PauseSchedule", schedule, "resumed", Paused=False)


@click.command("run")
@_named
@printing_json
def schedule_run(schedule: str) -> tuple[Any, Any]:
    """Send the message of the schedule NAME now."""
    return _changed("RunSchedule", schedule, "ran")


@click.command("delete")
@_named
@printing_json
def schedule_delete(schedule: str) -> tuple[Any, Any]:
    """Delete the schedule NAME with its history."""
    return _changed("DeleteSchedule", schedule, "deleted")


def _changed(action: str, schedule: str, done: str, **parameters: Any) -> tuple[Any, Any]:
    act(action, Name=schedule, **parameters)
    return {"name": schedule, "outcome": done}, f"{done} {schedule}"
